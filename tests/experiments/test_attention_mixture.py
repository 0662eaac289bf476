"""Golden, agreement: the law of attention with few heads, against an integral, its moments and drawn networks."""

from dataclasses import replace

import numpy as np
import pytest

from scalewise.experiments import attention_mixture
from scalewise.experiments.attention_mixture import drawn_variances, law, network, run
from scalewise.experiments.results import config_of, judged

SMALL = config_of("attention_mixture", "small")


def test_the_limit_of_two_positions_is_an_integral() -> None:
    """Their weights are p and 1-p, with the logit of p normal of variance 2."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    p = 1 / (1 + np.exp(-(2**0.5) * nodes))
    size, weights = p**2 + (1 - p) ** 2, weights / weights.sum()
    mean, square = weights @ size, weights @ size**2
    for heads in (1, 4):
        found = law(heads, None, replace(SMALL, positions=2, draws=200_000))
        assert found.mean() == pytest.approx(mean, rel=0.003)
        assert found.var() == pytest.approx((square - mean**2) / heads, rel=0.02)


@pytest.mark.parametrize(("heads", "size"), [(1, 8), (4, 2)])
def test_networks_have_the_law_of_their_width(heads: int, size: int) -> None:
    net = network(heads, heads * size, 3)
    wanted, found = law(heads, size, replace(SMALL, positions=3)), drawn_variances(net, 4000, 1)
    for power in (1, 2):
        a, b = wanted**power, found**power
        error = np.hypot(a.std() / a.size**0.5, b.std() / b.size**0.5)
        assert abs(a.mean() - b.mean()) < 4 * error
        assert error < 0.06 * a.mean()


def test_what_is_told_of_a_mixture() -> None:
    """Of two variances: the kurtosis 3 Var/mean^2, and densities of both parts."""
    told = attention_mixture._statistics("limit", np.tile([0.5, 1.5], 1000))
    assert float(told.limit) == pytest.approx(0.75)
    assert float(told.limit_density[0]) == pytest.approx((0.5**-0.5 + 1.5**-0.5) / 2)
    assert float((told.limit_law * 0.04).sum()) == pytest.approx(1)


@pytest.mark.thorough("test_networks_have_the_law_of_their_width")
def test_a_wrong_law_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the logits of a network did not know how long its query is."""
    right = law
    monkeypatch.setattr(attention_mixture, "law", lambda H, _, config: right(H, None, config))
    assert len(judged("attention_mixture", run(SMALL)).wrong) > 2
