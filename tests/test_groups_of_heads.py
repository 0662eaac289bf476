"""Golden and agreement: heads that share keys and values, and heads with numbers added to their logits."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalewise as sw
from architectures import RATES
from grids import thorough
from heads import X, has_the_ntk_of_its_formula, network
from networks import agrees_at_two_widths
from scalewise.networks._builder import Builder, Layer
from scalewise.networks._field import Field
from scalewise.networks._sites import Matrix

HEADS = {
    "shared": sw.Attention(size=4, group=2, C_W=3.0),
    "slopes": sw.Attention(size=4, alibi=2, causal=True, C_W=3.0),
    "shared, slopes": sw.Attention(size=4, group=2, alibi=4, rotary=100.0, C_W=3.0),
}


@pytest.mark.parametrize("name", ["shared", "slopes"])
def test_one_network_is_its_formula(name: str) -> None:
    apart = abs(np.subtract.outer(np.arange(5), np.arange(5)))
    slopes = np.array([2.0**-4, 2.0**-8, 2.0**-4, 2.0**-8]) * (name == "slopes")
    ahead = np.where((name == "slopes") & ~np.tri(5, dtype=bool), -np.inf, 0.0)
    keys = [0, 0, 1, 1] if name == "shared" else [0, 1, 2, 3]

    def attend(q, k, v):
        logits = jnp.einsum("sphc,sqhc->shpq", q, k[:, :, keys]) / 2
        logits = logits - slopes[:, None, None] * apart + ahead
        return jnp.einsum("shpq,sqhc->sphc", jax.nn.softmax(logits), v[:, :, keys])

    has_the_ntk_of_its_formula(network(HEADS[name], 16), attend)


@pytest.mark.parametrize("name", ["shared", *thorough("slopes", "shared, slopes")])
def test_theory_and_ensembles_agree_at_two_widths(name: str) -> None:
    agrees_at_two_widths(network(HEADS[name], 64), X, widths=(64, 128), seed=2)


def test_heads_of_a_group_are_copies_of_its_value_at_one_position() -> None:
    """By hand: of n channels n/g are different, so that their mean square fluctuates g times as much."""
    x = X[:1, :1]
    for group in (1, 4):
        layers = sw.Attention(size=2, group=group), sw.Flatten(), sw.Dense(1)
        net = sw.Network(*layers, input_shape=(1, 2), width=64, **RATES)
        K = 0.1 + 1.3 * (x[0, 0] @ x[0, 0]) / 2
        behind = 0.1 + 1.3 * K
        found = sw.predict(net, x, layers=5, observables=["kernel", "four_point_vertex"])
        np.testing.assert_allclose(np.squeeze(found.kernel), 0.1 + 1.3 * behind, rtol=1e-9)
        V = 1.3**2 * (2 * behind**2 + 1.3**2 * group * 2 * K**2)
        np.testing.assert_allclose(np.squeeze(found.four_point_vertex), V, rtol=0.01)


@dataclass(frozen=True)
class Biased(Layer):
    """Heads of two channels, with matrices in turn."""

    bias: tuple[Matrix, ...]

    def into(self, build: Builder, of: Field) -> Field:
        q, k, v = (build.draw(of) for _ in range(3))
        made = build.attend((q, k, v), 2, 0.5, None, grows=False, causal=False, bias=self.bias)
        return build.draw(made)


# Unoptimised, jaxlib 0.10.2 compiles B of heads with biased logits to NaN; not compiled it is right.
@pytest.mark.optimised
def test_heads_in_turn_are_the_mean_of_their_kinds() -> None:
    """Not a mixture of them: a network of any width has as many heads of each, so that kinds do not fluctuate."""
    x, kinds = X[:1, :2], (Matrix.of(np.zeros((2, 2))), Matrix.of(4 * np.eye(2)))
    found = []
    for bias in ((kinds[0],), (kinds[1],), kinds):
        layers = Biased(bias), sw.Flatten(), sw.Dense(1)
        net = sw.Network(*layers, input_shape=(2, 2), width=32, **RATES)
        K = sw.predict(net, x, layers=4, observables="kernel").kernel.values
        end = sw.predict(net, x, layers=5, observables=["ntk", "four_point_vertex"])
        # V of the read-out less what its own read-in adds, so that only the variance over heads is left.
        V = float(end.four_point_vertex.squeeze()) - 1.3**2 * 2 * (K**2).mean()
        found.append((K.mean(), float(end.ntk.squeeze()), V))
    one, other, both = np.array(found)
    assert (np.abs(one / other - 1) > 0.05).all()
    np.testing.assert_allclose(both, (one + other) / 2, rtol=0.02)


@pytest.mark.thorough("test_theory_and_ensembles_agree_at_two_widths")
@pytest.mark.parametrize("changed", [{"group": 2}, {"group": 4, "alibi": 2}])
def test_order_1_over_n_is_that_of_drawn_networks(changed) -> None:
    net, x = network(sw.Attention(size=2, **changed), 32, (2, 2)), X[:1, :2]
    names = ["kernel", "four_point_vertex", "ntk_B"]
    theory = sw.predict(net, x, observables=names)
    ensemble = sw.measure(
        net, x, networks=12000, widths=[64, 128], progress=False, observables=names
    )
    outcome = sw.compare(theory, ensemble)
    assert outcome.passed, outcome
    alone = sw.predict(network(sw.Attention(size=2), 32, (2, 2)), x, observables=names)
    assert not sw.compare(alone, ensemble).passed


def test_heads_that_cannot_share() -> None:
    with pytest.raises(ValueError, match="heads whose number grows"):
        sw.Attention(heads=2, group=2)
    with pytest.raises(ValueError, match="heads whose number grows"):
        sw.Attention(heads=2, alibi=2)
    with pytest.raises(ValueError, match="a distance between positions of one field"):
        sw.Attention(size=2, alibi=2, queries=[sw.Take(0)])
    with pytest.raises(ValueError, match="a multiple of 12"):
        network(sw.Attention(size=4, group=3), 16)
    with pytest.raises(ValueError, match="a multiple of 24"):
        network(sw.Attention(size=4, alibi=6), 16)
