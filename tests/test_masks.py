"""Property and agreement: samples of different length are known as if each stood alone."""

import numpy as np
import pytest

import scalewise as sw
from architectures import RATES
from grids import few, thorough
from networks import agrees_at_two_widths
from scalewise.nets import Parameters, empirical_ntk, init_weights
from scalewise.networks._weights import shapes_of
from scalewise.networks.layers import Excite
from scalewise.training._one_network import tangents_of

RNG = np.random.default_rng(21)
LONGEST, LENGTHS = 7, (7, 5, 3)
EXACT = {
    "windows": (
        *(sw.Conv(3), "relu", sw.Conv(3, stride=2), "tanh", sw.Skip(sw.Conv(2), "gelu", sw.Dense())),
        *(sw.AvgPool(2, stride=1, padding="zero"), sw.Dense(), "gelu", sw.GlobalAvgPool()),
    ),
    "windows that fit": (
        *(sw.Conv(2, padding="valid"), "relu", sw.SumPool(2, stride=1), sw.Dense(), "tanh"),
        sw.GlobalSumPool(),
    ),
    "heads that grow": (
        *(sw.Dense(), sw.LayerNorm(0.1), sw.Skip(sw.Attention(heads=2, tied=True)), "relu"),
        *(sw.LayerNorm(), sw.Attention(heads=1, causal=True), sw.GlobalAvgPool()),
    ),
    "states": (sw.Recurrent("tanh"), sw.Conv(3), "relu", sw.GlobalAvgPool()),
    "last state": (sw.Recurrent("relu", last=True), sw.Dense(), "tanh"),
    "means that norms see": (
        *(sw.Dense(), "relu", sw.LayerNorm(0.1), sw.Conv(3), "relu", sw.AvgPool(2, stride=1)),
        *(sw.LayerNorm(0.2), sw.GlobalAvgPool()),
    ),
    "ends that meet": (
        *(sw.Conv(3, padding="circular"), "relu", sw.Conv(4, stride=2, padding="circular"), "tanh"),
        *(sw.SumPool(2, stride=1, padding="circular"), sw.Local(3, padding="circular"), "gelu"),
        sw.GlobalAvgPool(),
    ),
    "written": (
        *(sw.Conv(2, stride=2), "relu", sw.ConvTranspose(3, stride=2), "tanh", sw.Dense(), "relu"),
        *(sw.ConvTranspose(2, stride=3, padding="valid"), "tanh", sw.Conv(3), "gelu"),
        *(sw.ConvTranspose(2, stride=1, dilation=3, padding="valid"), "tanh", sw.GlobalAvgPool()),
    ),
    "of one size": (
        *(sw.Conv(3), "relu", sw.Resize(4), sw.Conv(3), "tanh", sw.Resize(3, "linear")),
        *(sw.Local(2), "gelu", sw.Flatten()),
    ),
    "stretched": (sw.Conv(3), "relu", sw.Resize(9, "linear"), sw.Conv(3), "tanh", sw.GlobalAvgPool()),
    "norms of all positions": (
        *(sw.Conv(3), "relu", sw.LayerNorm(0.1, positions=True), sw.Conv(2), sw.GroupNorm(2), "relu"),
        *(sw.GroupNorm(4, 0.2), sw.AvgPool(2), sw.GlobalAvgPool()),
    ),
    "gates of channels": (sw.Conv(3), "tanh", Excite(4), sw.GlobalAvgPool()),
    "across": (
        *(sw.Dense(), sw.Attention(heads=1, queries=[sw.Take((0, 2))]), "relu"),
        sw.GlobalAvgPool(),
    ),
    "branches": (
        sw.Parallel([sw.Conv(3, stride=2)], [sw.Take((0, 1, 2, 3)), sw.Dense()], join="concat"),
        sw.GlobalAvgPool(),
    ),
}  # fmt: skip
DRAWN = {
    "heads of two": (
        *(sw.Dense(), sw.LayerNorm(), sw.Skip(sw.Attention(size=2, C_W=2.0)), sw.LayerNorm()),
        *(sw.Attention(size=2, queries=[sw.Take((0, 1, 2))], qk_norm=sw.RMSNorm(0.2)), "relu", sw.GlobalAvgPool()),
    ),
    "maxima": (
        *(sw.Conv(3), "relu", sw.MaxPool(3, stride=1, padding="zero"), sw.Conv(2), sw.MaxPool(2)),
        *("tanh", sw.GlobalAvgPool()),
    ),
    "maxima of rings": (
        *(sw.Conv(3), "gelu", sw.MaxPool(3, stride=2, padding="circular")),
        *(sw.LayerNorm(0.1, positions=True), sw.Dense()),
        *(sw.Skip("tanh"), sw.LayerNorm(0.1, positions=True), "relu", sw.GlobalAvgPool()),
    ),
    "functions of logits": (
        *(sw.Conv(3), sw.Attention(size=2, function="erf", memory=[sw.Conv(3, stride=2)]), "tanh"),
        sw.GlobalAvgPool(),
    ),
    "activations of pools": (sw.Dense(), "tanh", sw.AvgPool(2, stride=1), "relu", sw.GlobalAvgPool()),
}  # fmt: skip


def masked(lengths=LENGTHS, rng=RNG) -> np.ndarray:
    x = rng.normal(size=(len(lengths), LONGEST, 3))
    x[..., -1] = np.arange(LONGEST) < np.array(lengths)[:, None]
    return x


def network(layers: tuple, shape: tuple[int, ...], width: int = 16) -> sw.Network:
    return sw.Network(*layers, sw.Dense(1), input_shape=shape, width=width, **RATES)


def last(data) -> list[np.ndarray]:
    return [data[name].values[-1] for name in ("kernel", "ntk")]


@pytest.mark.parametrize("name", [name for name in EXACT if name != "branches"])
def test_a_sample_is_known_as_if_it_stood_alone(name: str) -> None:
    x = masked()
    found = sw.predict(network((sw.Mask(), *EXACT[name]), (LONGEST, 3)), x)
    for k, length in enumerate(LENGTHS):
        alone = sw.predict(network(EXACT[name], (length, 2)), x[k : k + 1, :length, :2])
        for both, own in zip(last(found), last(alone), strict=True):
            np.testing.assert_allclose(both[k, k], own[0, 0], rtol=1e-12)


@pytest.mark.parametrize("name", EXACT)
def test_what_stands_where_nothing_is_does_not_matter(name: str) -> None:
    net, x = network((sw.Mask(), *EXACT[name]), (LONGEST, 3)), masked()
    other = np.where(x[..., -1:] > 0, x, RNG.normal(size=x.shape))
    other[..., -1] = x[..., -1]
    for one, two in zip(last(sw.predict(net, x)), last(sw.predict(net, other)), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12)


@pytest.mark.parametrize("name", few([*EXACT, *DRAWN], every=12))
def test_theory_and_ensembles_agree_at_two_widths(name: str) -> None:
    net, x = network((sw.Mask(), *(EXACT | DRAWN)[name]), (LONGEST, 3), 32), masked()
    agrees_at_two_widths(net, x, widths=(32, 64), seed=4)


@pytest.mark.parametrize("name", ["maxima", *thorough("heads of two", "maxima of rings")])
def test_averages_without_a_formula_of_a_sample_alone(name: str) -> None:
    x = masked()
    found = sw.predict(network((sw.Mask(), *DRAWN[name]), (LONGEST, 3)), x)
    length = LENGTHS[1]
    alone = sw.predict(network(DRAWN[name], (length, 2)), x[1:2, :length, :2])
    for kind in ("kernel", "ntk"):
        error = np.hypot(found[kind + "_error"].values[-1][1, 1], alone[kind + "_error"].values[-1])
        difference = found[kind].values[-1][1, 1] - alone[kind].values[-1]
        assert abs(difference[0, 0]) < 5 * error[0, 0] < 0.05 * alone[kind].values[-1][0, 0]


@pytest.mark.thorough("test_averages_without_a_formula_of_a_sample_alone")
@pytest.mark.parametrize("name", ["norms of all positions", "maxima", "ends that meet"])
def test_order_1_over_n_of_a_sample_alone(name: str) -> None:
    layers, x, length = (EXACT | DRAWN)[name], masked(LENGTHS[2:]), LENGTHS[2]
    asked = ["four_point_vertex", "ntk_B"]
    found = sw.predict(network((sw.Mask(), *layers), (LONGEST, 3)), x, observables=asked)
    alone = sw.predict(network(layers, (length, 2)), x[:, :length, :2], observables=asked)
    for kind in asked:
        error = np.hypot(*(float(d[f"{kind}_error"][-1].max()) for d in (found, alone)))
        difference = abs(float(found[kind][-1].max()) - float(alone[kind][-1].max()))
        assert difference < 5 * error < 0.05 * float(alone[kind][-1].max())


DRAWN_ONCE = [name for name in EXACT | DRAWN if name != "branches"]


@pytest.mark.parametrize("name", DRAWN_ONCE)
def test_one_network_does_to_a_sample_what_it_does_to_it_alone(name: str) -> None:
    """The same weights; outputs and NTK by NumPy."""
    lengths = (*LENGTHS, 4)
    layers, x = (EXACT | DRAWN)[name], masked(lengths, np.random.default_rng(5))
    net = network((sw.Mask(), *layers), (LONGEST, 3), 8)
    parameters = init_weights(net, 3, dtype="float64")
    outputs, whole = tangents_of(net, parameters, x)
    for k, length in enumerate(lengths):
        short = network(layers, (length, 2), 8)
        pairs = zip(parameters, zip(*shapes_of(short.program).values(), strict=True), strict=True)
        own = Parameters(  # of layers whose places have weights of their own, those of a few
            *([W[: s[0]] for W, s in zip(each, shapes, strict=True)] for each, shapes in pairs)
        )
        z, alone = tangents_of(short, own, x[k : k + 1, :length, :2])
        np.testing.assert_allclose(outputs[k], z[0], rtol=1e-9)
        np.testing.assert_allclose(whole[k, k], alone[0, 0], rtol=1e-9)


# Daily those that between them have windows, ends that meet, a resize, places of their own, maxima and norms.
BOTH = ["of one size", "maxima of rings"]


@pytest.mark.parametrize("name", [*BOTH, *thorough(*(n for n in DRAWN_ONCE if n not in BOTH))])
def test_jax_has_the_ntk_that_numpy_has(name: str) -> None:
    net = network((sw.Mask(), *(EXACT | DRAWN)[name]), (LONGEST, 3), 8)
    x, parameters = masked(), init_weights(net, 3, dtype="float64")
    expected = tangents_of(net, parameters, x)[1]
    np.testing.assert_allclose(empirical_ntk(net, parameters, x), expected, rtol=1e-9)


def test_images_of_different_size() -> None:
    layers = (
        *(sw.Conv((3, 2), padding="circular"), "relu", sw.ConvTranspose(2, stride=(1, 2)), "tanh"),
        *(sw.GroupNorm(2), sw.Conv(2, stride=2), "relu", sw.Resize((2, 3), "linear")),
        *(sw.Conv(2), "tanh", sw.Flatten()),
    )
    x, sizes = RNG.normal(size=(2, 4, 5, 3)), ((4, 5), (3, 2))
    for k, (a, b) in enumerate(sizes):
        x[k, ..., -1] = (np.arange(4)[:, None] < a) & (np.arange(5) < b)
    found = sw.predict(network((sw.Mask(), *layers), (4, 5, 3)), x)
    for k, (a, b) in enumerate(sizes):
        alone = sw.predict(network(layers, (a, b, 2)), x[k : k + 1, :a, :b, :2])
        for both, own in zip(last(found), last(alone), strict=True):
            np.testing.assert_allclose(both[k, k], own[0, 0], rtol=1e-12)


REFUSED = {
    "must have a mask as its last feature": ((sw.Conv(3), sw.GlobalAvgPool()), lambda x: x + 0.5),
    "a sample without any position \\(sample 1\\)": (
        (sw.Conv(3), sw.GlobalAvgPool()), lambda x: x * np.array([1, 0, 1])[:, None, None]
    ),
    "sample 0\\) whose positions are not one run along every axis.*Resize": (
        (sw.Conv(3), sw.Resize(2), sw.Flatten()), lambda x: x * np.array([1, 0, 1, 1, 1, 1, 1])[:, None]
    ),
}  # fmt: skip


@pytest.mark.parametrize("sentence", REFUSED)
def test_masks_that_are_none(sentence: str) -> None:
    layers, changed = REFUSED[sentence]
    net = network((sw.Mask(), *layers), (LONGEST, 3))
    for verb in (sw.predict, sw.measure):
        with pytest.raises(ValueError, match=sentence):
            verb(net, changed(masked()))


@pytest.mark.parametrize(
    ("layers", "sentence"),
    [
        ((sw.Dense(), sw.Mask(), sw.GlobalAvgPool()), "Layer 2, Mask.*Put it first"),
        (
            (sw.Mask(), sw.ConvTranspose(2, padding="circular"), sw.GlobalAvgPool()),
            "not known with a mask",
        ),
        (
            (
                *(sw.Mask(), sw.Parallel([sw.Conv(2, stride=2)], [sw.Take((0, 1, 2, 3)), sw.Dense()])),
                sw.GlobalAvgPool(),
            ),
            "samples have other positions",
        ),
        (
            (sw.Dense(), sw.Attention(size=4, causal=True, queries=[sw.Take(0)]), sw.GlobalAvgPool()),
            "causal attention has one set of positions",
        ),
    ],
)  # fmt: skip
def test_layers_that_have_no_part_of_a_sample(layers: tuple, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        network(layers, (LONGEST, 3))


def test_tied_attention_is_of_one_field() -> None:
    with pytest.raises(ValueError, match="compares positions of one field"):
        sw.Attention(heads=2, tied=True, queries=[sw.Take(0)])
