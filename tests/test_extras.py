"""Conformance: the core works without any extra, and what needs one says so in a sentence."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from scalewise._extras import MissingExtraError, installed, require
from test_imports import DISTRIBUTIONS, EXTRAS


def without(distributions: Iterable[str], code: str) -> str:
    """What a program prints where these are not installed."""
    modules = {name: module for module, name in DISTRIBUTIONS.items()}
    names = {modules.get(name, name) for name in distributions}
    block = (
        "import sys\n"
        "class Without:\n"
        "    def __init__(self, finder): self.finder = finder\n"
        "    def __getattr__(self, name): return getattr(self.finder, name)\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        absent = name.partition('.')[0] in {names}\n"
        "        return None if absent else self.finder.find_spec(name, path, target)\n"
        "sys.meta_path = [Without(finder) for finder in sys.meta_path]\n"
        "def told(use):\n"
        "    try: use()\n"
        "    except ImportError as error: print(error)\n"
        "    else: print('nothing is missing')\n"
    )
    command = [sys.executable, "-c", block + code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


LIGHT = """
import numpy as np
from scalewise import *
import scalewise as sw

x = np.eye(3)
net = MLP(4, 16, "gelu", input_dim=3, output_dim=2).at_criticality()
assert predict(net, x, observables="all").kernel.shape == (4, 3, 3)
assert activation(np.tanh).name == "tanh"
assert optimal_depth(net).depth > 0
assert scaling.mup(depth=4) and criticality("relu").C_W == 2
sgd, task = limits.SGD(0.5), sw.Task(x, np.ones(3))
wide = limits.Architecture(scaling.mup(depth=3), "tanh")
infinite = limits.train(wide, task, sgd, steps=2, on=limits.Infinite(0.1))
assert "logits_mean" in infinite
taught = predict_training(net, sw.Task(x, np.eye(3)[:, :2], test_inputs=[[1, 2, 3]]), training.Bayes(0.1))
assert taught.output_mean.shape == (2, 1)
from scalewise.networks._weights import Parameters, shapes_of
conv = Network(Conv(3), "tanh", GlobalAvgPool(), Dense(1), input_shape=(4, 1), width=2)
drawn = np.random.default_rng(0).normal
given = Parameters(*(tuple(drawn(size=s) for s in part) for part in zip(*shapes_of(conv.program).values())))
few = sw.Task(drawn(size=(2, 4, 1)), np.ones((2, 1)), test_inputs=np.ones((1, 4, 1)))
descent = training.GradientDescent(0.01, steps=3)
assert "output_mean_nlo" in predict_training(conv, few, descent, weights=given, observables="all")
from described_models import mlp, planned
assert planned(scaling.mup(), model=mlp)["net.2.weight"]
from scalewise.theory.exact import _differentials as exact
import scalewise.cli
told(lambda: measure(net, x))
told(lambda: nets.empirical_ntk)
told(lambda: activation(lambda z: z * np.cos(z)))
told(lambda: activation("gelu").traceable())
told(lambda: exact.sigma_derivative(activation("gelu"), x, 4))
told(lambda: sw.torch.plan)
told(lambda: sw.jax.plan)
told(lambda: plan.Check.plot(None))
told(lambda: load_inputs("digits"))
told(lambda: __import__("scalewise.report"))
told(lambda: __import__("scalewise.experiments.s_family"))
try: scalewise.cli.main()
except SystemExit as end: assert end.code == 2
"""


ONE, TWO = "which is not installed; install it", "which are not installed; install them"
REFUSALS = (
    ("Measuring networks (`scalewise.nets`)", f"jax and zarr, {TWO}", "nets"),
    ("Measuring networks (`scalewise.nets`)", f"jax and zarr, {TWO}", "nets"),
    (
        "The activation '<lambda>', whose values are not those of a built-in one,",
        f"jax, {ONE}",
        "jax",
    ),
    ("An activation as a function of JAX", f"jax, {ONE}", "jax"),
    ("A derivative of an activation beyond the third", f"jax, {ONE}", "jax"),
    ("`scalewise.torch`", f"torch, {ONE}", "torch"),
    ("`scalewise.jax`", f"jax, {ONE}", "jax"),
    ("`Check.plot`", f"matplotlib, {ONE}", "report"),
    ("The data set 'digits'", f"scikit-learn, {ONE}", "data"),
    ("A report", f"matplotlib, jinja2, markupsafe and zarr, {TWO}", "report"),
    ("An experiment", f"matplotlib, {ONE}", "report"),
    ("scalewise: The command line", f"typer, rich and zarr, {TWO}", "cli"),
)


def test_the_core_plans_and_predicts_and_says_what_is_missing() -> None:
    told = without(EXTRAS["all"], f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n{LIGHT}")
    wanted = [
        f"{use} needs {what} with: pip install 'scalewise[{extra}]'"
        for use, what, extra in REFUSALS
    ]
    assert told.splitlines() == wanted


SCALING = """
import torch, scalewise as sw

def build(width):
    n = torch.nn
    return n.Sequential(n.Linear(5, width), n.ReLU(), n.Linear(width, width), n.ReLU(), n.Linear(width, 1))

def loss(model, batch):
    return model(batch[0]).sub(batch[1]).square().mean()

table = sw.torch.plan(
    build, base=dict(width=16), target=dict(width=64), strategy=sw.scaling.mup(), optimizer="sgd",
    inputs=torch.randn(8, 5),
)
model = table.init_(build(64))
torch.optim.SGD(table.param_groups(model, lr=0.1))
batch = torch.randn(8, 5), torch.randn(8, 1)
check = table.verify(batch, loss, widths=[16, 32, 64], seeds=2)
print(type(check).__name__, len(str(table)) > 100, sw.activation(torch.nn.GELU()).name)
told(check.plot)
"""


def test_a_model_of_torch_is_scaled_without_jax_or_pictures() -> None:
    told = without(EXTRAS["all"] - EXTRAS["torch"] | {"rich"}, SCALING)
    assert told.startswith("Check True gelu\n`Check.plot` needs matplotlib, ")


def test_what_is_there_is_told_from_a_folder_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_installed.py").write_text("import nowhere_to_be_found\n")
    (tmp_path / "somebodys_folder").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert installed("half_installed")
    with pytest.raises(MissingExtraError, match=r"^This test needs somebodys_folder, which is not"):
        require("half_installed", "somebodys_folder", for_="This test", extra="nets")
