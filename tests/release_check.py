"""A release, tried out: built, installed with each of its extras where the repository is not, and used.

    make release-check            # every extra; downloads some gigabytes
    python tests/release_check.py core cli

The sdist is made of the tree, the wheel of the unpacked sdist, without git. Each extra has an environment of its
own in a temporary folder; every piece of `USES` that it should make possible runs in it, and every other one has to
say what is missing.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("core", "torch", "jax", "nets", "report", "sweep", "data", "cli", "all")
# By what it takes: packages that are imported, and the lines. Nothing is read from the repository.
USES: dict[str, tuple[set[str], str]] = {
    "predict": (
        set(),
        "net = sw.MLP(3, 64, 'gelu', input_dim=2, output_dim=1).at_criticality()\n"
        "assert np.isfinite(sw.predict(net, np.eye(2)).four_point_vertex).all()",
    ),
    "train at infinite width": (
        set(),
        "task = sw.Task([[1.0, 0.0]], [1.0], test_inputs=[[0.0, 1.0]], test_targets=[0.0])\n"
        "net = sw.MLP(2, 64, 'tanh', input_dim=2, output_dim=1, C_W=1.0)\n"
        "assert np.isfinite(sw.predict_training(net, task).test_loss).all()",
    ),
    "scale": (set(), "assert sw.scaling.gamma(16, 256, 0) == 0.0625"),
    "read the digits": ({"sklearn"}, "assert sw.load_inputs('digits', samples=3).shape == (3, 64)"),
    "measure": (
        {"jax", "zarr"},
        "net = sw.MLP(2, 8, 'tanh', input_dim=2, output_dim=1)\n"
        "sw.measure(net, np.eye(2), networks=20, seed=0, progress=False)",
    ),
    "sweep into a store": (
        {"zarr", "fsspec"},
        "def cell(a):\n    import xarray as xr\n    return xr.Dataset({'b': 2 * a})\n"
        "assert sw.sweep(cell, {'a': [1, 2]}, store='run').b.sum() == 6",
    ),
    "plan in PyTorch": (
        {"torch"},
        "plan_of = sw.torch.plan\n"  # says what is missing before PyTorch is imported
        "import torch\n"
        "from torch.nn import Linear, ReLU, Sequential\n"
        "build = lambda width: Sequential(Linear(4, width), ReLU(), Linear(width, 2))\n"
        "plan = plan_of(build, base=dict(width=8), target=dict(width=32), strategy=sw.scaling.mup(), "
        "optimizer='adam')\n"
        "torch.optim.Adam(plan.param_groups(plan.init_(build(32)), lr=1e-3))",
    ),
    "plan in JAX": (
        {"jax"},
        "plan_of = sw.jax.plan\n"  # says what is missing before JAX is imported
        "import jax.numpy as jnp\n"
        "build = lambda width: {'in': jnp.ones((4, width)), 'out': jnp.ones((width, 2))}\n"
        "def apply(tree, x):\n    return jnp.tanh(x @ tree['in']) @ tree['out']\n"
        "plan = plan_of(build, base=dict(width=8), target=dict(width=32), strategy=sw.scaling.mup(), "
        "optimizer='adam', apply=apply, roles={'in': 'input', 'out': 'output'})\n"
        "plan.init(build(32))",
    ),
    "verify a plan in JAX": (
        {"jax", "optax"},
        "plan_of = sw.jax.plan\n"
        "import jax.numpy as jnp\n"
        "from jax.random import key, normal\n"
        "build = lambda width, seed=0: {'in': normal(key(seed), (4, width)), 'out': normal(key(1), (width, 2))}\n"
        "call = lambda tree, x: x @ tree['in'] @ tree['out']\n"
        "plan = plan_of(build, base=dict(width=8), target=dict(width=32), strategy=sw.scaling.mup(), "
        "optimizer='adam', apply=call, roles={'in': 'input', 'out': 'output'})\n"
        "loss = lambda tree, x: (call(tree, x) ** 2).mean()\n"
        "plan.verify(jnp.ones((2, 4)), loss, widths=[8, 16, 32], seeds=2, progress=False)",
    ),
    "write the page of a report": (
        {"matplotlib", "jinja2", "markupsafe", "zarr"},
        "import scalewise.report",
    ),
    "write the explorer": (
        {"sklearn"},
        "from scalewise.explorer import write_explorer\n"
        "assert 'uPlot' in write_explorer('explorer.html', ['relu'], depths=[2]).read_text()",
    ),
    "run the commands": (
        {"typer", "jax", "sklearn", "matplotlib", "zarr", "jinja2"},
        "import subprocess, sys, pathlib\n"
        "exe = pathlib.Path(sys.executable).parent / 'scalewise'\n"
        "words = 'report --data digits --samples 2 --depth 3 --width 16 --networks 40 --out page'.split()\n"
        "assert subprocess.run([exe, *words]).returncode in (0, 1)\n"
        "assert list(pathlib.Path('page').glob('*.html'))",
    ),
}
BEGIN = (
    "import warnings; warnings.simplefilter('error')\nimport numpy as np, scalewise as sw\n"
    "assert 'site-packages' in sw.__file__, sw.__file__\n"
)


def told() -> tuple[str, str, bool]:
    """The version of the citation, the newest of the changelog, and whether that is out."""
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), flags=re.M)
    heading = re.search(
        r"^## (?:Unreleased \((?P<next>[\d.]+)\)|(?P<out>[\d.]+) \(\d{4}-\d\d-\d\d\))$",
        (ROOT / "docs" / "changelog.md").read_text(),
        flags=re.M,
    )
    assert cited is not None
    assert heading is not None, "the first heading is `Unreleased (1.2.3)` or `1.2.3 (2030-12-31)`"
    return cited[1], heading["out"] or heading["next"], heading["out"] is not None


def run(*words: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return subprocess.run(words, cwd=cwd, env=clean | env, text=True, capture_output=True)


def done(result: subprocess.CompletedProcess[str]) -> str:
    if result.returncode:
        raise SystemExit(result.stdout[-3000:] + result.stderr[-6000:])
    return result.stdout


def built(folder: Path) -> tuple[Path, Path]:
    """The Python that builds, and the wheel, made of the sdist alone; both are kept in `folder`."""
    venv.create(folder / "build", with_pip=True)
    python = folder / "build" / "bin" / "python"
    environment(folder / "build", folder, "build", installer=python)
    done(run(python, "-m", "build", "--sdist", "--outdir", folder, ROOT, cwd=folder))
    (sdist,) = folder.glob("scalewise-*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (tree,) = (folder / "unpacked").iterdir()
    assert not (tree / ".git").exists()
    done(run(python, "-m", "build", "--wheel", "--outdir", folder, tree, cwd=folder))
    (wheel,) = folder.glob("scalewise-*.whl")
    version = wheel.name.split("-")[1]
    assert sdist.name == f"scalewise-{version}.tar.gz", "git and the sdist tell different versions"
    cited, newest, out = told()
    if "dev" not in version:
        assert (version, out) == (cited, True), (
            f"{version} is tagged, but the changelog says {newest}"
        )
    return python, wheel


def environment(place: Path, folder: Path, *requirements: str, installer: Path) -> Path:
    """A Python that has what is asked for, and nothing of the repository."""
    python = place / "bin" / "python"
    if not python.exists():
        venv.create(place, with_pip=False)
    words = (ROOT / "tests" / "environment.py", "--python", python, *requirements)
    done(run(installer, *words, cwd=folder))
    return python


def used(python: Path, folder: Path) -> list[str]:
    """What is wrong with an environment, in sentences."""
    wrong = []
    for what, (packages, lines) in USES.items():
        look = f"from importlib.util import find_spec as f; print(all(map(f, {sorted(packages)})))"
        able = done(run(python, "-c", look, cwd=folder)).strip() == "True"
        result = run(python, "-c", BEGIN + lines, cwd=folder, OMP_NUM_THREADS="1")
        if able and result.returncode:
            wrong.append(f"cannot {what}: {result.stderr[-1500:]}")
        elif not able and not re.search(r"install (it|them) with: pip install", result.stderr):
            wrong.append(f"does not say what it takes to {what}: {result.stderr[-1500:]}")
    return wrong


def main(extras: list[str]) -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {*EXTRAS} == {"core", *project["optional-dependencies"]} - {"dev", "docs"}, (
        "an extra is not tried out"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (python, wheel), failed = built(folder), 0
        print(f"{wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
        for extra in extras or EXTRAS:
            wanted = str(wheel) if extra == "core" else f"{wheel}[{extra}]"
            empty = folder / f"in-{extra}"
            empty.mkdir()
            wrong = used(environment(folder / extra, folder, wanted, installer=python), empty)
            failed += bool(wrong)
            print(f"{extra}: {'; '.join(wrong) or 'works'}", flush=True)
    if missing := [name for name, url in project["urls"].items() if "example.org" in url]:
        print(f"[project.urls] of pyproject.toml has no address yet for {', '.join(missing)}.")
        failed += 1
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
