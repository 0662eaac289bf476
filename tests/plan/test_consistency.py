"""Property: whatever is measured, a check that passes and its verdict say the same, and one that fails says why."""

from dataclasses import replace

import numpy as np
import pytest

from described_models import mlp, planned
from grids import each
from made_up_sizes import MUP, NTK, WIDTHS, Q, measurement, powers
from scalewise import scaling
from scalewise.plan import Kind, ModelDescription, TensorDescription
from scalewise.plan._check import Check
from scalewise.plan._checking import check
from scalewise.plan._diagnosis import Cause, expected_regimes
from scalewise.plan._measurement import Measurement
from scalewise.scaling import Regime

STRATEGIES = [
    scaling.mup(), scaling.ntk(), scaling.mean_field(), scaling.standard(), scaling.meta("3/4"),
    scaling.meta("7/8"), scaling.meta("15/16"), scaling.pqr((0, 0, 1), (1, 1, 1), 0),
]  # fmt: skip


def at_random(rng: np.random.Generator, *, changes: int) -> Measurement:
    """Powers of some strategy, some of them tilted, bent, noisy, zero, missing or not finite."""
    found = powers(MUP if rng.random() < 0.6 else NTK)
    chosen = rng.choice(len(found), size=rng.integers(0, changes + 1), replace=False)
    keys = [list(found)[i] for i in chosen]
    if changes and rng.random() < 0.5:
        # Where it matters to the verdict.
        features = [Q.CHANGE, Q.OWN_CHANGE, Q.FEATURES_CHANGE]
        keys += [("net.4.weight", q) for q in features if rng.random() < 0.7]
    changed: dict[tuple[str, Q], object] = {}
    x = np.log2(WIDTHS / 181)[:, None]
    for key in keys:
        power = rng.choice([0.03, 0.07, 0.15, 0.3, 0.5, 1.0]) * rng.choice([-1, 1])
        law = 2.0 ** (power * x + rng.choice([0, 0.1, -0.1]) * x**2)
        odd = rng.random()
        changed[key] = 0.0 if odd < 0.04 else np.nan if odd < 0.08 else np.inf if odd < 0.1 else law
    return measurement(found, noise=rng.choice([0.003, 0.05, 0.3]), changed=changed)


def contradictions(c: Check, tolerance: float) -> list[str]:
    """What of a check does not go with the rest of it."""
    planned_ones = expected_regimes(c.plan, tolerance)
    text, named = str(c), str(c.verdict)
    told = "Every power is as planned." in text
    raised = False
    try:
        c.assert_ok()
    except AssertionError as error:
        raised = True
        if not str(error).strip():
            return ["an empty failure"]
    off = [r for r in c.rows if not r.agrees]
    blamed_for_nothing = [
        k for k in c.culprits if k.row.agrees and k.cause not in (Cause.REGIME, Cause.UNSEEN)
    ]
    rules = {
        "ok and unstable": c.ok and not c.verdict.stable,
        "ok and another regime than planned": c.ok
        and c.verdict.regime not in planned_ones
        and named != "stable, regime not told apart",
        "ok and unseen": c.ok and (c.verdict.regime is None or bool(c.measured.unseen)),
        "ok and a power that is off": c.ok and bool(off),
        "ok and a culprit": c.ok and bool(c.culprits),
        "off and no culprit": bool(off) and not c.culprits,
        "not ok and no reason": not c.ok
        and not c.culprits
        and (c.verdict.stable or Regime.UNSTABLE not in planned_ones),
        "blamed for what agrees": bool(blamed_for_nothing),
        "words and value": told != c.ok or raised == c.ok,
        "a regime that the string denies": str(c.verdict.regime) in named and "not told" in named,
        "nontrivial and trivial": c.verdict.nontrivial
        == (c.verdict.regime in (Regime.TRIVIAL, None))
        and c.verdict.stable,
    }
    return [name for name, broken in rules.items() if broken]


def test_a_check_never_contradicts_itself() -> None:
    plans = [planned(s, o) for s in STRATEGIES for o in ("sgd", "adam")]
    rng = np.random.default_rng(11)
    wrong: list[tuple[int, list[str]]] = []
    seen: set[tuple[bool, str]] = set()
    for i in range(64):
        tolerance = float(rng.choice([0.01, 0.0625, 0.25]))
        c = check(plans[i % len(plans)], at_random(rng, changes=8 * (i >= 16)), tolerance=tolerance)
        if found := contradictions(c, tolerance):
            wrong.append((i, found))
        seen.add((c.ok, str(c.verdict)))
    assert wrong == []
    # The draws reach every kind of verdict, failing and, where that can be, passing.
    failing = {named for ok, named in seen if not ok}
    assert failing >= {
        "unstable",
        *(f"{r}, stable" for r in ("trivial", "kernel regime", "feature learning")),
    }
    assert {"kernel regime, stable", "feature learning, stable"} <= {n for ok, n in seen if ok}


def test_a_trivial_network_is_no_success() -> None:
    # With multipliers of attention no size has a lower bound but those of the readout.
    plan = planned(scaling.mup(), "adam")
    fading = {("net.4.weight", q): WIDTHS[:, None] ** -0.3 for q in (Q.CHANGE, Q.OWN_CHANGE)}
    adam = {
        (n, q): p
        - (MUP[n][1] if q in (Q.STEP, Q.UPDATE, Q.OWN_CHANGE) else 0)
        - (n in HIDDEN and q in STEPS)
        for (n, q), p in powers(MUP).items()
    }
    c = check(plan, measurement(adam, changed=fading))
    assert str(c.verdict) == "trivial, stable"
    assert not c.ok
    (culprit,) = c.culprits
    assert culprit.cause is Cause.REGIME
    with pytest.raises(
        AssertionError, match=r"the network as a whole is trivial and the plan is for learning"
    ):
        c.assert_ok()


HIDDEN = ("net.0.weight", "net.0.bias", "net.2.bias", "net.2.weight")
STEPS = (Q.STEP, Q.UPDATE, Q.OWN_CHANGE)


def with_a_bottleneck(n: int, depth: int) -> ModelDescription:
    side = TensorDescription("side.weight", (3, n), Kind.MATRIX, (1,), (0,), "side", "Linear")
    return replace(mlp(n, depth), tensors=(*mlp(n, depth).tensors, side))


def test_a_bottleneck_leaves_the_regime_open() -> None:
    slow = {
        (n, q): p - 0.3 * (q in (Q.CHANGE, Q.OWN_CHANGE, Q.FEATURES_CHANGE) and "4" not in n)
        for (n, q), p in powers(MUP).items()
    }
    slow["net.4.weight", Q.FEATURES_CHANGE] = -0.3
    roles = {"side.weight": "bottleneck", "net.4.weight": "output"}
    c = check(
        planned(scaling.mup(), "sgd", model=with_a_bottleneck, roles=roles), measurement(slow)
    )
    assert c.ok
    assert str(c.verdict) == "stable, regime not told apart"
    assert "through a bottleneck moves late" in c.verdict.reasons[-1]
    plain = check(planned(scaling.mup(), "sgd"), measurement(slow))
    assert str(plain.verdict) == "kernel regime, stable"
    assert not plain.ok


READ = [Q.CHANGE, Q.FEATURES_CHANGE]


@each("quantity", READ)
def test_what_was_not_seen_is_not_ok(quantity: Q) -> None:
    c = check(planned(scaling.mup(), "sgd"), unseen(quantity))
    assert not c.ok
    assert (c.verdict.regime, c.verdict.stable) == (None, True)
    assert str(c.verdict) == "stable as far as seen, regime not seen"
    (culprit,) = c.culprits
    assert (culprit.tensor, culprit.cause) == ("net.4.weight", Cause.UNSEEN)
    with pytest.raises(
        AssertionError, match=r"What the readout `net\.4\.weight` reads and returns"
    ):
        c.assert_ok()
    # Another deviation is named beside it.
    wrong = {("net.2.weight", Q.WEIGHT): WIDTHS[:, None] ** 0.5}
    both = check(planned(scaling.mup(), "sgd"), unseen(quantity, wrong))
    assert [k.cause for k in both.culprits] == [Cause.INITIALISATION, Cause.UNSEEN]


def unseen(quantity: Q, changed: dict | None = None) -> Measurement:
    return measurement(powers(MUP), changed={("net.4.weight", quantity): np.nan} | (changed or {}))


def test_a_readout_without_a_part_in_the_loss_need_not_be_seen() -> None:
    idle = {("net.2.weight", q): 0.0 for q in (Q.GRADIENT, Q.STEP, Q.UPDATE, Q.OWN_CHANGE)}
    absent = {("net.2.weight", q): np.nan for q in READ}
    both = ("net.4.weight", "net.2.weight")
    for changed, ok in ((idle | absent, True), (absent, False)):
        m = replace(measurement(powers(MUP), changed=changed), readouts=both)
        c = check(planned(scaling.mup(), "sgd"), m)
        assert any(k.cause is Cause.UNSEEN for k in c.culprits) is not ok
        # The regime is that of the readout that was seen.
        assert c.verdict.regime is Regime.FEATURES
        slow = replace(measurement(powers(NTK), changed=changed), readouts=both)
        assert check(planned(scaling.ntk(), "sgd"), slow).verdict.regime is Regime.KERNEL


def test_outputs_that_fade_behind_their_readout_are_trivial() -> None:
    plan = planned(scaling.mup(), "sgd")
    moved = np.ones((len(WIDTHS), 4))
    for power, regime in ((0.0, Regime.FEATURES), (0.5, Regime.FEATURES), (-0.5, Regime.TRIVIAL)):
        found = powers(MUP) | {("net.4.weight", Q.GROWN_CHANGE): 0.0}
        m = measurement(found, returned=moved * WIDTHS[:, None] ** power)
        c = check(plan, m)
        assert (c.verdict.regime, c.ok) == (regime, regime is Regime.FEATURES)
    assert c.culprits[0].cause is Cause.REGIME
    assert "What the model returns moves less and less beside them, by n^(-0.50" in str(c)
    # Outputs that were not seen say nothing: the readout was.
    assert check(plan, measurement(powers(MUP), returned=np.nan * moved)).ok


def test_attention_logits_that_were_not_seen_are_not_ok() -> None:
    seen = {
        ("blocks.*", q): np.ones((len(WIDTHS), 4))
        for q in (Q.LOGITS, Q.LOGITS_CHANGE, Q.LOGITS_STEP)
    }
    plan = planned(scaling.mup(), "sgd")
    assert check(plan, measurement(powers(MUP), attention=seen)).ok
    blind = {key: np.nan * sizes for key, sizes in seen.items()}
    c = check(plan, measurement(powers(MUP), attention=blind))
    assert [(k.tensor, k.cause) for k in c.culprits] == [("blocks.*", Cause.UNSEEN)]
    with pytest.raises(AssertionError, match=r"attention logits of `blocks\.\*` were not seen"):
        c.assert_ok()
