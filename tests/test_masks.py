"""Property and agreement: samples of different length are known as if each stood alone."""

import numpy as np
import pytest

import scalewise as sw
from architectures import RATES
from grids import few

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
        *(sw.Attention(size=2, queries=[sw.Take((0, 1, 2))]), "relu", sw.GlobalAvgPool()),
    ),
    "functions of logits": (
        *(sw.Conv(3), sw.Attention(size=2, function="erf", memory=[sw.Conv(3, stride=2)]), "tanh"),
        sw.GlobalAvgPool(),
    ),
    "activations of pools": (sw.Dense(), "tanh", sw.AvgPool(2, stride=1), "relu", sw.GlobalAvgPool()),
}  # fmt: skip


def masked(lengths=LENGTHS) -> np.ndarray:
    x = RNG.normal(size=(len(lengths), LONGEST, 3))
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


@pytest.mark.parametrize("name", few([*EXACT, *DRAWN], every=3))
def test_theory_and_ensembles_agree_at_two_widths(name: str) -> None:
    net, x = network((sw.Mask(), *(EXACT | DRAWN)[name]), (LONGEST, 3), 64), masked()
    theory = sw.predict(net, x)
    wrong = theory.assign(ntk=1.2 * theory.ntk)
    ensemble = sw.measure(net, x, networks=600, widths=[64, 128], seed=4, progress=False)
    assert sw.compare(theory, ensemble).passed
    assert not sw.compare(wrong, ensemble).passed


def test_drawn_heads_of_a_sample_alone() -> None:
    x = masked()
    found = sw.predict(network((sw.Mask(), *DRAWN["heads of two"]), (LONGEST, 3)), x)
    length = LENGTHS[1]
    alone = sw.predict(network(DRAWN["heads of two"], (length, 2)), x[1:2, :length, :2])
    for name in ("kernel", "ntk"):
        error = np.hypot(found[name + "_error"].values[-1][1, 1], alone[name + "_error"].values[-1])
        difference = found[name].values[-1][1, 1] - alone[name].values[-1]
        assert abs(difference[0, 0]) < 5 * error[0, 0] < 0.05 * alone[name].values[-1][0, 0]


REFUSED = {
    "must have a mask as its last feature": ((sw.Conv(3), sw.GlobalAvgPool()), lambda x: x + 0.5),
    "a sample without any position \\(sample 1\\)": (
        (sw.Conv(3), sw.GlobalAvgPool()), lambda x: x * np.array([1, 0, 1])[:, None, None]
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
        ((sw.Mask(), sw.Conv(3, padding="circular"), sw.GlobalAvgPool()), "not known with a mask"),
        ((sw.Mask(), sw.Dense(), sw.MaxPool(2), sw.GlobalAvgPool()), "not known with a mask"),
        ((sw.Mask(), sw.Dense(), sw.Resize(3), sw.GlobalAvgPool()), "not known with a mask"),
        ((sw.Mask(), sw.ConvTranspose(2), sw.GlobalAvgPool()), "not known with a mask"),
        (
            (sw.Mask(), sw.Conv(3), sw.LayerNorm(positions=True), sw.GlobalAvgPool()),
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
