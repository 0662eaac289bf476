"""Agreement: fluctuations of the NTK, dNTK and ddNTK against ensembles of real networks.

Layer 2 is exact at any width and held to its standard errors alone; deeper layers to those and the stated
size of the next order, and, over two widths, to what is left of it by extrapolation.
"""

import numpy as np
import pytest

import scalewise as sw
from grids import thorough

X = np.array([[1.0, -0.4, 0.3, 0.9], [0.2, 0.8, -0.9, 0.1], [0.9, -0.1, 0.4, 1.2]])
NTK = ["ntk", "ntk_A", "ntk_B", "ntk_D", "ntk_F"]
DNTK = ["dntk_P", "dntk_Q"]
DDNTK = ["ddntk_R", "ddntk_S", "ddntk_T", "ddntk_U"]


def network(name: str, width: object) -> sw.Network:
    rates = {"lambda_b": (0.3, 0.5, 0.2, 0.4), "lambda_W": (0.7, 1.1, 0.9, 0.6)}
    critical = sw.criticality(name)
    assert critical.C_W is not None
    own = {"C_b": critical.C_b, "C_W": critical.C_W, **rates}
    return sw.MLP(4, width, name, input_dim=4, output_dim=2, **own)


@pytest.mark.optimised
@pytest.mark.covers("B11")
@pytest.mark.parametrize(
    ("name", "width"),
    [("relu", 32), *thorough(("gelu", 32), ("tanh", 32), ("sin", 32), ("gelu", 96))],
)
def test_ntk_statistics_at_a_width(name: str, width: int) -> None:
    net = network(name, width)
    theory = sw.predict(net, X, observables=[*NTK, "ntk_nlo"])
    ensemble = sw.measure(net, X, networks=4000, seed=7, observables=NTK, progress=False)
    result = sw.compare(theory, ensemble)
    assert result.passed, str(result)
    # The check has teeth: a quarter more of any of them would have been seen.
    for observable in NTK[1:]:
        wrong = theory.copy()
        wrong[observable] = wrong[observable] * 1.25
        assert not sw.compare(wrong, ensemble).passed, observable


# Compilation is most of the time, so each activation has one width; tanh has its own below, with all of them.
@pytest.mark.covers("C13", "C29")
@pytest.mark.parametrize(("name", "width"), [("relu", 48), *thorough(("sin", 96), ("gelu", 32))])
def test_differentials_of_the_ntk_at_a_width(name: str, width: int) -> None:
    net = network(name, width)
    names = DNTK if name == "relu" else [*DNTK, *DDNTK]
    x = X[:2]
    theory = sw.predict(net, x, observables=names)
    ensemble = sw.measure(net, x, networks=1000, seed=3, observables=names, progress=False)
    result = sw.compare(theory, ensemble)
    assert result.passed, str(result)
    for observable in names[1:]:
        wrong = theory.copy()
        wrong[observable] = wrong[observable] * 1.25
        assert not sw.compare(wrong, ensemble).passed, observable


@pytest.mark.covers("B13")
@pytest.mark.parametrize("more", [[], *thorough(DNTK)], ids=["ntk", "dntk"])
def test_leading_coefficients_over_widths(more: list[str]) -> None:
    net = network("tanh", 24)
    # Those of the ddNTK over widths are in tests/nets/test_deeper_layers.py, against numbers.
    names = [*NTK, *more, "ntk_nlo"]
    x = X[:2]
    theory = sw.predict(net, x, observables=names)
    ensemble = sw.measure(
        net, x, networks=600, seed=5, widths=[12, 36], observables=names, progress=False
    )
    result = sw.compare(theory, ensemble)
    assert set(names) <= set(ensemble.data_vars)
    assert result.passed, str(result)


@pytest.mark.covers("B11")
@pytest.mark.thorough("tests/agreement/test_theory_against_ensembles.py::test_unequal_widths")
def test_unequal_widths() -> None:
    """The factors n_l / n_{l-1} in every term that hands a tensor on."""
    names = [*NTK[1:], *DNTK, *DDNTK]
    net = network("tanh", (40, 80, 20))
    theory = sw.predict(net, X[:2], observables=names)
    ensemble = sw.measure(net, X[:2], networks=400, seed=11, observables=names, progress=False)
    result = sw.compare(theory, ensemble)
    assert result.passed, str(result)
    names = ["ntk_B", "dntk_P", "ddntk_S"]
    equal = sw.predict(net.at_width(40), X[:2], observables=names)
    wrong = theory.copy()
    for name in names:
        wrong[name] = equal[name]
        assert not sw.compare(wrong, ensemble, observables=name).passed, name
