"""Agreement and property tests: powers of width and depth along the meta-principled family."""

import numpy as np
import pytest
import xarray as xr

import scalewise as sw
from scalewise.experiments import s_family
from scalewise.experiments.s_family import OBSERVABLES, Config
from scalewise.scaling import gamma
from scalewise.theory.single import single_input_flow

NUMBERS = 2_500_000  # of 24 million: what is left of noise is in the standard errors


@pytest.fixture(scope="module")
def measured() -> xr.Dataset:
    return s_family.run(Config(numbers=NUMBERS))


@pytest.mark.covers("C62")
@pytest.mark.parametrize("name", OBSERVABLES)
def test_powers_of_the_width(measured: xr.Dataset, name: str) -> None:
    """-1 for every s, or -(1 - s): Yaida (4.3), (4.6), (4.9)."""
    s = measured.s.values
    predicted = -np.ones_like(s) if name == "z_eta2_dntk" else s - 1
    np.testing.assert_array_equal(measured[f"{name}_width_exponent_predicted"], predicted)
    # Members are a quarter apart.
    np.testing.assert_allclose(measured[f"{name}_width_exponent"], predicted, rtol=0, atol=0.1)
    assert np.all(measured[f"{name}_width_exponent_sem"] < 0.035)


@pytest.mark.covers("C62")
@pytest.mark.parametrize("name", OBSERVABLES)
def test_power_of_the_depth(measured: xr.Dataset, name: str) -> None:
    np.testing.assert_allclose(measured[f"{name}_depth_exponent"], 1, rtol=0, atol=0.2)
    assert np.all(measured[f"{name}_depth_exponent_sem"] < 0.12)


@pytest.mark.covers("C62")
@pytest.mark.parametrize("name", OBSERVABLES)
def test_another_member_drawn_on_its_own(measured: xr.Dataset, name: str) -> None:
    other = measured.sel(s=measured.s_checked)
    spread = np.hypot(other[f"{name}_sem"], other[f"{name}_checked_sem"])
    assert np.all(np.abs(other[name] - other[f"{name}_checked"]) < 4 * spread)
    assert np.all(other[name] != other[f"{name}_checked"])


@pytest.mark.covers("C62")
@pytest.mark.parametrize("name", OBSERVABLES)
def test_means_are_those_of_the_recursions(measured: xr.Dataset, name: str) -> None:
    """Up to the next order in 1/n, which vanishes with one hidden layer."""
    ratio = (measured[name] / measured[f"{name}_predicted"]).sel(s=0)
    error = np.abs(measured[f"{name}_sem"] / measured[f"{name}_predicted"]).sel(s=0)
    beyond = (measured.depth - 2) / measured.width
    assert np.all(np.abs(ratio - 1) < 4 * error + 3.5 * beyond)


@pytest.mark.covers("C62")
@pytest.mark.parametrize("name", ["eta3_ddntk_I", "eta3_ddntk_II"])
def test_collapse_on_gamma(measured: xr.Dataset, name: str) -> None:
    """Cells of every s lie on one line through the origin, the finite-depth factor taken out."""
    flow = {int(L): single_input_flow(Config().network(int(L), 9), K1=1.0) for L in measured.depth}
    for s in measured.s.values:
        for L in measured.depth.values:
            for n in measured.width.values:
                cell = measured.sel(s=s, depth=L, width=n)
                top = {x: float(getattr(flow[int(L)], x)[-1, 0]) for x in ("K", "Theta", *"RSTU")}
                sums = 3 * top["R"] if name.endswith("_I") else top["S"] + top["T"] + top["U"]
                line = sums * top["K"] / top["Theta"] ** 3 / L * gamma(int(L), int(n), float(s))
                share = float(cell[name] / cell[f"{name}_unit"]) / line
                error = float(cell[f"{name}_sem"] / abs(cell[name]))
                assert abs(share - 1) < 4 * error + 3.5 * (L - 2) / n
                assert float(cell.gamma) == pytest.approx(gamma(int(L), int(n), float(s)))


@pytest.mark.parametrize(("activation", "kernel"), [("tanh", 1.0), ("sin", 0.4)])
def test_the_recursions_become_linear_in_the_depth(activation: str, kernel: float) -> None:
    """(11.65), (∞.38): the finite-depth factor that the fit takes out tends to a constant."""
    flow = single_input_flow(Config(activation=activation).network(20_001, 9), K1=kernel)
    K, Theta = flow.K[:, 0], flow.Theta[:, 0]
    rows = {
        "z_eta2_dntk": (flow.P + 2 * flow.Q)[:, 0] / Theta**2,
        "eta3_ddntk_I": 3 * flow.R[:, 0] * K / Theta**3,
        "eta3_ddntk_II": (flow.S + flow.T + flow.U)[:, 0] * K / Theta**3,
    }
    for ratio in rows.values():
        assert np.log2(ratio[20_000] / ratio[10_000]) == pytest.approx(1, abs=0.01)


def test_deep_linear_networks_have_the_power_of_the_depth_already_at_small_depth() -> None:
    """(∞.49)-(∞.50): SK and TK over Theta³ are (L² - 1)/L, a power 1.02 between 6 and 24."""
    net = sw.MLP(24, 9, "linear", input_dim=1, output_dim=1, lambda_b=0.0)
    flow = single_input_flow(net, K1=1.0)
    ratio = ((flow.S + flow.T) * flow.K / flow.Theta**3)[:, 0]
    L = np.array([6, 12, 24])
    np.testing.assert_allclose(ratio[L - 1], (L**2 - 1) / (6 * L), rtol=1e-12)
    slope = np.polyfit(np.log(L), np.log(ratio[L - 1]), 1)[0]
    assert slope == pytest.approx(1, abs=0.05)


def made_up(beta: float, alpha: float, c: float) -> xr.Dataset:
    """A grid that is a power law with a next order, and recursions linear in the depth."""
    n, L = np.array([20, 40, 80]), np.array([2, 3, 6])
    grid = n[None] ** beta * L[:, None] ** alpha * np.exp(c * (L[:, None] - 2) / n[None])
    data: dict = {}
    for k, name in enumerate(OBSERVABLES):
        y = -(k + 2.0) * grid[None]
        data[name] = (("s", "depth", "width"), y)
        data[f"{name}_sem"] = (("s", "depth", "width"), 0.01 * np.abs(y))
        data[f"{name}_predicted"] = (("s", "depth", "width"), (L[:, None] / n[None])[None])
        data[f"{name}_unit"] = (("depth", "width"), np.ones(grid.shape))
    return xr.Dataset(data, {"s": [0.25], "depth": L, "width": n})


@pytest.mark.parametrize(("beta", "alpha", "c"), [(-1.0, 1.0, 2.0), (-0.3, 1.4, 0.0)])
def test_fit_recovers_a_power_law(beta: float, alpha: float, c: float) -> None:
    fitted = s_family.exponents(made_up(beta, alpha, c))
    for name in OBSERVABLES:
        assert float(fitted[f"{name}_width_exponent"][0]) == pytest.approx(beta, abs=1e-9)
        assert float(fitted[f"{name}_depth_exponent"][0]) == pytest.approx(alpha, abs=1e-9)


def test_standard_errors_of_a_fit_are_its_spread() -> None:
    base, rng = made_up(-1.0, 1.0, 2.0), np.random.default_rng(0)
    found = []
    for _ in range(300):
        noisy = base.copy(deep=True)
        for name in OBSERVABLES:
            noisy[name] = base[name] * (1 + 0.01 * rng.normal(size=base[name].shape))
        found.append(s_family.exponents(noisy))
    for what in ("width_exponent", "depth_exponent"):
        values = [float(f[f"eta3_ddntk_I_{what}"][0]) for f in found]
        claimed = float(found[0][f"eta3_ddntk_I_{what}_sem"][0])
        assert np.std(values, ddof=1) == pytest.approx(claimed, rel=0.2)


def test_figure_shows_every_observable(measured: xr.Dataset) -> None:
    canvas = s_family.figure(measured)
    assert len(canvas.axes) == 3 * len(OBSERVABLES)
    for axis in canvas.axes:
        assert axis.get_xscale() == axis.get_yscale() == "log"
        data = [y for line in axis.lines for y in np.asarray(line.get_xydata(), float).ravel()]
        assert np.all(np.isfinite(data))
        assert len(data) >= 4
    canvas.draw_without_rendering()


def test_numbers_of_the_gallery_agree(measured: xr.Dataset) -> None:
    numbers = s_family.numbers(measured)
    assert len(numbers) == len(OBSERVABLES) * (measured.s.size + 1)
    assert [number for number in numbers if not number.agrees] == []
    assert s_family.Config.small() == Config()


def test_a_dataset_says_how_it_was_made(measured: xr.Dataset) -> None:
    assert measured.attrs["activation"] == "tanh"
    assert measured.attrs["seed"] == 0
    assert measured.attrs["widths"] == list(Config().widths)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="beyond the NTK are not defined for 'relu'"):
        s_family.run(Config(activation="relu", numbers=100))
    with pytest.raises(ValueError, match="two widths and two depths, at least four cells"):
        s_family.run(Config(widths=(4,)))
