"""Golden tests: the sizes measured in a network of PyTorch against the same computed by hand in NumPy."""

import numpy as np
import pytest
import torch
from torch import nn

from scalewise.plan import PlanError
from scalewise.plan._measurement import Quantity as Q
from scalewise.torch._measure import BuiltNetwork, Sizes, find_places, measure_network

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(6, 4)), RNG.normal(size=(6, 3))
W, B, V, C = (
    RNG.normal(size=(5, 4)),
    RNG.normal(size=5),
    RNG.normal(size=(3, 5)),
    RNG.normal(size=3),
)
LR = 0.3


def rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.asarray(x) ** 2)))


def spread(x: np.ndarray) -> float:
    return rms(x - x.mean())


def forward(p: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    w, b, v, c = p
    h = X @ w.T + b
    return h, np.tanh(h), np.tanh(h) @ v.T + c


def gradients(p: list[np.ndarray]) -> list[np.ndarray]:
    """Of half the mean square, by hand."""
    _, a, f = forward(p)
    d = (f - Y) / len(X)
    e = (d @ p[2]) * (1 - a**2)
    return [e.T @ X, e.sum(0), d.T @ a, d.sum(0)]


def network(dtype: torch.dtype = torch.float64) -> BuiltNetwork:
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).to(dtype)
    with torch.no_grad():
        for tensor, value in zip(model.parameters(), (W, B, V, C), strict=True):
            tensor.copy_(torch.tensor(value))
    batch = torch.tensor(X, dtype=dtype), torch.tensor(Y, dtype=dtype)

    def loss(m: nn.Module, b: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return ((m(b[0]) - b[1]) ** 2).sum() / 2 / len(b[0])

    return BuiltNetwork(model, torch.optim.SGD(model.parameters(), lr=LR), loss, batch, 0)


NAMES = ("0.weight", "0.bias", "2.weight", "2.bias")


def measured(one: BuiltNetwork, steps: int = 1, **options: bool) -> Sizes:
    places = find_places(one, NAMES, ("2.weight",))
    assert places.order == ("0", "2")
    return measure_network(one, places, NAMES, steps, **options)


@pytest.mark.parametrize("steps", [1, 3])
def test_every_size_by_hand(steps: int) -> None:
    old = [W, B, V, C]
    first = gradients(old)
    new = old
    for _ in range(steps):
        new = [p - LR * g for p, g in zip(new, gradients(new), strict=True)]
    sizes = measured(network(), steps, linearity=True)
    for i, name in enumerate(NAMES):
        assert sizes.tensor[name, Q.WEIGHT] == pytest.approx(spread(old[i]), rel=1e-12)
        assert sizes.tensor[name, Q.GRADIENT] == pytest.approx(rms(first[i]), rel=1e-12)
        assert sizes.tensor[name, Q.STEP] == pytest.approx(LR * rms(first[i]), rel=1e-12)
        assert sizes.tensor[name, Q.UPDATE] == pytest.approx(rms(new[i] - old[i]), rel=1e-12)
    (h0, a0, f0), (h1, a1, f1) = forward(old), forward(new)
    own = [
        X @ (new[0] - old[0]).T,
        np.broadcast_to(new[1] - old[1], h0.shape),
        # On what the readout is given after the steps, not before.
        a1 @ (new[2] - old[2]).T,
        np.broadcast_to(new[3] - old[3], f0.shape),
    ]
    for name, change in zip(NAMES, own, strict=True):
        assert sizes.tensor[name, Q.OWN_CHANGE] == pytest.approx(rms(change), rel=1e-10)
    assert sizes.module == {
        ("0", Q.OUTPUT): pytest.approx(rms(h0), rel=1e-12),
        ("0", Q.CHANGE): pytest.approx(rms(h1 - h0), rel=1e-12),
        ("2", Q.OUTPUT): pytest.approx(rms(f0), rel=1e-12),
        ("2", Q.CHANGE): pytest.approx(rms(f1 - f0), rel=1e-12),
        ("2", Q.GROWN_CHANGE): pytest.approx(rms(f1 - f0), rel=1e-12),
        ("2", Q.FEATURES): pytest.approx(rms(a0), rel=1e-12),
        ("2", Q.FEATURES_CHANGE): pytest.approx(rms(a1 - a0), rel=1e-12),
        # The readout as it was, on what it is given after the steps.
        ("2", Q.PASSED): pytest.approx(rms((a1 - a0) @ old[2].T), rel=1e-10),
    }
    ah = forward([(p + q) / 2 for p, q in zip(old, new, strict=True)])[1]
    assert sizes.nonlinearity == pytest.approx(rms(a1 - 2 * ah + a0) / rms(a1 - a0), rel=1e-10)
    assert not sizes.constant


def test_nothing_is_left_on_the_model() -> None:
    one = network(torch.float32)
    measured(one)
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in one.model.modules())

    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("no")

    bad = network()
    bad.model.add_module("3", Broken())
    with pytest.raises(RuntimeError, match="no"):
        measured(bad)
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in bad.model.modules())
    late = network()
    places = find_places(late, NAMES, ("2.weight",))
    late.model.add_module("3", Broken())
    with pytest.raises(RuntimeError, match="no"):
        measure_network(late, places, NAMES, 1)
    assert all(not m._forward_hooks for m in late.model.modules())


class Odd(nn.Module):
    """All that hooks stumble over: in-place activations, dropout, a shared module, tuples, a bare tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.randn(8))
        self.inner = nn.Linear(8, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True, dropout=0.5)
        self.norm = nn.BatchNorm1d(8)
        self.memory = nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.shift
        for _ in range(2):
            x = nn.functional.relu_(self.inner(x))
        x = nn.functional.dropout(x, 0.3, self.training)
        x = self.attention(x, x, x)[0]
        x = self.norm(x.flatten(0, 1)).view_as(x)
        return self.head(self.memory(x)[0])


def test_modules_of_every_kind() -> None:
    torch.manual_seed(3)
    model = Odd()
    names = tuple(n for n, _ in model.named_parameters())
    x = torch.randn(5, 4, 8)
    one = BuiltNetwork(
        model, torch.optim.SGD(model.parameters(), lr=0.0), lambda m, b: m(b).sum(), x, 7
    )
    places = find_places(one, names, ("head.weight",))
    assert places.order == ("inner", "attention", "norm", "memory", "head")
    # No single module shows what a tensor of the model itself does.
    assert "shift" not in places.module
    assert places.module["attention.out_proj.weight"] == "attention"
    assert places.local("attention.out_proj.weight") == "out_proj.weight"
    assert places.module["memory.weight_hh_l0"] == "memory"
    # The same dropout before and after: without a step nothing changes at all.
    still = measure_network(one, places, names, 1)
    assert all(still.module[m, Q.CHANGE] < 1e-7 for m in places.order)
    # Rounding is all there may be: a product may be summed in another order where it lies otherwise.
    assert all(v < 1e-7 for (_, q), v in still.tensor.items() if q is Q.OWN_CHANGE)
    assert {n for n, q in still.tensor if q is Q.OWN_CHANGE} == set(places.module)
    # A step that changes next to nothing: dropout is the same for the old tensor and the new one.
    small = BuiltNetwork(model, torch.optim.SGD(model.parameters(), lr=1e-7), one.loss, x, 7)
    little = measure_network(small, places, names, 1).tensor
    assert little["attention.in_proj_weight", Q.UPDATE] > 0
    assert all(v < 1e-4 for (_, q), v in little.items() if q is Q.OWN_CHANGE)
    # In place of what the shared module returned, an activation wrote; the sizes are of before that.
    torch.manual_seed(7)
    with torch.no_grad():
        a = model.inner(x + model.shift)
        b = model.inner(a.relu())
    assert still.module["inner", Q.OUTPUT] == pytest.approx(
        float(torch.stack([a, b]).square().mean()) ** 0.5
    )
    assert {"norm.weight", "norm.bias"} <= still.constant
    assert still.tensor["norm.weight", Q.WEIGHT] == 1
    assert still.tensor["norm.bias", Q.WEIGHT] == 0


def test_batches_are_normalised_as_in_training() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 2))
    model[1].momentum = 1.0
    names = tuple(n for n, _ in model.named_parameters())
    x = torch.randn(20, 4)
    for training in (True, False):
        model.train(training)
        one = BuiltNetwork(
            model, torch.optim.SGD(model.parameters(), lr=0.0), lambda m, b: m(b).sum(), x, 0
        )
        sizes = measure_network(one, find_places(one, names, ("3.weight",)), names, 2)
        assert sizes.module["1", Q.CHANGE] == 0
        assert sizes.module["3", Q.CHANGE] == 0
    model.train()
    assert float(model(x).detach().std()) > 0


class Counting(nn.Module):
    """What it returns depends on how often it was called."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.head(x * self.calls)


def test_every_pass_starts_from_the_same_buffers() -> None:
    model = Counting()
    names = ("head.weight", "head.bias")
    sgd = torch.optim.SGD(model.parameters(), lr=0.0)
    one = BuiltNetwork(model, sgd, lambda m, b: m(b).sum(), torch.randn(5, 4), 0)
    sizes = measure_network(one, find_places(one, names, ("head.weight",)), names, 2)
    assert sizes.module["head", Q.CHANGE] < 1e-7


def test_what_is_not_finite_is_infinite() -> None:
    one = network()
    big = BuiltNetwork(
        one.model, torch.optim.SGD(one.model.parameters(), lr=1e200), one.loss, one.batch, 0
    )
    sizes = measured(big, 2, linearity=True)
    values = [*sizes.tensor.values(), *sizes.module.values()]
    assert not any(np.isnan(values))
    assert np.isinf(values).any()


def test_experts_that_are_given_other_rows_have_no_change() -> None:
    class Router(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.expert = nn.Linear(4, 4)
            self.head = nn.Linear(4, 3)
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return self.head(self.expert(x[: 2 + self.calls]))

    model = Router()
    names = tuple(n for n, _ in model.named_parameters())
    x = torch.randn(9, 4)
    one = BuiltNetwork(
        model, torch.optim.SGD(model.parameters(), lr=0.1), lambda m, b: m(b).sum(), x, 0
    )
    sizes = measure_network(
        one, find_places(one, names, ("head.weight",)), names, 1, linearity=True
    )
    assert ("expert", Q.CHANGE) not in sizes.module
    assert ("expert", Q.OUTPUT) in sizes.module
    assert sizes.tensor["expert.weight", Q.OWN_CHANGE] > 0
    assert np.isnan(sizes.nonlinearity)


def test_the_loss_must_be_one() -> None:
    one = network()
    for value, said in (
        (lambda m, b: m(b[0]), r"returned a tensor of shape \(6, 3\)"),
        (lambda m, b: 1.0, r"returned 1\.0"),
        (lambda m, b: m(b[0]).sum().detach(), "does not depend on the parameters"),
    ):
        bad = BuiltNetwork(one.model, one.optimizer, value, one.batch, 0)
        with pytest.raises(PlanError, match=said):
            find_places(bad, NAMES, ("2.weight",))
