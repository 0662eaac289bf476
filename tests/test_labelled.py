"""Property: named arrays are what xarray makes of the same, and dask sleeps through a user's first calls."""

import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import xarray as xr

from scalewise._labelled import dataset, variable

LABELS = (
    [3, 1],
    np.array([0.5, 2.0]),
    np.array([True, False]),
    ["a", "bc"],
    np.array(["a", "bc"], dtype=np.dtypes.StringDType()),
    np.array(["a", 2], dtype=object),
)


@pytest.mark.parametrize("labels", LABELS, ids=lambda v: str(np.asarray(v).dtype))
def test_what_is_made_is_what_xarray_makes(labels) -> None:
    values, told = np.arange(6.0).reshape(2, 3), {"units": "nat"}
    given = {
        "matrix": (("row", "column"), values, told),
        "list": ("row", [1, 2]),
        "number": 1.5,
        "made": xr.Variable("row", [True, False], told),
        "array": xr.DataArray([1.0, 2.0], dims="row"),
    }
    names = {"row": labels, "mark": ("row", ["x", "y"])}
    ours, theirs = dataset(given, names, told), xr.Dataset(given, names, told)
    xr.testing.assert_identical(ours, theirs)
    assert {n: v.dtype for n, v in ours.variables.items()} == {
        n: v.dtype for n, v in theirs.variables.items()
    }
    assert all(type(v.values) is np.ndarray for v in ours.variables.values())
    xr.testing.assert_identical(ours.isel(row=[1]), theirs.isel(row=[1]))
    if len({type(label) for label in labels}) == 1:
        xr.testing.assert_identical(ours.sel(row=labels[1]), theirs.sel(row=labels[1]))
    xr.testing.assert_identical(dataset(given, ours.coords, told), theirs)
    xr.testing.assert_identical(variable("row", [1, 2], told), xr.Variable("row", [1, 2], told))


FIRST_CALLS = """
import sys
import numpy as np, scalewise as sw
from scalewise.training import Bayes, GradientDescent

def asleep(made, what):
    assert made is not None
    assert "dask" not in sys.modules, what
    return made

net = sw.MLP(2, 32, "tanh", input_dim=2, output_dim=1, C_b=0.1)
x = np.array([[1.0, 0.5], [-0.3, 0.8], [0.2, 0.1]])
task = sw.Task(x[:2], [[1.0], [-1.0]], test_inputs=x[2:], test_targets=[[0.5]])
theory = asleep(sw.predict(net, x), "predict")
asleep(sw.at_width(theory, 64), "at_width")
asleep(str(sw.criticality("tanh")), "criticality")
learned = asleep(sw.predict_training(net, task, GradientDescent(), observables="all"), "predict_training")
asleep(sw.predict_training(net, task, Bayes(0.1), times=None), "predict_training of Bayes")
asleep(sw.predict_training(net, task, times=[1.0, 2.0]), "predict_training with times")
seen = asleep(sw.measure(net, x, networks=4, observables=["kernel"], progress=False), "measure")
asleep(str(sw.compare(theory, seen)), "compare")
asleep(learned.output_mean.values, "values")
print(theory)
print("dask" in sys.modules)
"""


@pytest.mark.skipif(find_spec("dask") is None, reason="dask is not installed, and cannot wake")
def test_first_calls_leave_dask_asleep() -> None:
    """Beyond the first call of each verb, which imports it: printing wakes dask, so that the test would see it."""
    done = subprocess.run([sys.executable, "-c", FIRST_CALLS], capture_output=True, text=True)
    assert not done.returncode, done.stderr
    assert done.stdout.splitlines()[-1] == "True"
