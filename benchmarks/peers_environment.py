"""Make the environment of the peer: neural-tangents 0.6.5 with the last JAX it runs on.

python benchmarks/peers_environment.py [folder]
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

FOLDER = Path(__file__).parent / ".venv-peers"
PACKAGES = ("jax==0.4.36", "jaxlib==0.4.36", "neural-tangents==0.6.5")


def python_in(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    venv.create(folder, with_pip=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
    subprocess.run([str(python_in(folder)), *install], check=True)
    print(python_in(folder))


if __name__ == "__main__":
    main()
