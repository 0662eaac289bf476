"""Agreement: the theory against ensembles of real networks, which share no code with it.

At one width the prediction at that width must lie within four standard errors (more where hundreds of
entries are compared, see `Comparison.limit`) plus the stated size of the first neglected order. Over
several widths the leading coefficients themselves are tested, and the rate at which they are reached.
"""

import numpy as np
import pytest

import scalewise as sw
from grids import thorough

pytestmark = pytest.mark.optimised

X = np.array([[1.0, -0.4, 0.3, 0.9], [0.2, 0.8, -0.9, 0.1], [0.9, -0.1, 0.4, 1.2]])
DEPTH = 5


def network(name: str, width: int) -> sw.Network:
    rates = {"lambda_b": (0.3, 0.5, 0.2, 0.4, 0.6), "lambda_W": (0.7, 1.1, 0.9, 0.6, 1.0)}
    critical = sw.criticality(name)
    assert critical.C_b is not None
    assert critical.C_W is not None
    return sw.MLP(
        DEPTH,
        width,
        name,
        input_dim=4,
        output_dim=2,
        C_b=critical.C_b,
        C_W=critical.C_W,
        **rates,
    )


@pytest.mark.covers("A3.6", "A4.2", "B10")
@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("tanh", 32),
        ("relu", 96),
        *thorough(
            *((name, 32) for name in ("sin", "gelu", "swish", "relu", "linear")), ("tanh", 96)
        ),
    ],
)
def test_prediction_at_a_width(name: str, width: int) -> None:
    net = network(name, width)
    theory = sw.predict(net, X)
    ensemble = sw.measure(net, X, networks=4000, seed=7, progress=False)
    result = sw.compare(theory, ensemble)
    assert result.passed, str(result)
    # The check has teeth: a tenth more of each observable would have been seen.
    for observable in ("kernel", "ntk"):
        wrong = theory.copy()
        wrong[observable] = wrong[observable] * 1.1
        assert not sw.compare(wrong, ensemble).passed, observable
    wrong = theory.copy()
    wrong["four_point_vertex"] = 2 * wrong["four_point_vertex"]
    assert not sw.compare(wrong, ensemble).passed


@pytest.mark.covers("A3.7")
@pytest.mark.parametrize("name", ["gelu", *thorough("tanh", "relu")])
def test_leading_coefficients_over_widths(name: str) -> None:
    net = network(name, 32)
    theory = sw.predict(net, X)
    ensemble = sw.measure(net, X, networks=4000, seed=3, widths=[32, 64, 128], progress=False)
    result = sw.compare(theory, ensemble)
    assert {"kernel", "metric_nlo", "four_point_vertex", "ntk"} <= set(ensemble.data_vars)
    assert result.passed, str(result)


@pytest.mark.covers("A3.3", "A3.4", "A3.6", "B11")
def test_unequal_widths() -> None:
    """The factors n_l / n_{l-1} of (4.119) and (4.115)."""
    net = sw.MLP(5, (40, 160, 40, 80), "tanh", input_dim=4, output_dim=1, C_W=1.6, C_b=0.1)
    theory = sw.predict(net, X)
    ensemble = sw.measure(net, X, networks=10_000, seed=5, progress=False)
    result = sw.compare(theory, ensemble)
    assert result.passed, str(result)
    equal = sw.predict(net.at_width(40), X)
    gap = np.abs(equal.four_point_vertex - theory.four_point_vertex).sel(layer=4).max()
    assert gap > 5 * ensemble.four_point_vertex_sem.sel(layer=4).max()


@pytest.mark.covers("A3.6")
def test_rate_at_which_the_kernel_is_reached() -> None:
    """|G - K| falls as 1/n, and what the 1/n term leaves as 1/n² or faster: fitted exponents."""
    widths = np.array([2, 4, 8])
    net = sw.MLP(4, 4, "tanh", input_dim=4, output_dim=1, C_W=2.5, C_b=0.1)
    theory = sw.predict(net, X)
    K, G1 = theory.kernel.sel(layer=4), theory.metric_nlo.sel(layer=4)
    first, second = [], []
    for width in widths:
        ensemble = sw.measure(
            net.at_width(int(width)),
            X,
            networks=40_000,
            seed=11,
            observables=["kernel"],
            progress=False,
        )
        gap = ensemble.kernel.sel(layer=4) - K
        first.append(float(np.sqrt((gap**2).mean())))
        second.append(float(np.sqrt(((gap - G1 / width) ** 2).mean())))
    slope = np.polyfit(np.log(widths), np.log(first), 1)[0]
    assert slope == pytest.approx(-1.0, abs=0.2)
    assert second[0] / first[0] < 0.5
    # 1/4 for 1/n², plus the noise of 40 000 networks; 1/2 if the coefficient of 1/n were wrong.
    assert second[1] / second[0] < 0.4
