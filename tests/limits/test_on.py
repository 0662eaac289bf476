"""Property tests: where a run happens is a checked value, and a run that fails keeps what it has."""

from dataclasses import replace

import numpy as np
import pytest

from scalewise.limits import (
    SGD,
    Architecture,
    Exact,
    Finite,
    Infinite,
    Kernel,
    Lazy,
    Printed,
    TrainingError,
    train,
)
from scalewise.scaling import mup, ntk
from scalewise.tasks import Task

TASK = Task([[1.2, 0.3], [-0.4, 1.0]], [1.0, -1.0], test_inputs=[[0.5, 0.5]])
MUP, NTK = Architecture(mup(depth=3), "tanh"), Architecture(ntk(depth=3), "tanh")
WRONG = (
    lambda: Finite(-3, replicas=0, seed=-1, dtype="banana"),
    lambda: Finite(3, replicas=0),
    lambda: Finite(3, seed=-1),
    lambda: Finite(3, dtype="banana"),
    lambda: Finite(2.5),
    lambda: Lazy(0),
    lambda: Lazy(3, antithetic=True),
    lambda: Lazy(4, compression=2.0),
    lambda: Lazy(4, dtype=int),
    lambda: Infinite(0.0),
    lambda: Infinite(0.1, replicas=1),
    lambda: Infinite(0.1, start=7),
    lambda: Infinite(0.1, memory=-1),
    lambda: Kernel([[np.nan]]),
    lambda: Kernel([1.0]),
    lambda: Kernel(replicas=0),
    lambda: Printed(1),
    lambda: replace(Finite(8), width=0),
    lambda: replace(Lazy(8, antithetic=True), width=9),
)


def test_values_that_are_wrong_cannot_be_made() -> None:
    for make in WRONG:
        with pytest.raises(ValueError, match=r"^`"):
            make()


def test_equal_values_are_equal() -> None:
    for one, same, other in (
        (Finite(8), Finite(8, dtype="float64"), Finite(8, dtype=np.float32)),
        (Lazy(8), Lazy(8, dtype=np.dtype(float)), Lazy(8, spread=True)),
        (Infinite(0.1), Infinite(0.1), Infinite(0.2)),
        (Exact(), Exact(), Printed(4)),
    ):
        assert one == same
        assert hash(one) == hash(same)
        assert one != other


@pytest.mark.parametrize(
    ("net", "sgd", "on", "why"),
    [
        (MUP, SGD(1e200), Finite(8, replicas=3), "not finite at step 1: training diverged"),
        (MUP, SGD(1e200), Lazy(8, replicas=3), "not finite at step 1: training diverged"),
        (NTK, SGD(1e200), Kernel(replicas=3), "not finite at step 1: training diverged"),
        (
            MUP,
            SGD(0.5),
            Infinite(1e-6, memory=1e6),
            "1e-06 is out of reach .* with [0-9]+ particles",
        ),
        (
            NTK,
            SGD(0.5),
            Infinite(1e-6, memory=1e6, antithetic=False),
            "out of reach .* with [0-9]+ draws",
        ),
    ],
)
def test_a_run_that_fails_keeps_what_it_has(net, sgd, on, why) -> None:
    with pytest.raises(TrainingError, match=why) as failure:
        train(net, TASK, sgd, steps=4, on=on)
    found = train(net, TASK, sgd, steps=4, on=on, throw=False)
    assert found.attrs["status"] == str(failure.value)
    np.testing.assert_array_equal(found.logits, failure.value.found.logits)
    assert np.isfinite(found.logits).all()
    assert found.sizes["time"] == (5 if "reach" in why else 1)
    assert train(net, TASK, SGD(0.1), steps=1, on=Finite(8)).attrs["status"] == "finished"


def test_one_shape_wherever_a_run_happens() -> None:
    linear = Architecture(mup(depth=3), "linear")
    for net, on in (
        (MUP, Finite(8, replicas=2)),
        (MUP, Lazy(8)),
        (MUP, Infinite(0.2)),
        (NTK, Infinite(0.2)),
        (NTK, Kernel()),
        (linear, Exact()),
    ):
        found = train(net, TASK, SGD(0.1), steps=3, every=2, on=on)
        assert found.logits.dims == ("replica", "time", "sample", "output")
        assert found.logits_mean.shape == (3, 3, 1)
        assert found.loss.dims == ("replica", "time")
        assert found.feature_kernel_mean.shape == (3, 2, 3, 3)
        assert ("logits_sem" in found) == (found.sizes["replica"] > 1)
        np.testing.assert_allclose(found.logits.mean("replica"), found.logits_mean, atol=1e-15)
