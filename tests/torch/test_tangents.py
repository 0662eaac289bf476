"""Golden, property: the NTK of a module beside explicit Jacobians of autograd, within any budget of memory."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from grids import few
from refusals import unlike
from scalewise.torch import _tangent_ways as ways
from scalewise.torch import curvature, tangents

WORDS, WIDTH, TEXT = 11, 8, 5


def explicit(
    module: nn.Module, inputs: torch.Tensor, rates: dict[str, float]
) -> tuple[np.ndarray, np.ndarray]:
    """One gradient after another, in float64."""
    named = {n: p for n, p in module.named_parameters() if p.requires_grad}
    root = [rates.get(name, 1.0) ** 0.5 for name in named]
    outputs, rows = [], []
    for sample in inputs.split(1):
        z = module(sample)
        z = z[:, None] if z.ndim == 1 else z
        outputs.append(z.detach().double().numpy())
        for entry in z[0]:
            g = torch.autograd.grad(
                entry, [*named.values()], retain_graph=True, allow_unused=True, materialize_grads=True
            )  # fmt: skip
            parts = [s * part.double().ravel() for s, part in zip(root, g, strict=True)]
            rows.append(torch.cat(parts).numpy())
    z, J = np.concatenate(outputs), np.stack(rows)
    return z, (J @ J.T).reshape(*z.shape, *z.shape).transpose(0, 2, 1, 3)


class Twice(nn.Module):
    """One layer at two depths, and a matrix that is multiplied by and added."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.out = nn.Linear(6, 6), nn.Linear(6, 3)
        self.b = nn.Parameter(torch.randn(6, 6) / 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(torch.tanh(self.a(torch.tanh(self.a(x)))) @ self.b + self.b.sum())


class Text(nn.Module):
    """Words and places, a block of attention, a read-out at the last place; or tied to the words."""

    def __init__(self, *, tied: bool = False, padded: bool = False) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, padding_idx=3 if padded else None)
        self.places = nn.Embedding(TEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, dropout=0.0, batch_first=True)
        self.block = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        return self.head(self.block(self.words(text) + self.places(torch.arange(TEXT)))[:, -1])


class Branches(nn.Module):
    """Other layers for other samples."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(6, 2), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.one(x) if bool(x.sum() > 0) else self.other(torch.sin(x))


class Saving(nn.Module):
    """Its hidden layers are computed again on the way back."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = checkpoint(lambda y: torch.tanh(self.hidden(y)), x, use_reentrant=False)
        assert isinstance(hidden, torch.Tensor)
        return self.out(hidden)


def convolutional() -> nn.Module:
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)
    net = nn.Sequential(*layers)
    net(torch.randn(8, 3, 4, 4))
    return net


def partly_frozen() -> nn.Module:
    net = nn.Sequential(
        nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 5), nn.GELU(), nn.Linear(5, 1), nn.Flatten(0)
    )
    net[2].weight.requires_grad_(False)
    return net  # fmt: skip


def normal(*shape: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(7, *shape, dtype=torch.float64)


def texts() -> torch.Tensor:
    return torch.randint(WORDS, (6, TEXT))


# Names of parameters with outer products that are expected, and whether samples go together where there is room.
MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor], set[str], bool]] = {
    "twice": (Twice, normal(6), {"a.weight", "out.weight"}, True),
    "convolutional": (convolutional, normal(3, 4, 4), {"4.weight"}, True),
    "partly frozen": (partly_frozen, normal(6), {"0.weight", "4.weight"}, True),
    "text": (
        Text, texts,
        {"words.weight", "places.weight", "head.weight",
         "block.layers.0.linear1.weight", "block.layers.0.linear2.weight"}, True,
    ),
    "tied text": (lambda: Text(tied=True), texts, set(), True),
    "padded text": (lambda: Text(padded=True), texts, set(), True),
    "branches": (Branches, normal(6), set(), False),
    "saving": (Saving, normal(6), set(), False),
}  # fmt: skip


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, set[str]]]:
    """By which way, and with which outer products, NTKs were found."""
    found, by_blocks = [], ways._by_blocks

    def noted(model: Any, way: Any, *rest: Any) -> Any:
        found.append((way.__qualname__.split(".")[0], {call.name for call in model.calls}))
        return by_blocks(model, way, *rest)

    monkeypatch.setattr(ways, "_by_blocks", noted)
    return found


@pytest.mark.covers("B69")
@pytest.mark.parametrize("name", few(MODELS, every=3))
def test_the_ntk_is_that_of_explicit_jacobians_within_any_budget(
    name: str, taken: list[tuple[str, set[str]]]
) -> None:
    make, drawn, outer, together = MODELS[name]
    module, inputs = make().double().eval(), drawn()
    rates = {next(n for n, p in module.named_parameters() if p.requires_grad): 0.3}
    z, H = explicit(module, inputs, rates)
    trace = H.trace(axis1=2, axis2=3) / z.shape[1]
    R = np.random.default_rng(0).normal(size=(2, z.shape[1]))
    order = np.random.default_rng(1).permutation(len(inputs))
    for memory in ("1 GiB", max(20_000, H.nbytes), H.nbytes):
        found = tangents(module, inputs, rates=rates, memory=memory)
        np.testing.assert_allclose(found[0], z, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(found[1], H, rtol=1e-11, atol=1e-12 * abs(H).max())
        found = tangents(module, inputs, rates=rates, memory=memory, outputs="mean")
        np.testing.assert_allclose(found[0], z, rtol=1e-11, atol=1e-12)
        assert found[1].shape == (len(z), len(z), 1, 1)
        np.testing.assert_allclose(found[1][..., 0, 0], trace, rtol=1e-10, atol=1e-12)
    read, between = tangents(module, inputs[order], rates=rates, outputs=R)
    np.testing.assert_allclose(read, z[order] @ R.T, rtol=1e-11, atol=1e-12)
    wanted = np.einsum("ri,abij,sj->abrs", R, H, R)[np.ix_(order, order)]
    np.testing.assert_allclose(between, wanted, rtol=1e-10, atol=1e-11 * abs(H).max())
    first = taken[0]
    assert first[0] == ("many_at_once" if together else "one_by_one")
    assert outer <= first[1]
    if name in ("tied text", "padded text"):
        assert "words.weight" not in first[1]


def test_blocks_of_tensors_and_of_samples_meet_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a budget between the largest tensor and all of them, and at one below the largest."""
    sizes, by_blocks = [], ways.ntk_by_blocks

    def noted(plan: Any, *rest: Any, **options: Any) -> Any:
        sizes.append([(len(tensors), len(blocks)) for tensors, blocks in plan])
        return by_blocks(plan, *rest, **options)

    monkeypatch.setattr(ways, "ntk_by_blocks", noted)
    module = nn.Sequential(nn.Conv1d(3, 8, 3), nn.Flatten(), nn.Tanh(), nn.Linear(48, 2)).double()
    inputs = torch.randn(9, 3, 8, dtype=torch.float64)
    H = [tangents(module, inputs, memory=memory)[1] for memory in ("1 GiB", 16_000, 6_000)]
    assert sizes[0] == [(4, 1)]
    assert all(blocks == 1 for _, blocks in sizes[1])
    assert len(sizes[1]) > 1
    assert max(blocks for _, blocks in sizes[2]) > 2
    for one in H[1:]:
        np.testing.assert_allclose(one, H[0], rtol=1e-12, atol=1e-13)


def test_half_precision_of_autocast_changes_it_by_half_precision() -> None:
    net = nn.Sequential(
        nn.Linear(12, 40), nn.GELU(), nn.Linear(40, 40), nn.GELU(), nn.Linear(40, 2)
    )
    x = torch.randn(5, 12)
    _, H = tangents(net, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        _, rough = tangents(net, x)
    apart = abs(rough - H).max() / abs(H).max()
    assert 1e-5 < apart < 0.02


def test_sums_of_float32_keep_small_eigenvalues() -> None:
    """Rows that are equal but for a millionth: products in float32 would have lost the difference."""
    net = nn.Linear(4000, 1, bias=False)
    x = torch.randn(1, 4000).repeat(2, 1)
    x[1, 0] += 1e-3
    h = np.linalg.eigvalsh(tangents(net, x)[1][..., 0, 0])
    exact = np.linalg.eigvalsh((x.double() @ x.double().T).numpy())
    assert exact[0] / exact[1] < 1e-9
    np.testing.assert_allclose(h[0], exact[0], rtol=1e-3)


def test_buffers_stay_as_they_are() -> None:
    net = convolutional().double().eval()
    before = {name: b.clone() for name, b in net.named_buffers()}
    tangents(net, normal(3, 4, 4)())
    assert all(torch.equal(b, before[name]) for name, b in net.named_buffers())


class Mean(nn.Module):
    """Reads all samples."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(x - x.mean(0))


def test_what_is_not_one_sample_at_a_time_is_refused_in_a_sentence() -> None:
    x, linear = torch.randn(4, 3), nn.Linear(3, 2)
    cases = [
        (lambda: tangents(Mean(), x), "mixes samples: the first has other outputs"),
        (lambda: tangents(nn.Sequential(linear, nn.BatchNorm1d(2)), x), "'1' is batch normalisation"),
        (lambda: tangents(nn.Sequential(nn.Linear(3, 64), nn.Dropout()), x), "draws random numbers"),
        (lambda: tangents(nn.Linear(3, 2, device="meta"), x), "on the device 'meta'"),
        (lambda: tangents(nn.Unflatten(1, (3, 1)), x), "no parameters of floating point"),
        (lambda: tangents(nn.Linear(3, 2).requires_grad_(False), x), "parameters that are trained"),
        (lambda: tangents(linear, x, rates={"w": 1.0}), "by the names of parameters that are trained"),
        (lambda: curvature(linear, x, rates={"w": 1.0}), "by the names of parameters"),
        (lambda: curvature(nn.Sequential(nn.Linear(3, 64), nn.Dropout()), x), "draws random numbers"),
        (lambda: curvature(nn.Sequential(linear, nn.BatchNorm1d(2)), x), "'1' is batch normalisation"),
        (lambda: curvature(nn.Linear(3, 2, device="meta"), x), "on the device 'meta'"),
        (lambda: tangents(nn.Sequential(linear, nn.Unflatten(1, (2, 1))), x), "must give outputs"),
        (lambda: tangents(linear, x, outputs=np.eye(3)), r"matrix \(read-outs, 2\)"),
        (lambda: tangents(linear, x, outputs="none"), "`outputs`"),
        (lambda: tangents(linear, x, memory=100), "NTK of 4 samples and 2 outputs takes"),
        (lambda: tangents(linear, x, memory="much"), "such as '1 GiB'"),
    ]  # fmt: skip
    assert unlike(cases) == []
