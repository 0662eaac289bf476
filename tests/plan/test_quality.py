"""Golden and property tests: error of the fit, robustness and loss of infinite width, on losses that are known."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalewise.plan.proof import check_losses
from scalewise.plan.proof._drift import GridSize
from scalewise.plan.proof._quality import extrapolated

X = np.arange(-10.0, -2.0)
VALUES = [2.0**v for v in X]
WIDTHS = np.array([32.0, 64.0, 128.0, 256.0])
SIZES = [GridSize(f"width={n:g}", {"width": float(n)}) for n in WIDTHS]


def bowls(
    *,
    widths=WIDTHS,
    kappa=0.0,
    limit=2.0,
    excess=0.4,
    power=1.0,
    off=0.0,
    seeds=4,
    noise=0.0,
    seed=0,
):
    """Parabolas whose bends go as width^-kappa and whose lowest losses as limit + excess (32/width)^power."""
    rng = np.random.default_rng(seed)
    n = np.asarray(widths)[:, None]
    centres = -6.4 + off * np.resize([1.0, -1.0], len(n))[:, None]
    clean = limit + excess * (32 / n) ** power + 0.05 * (32 / n) ** kappa * (X - centres) ** 2
    levels = noise * rng.normal(size=seeds)
    return clean[..., None] + levels + noise * rng.normal(size=(*clean.shape, seeds))


def quality(losses, sizes=SIZES):
    (found,) = check_losses("lr", VALUES, sizes, losses).qualities
    return found


@pytest.mark.parametrize("kappa", [-0.5, 0.0, 0.7])
@pytest.mark.parametrize("power", [0.5, 1.0])
def test_exponents_and_the_limit_are_found_without_noise(kappa: float, power: float) -> None:
    found = quality(bowls(kappa=kappa, power=power))
    assert found.robustness.value == pytest.approx(kappa, abs=1e-6)
    assert found.limit.value == pytest.approx(2.0, abs=2e-3)
    assert found.limit.low - 2e-3 <= 2.0 <= found.limit.high + 2e-3
    assert found.fit_error == pytest.approx(0.0, abs=1e-6)
    assert found.unknown == ()


def test_the_error_of_the_fit_is_the_scatter_about_a_power_law() -> None:
    """Optima at one side and the other of a line, by 0.3 octaves."""
    found = quality(bowls(off=0.3))
    rest = np.array([0.3, -0.3, 0.3, -0.3])
    u = np.log2(WIDTHS) - np.log2(WIDTHS).mean()
    rest = rest - u * (u @ rest) / (u @ u)
    assert found.fit_error == pytest.approx(math.sqrt(rest @ rest / 2), rel=1e-6)
    assert found.seeds_error == pytest.approx(0.0, abs=1e-6)
    assert "fit a power law to 0.38 octaves (seeds alone: 0.00)" in str(
        check_losses("lr", VALUES, SIZES, bowls(off=0.3))
    )


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Sixty grids of two laws: robustness, and the limit of losses that approach it as 1/n and as 1/sqrt(n)."""
    for power in (0.5, 1.0):
        inside, limits, told = 0, 0, 0
        for seed in range(30):
            found = quality(bowls(kappa=0.5, power=power, noise=0.004, seed=seed))
            inside += found.robustness.low <= 0.5 <= found.robustness.high
            if found.limit is not None:
                told += 1
                limits += found.limit.low <= 2.0 <= found.limit.high
        assert inside >= 27
        assert told > 20
        assert limits / told > 0.85


def test_losses_that_do_not_bear_it_are_not_extrapolated() -> None:
    def why(losses, sizes=SIZES) -> str:
        found = quality(losses, sizes)
        assert found.limit is None
        return " ".join(found.unknown)

    assert "it takes three widths with an optimum, and there are 2" in why(
        bowls(widths=[32, 64]), SIZES[:2]
    )
    assert "a line through two always fits; take three widths" in why(
        bowls(widths=[32, 64]), SIZES[:2]
    )
    assert "one seed has no error; take seeds=3" in why(bowls(seeds=1))
    assert "is more than twice as wide as the losses of all sizes differ" in why(
        bowls(excess=0.003, noise=0.01)
    )
    bumpy = bowls(noise=1e-4)
    bumpy[1] += 0.3
    assert "no power between 0.25 and 2 fits the losses of all sizes within their noise" in why(
        bumpy
    )
    flat = bowls(seeds=2)
    flat[2], flat[2, 4] = 3.0, [2.5, 3.3]  # the minimum is one seed's alone
    assert "they do not bend upwards for sure" in " ".join(quality(flat).unknown)


def test_a_flattening_bowl_is_called_robust() -> None:
    text = {
        k: str(check_losses("lr", VALUES, SIZES, bowls(kappa=k, noise=1e-3)))
        for k in (0.5, -0.5, 0.0)
    }
    assert "over width the losses about the optimum flatten" in text[0.5].lower()
    assert "about the optimum sharpen" in text[-0.5]
    assert "neither flatten nor sharpen for sure" in text[0.0]
    assert "Loss at the optimum of infinite width: 2" in text[0.5]


@settings(max_examples=8)
@given(
    st.floats(0.01, 100), st.floats(-5, 5), st.permutations(range(4)), st.permutations([1, 2, 3])
)
def test_neither_units_nor_orders_matter(unit, level, seeds, sizes) -> None:
    """Nats or bits, and what a constant adds; the order of seeds, and that of sizes behind the first."""
    losses = bowls(kappa=0.5, noise=0.002)
    one = check_losses("lr", VALUES, SIZES, losses)
    order = [0, *sizes]
    two = check_losses(
        "lr", VALUES, [SIZES[i] for i in order], (unit * losses + level)[order][:, :, list(seeds)]
    )
    assert two.outcome == one.outcome
    a, b = one.qualities[0], two.qualities[0]
    assert b.fit_error == pytest.approx(a.fit_error, abs=1e-6)
    assert b.robustness.value == pytest.approx(a.robustness.value, rel=1e-4)
    assert b.robustness.high == pytest.approx(a.robustness.high, rel=1e-4)
    for end in ("value", "low", "high"):
        assert getattr(b.limit, end) == pytest.approx(
            unit * getattr(a.limit, end) + level, rel=1e-3, abs=1e-6
        )


def test_one_curve_of_three_widths_is_its_closed_form() -> None:
    """Three sizes in a row of doublings: the limit is Aitken's, (L1 L3 - L2^2) / (L1 + L3 - 2 L2)."""
    n, losses = np.array([32.0, 64.0, 128.0]), np.array([3.0, 2.6, 2.4])
    found, why = extrapolated(n, losses, np.repeat(losses[:, None], 3, axis=1), "width")
    assert why == ""
    a, b, c = losses
    assert found.value == pytest.approx((a * c - b * b) / (a + c - 2 * b), abs=0.01)


def test_a_run_that_diverged_is_no_number() -> None:
    """Its value has no mean, whatever others lost there; its share is told, and the optimum is fitted without."""
    losses = bowls()
    losses[:, X == -4.0, 1] = np.nan
    losses[:, X == -3.0] = np.inf
    found = check_losses("lr", VALUES, SIZES, losses)
    assert found.diverged[:, -2:].tolist() == [[0.25, 1.0]] * 4
    assert found.diverged[:, :-2].sum() == 0
    assert [o.place for o in found.optima] == pytest.approx([-6.4] * 4)
    assert found.table.diverged_share.sel(value=2.0**-4).values.tolist() == [0.25] * 4
    assert "5 of 32: 25% at 2^-4, 100% at 2^-3" in str(found)
    # A stand-in of any size would move this one: its neighbour diverges, and is left out of the parabola.
    losses = bowls()
    losses[:, X == -5.0, 1] = np.nan
    near = check_losses("lr", VALUES, SIZES, losses)
    assert [o.place for o in near.optima] == pytest.approx([-6.4] * 4)
    assert near.outcome == "too poor"
    assert "next to values at which runs diverged" in near.verdict


def test_carried_to_where_runs_diverge_is_told() -> None:
    losses = np.stack([bowls(widths=[32])[0], bowls(widths=[64])[0]])
    losses[1, X >= -7.0] = np.nan
    losses[1, X == -8.0] -= 3
    found = check_losses("lr", VALUES, SIZES[:2], losses)
    assert found.costs[1][0] == math.inf
    assert "diverges" in str(found)
    assert found.outcome == "drifts" or "diverge" in found.verdict
