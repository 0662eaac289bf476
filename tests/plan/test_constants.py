"""Golden and property tests: constants of the base, whom they are for, and that they are no powers."""

from fractions import Fraction

import pytest

from described_models import language_model, planned
from scalewise import scaling
from scalewise.plan import PlanError, describe, groups
from scalewise.plan._constants import combined, with_constants
from scalewise.plan._store import from_json, to_json

MODEL = planned(scaling.mup(), "adamw", depth=6)


def test_constants_multiply_and_powers_stay() -> None:
    one = with_constants(
        MODEL, {"hidden": 8, "net.2.weight": {"std": 0.25, "lr": 2}, "output": {"weight_decay": 0}}
    )
    for t in MODEL.tensors:
        assert one.powers(t.name) == MODEL.powers(t.name)
    hidden = [t.name for t in MODEL.tensors if t.role == "hidden"]
    assert "net.2.weight" in hidden
    for name in hidden:
        own = 2.0 if name == "net.2.weight" else 8.0
        assert one.std(name) == own * MODEL.std(name)
        lr = 2.0 if name == "net.2.weight" else 1.0
        assert one.factors(name).lr == lr * MODEL.factors(name).lr
        assert one.factors(name).eps == MODEL.factors(name).eps
    (readout,) = [t.name for t in MODEL.tensors if t.role == "output"]
    assert one.factors(readout).weight_decay == 0
    assert one.std(readout) == MODEL.std(readout)
    # At the base too, where all powers are 1.
    base = with_constants(planned(scaling.mup(), target=8), {"hidden": 8})
    assert base.std("net.2.weight") == 8 * base["net.2.weight"].base.std
    assert base.respreads(base["net.2.weight"])
    assert not base.respreads(base["net.0.weight"])
    assert {g.lr for g in groups(one, ["net.2.weight", "net.4.weight"])} == {
        one.factors("net.2.weight").lr, one.factors("net.4.weight").lr,
    }  # fmt: skip
    assert from_json(to_json(one)) == one
    assert with_constants(one, None) == MODEL


def test_a_module_stands_for_its_weights_and_combining_multiplies() -> None:
    one = with_constants(MODEL, {"net.2": 2})
    assert one.std("net.2.weight") == 2 * MODEL.std("net.2.weight")
    assert one.std("net.2.bias") == MODEL.std("net.2.bias")
    assert combined({"a": 2}, {"a": {"std": 4.0, "lr": 1.0}, "b": {"lr": 3.0}}) == {
        "a": {"std": 8.0},
        "b": {"lr": 3.0},
    }
    assert combined({"a": 2}, {"a": {"std": 0.5}}) == {}


def test_what_constants_refuse() -> None:
    cases = {
        r"'nobody', which fits no tensor and no module": {"nobody": 2},
        r"`constants\['hidden'\]` must be a finite factor, positive, of 'std'; got 0": {"hidden": 0},
        r"must be a finite factor, not negative, of 'weight_decay'; got -1": {"hidden": {"weight_decay": -1}},
        r"of 'lr'; got 'high'": {"hidden": {"lr": "high"}},
        r"of 'lr'; got True": {"hidden": {"lr": True}},
        r"has factors of 'std', 'lr' or 'weight_decay'; got 'rate'": {"hidden": {"rate": 2}},
    }  # fmt: skip
    for sentence, constants in cases.items():
        with pytest.raises(PlanError, match=sentence):
            with_constants(MODEL, constants)
    zero = planned(scaling.mup(), std=0.0)
    with pytest.raises(PlanError, match=r"every entry of `net.2.weight` is the same"):
        with_constants(zero, {"net.2.weight": 2})
    with_constants(zero, {"net.2.weight": {"lr": 2}})


def test_the_printed_plan_tells_constants_apart_and_warns_of_a_small_base() -> None:
    text = describe(with_constants(MODEL, {"hidden": {"std": 2, "lr": 0.5}}))
    assert (
        "Constants tuned at the base, the same at every size: hidden std x 2, hidden lr x 0.5."
        in text
    )
    # 0.1 of eight terms is 0.28 of 1/sqrt(8), and twice that 0.57.
    assert "0.57" in text
    assert "(hidden)" not in text
    assert (
        "`net.*.weight` (output) starts at 0.28 of 1/sqrt(fan-in), and the plan keeps that" in text
    )
    assert "start at 0.28 of 1/sqrt(fan-in)" in describe(MODEL)
    large = describe(planned(scaling.mup(), "adamw", std=0.3))
    assert "of 1/sqrt(fan-in)" not in large
    assert "Constants" not in large


def test_units_are_of_the_terms_that_are_summed() -> None:
    plan = planned(scaling.mup(), model=language_model, multiplied=["head", "attention"], base=16)
    assert plan["embed.weight"].terms == 1  # rows are picked
    for t in plan.tensors:
        if t.role == "hidden":
            shape, axes = t.base_shape, t.terms
            assert any(Fraction(axes) == Fraction(n) for n in (*shape, shape[0] * shape[-1])), (
                t.name
            )
            assert t.unit == pytest.approx(t.base.std * t.terms**0.5)
        if t.kind in ("bias", "gain"):
            assert t.unit == 0
