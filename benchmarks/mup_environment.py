"""Make the environment that holds both: this package and mup 1.0.0, without mup's own dependencies.

python benchmarks/mup_environment.py [folder]
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from peers_environment import python_in

FOLDER = Path(__file__).parent / ".venv-mup"
ROOT = Path(__file__).resolve().parents[1]
# mup asks for a plain torchvision, which would replace the torch that both sides are to use.
NEEDED = ("torch==2.13.0", "pandas", "seaborn", "tqdm", "pyyaml")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    venv.create(folder, with_pip=True)
    install = [
        str(python_in(folder)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
    ]  # fmt: skip
    subprocess.run([*install, "-e", str(ROOT), *NEEDED], check=True)
    subprocess.run([*install, "--no-deps", "mup==1.0.0"], check=True)
    print(python_in(folder))


if __name__ == "__main__":
    main()
