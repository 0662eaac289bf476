"""Make the environment of who has installed scalewise alone: no extras, so neither dask nor JAX.

python benchmarks/core_environment.py [folder]
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from peers_environment import python_in

HERE = Path(__file__).parent
FOLDER = HERE / ".venv-core"


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    venv.create(folder, with_pip=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([str(python_in(folder)), *install, "-e", str(HERE.parent)], check=True)
    print(python_in(folder))


if __name__ == "__main__":
    main()
