"""How often order 1/n of many samples is further off than it says, beside an accuracy that is five times finer.

    python benchmarks/stated_errors.py [activation:data:depth:train:tests ...]

Each line is a network and a task of fresh samples: the true error of all tests over the stated one, both at the
accuracy that is taken first, in single precision, for mean, covariance, NTK change and learning parameter. True is
the distance from the second finer accuracy, in double precision, which itself is known to a fifth of a fifth.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

import scalewise as sw
from scalewise.training import GradientDescent
from scalewise.training._asked import Asked
from scalewise.training._kernels import SampleKernels
from scalewise.training.tiles import _route
from scalewise.training.tiles._refined import MANY, compared

NAMES = frozenset({"output_mean_nlo", "output_covariance_nlo", "ntk_change_nlo"})
CASES = [
    f"{activation}:{data}:{depth}:9:10"
    for data in ("digits", "wine", "close")
    for depth in (2, 3)
    for activation in ("tanh", "gelu", "erf", "sin")
]


def samples(data: str, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of two digits, of wines, or of inputs that are close."""
    from sklearn import datasets

    rng = np.random.default_rng(seed)
    if data == "close":
        x = rng.standard_normal(12) + 0.4 * rng.standard_normal((count, 12))
        return x, rng.standard_normal((count, 1))
    known = datasets.load_digits() if data == "digits" else datasets.load_wine()
    inputs, target = np.asarray(known["data"]), np.asarray(known["target"])
    classes = rng.choice(10, 2, replace=False) if data == "digits" else np.arange(3)
    rows = rng.permutation(np.flatnonzero(np.isin(target, classes)))[:count]
    axis = 1 if data == "digits" else 0
    scaled = (inputs - inputs.mean(axis, keepdims=True)) / inputs.std(axis, keepdims=True)
    return scaled[rows], np.where(target[rows] == classes[0], 1.0, -1.0)[:, None]


def pulls(case: str, seed: int) -> dict[str, float]:
    """True errors over stated ones."""
    activation, data, depth, train, tests = case.split(":")
    count, more = int(train), int(tests)
    x, y = samples(data, count + more, seed)
    net = sw.MLP(int(depth), 64, activation, input_dim=x.shape[1], output_dim=1, C_b=0.1, C_W=1.4)
    task = sw.Task(x[:count], y[:count], test_inputs=x[count:])
    kernels = SampleKernels(
        Asked(net, task, GradientDescent()), ("kernel", "ntk"), deep=True, size=more
    )
    some = np.linspace(0, more - 1, _route._FEW_TESTS).astype(int)
    exact = _route._Scale(kernels, np.arange(more), NAMES).found(MANY[2])
    _route._DOUBLE, double = 0, _route._DOUBLE
    whole, few = (_route._Scale(kernels, rows, NAMES) for rows in (np.arange(more), some))
    _route._DOUBLE = double
    values, errors = compared(
        whole.found,
        few.found,
        lambda found: _route._of_few(found, count, some),
        NAMES,
        enough=np.inf,
        levels=MANY[:2],
        rounding=_route._SINGLE,
    )
    return {
        name: float(np.linalg.norm(values[name] - exact[name]) / np.linalg.norm(errors[name]))
        for name in values
    }


def main(cases: list[str]) -> None:
    """A line for each case, and the counts."""
    warnings.simplefilter("ignore")
    found: list[float] = []
    for seed, case in enumerate(cases):
        own = pulls(case, seed)
        found += own.values()
        print(case, {name: round(pull, 2) for name, pull in own.items()}, flush=True)
        print(f"{sum(p > 1 for p in found)} of {len(found)} beyond, largest {max(found):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:] or CASES)
