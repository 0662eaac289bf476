"""Golden and property: how accurate the coefficients of 1/n are, and whether they say so."""

import numpy as np
import pytest

import scalewise as sw
from grids import thorough
from scalewise.activations import Activation
from scalewise.training.tiles._rules import Accuracy
from scalewise.training.tiles._sites import sites
from scalewise.training.tiles._tiles import Tile

FAMILIES = ((0, 0, 0, 0), (0, 0, 1, 1), (1, 1, 1, 1), (2, 0, 1, 1), (2, 2, 1, 1), (3, 1, 1, 1))


def product_rule(
    sigma: Activation, x: np.ndarray, orders: tuple[int, ...], nodes: int
) -> np.ndarray:
    """A trapezoid rule in the few dimensions of the inputs: all entries, exponentially accurate."""
    line = np.linspace(-8.0, 8.0, nodes)
    u = np.stack(np.meshgrid(*[line] * x.shape[1], indexing="ij")).reshape(x.shape[1], -1)
    w = np.exp(-(u**2).sum(axis=0) / 2)
    a, b, c, d = (sigma.derivative(x @ u, p) if p else sigma(x @ u) for p in orders)
    left = (a[:, None] * b * (w / w.sum())).reshape(len(x) ** 2, -1)
    return (left @ (c[:, None] * d).reshape(len(x) ** 2, -1).T).reshape((len(x),) * 4)


@pytest.mark.parametrize(
    ("name", "rank", "nodes"),
    [("tanh", 2, 80), *thorough(("erf", 1, 200), ("erf", 2, 120), ("gelu", 3, 50))],
)
def test_expectations_are_as_accurate_as_asked_in_few_dimensions(
    name: str, rank: int, nodes: int
) -> None:
    """Of inputs in a line or a plane two know all others, and one alone does not."""
    x = np.random.default_rng(rank).standard_normal((5, rank))
    x *= np.array([1.4, 1.0, 0.6, 1.2, 0.8])[:, None] / np.linalg.norm(x, axis=1)[:, None]
    x[4] = -0.7 * x[3]
    net = sw.MLP(2, 8, name, input_dim=rank, output_dim=1, C_W=float(rank))
    known = sw.predict(net, x, observables=["kernel", "ntk"])
    layers, every = sites(net, (known.kernel.values, known.ntk.values)), np.arange(5)
    worst = {}
    for accuracy in (1e-4, 1e-7):
        (site,) = layers(Accuracy(accuracy, accuracy, accuracy))
        tile = Tile((every,) * 4)
        for orders in FAMILIES:
            want = product_rule(net.activation, x, orders, nodes)
            found = tile.four(site, *enumerate(orders))
            worst[accuracy, orders] = np.abs(found - want).max() / np.abs(want).max() / accuracy
    assert max(worst.values()) < 5, worst
