"""Agreement tests of pretraining: it fades with the width in the kernel regime and stays in maximal update."""

import numpy as np
import pytest

from refusals import unlike
from scalewise.limits import SGD, Architecture, Finite
from scalewise.limits.learning import transfer_gap
from scalewise.scaling import abc, classify, mup, ntk, uniform
from scalewise.tasks import Task

rng = np.random.default_rng(0)
FIRST = Task(rng.normal(size=(4, 3)), [1.0, -1.0, 1.0, -1.0])
SECOND = Task(
    rng.normal(size=(4, 3)), rng.choice([-1.0, 1.0], (4, 2)), test_inputs=rng.normal(size=(2, 3))
)


def sizes(strategy, *, head_only, widths=(64, 256, 1024)):
    found = []
    for n in widths:
        # Narrow networks differ most from one another, and cost least.
        replicas = max(6, 4096 // n)
        on = Finite(n, replicas=replicas, dtype=np.float32)
        gap = transfer_gap(
            Architecture(strategy, "tanh"),
            FIRST,
            SECOND,
            SGD(0.5),
            steps=(6, 5),
            on=on,
            head_only=head_only,
        )
        assert gap.shape == (replicas, 6, 6, 2)
        found.append(float(np.sqrt((gap[:, -1] ** 2).mean())))
    return found


@pytest.mark.covers("E12")
@pytest.mark.parametrize("head_only", [False, True])
def test_pretraining_fades_in_the_kernel_regime_only(head_only):
    kernel, features = (sizes(s, head_only=head_only) for s in (ntk(depth=3), mup(depth=3)))
    slope = np.polyfit(np.log([64, 256, 1024]), np.log(kernel), 1)[0]
    assert -0.8 < slope < -0.4, kernel
    assert kernel[-1] < 0.5 * features[-1]
    assert features[-1] > 0.7 * features[0]


@pytest.mark.parametrize(
    "strategy",
    [
        abc((0, 0, 0), (0, "1/2", "1/2"), 1),
        abc((1, "3/2", "1/2"), (-1, -1, 0), 0),
        abc((0, "1/2", "3/2"), (0, 0, -1), 0),
        uniform("1/4", depth=3),
    ],
    ids=["standard, rate 1/n", "GP", "body", "uniform"],
)
def test_pretraining_fades_in_every_kernel_regime(strategy):
    small, large = sizes(strategy, head_only=False, widths=(64, 384))
    assert large < 0.6 * small
    # Features that move by n^(-r) leave that much behind, or less.
    r = float(classify(strategy).r)
    assert np.log(large / small) / np.log(6) < -0.5 * min(r, 0.5)


@pytest.mark.covers("E12")
def test_the_second_training_is_what_it_says():
    """Nothing differs where nothing was learned; the body, first layer included, carries what was."""
    net, on = Architecture(mup(depth=3), "tanh"), Finite(48)
    own = {"steps": (4, 1), "on": on, "head_only": True}
    one, other = (transfer_gap(net, FIRST, SECOND, SGD(eta), **own) for eta in (0.4, 1e-12))
    assert np.abs(other).max() < 1e-9
    assert np.abs(one).max() > 1e-3
    shallow = transfer_gap(Architecture(mup(depth=2), "tanh"), FIRST, SECOND, SGD(0.4), **own)
    assert np.abs(shallow).max() > 1e-3
    assert np.abs(transfer_gap(net, FIRST, SECOND, SGD(0.4), steps=(0, 4), on=on)).max() == 0
    whole = transfer_gap(net, FIRST, SECOND, SGD(0.4), steps=(4, 2), on=on)
    head = transfer_gap(net, FIRST, SECOND, SGD(0.4), steps=(4, 2), on=on, head_only=True)
    # The head alone moves at the first step as in the whole, but the features below do not.
    assert np.abs((whole - head)[:, 0]).max() == 0
    assert np.abs((whole - head)[:, 1]).max() > 1e-4
    # With the features held, descent on squared errors is linear in the targets.
    scaled = [Task(SECOND.inputs, scale * SECOND.targets) for scale in (0, 1, 2)]
    own |= {"steps": (4, 3)}
    gaps = [transfer_gap(net, FIRST, task, SGD(0.4), **own) for task in scaled]
    np.testing.assert_allclose(gaps[2] - gaps[1], gaps[1] - gaps[0], rtol=1e-8, atol=1e-12)


NET = Architecture(mup(depth=3), "tanh")
BIASED = Architecture(mup(depth=3), "tanh", C_b=0.1)
BAD = [
    (lambda: transfer_gap(BIASED, FIRST, SECOND, SGD(0.1), steps=(1, 1), on=Finite(8)),
     "without biases"),
    (lambda: transfer_gap(NET, Task([[1.0]], [1.0]), SECOND, SGD(0.1), steps=(1, 1), on=Finite(8)),
     "`pretraining` has 1 and `task` 3"),
    (lambda: transfer_gap(NET, FIRST, SECOND, SGD(0.1), steps=(-1, 1), on=Finite(8)), "2 values, each a whole"),
    (lambda: transfer_gap(NET, FIRST, SECOND, SGD(0.1, momentum=0.5), steps=(1, 1), on=Finite(8)), "plain descent"),
]  # fmt: skip


def test_bad_input() -> None:
    assert unlike(BAD) == []
