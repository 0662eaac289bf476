"""Golden tests: verdict, table and blame on sizes whose powers are known because they were made up."""

from fractions import Fraction

import numpy as np
import pytest

from described_models import language_model, planned
from grids import each
from made_up_sizes import MUP, NTK, WIDTHS, Q, measurement, powers
from scalewise import scaling
from scalewise.plan import Plan, PlanError, predicted
from scalewise.plan._checking import check
from scalewise.plan._diagnosis import Cause
from scalewise.plan._fits import Status
from scalewise.plan._measurement import Measurement
from scalewise.scaling import Regime


@pytest.fixture
def mup() -> Plan:
    return planned(scaling.mup(), "sgd")


def test_as_planned(mup: Plan) -> None:
    c = check(mup, measurement(powers(MUP)))
    assert str(c.verdict) == "feature learning, stable"
    assert c.ok
    assert not c.culprits
    c.assert_ok()
    assert "Every power is as planned." in str(c)
    t = c.table
    assert bool(t["agrees"].all())
    fitted = (t["status"] == "fitted").values
    assert fitted.sum() == 6 * 5 + 3 * 2 + 2
    assert np.isfinite(t["slope"].values[fitted]).all()
    bound = np.isneginf(t["predicted_least"].values)
    off = np.abs(t["slope"] - t["predicted"]).values
    assert (off[fitted & ~bound] < 0.03).all()
    assert bound.sum() == 2  # one of them: a bias of the readout may start smaller
    rates = t["slope"].sel(quantity="rate").values
    assert rates == pytest.approx([r for *_, r in MUP.values()], abs=0.03)
    hidden = t["size"].sel(tensor="net.2.weight", quantity="weight")
    assert hidden.shape == (4, 4)
    assert list(t["role"].values[[0, 2, 4]]) == ["input", "hidden", "output"]


@each("strategy", [scaling.mup(), scaling.ntk(), scaling.standard()])
def test_the_verdict_does_not_know_the_plan(strategy: scaling.Strategy) -> None:
    plan = planned(strategy, "sgd")
    assert str(check(plan, measurement(powers(NTK))).verdict) == "kernel regime, stable"
    assert str(check(plan, measurement(powers(MUP))).verdict) == "feature learning, stable"
    slow = {("net.4.weight", q): WIDTHS[:, None] ** -0.5 for q in (Q.CHANGE, Q.OWN_CHANGE)}
    c = check(plan, measurement(powers(NTK), changed=slow))
    assert (str(c.verdict), c.verdict.nontrivial) == ("trivial, stable", False)
    assert c.verdict.reasons[1] == "The logits move by n^(-0.50 ± 0.00)."


@each(
    "row",
    [
        ("net.2.weight", Q.OUTPUT),
        ("net.2.weight", Q.CHANGE),
        ("net.2.weight", Q.OWN_CHANGE),
        ("net.4.weight", Q.OUTPUT),
        ("net.4.weight", Q.CHANGE),
        ("net.4.weight", Q.FEATURES),
        ("net.4.weight", Q.FEATURES_CHANGE),
    ],
)
def test_whatever_grows_is_unstable(mup: Plan, row: tuple[str, Q]) -> None:
    power = 0.75 if row == ("net.4.weight", Q.OUTPUT) else 0.25
    c = check(mup, measurement(powers(MUP), changed={row: WIDTHS[:, None] ** power}))
    assert (c.verdict.regime, c.verdict.stable) == (Regime.UNSTABLE, False)
    assert "grows by n^(+0.25 ± 0.0" in c.verdict.reasons[0]
    with pytest.raises(AssertionError, match="The network is unstable"):
        c.assert_ok()


def test_regime_beside_the_family() -> None:
    s = 0.75
    tilted = {
        (n, q): p
        - (1 - s) / 2 * (q in (Q.CHANGE, Q.OWN_CHANGE, Q.FEATURES_CHANGE) and "4" not in n)
        for (n, q), p in powers(MUP).items()
    }
    tilted["net.4.weight", Q.FEATURES_CHANGE] = -(1 - s) / 2
    c = check(planned(scaling.meta(s), "sgd"), measurement(tilted))
    assert str(c.verdict) == "kernel regime, stable"
    assert c.verdict.reasons[-1].endswith("as in the family at s = 0.75.")
    # Half way between that and maximal updates nothing can be told.
    close = tilted | {("net.4.weight", Q.FEATURES_CHANGE): -0.0625}
    assert (
        "too close to call" in check(planned(scaling.mup()), measurement(close)).verdict.reasons[-1]
    )


def test_logits_of_narrow_networks_show_a_random_share(mup: Plan) -> None:
    # What moves at random falls by the root of the width and is still there: the sum seems to fall.
    fading = {("net.4.weight", Q.CHANGE): WIDTHS[:, None] ** -0.18}
    c = check(mup, measurement(powers(MUP), changed=fading))
    assert c.ok
    assert str(c.verdict) == "feature learning, stable"
    assert "through the readout's own update" in " ".join(c.verdict.reasons)
    # If the readout's own update falls as well, nothing is left that moves them.
    both = fading | {("net.4.weight", Q.OWN_CHANGE): WIDTHS[:, None] ** -0.3}
    assert check(mup, measurement(powers(MUP), changed=both)).verdict.regime is Regime.TRIVIAL


def test_features_that_a_model_scales_down_move_all_the_same(mup: Plan) -> None:
    small = {("net.4.weight", q): WIDTHS[:, None] ** -0.5 for q in (Q.FEATURES, Q.FEATURES_CHANGE)}
    assert check(mup, measurement(powers(MUP), changed=small)).verdict.regime is Regime.FEATURES


@each("power", [0.5, -0.5, 0.25])
def test_a_wrong_initialisation_is_the_cause_of_the_rest(mup: Plan, power: float) -> None:
    wrong = WIDTHS[:, None] ** power
    changed = {
        ("net.2.weight", Q.WEIGHT): wrong,
        ("net.2.weight", Q.OUTPUT): wrong,
        ("net.4.weight", Q.FEATURES): wrong,
        ("net.0.weight", Q.GRADIENT): wrong,
        ("net.0.weight", Q.STEP): wrong,
        ("net.0.weight", Q.UPDATE): wrong,
        ("net.0.weight", Q.OWN_CHANGE): wrong,
    }
    c = check(mup, measurement(powers(MUP), changed=changed))
    (culprit,) = c.culprits
    assert (culprit.tensor, culprit.cause) == ("net.2.weight", Cause.INITIALISATION)
    assert culprit.power == pytest.approx(power, abs=0.02)
    assert {(r.tensor, r.quantity) for r in c.consequences} == {
        (n, q) for n, q in changed if q not in (Q.WEIGHT, Q.STEP)
    }
    size = "large" if power > 0 else "small"
    slope = f"n^({power - 0.5:+.2f} ± 0.00)"
    said = (
        f"`net.2.weight` is initialised too {size}, by n^({culprit.power:+.2f}): the size of its entries goes "
        f"as {slope}, planned is n^(-1/2)."
    )
    with pytest.raises(AssertionError) as error:
        c.assert_ok()
    assert said in str(error.value)
    assert "What may follow from that: `net.0.weight` (gradient)" in str(error.value)
    assert str(culprit) in str(c)


@each("optimizer", ["sgd", "adam"])
@each("name", list(MUP))
def test_a_wrong_learning_rate_is_told_from_a_wrong_gradient(optimizer: str, name: str) -> None:
    plan = planned(scaling.mup(), optimizer)
    found = powers(MUP)
    wrong = WIDTHS[:, None] ** 0.5
    own = {(name, q): wrong for q in (Q.STEP, Q.UPDATE, Q.OWN_CHANGE)}
    # Under gradient descent a gradient that is off takes the step with it; under Adam it does not.
    other = "net.2.bias" if name == "net.0.bias" else "net.0.bias"
    gradient = {(other, Q.GRADIENT): wrong}
    if optimizer == "sgd":
        gradient |= {(other, q): wrong for q in (Q.STEP, Q.UPDATE, Q.OWN_CHANGE)}
    c = check(plan, measurement(found, changed=own | gradient))
    (culprit,) = c.culprits
    assert (culprit.tensor, culprit.cause) == (name, Cause.LEARNING_RATE)
    assert culprit.power == pytest.approx(0.5, abs=0.02)
    of_what = (
        "its step over its gradient" if optimizer == "sgd" else "(or an eps above its gradients)"
    )
    assert of_what in culprit.text
    assert (other, Q.GRADIENT) in {(r.tensor, r.quantity) for r in c.consequences}


def test_two_errors_are_both_named(mup: Plan) -> None:
    changed = {
        ("net.2.weight", Q.WEIGHT): WIDTHS[:, None] ** 0.5,
        ("net.4.weight", Q.STEP): WIDTHS[:, None] ** 1.0,
    }
    c = check(mup, measurement(powers(MUP), changed=changed))
    assert [(k.tensor, k.cause, round(k.power, 1)) for k in c.culprits] == [
        ("net.2.weight", Cause.INITIALISATION, 0.5),
        ("net.4.weight", Cause.LEARNING_RATE, 1.0),
    ]


def test_a_factor_in_the_forward_pass(mup: Plan) -> None:
    wrong = WIDTHS[:, None] ** -0.5
    changed = {(n, Q.OUTPUT): wrong for n in ("net.2.weight", "net.4.weight")}
    (culprit,) = check(mup, measurement(powers(MUP), changed=changed)).culprits
    assert (culprit.cause, culprit.tensor) == (Cause.FORWARD, "net.2.weight")
    assert "what `net.2` returns at initialisation is off by n^(-0.5" in culprit.text
    backward = {(n, Q.GRADIENT): wrong for n in ("net.0.weight", "net.2.weight")}
    backward |= {(n, Q.STEP): wrong for n in ("net.0.weight", "net.2.weight")}
    (culprit,) = check(mup, measurement(powers(MUP), changed=backward)).culprits
    assert (culprit.cause, culprit.tensor) == (Cause.FORWARD, "net.2.weight")
    assert "the gradient of `net.2.weight` is off by n^(-0.5" in culprit.text
    tied = planned(scaling.mup(), model=language_model, multiplied=["head", "attention"])
    assert "multipliers" in _tied_text(tied)


def _tied_text(plan: Plan) -> str:
    m = measurement({("net.0.weight", Q.OUTPUT): 0.5, ("net.2.weight", Q.WEIGHT): 0.0})
    names = ("embed.weight", "blocks.0.norm.weight")
    sizes = {q: s[[0, 2]] for q, s in m.sizes.items()}
    settings = {"steps": 1, "zero_readout": False, "lr": None, "precision": 1e-7}
    small = Measurement(
        WIDTHS, names, ("embed", "blocks.0.norm"), (), sizes, nonlinearity=np.zeros(4), **settings
    )
    return check(plan, small).culprits[0].text


def test_small_widths_are_named_as_such(mup: Plan) -> None:
    changed = {("net.0.weight", Q.CHANGE): WIDTHS[:, None] ** -0.1}
    # No wrong rule is off by so little.
    assert check(mup, measurement(powers(MUP), changed=changed)).ok
    c = check(mup, measurement(powers(MUP), changed=changed), tolerance=0.03)
    (culprit,) = c.culprits
    assert (culprit.cause, culprit.tensor, culprit.row.quantity) == (
        Cause.WIDTHS, "net.0.weight", Q.CHANGE,
    )  # fmt: skip
    assert "the widths are too small for this batch" in culprit.text
    dying = {("net.2.bias", Q.OWN_CHANGE): 1 + 60 / WIDTHS[:, None]}
    c = check(mup, measurement(powers(MUP), noise=0.002, changed=dying))
    assert c.row("net.2.bias", "own_change").fit.slope < -0.2
    assert c.ok
    assert "right at the largest: `net.2.bias` (own change)" in str(c)
    # Spreads and learning rates have no such excuse.
    dying = {("net.2.weight", Q.WEIGHT): 1 + 40 / WIDTHS[:, None]}
    c = check(mup, measurement(powers(MUP), noise=0.002, changed=dying))
    assert [k.cause for k in c.culprits] == [Cause.INITIALISATION]


def test_what_is_not_finite(mup: Plan) -> None:
    blown = np.ones((4, 4))
    blown[3, 2] = np.inf
    rows = [(n, Q.CHANGE) for n in ("net.0.weight", "net.2.weight", "net.4.weight")]
    changed = dict.fromkeys([*rows, ("net.4.weight", Q.FEATURES_CHANGE)], blown)
    c = check(mup, measurement(powers(MUP), changed=changed))
    assert str(c.verdict) == "unstable"
    assert "is not finite" in c.verdict.reasons[0]
    assert c.culprits[0].cause is Cause.DIVERGED
    assert "Take a smaller learning rate" in c.culprits[0].text
    assert c.row("net.2.weight", Q.CHANGE).fit.status is Status.DIVERGED
    seen = c.table["slope"].where(c.table["status"] != "absent")
    assert np.isposinf(seen.sel(tensor="net.2.weight", quantity="change"))
    assert int(np.isnan(seen).sum()) == int((c.table["status"] == "absent").sum())
    assert "diverged !" in str(c)
    c.plot()


def test_what_does_not_move(mup: Plan) -> None:
    still = {("net.0.bias", q): 0.0 for q in (Q.GRADIENT, Q.STEP, Q.UPDATE, Q.OWN_CHANGE)}
    c = check(mup, measurement(powers(MUP), changed=still))
    assert c.ok
    assert "Rounding apart, `net.0.bias` did not move" in str(c)
    assert c.row("net.0.bias", "rate").fit.status is Status.ZERO
    # What rounding leaves of a gradient is none, whatever Adam makes of it.
    noise = {("net.0.bias", Q.GRADIENT): 1e-6, ("net.0.bias", Q.STEP): WIDTHS[:, None] ** 0.7}
    adam = planned(scaling.mup(), "adam")
    found = powers({n: (w, g, r) for n, (w, g, r) in MUP.items()})
    adam_found = {
        (n, q): p - (MUP[n][1] if q in (Q.STEP, Q.UPDATE, Q.OWN_CHANGE) else 0)
        for (n, q), p in found.items()
    }
    for name in ("net.0.weight", "net.0.bias", "net.2.bias", "net.2.weight"):
        for q in (Q.STEP, Q.UPDATE, Q.OWN_CHANGE):
            adam_found[name, q] -= 1.0
    c = check(adam, measurement(adam_found, changed=noise))
    assert c.ok, str(c)


def test_sizes_at_the_output_are_upper_bounds(mup: Plan) -> None:
    for power in (-0.5, -0.2, 0.0):
        found = powers(MUP) | {("net.4.weight", Q.OUTPUT): power}
        assert check(mup, measurement(found)).ok
    found = powers(MUP) | {("net.4.weight", Q.OUTPUT): 0.25}
    assert not check(mup, measurement(found)).ok


def test_a_sum_of_powers_lies_between_them() -> None:
    plan = planned(scaling.standard(), "sgd")
    found = powers(NTK) | {(n, Q.STEP): -0.5 for n in MUP} | {(n, Q.UPDATE): -0.5 for n in MUP}
    found |= {("net.4.weight", Q.STEP): 0.0, ("net.4.bias", Q.STEP): 0.0}
    found |= {("net.4.weight", Q.OWN_CHANGE): 1.0, ("net.4.weight", Q.CHANGE): 0.8}
    found |= {("net.2.weight", Q.OWN_CHANGE): 0.5, ("net.2.weight", Q.CHANGE): 0.3}
    found |= {("net.4.weight", Q.FEATURES_CHANGE): 0.3}
    found |= {("net.4.weight", Q.UPDATE): 0.0, ("net.4.bias", Q.UPDATE): 0.0}
    c = check(plan, measurement(found))
    assert all(r.agrees for r in c.rows), str(c)
    assert not c.ok
    with pytest.raises(AssertionError, match="as standard is known to be"):
        c.assert_ok()


def test_powers_of_a_readout_that_starts_at_zero() -> None:
    # It moves first, by 1/n; hidden layers follow by another 1/n, and the logits by that. Each part is less
    # by the root of the width where it is not aligned.
    p = predicted(planned(scaling.ntk(), "sgd"), "net.4.weight", zero_readout=True)
    assert p.parts == (Fraction(-3, 2), -1, Fraction(-1, 2), 0)
    hidden = predicted(planned(scaling.ntk(), "sgd"), "net.2.weight", zero_readout=True)
    assert (hidden.gradient, hidden.update, hidden.own_change) == (-1, -2, -1)


def test_notes(mup: Plan) -> None:
    curved = {
        ("net.2.bias", Q.OWN_CHANGE): WIDTHS[:, None] ** (0.4 * np.log2(WIDTHS / 181)[:, None])
    }
    c = check(
        mup,
        measurement(
            powers(MUP),
            changed=curved,
            precision=8e-3,
            nonlinearity=np.array([0.1, 0.3, 0.2, np.nan]),
        ),
    )
    assert "the own change of `net.2.bias`, whose power changes by +0.80 at each doubling" in str(c)
    assert "30% of it is not" in str(c)
    assert "low precision" in str(c)


def test_a_constant_tensor_keeps_its_mean(mup: Plan) -> None:
    constant = frozenset({"net.2.weight"})
    c = check(mup, measurement(powers(MUP), constant=constant))
    assert [round(k.power, 1) for k in c.culprits] == [-0.5]


def test_long_tables_show_one_line_for_layers_of_a_kind() -> None:
    plan = planned(scaling.mup(), "sgd")
    m = measurement(powers(MUP))
    from scalewise.plan._check import _merged

    lines = [(f"h.{i}.w", "hidden", "1 !" if i == 7 else "0") for i in range(12)]
    assert _merged(lines) == [("h.*.w (12)", "hidden", "1 !")]
    assert "net.2.weight" in str(check(plan, m))


def test_the_picture_shows_points_and_planned_lines(mup: Plan) -> None:
    wrong = {("net.2.weight", Q.OUTPUT): WIDTHS[:, None] ** 0.5}
    c = check(mup, measurement(powers(MUP), changed=wrong))
    figure = c.plot()
    axes = [a for a in figure.axes if a.get_visible()]
    assert [a.get_title(loc="left") for a in axes] == [
        "net.0 · input",
        "net.2 · hidden",
        "net.4 · output",
    ]
    texts = [t.get_text() for t in axes[1].texts]
    assert texts == ["+0.50, planned 0"]
    lines = [
        line for line in axes[2].lines if len(line.get_xdata()) == 4 and line.get_marker() == "None"
    ]
    slopes = sorted(
        float(np.polyfit(np.log(line.get_xdata()), np.log(line.get_ydata()), 1)[0])
        for line in lines
    )
    assert slopes == pytest.approx([0, 0, 0], abs=1e-9)
    assert "forward pass of net.2.weight off by n^(+0.50)" in figure.get_suptitle()


def test_bad_arguments(mup: Plan) -> None:
    m = measurement(powers(MUP))
    for tolerance in (0.0, 0.3, float("nan")):
        with pytest.raises(PlanError, match="`tolerance` must be a power of the width, above 0"):
            check(mup, m, tolerance=tolerance)
    with pytest.raises(PlanError, match=r"no quantity 'size' of `net\.0\.weight`"):
        check(mup, m).row("net.0.weight", "size")
