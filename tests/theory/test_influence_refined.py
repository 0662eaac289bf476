"""Golden, agreement and property tests: the note's refined first moment, as far as it is true."""

import numpy as np
import pytest

import scalewise as sw
from scalewise.theory.note import first_moment, refined_moments, row_overlap

X = np.array([[1.0, 0.5], [-0.3, 0.8]])
C_b, C_W = 0.1, (1.2, 0.9, 1.1, 0.8)
WIDTH, COUNT = 64, 6000


def net(name: str = "softplus", **rest: object) -> sw.Network:
    return sw.MLP(4, WIDTH, name, input_dim=2, output_dim=1, C_b=C_b, C_W=C_W, **rest)


@pytest.fixture(scope="module")
def networks() -> dict[str, np.ndarray]:
    """Weights, slopes and backward rows of softplus networks, a few quantities of each."""
    rng = np.random.default_rng(0)
    out: dict[str, list] = {"T1": [], "T2": [], "diagonal": [], "S2": [], "D2": [], "D3": []}
    sizes = (2, WIDTH, WIDTH, WIDTH, 1)
    for _ in range(COUNT // 200):
        s = np.broadcast_to(X.T, (200, 2, 2))
        W, slope = [], [np.ones(1)]
        for i in range(4):
            W.append(rng.normal(size=(200, sizes[i + 1], sizes[i])) * np.sqrt(C_W[i] / sizes[i]))
            z = W[-1] @ s + rng.normal(size=(200, sizes[i + 1], 1)) * np.sqrt(C_b)
            s = np.logaddexp(0, z)
            slope.append(1 / (1 + np.exp(-z)))
        for k in (1, 2):
            rows = W[k][:, :, :, None] * slope[k + 1][:, :, None, :]  # (network, s, j, input)
            trace = np.einsum("csj,csj->c", rows[..., 0], rows[..., 1])
            total = rows.sum(axis=1)
            every = np.einsum("cj,cj->c", total[..., 0], total[..., 1])
            out[f"T{k}"].append((every - trace) / (WIDTH * (WIDTH - 1)))
            if k == 1:
                out["diagonal"].append(trace / WIDTH)
        back = np.repeat(W[3].transpose(0, 2, 1), 2, axis=2)  # dz^L/dh^3, (network, r, input)
        for k in (3, 2):
            if k < 3:
                back = np.einsum("crs,cri->csi", W[k], back * slope[k + 1])
            own = np.einsum("cr,cr->c", back[..., 0], back[..., 1])
            out[f"D{k}"].append(own)
            if k == 2:
                total = back.sum(axis=1)
                out["S2"].append(total[:, 0] * total[:, 1] - own)
    return {name: np.concatenate(parts) for name, parts in out.items()}


def within(values: np.ndarray, predicted: float, *, bias: float) -> None:
    error = values.std(ddof=1) / np.sqrt(len(values))
    assert abs(values.mean() - predicted) < 4 * error + bias * abs(predicted)


@pytest.mark.covers("D12.6")
@pytest.mark.parametrize("k", [1, 2])
def test_overlap_of_rows_against_networks(networks: dict[str, np.ndarray], k: int) -> None:
    within(networks[f"T{k}"], row_overlap(net(), X, k)[0, 1], bias=3 / WIDTH)


@pytest.mark.covers("D12.6")
def test_diagonal_and_both_moments_against_networks(networks: dict[str, np.ndarray]) -> None:
    moments = refined_moments(net(), X)
    within(networks["diagonal"], moments.transfer[0, 0, 1, 0, 0], bias=3 / WIDTH)
    within(networks["D3"], moments.D[2, 0, 1], bias=0.0)
    within(networks["D2"], moments.D[1, 0, 1], bias=4 / WIDTH)
    # One layer below the top S is driven by D alone, and right at leading order.
    within(networks["S2"], moments.S[1, 0, 1], bias=6 / WIDTH)
    assert np.all(moments.D[2] == C_W[3])
    assert np.all(moments.S[2] == 0)


def test_first_moment_differs_from_the_plain_one_by_one_over_n() -> None:
    excess = []
    for width in (100, 1000):
        wide = net().at_width(width)
        ratio = refined_moments(wide, X).M.values / first_moment(wide, X)[:3]
        assert np.all(np.abs(ratio[1:] - 1) < 1e-12)
        excess.append(width * (ratio[0] - 1))
    assert np.all(excess[0] > 1e-3)
    np.testing.assert_allclose(*excess, rtol=1e-6)


@pytest.mark.covers("D12.6")
def test_transfer_matrices_carry_the_moments() -> None:
    moments = refined_moments(net(), X)
    v = np.stack([moments.D.values, moments.S.values], axis=-1)
    assert moments.transfer.shape == (2, 2, 2, 2, 2)
    for k in (1, 2):
        np.testing.assert_allclose(
            v[k - 1], np.einsum("xyij,xyj->xyi", moments.transfer[k - 1], v[k]), rtol=1e-12
        )
    # Exchange of the two inputs.
    np.testing.assert_allclose(moments.S, moments.S.values.swapaxes(1, 2), rtol=1e-10)


def moment(K: np.ndarray, p: int | None, q: int | None) -> float:
    """E[softplus^(p)(z) softplus^(q)(z')] by a product rule; None leaves a leg out."""
    x, w = np.polynomial.hermite_e.hermegauss(40)
    u = np.stack(np.meshgrid(x, x, indexing="ij")).reshape(2, -1)
    z = np.linalg.cholesky(K) @ u
    product = np.outer(w, w).ravel() / w.sum() ** 2
    for order, leg in zip((p, q), z, strict=True):
        if order is not None:
            g = 1 / (1 + np.exp(-leg))
            slopes = (np.logaddexp(0, leg), g, g * (1 - g), g * (1 - g) * (1 - 2 * g))
            product = product * slopes[order]
    return float(product.sum())


@pytest.mark.parametrize("k", [1, 2])
def test_every_entry_of_the_transfer_matrix_by_quadrature(k: int) -> None:
    kernels = sw.predict(net(), X, observables="kernel").kernel.values  # K^(k) = Sigma^(k-1)
    below, above = kernels[k - 1], kernels[k]
    mu, mu_other = moment(below, 0, None), moment(below, None, 0)
    bend = moment(above, 2, None) * moment(above, None, 2)
    C = C_W[k]
    first = [C * moment(above, 1, 1), C**2 / WIDTH * moment(below, 0, 0) * bend]
    from_D = mu**2 * moment(above, 3, 1) + mu_other**2 * moment(above, 1, 3)
    from_D += 2 * mu * mu_other * moment(above, 2, 2)
    exact = [first, [C**2 * from_D, C**2 * mu * mu_other * bend]]
    np.testing.assert_allclose(refined_moments(net(), X).transfer[k - 1, 0, 1], exact, rtol=1e-9)


@pytest.mark.parametrize("name", ["tanh", "sin", "erf"])
def test_odd_activations_leave_nothing_off_the_diagonal(name: str) -> None:
    odd = net(name)
    moments = refined_moments(odd, X)
    np.testing.assert_allclose(moments.S, 0, atol=1e-12)
    np.testing.assert_allclose(row_overlap(odd, X, 1), 0, atol=1e-12)
    np.testing.assert_allclose(moments.M, first_moment(odd, X)[:3], rtol=1e-10)


@pytest.mark.covers("D12.6")
def test_a_mean_of_the_activation_is_not_what_counts() -> None:
    """sigma'' of mean zero: no overlap of rows however large the mean of sigma (the printed box differs)."""
    shifted = sw.activation(lambda z: z + 1.0)
    linear = sw.MLP(3, 10, shifted, input_dim=2, output_dim=1)
    np.testing.assert_allclose(row_overlap(linear, X, 1), 0, atol=1e-12)


@pytest.mark.parametrize(("k", "width"), [(1, 20), (2, 30)])
def test_an_overlap_goes_by_the_width_that_rows_run_over(k: int, width: int) -> None:
    unequal = sw.MLP(4, (20, 30, 50), "softplus", input_dim=2, output_dim=1, C_b=C_b, C_W=C_W)
    np.testing.assert_allclose(width * row_overlap(unequal, X, k), WIDTH * row_overlap(net(), X, k))


def test_two_layers() -> None:
    shallow = sw.MLP(2, 10, "softplus", input_dim=2, output_dim=1, C_W=1.3)
    moments = refined_moments(shallow, X)
    np.testing.assert_allclose(moments.M, first_moment(shallow, X)[:1], rtol=1e-12)
    assert moments.transfer.shape == (0, 2, 2, 2, 2)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="three derivatives of the activation; 'relu'"):
        refined_moments(net("relu"), X)
    with pytest.raises(ValueError, match="`k` must be a block from 1 to 2; got 3"):
        row_overlap(net(), X, 3)
    many = sw.MLP(3, 8, "tanh", input_dim=2, output_dim=2)
    with pytest.raises(ValueError, match="scalar output; the network has 2"):
        refined_moments(many, X)
