"""Models that are read: whole, with the right numbers, or refused with the place."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import scalewise as sw
from grids import few
from models_to_read import CASES, IMAGES, NODES, POINTS, STEPS, WORDS, Vision, perceptron
from scalewise.reading import _attending, _linear, _moves, _trees

PlanError = sw.plan.PlanError


def read(name: str, width: int = 16, **changed: Any) -> sw.networks.Network:
    case = CASES[name]
    given: dict[str, Any] = {"at": case.at} | changed
    return sw.torch.network(case.build, case.inputs, width=width, **given)


@pytest.mark.parametrize("name", CASES)
def test_a_model_is_read_whole(name: str) -> None:
    """The network with the model's weights returns what the model does: `network` refuses it otherwise."""
    net = read(name)
    assert net.width == 16


def test_numbers_are_those_of_the_network_written_by_hand() -> None:
    third, law = 1 / 3, {"lambda_b": 1.0, "law": "uniform"}
    by_hand = sw.Network(
        sw.Dense(C_W=third, C_b=third / 8, lambda_W=8, lambda_b=1, law="normal"), "relu",
        sw.Dense(C_W=third, C_b=third / 32, lambda_W=32, **law), "gelu",
        sw.Dense(3, C_W=third, C_b=third / 32, lambda_W=32, **law),
        input_shape=8, width=32,
    )  # fmt: skip
    x = POINTS.double().numpy()
    found, want = (sw.predict(net, x) for net in (read("perceptron", 32), by_hand))
    for name in ("kernel", "ntk"):
        np.testing.assert_allclose(found[name], want[name], rtol=1e-12)


def test_channels_follow_the_width() -> None:
    net = read("VGG")
    assert net.widths[1:] == (16, 16, 32, 64, 10)
    assert net.at_width(32).widths[1:] == (32, 32, 64, 128, 10)
    wider = read("VGG", 32)
    np.testing.assert_allclose(wider.C_W, net.C_W, rtol=1e-12)
    np.testing.assert_allclose(wider.lambda_W[1:], 2 * np.array(net.lambda_W[1:]), rtol=1e-12)


def drawn_kernels(name: str, net, width: int, networks: int) -> np.ndarray:
    """Kernels of the model itself, drawn by its own factory, over its own outputs."""
    case = CASES[name]
    torch.manual_seed(5)
    found = []
    args = case.inputs if isinstance(case.inputs, tuple) else (case.inputs,)
    for _ in range(networks):
        with torch.no_grad():
            z = case.build(width).eval()(*args)
        z = z if case.at is None else z[:, case.at]
        found.append((z @ z.T / z.shape[1]).double().numpy())
    return np.array(found)


@pytest.mark.parametrize(
    "name",
    few(
        ["convolutions, BatchNorm", "decoder", "vision transformer", "GRU", "TransformerEncoder"],
        every=2,
    ),
)
def test_kernels_are_those_of_the_model_itself(name: str) -> None:
    width, networks = 64, 150
    net = read(name, width)
    x = CASES[name].inputs.double().numpy()
    theory = sw.predict(net, x, observables="kernel", layers=net.depth)
    known_to = float(theory.kernel_error.max()) if "kernel_error" in theory else 0.0
    want = theory.kernel.values.reshape(2, 2)
    drawn = drawn_kernels(name, net, width, networks)
    error = drawn.std(axis=0) / networks**0.5 + 2.0 * np.abs(want).max() / width + known_to
    assert (np.abs(drawn.mean(axis=0) - want) < 4 * error).all()
    assert np.abs(drawn.mean(axis=0) - 2 * want).max() > 4 * error.max()


def test_gains_count_if_asked() -> None:
    """The NTK of models, with and without what gains and biases of norms learn."""

    class Normed(nn.Module):
        def __init__(self, n: int) -> None:
            super().__init__()
            self.a, self.norm, self.b, self.o = (
                nn.Linear(8, n),
                nn.LayerNorm(n),
                nn.Linear(n, n),
                nn.Linear(n, 1),
            )

        def forward(self, x):
            return self.o(torch.tanh(self.b(self.norm(self.a(x)))))

    torch.manual_seed(2)
    width, networks = 64, 100
    nets = [sw.torch.network(Normed, POINTS, width=width, gains=gains) for gains in (False, True)]
    want = [sw.predict(net, POINTS.double().numpy()).ntk.values[-1] for net in nets]
    drawn = []
    for _ in range(networks):
        model = Normed(width)
        without = {f"norm.{name}": 0.0 for name in ("weight", "bias")}
        drawn.append(
            [
                sw.torch.tangents(model, POINTS, rates=rates)[1][..., 0, 0]
                for rates in (without, None)
            ]
        )
    gain = np.array(drawn)[:, 1] - np.array(drawn)[:, 0]
    error = gain.std(axis=0) / networks**0.5
    assert (
        np.abs(gain.mean(axis=0) - (want[1] - want[0])) < 4 * error + 0.05 * gain.mean(axis=0).max()
    ).all()
    assert gain.mean(axis=0).max() > 15 * error.max()
    assert "`norm.weight`, `norm.bias` begin as one number" in nets[0].notes[0]
    assert not any("one number" in note for note in nets[1].notes)


# A mistake in reading is seen.


def planted(monkeypatch, name: str) -> str:
    """Plant a mistake; the model in which it stands."""
    if name == "attention sees what follows":
        monkeypatch.setattr(_attending, "_added", lambda *_: (False, ()))
        return "decoder"
    if name == "logits over the size of a head":
        monkeypatch.setattr(_attending, "_power", lambda *_: 1.0)
        return "vision transformer"
    if name == "a pool is too large":
        own = _moves._factored
        monkeypatch.setattr(
            _moves, "_factored", lambda *a: (f := own(*a)) and [1.01 * m for m in f]
        )
        return "convolutions, BatchNorm"
    if name == "an activation is another":
        monkeypatch.setitem(_trees.FUNCTIONS, "silu", lambda xp, x: 1.001 * x / (1 + xp.exp(-x)))
        return "decoder"
    assert name == "no padding"
    own_window = _moves.window_of
    monkeypatch.setattr(
        _linear,
        "window_of",
        lambda n, k, s, d, pads: own_window(n, k, s, d, pads[::-1] if sum(pads) != 2 else (2, 0)),
    )
    return "VGG"


@pytest.mark.parametrize(
    "name",
    [
        "attention sees what follows", "logits over the size of a head", "a pool is too large",
        "an activation is another", "no padding",
    ],
)  # fmt: skip
def test_a_model_that_is_misread_is_not_given(monkeypatch, name: str) -> None:
    case = planted(monkeypatch, name)
    with pytest.raises(PlanError, match="computes something else than the model"):
        read(case, at=None)


# What is not known is named.


class Mixer(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.a, self.tokens, self.o = nn.Linear(3, n), nn.Linear(4, 4), nn.Linear(n, 1)

    def forward(self, x):
        return self.o(self.tokens(self.a(x).transpose(1, 2)).mean(2))


class Inner(nn.Module):
    def forward(self, x):
        return x.sort(dim=-1)[0]


class Sorted(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.a, self.o = nn.Linear(8, n), nn.Linear(n, 1)
        self.inside = Inner()

    def forward(self, x):
        return self.o(self.inside(self.a(x)))


class TwoWays(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.a, self.b, self.o = nn.Linear(8, n), nn.Linear(n, n), nn.Linear(n, 1)

    def forward(self, x):
        x = torch.tanh(self.b(torch.tanh(self.a(x))))
        return self.o(torch.tanh(x @ self.b.weight))


def tied_head(n: int) -> nn.Module:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.e, self.h = nn.Embedding(9, n), nn.Linear(n, 9, bias=False)
            self.h.weight = self.e.weight

        def forward(self, t):
            return self.h(torch.tanh(self.e(t)).mean(1))

    return Tied()


@pytest.mark.parametrize(
    ("build", "inputs", "says"),
    [
        (Mixer, STEPS, "`tokens` mixes positions by weights that all channels share"),
        (Sorted, POINTS, "`inside` calls aten::sort, which is not known"),
        (TwoWays, POINTS, "uses `b.weight` in two ways"),
        (
            lambda n: nn.Linear(8, 8) if n == 16 else perceptron(n),
            POINTS,
            "something else at twice the width",
        ),
    ],
)
def test_what_is_not_known_is_named(build, inputs, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        sw.torch.network(build, inputs, width=16)


class Step(nn.Module):
    """A step of one's own between two layers."""

    def __init__(self, n: int, step: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.a, self.o, self.inner, self.step = (
            nn.Linear(8, n),
            nn.Linear(n, 1),
            nn.Identity(),
            step,
        )
        self.inner.forward = step  # type: ignore

    def forward(self, x):
        return self.o(self.inner(self.a(x)))


def scaled(z: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    return nn.functional.layer_norm(z, z.shape[-1:], gain)


def one_width(n: int) -> nn.Module:
    assert n == 16
    return perceptron(n)


def in_integers(n: int) -> nn.Module:
    return torch.ao.quantization.quantize_dynamic(perceptron(n), {nn.Linear})


@pytest.mark.filterwarnings("ignore:.*deprecated")
@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda n: Step(n, lambda z: z + torch.randn_like(z)), "`inner` draws random numbers in its"),
        (lambda n: Step(n, lambda z: nn.functional.dropout(z)), "`inner` draws random numbers"),
        (
            lambda n: Step(n, lambda z: z[torch.nonzero(z[:, 0] < 99)[:, 0]]),
            "`inner` has shapes that depend on the data",
        ),
        (lambda n: Step(n, lambda z: scaled(z, torch.ones(n).float())), "in double precision"),
        (one_width, "does not build the model at width 32: it raised AssertionError"),
        (lambda n: nn.Linear(3, n), "cannot be called with `inputs`: it raised RuntimeError"),
        (lambda n: nn.Linear(8, n, device="meta"), "no numbers in 'weight', which is on the device"),
        (in_integers, "Give the model that it was quantised from"),
    ],
)  # fmt: skip
def test_what_has_no_numbers_or_does_not_repeat_is_refused(build, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        sw.torch.network(build, POINTS, width=16)


def test_numbers_that_a_model_makes_are_as_precise_as_its_inputs() -> None:
    net = sw.torch.network(lambda n: Step(n, lambda z: scaled(z, torch.ones(n))), POINTS, width=16)
    assert net.depth == 2
    random = sw.torch.network(
        lambda n: Step(n, lambda z: z + torch.randn_like(z)),
        POINTS,
        width=16,
        given={"inner": "tanh"},
    )
    assert random.depth == 2


def test_layers_stand_for_modules_that_are_not_known() -> None:
    net = sw.torch.network(Sorted, POINTS, width=16, given={"inside": ["tanh", sw.Dense()]})
    assert [node.said for node in net.program.nodes][2:] == [
        "random",
        "tanh",
        "random",
        "random, uniform",
    ]
    assert any("`inside` is what was given for it" in note for note in net.notes)
    assert net.at_width(32).widths == (8, 32, 32, 1)
    with pytest.raises(PlanError, match="makes 5 channels"):
        sw.torch.network(Sorted, POINTS, width=16, given={"inside": sw.Dense(5)})
    with pytest.raises(PlanError, match="has no \\['outside'\\]"):
        sw.torch.network(Sorted, POINTS, width=16, given={"outside": sw.Dense()})


def test_a_tied_read_out_is_noted() -> None:
    net = sw.torch.network(tied_head, WORDS, width=16)
    assert any("`e.weight` reads out, too" in note for note in net.notes)


def test_one_model_tells_its_own_law() -> None:
    torch.manual_seed(1)
    net = sw.torch.network(perceptron(128), POINTS)
    exact = sw.torch.network(perceptron, POINTS, width=128)
    assert net.width == 128
    np.testing.assert_allclose(net.C_W, exact.C_W, rtol=0.2)
    np.testing.assert_allclose(net.C_W[1], exact.C_W[1], rtol=0.05)
    assert net.program.laws[1].name == exact.program.laws[1].name == "uniform"


def test_graphs_are_one_sample_and_images_several() -> None:
    assert read("GCN").input_shape == NODES.shape
    assert read("VGG").input_shape == IMAGES.shape[1:]
    assert read("diffusion U-Net block").input_shape == (3 * 4 * 4 + 4,)


def test_tables_name_the_modules() -> None:
    text = str(sw.torch.network(Vision, IMAGES, width=16))
    assert all(
        word in text for word in ("module", "block.attention", "head", "begin as one number")
    )


def test_positions_of_outputs_are_checked() -> None:
    with pytest.raises(PlanError, match=r"have 5 positions; got \(7,\)"):
        read("decoder", at=7)
    with pytest.raises(PlanError, match="width=64"):
        sw.torch.network(perceptron, POINTS)
