"""Draw the pictures of the landing page for the README too: ``python docs/_pictures/save.py [NAME ...]``.

Each says from which lines it was drawn, and a test holds it to them.
"""

import hashlib
import runpy
import sys
from pathlib import Path

import matplotlib.pyplot as plt

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "_extensions"))

from drawing import STYLE

OUT = HERE.parent / "_static"
NAMES = ("fluctuations", "training", "verification")


def digest(name: str) -> str:
    """Of the lines that draw a picture."""
    return hashlib.sha256((HERE / f"{name}.py").read_bytes()).hexdigest()


if __name__ == "__main__":
    plt.rcParams.update(STYLE)
    for name in sys.argv[1:] or NAMES:
        runpy.run_path(str(HERE / f"{name}.py"))
        about = {"Date": None, "Description": digest(name)}
        plt.gcf().savefig(OUT / f"{name}.svg", facecolor="white", metadata=about)
        plt.close("all")
