"""Golden and property: graph convolutions by explicit matrices, in any order of nodes, and what is refused."""

import json

import numpy as np
import pytest
import scipy.sparse
import xarray

import scalewise as sw
from scalewise.gaussian import pair_moments

RNG = np.random.default_rng(4)
NODES = 7
LINKS = (RNG.random((NODES, NODES)) < 0.4) + np.eye(NODES)
LINKS = LINKS / LINKS.sum(axis=1, keepdims=True)


def gcn(links: object, **changes) -> sw.Network:
    convolution = (sw.Aggregate(links), sw.Dense(), "relu")
    layers = (*convolution, *convolution, sw.GlobalAvgPool(), sw.Dense(1))
    return sw.Network(*layers, **({"input_shape": (NODES, 3), "width": 8, "C_W": 2.0} | changes))


def test_a_graph_convolution_is_its_formula() -> None:
    """Kernels of Du et al. (2019), in PDLT's parametrisation."""
    x = RNG.normal(size=(2, NODES, 3))
    rows = x.reshape(-1, 3)
    A = np.kron(np.eye(2), LINKS)
    C, T = rows @ rows.T / 3, 0.0
    for _ in range(2):
        C, T = A @ C @ A.T, A @ (T * np.ones_like(C)) @ A.T
        C, T = 2 * C, C + 2 * T
        a = np.diagonal(C)
        M = pair_moments(sw.activation("relu"), a[:, None], a[None], C, ((0, 0), (1, 1)))
        C, T = M[0, 0].value, M[1, 1].value * T
    C, T = (M.reshape(2, NODES, 2, NODES).mean(axis=(1, 3)) for M in (C, T))
    found = sw.predict(gcn(LINKS, lambda_b=0), x)
    np.testing.assert_allclose(found.kernel.values[-1], 2 * C, rtol=1e-11)
    np.testing.assert_allclose(found.ntk.values[-1], C + 2 * T, rtol=1e-11)


def test_names_of_nodes_do_not_matter() -> None:
    x, order = RNG.normal(size=(2, NODES, 3)), RNG.permutation(NODES)
    one = sw.predict(gcn(LINKS), x)
    other = sw.predict(gcn(LINKS[np.ix_(order, order)]), x[:, order])
    for name in ("kernel", "ntk"):
        np.testing.assert_allclose(one[name].values, other[name].values, rtol=1e-11)


def test_a_matrix_is_a_value_however_it_is_given() -> None:
    net = gcn(LINKS)
    for other in (LINKS.tolist(), scipy.sparse.csr_array(LINKS), np.asfortranarray(LINKS)):
        assert gcn(other) == net
        assert hash(gcn(other)) == hash(net)
    assert gcn(LINKS.T) != net
    assert net.at_width(16).at_width(8) == net
    assert sw.Aggregate(-np.zeros((2, 2))) == sw.Aggregate(np.zeros((2, 2)))
    assert repr(sw.Aggregate(LINKS)) != repr(sw.Aggregate(LINKS.T))
    assert "aggregate, matrix" in str(net)


def test_what_is_not_a_matrix_of_positions_is_refused() -> None:
    with pytest.raises(ValueError, match=r"square matrix.*got shape \(2, 3\)"):
        sw.Aggregate(np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"adjacency\[0, 1\] is nan"):
        sw.Aggregate([[1.0, np.nan], [0.0, 1.0]])
    with pytest.raises(ValueError, match=r"100,000 positions.*at most 4,096"):
        sw.Aggregate(scipy.sparse.eye_array(100_000))
    with pytest.raises(TypeError, match="a square matrix of finite numbers"):
        sw.Aggregate("ring")


def test_a_saved_result_says_the_matrix(tmp_path) -> None:
    """Bit by bit, of every matrix, wherever its layer stands; of too many entries it says that there were some."""
    other = sw.Aggregate(LINKS.T / 3)
    layers = (
        sw.Aggregate(LINKS),
        sw.Dense(),
        "relu",
        sw.Skip(other, sw.Dense()),
        sw.Parallel((), [other, sw.Dense()]),
    )
    net = sw.Network(*layers, sw.GlobalAvgPool(), sw.Dense(1), input_shape=(NODES, 3), width=8)
    where = tmp_path / "found.zarr"
    sw.predict(net, RNG.normal(size=(2, NODES, 3))).to_zarr(where, consolidated=False)
    texts = xarray.open_zarr(where, consolidated=False).attrs["matrices"]
    assert [sw.Aggregate(text) for text in texts] == [sw.Aggregate(LINKS), other]
    assert all(json.loads(text)["entries"] in str(net.attributes()["layers"]) for text in texts)
    large = gcn(np.ones((101, 101)), input_shape=(101, 3)).attributes()["matrices"]
    assert isinstance(large, list)
    assert len(large[0]) < 80
    for text in (*large, "{}", "{graph}"):
        with pytest.raises(ValueError, match="keep the matrix beside it"):
            sw.Aggregate(text)


def test_a_result_says_what_stands_in_branches() -> None:
    """So that results of networks that differ there alone are not taken for one another."""
    one, other = (
        sw.Network(
            sw.Dense(), sw.Skip(sw.LayerNorm(eps), "relu", sw.Dense()), sw.Dense(1), input_shape=3, width=8
        )
        for eps in (0.1, 0.2)
    )  # fmt: skip
    assert "LayerNorm(eps=0.1), Activate(sigma='relu'), Dense()" in one.attributes()["layers"][1]
    x = RNG.normal(size=(2, 3))
    with pytest.raises(ValueError, match="different networks: `layers`"):
        sw.compare(sw.predict(one, x), sw.measure(other, x, networks=8, progress=False))
