"""Make the environment of the zoo: the libraries of models beside the packages of this environment.

python benchmarks/zoo_environment.py [folder]
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from peers_environment import python_in

FOLDER = Path(__file__).parent / ".venv-zoo"
# Without what they depend on: torch, transformers, jax, Flax and Equinox are those that scalewise is tested with.
PACKAGES = (
    "timm",
    "torchvision==0.28.*",
    "diffusers",
    "torch_geometric",
    "xxhash",
    "peft",
    "accelerate",
)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    venv.create(folder, with_pip=True)
    python = str(python_in(folder))
    asked = [python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]
    own = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    Path(own, "scalewise_zoo.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([python, *install, *PACKAGES], check=True)
    print(python)


if __name__ == "__main__":
    main()
