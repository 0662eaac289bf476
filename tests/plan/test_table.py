"""Golden and property tests: names, groups, text, JSON and transfer of a plan."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from described_models import language_model, planned
from scalewise import scaling
from scalewise.plan import PlanError, describe, groups, load, predicted, save, transfer
from scalewise.plan._names import bare, matching, pattern


def test_names() -> None:
    known = {"head.weight", "module.w", "a._orig_mod_b"}
    assert bare("module.head.weight", known) == "head.weight"
    assert bare("module.module.w", known) == "module.w"
    assert bare("module.w", known) == "module.w"
    assert bare("_orig_mod.module._fsdp_wrapped_module.head.weight", known) == "head.weight"
    assert bare("a._orig_mod_b", known) == "a._orig_mod_b"
    assert pattern("layers.10.w2.0") == "layers.*.w2.*"
    assert matching("layers.*.w", ["layers.0.w", "layers.0.v", "head"]) == ["layers.0.w"]


def test_rows_are_found_under_wrappers_and_other_names() -> None:
    plan = planned(scaling.mup(), model=language_model, multiplied=["head", "attention"])
    assert plan["module._orig_mod.head.weight"].name == "embed.weight"
    with pytest.raises(
        PlanError, match=r"no tensor `tail.weight`. It was made for .*`embed.weight`"
    ):
        plan["tail.weight"]


def test_groups_are_few_and_named() -> None:
    plan = planned(scaling.mup(), "adamw", depth=6)
    found = groups(plan, [t.name for t in plan.tensors])
    assert [g.name for g in found] == ["input+vector", "hidden", "vector", "output", "fixed"]
    assert sum(len(g.tensors) for g in found) == len(plan.tensors)
    same = planned(scaling.mup(), "adamw", target=8)
    (only,) = groups(same, [t.name for t in same.tensors])
    assert only.name == "input+hidden+output+vector+fixed"
    s = planned(scaling.meta("1/2"), "sgd", depth=6)
    names = [g.name for g in groups(s, [t.name for t in s.tensors])]
    assert len(set(names)) == len(names)


@given(
    st.sampled_from(["0", "1/4", "1/2", "3/4", "1"]),
    st.sampled_from(["sgd", "adam", "adamw"]),
    st.integers(2, 40),
    st.integers(2, 7),
)
@settings(max_examples=30)
def test_json_round_trip(s: str, optimizer: str, width: int, depth: int) -> None:
    plan = planned(scaling.meta(s), optimizer, base=6, target=width, depth=depth)
    from scalewise.plan._store import from_json, to_json

    again = from_json(to_json(plan))
    assert again == plan
    assert again["net.0.weight"] == plan["net.0.weight"]
    assert to_json(again) == to_json(plan)


def test_saved_plan_and_bad_files(tmp_path: Path) -> None:
    plan = planned(scaling.standard(), "adamw")
    save(plan, tmp_path / "plan.json")
    assert load(tmp_path / "plan.json") == plan
    assert [p.name for p in tmp_path.iterdir()] == ["plan.json"]
    with pytest.raises(PlanError, match="cannot be read: No such file"):
        load(tmp_path / "none.json")
    data = json.loads((tmp_path / "plan.json").read_text())
    for broken in (
        "{",
        "[]",
        json.dumps(data | {"format": "x"}),
        json.dumps({"format": data["format"]}),
    ):
        (tmp_path / "bad.json").write_text(broken)
        with pytest.raises(PlanError, match="not a saved plan"):
            load(tmp_path / "bad.json")


def test_text() -> None:
    plan = planned(scaling.meta("1/2"), "adamw", base_depth=3, depth=6)
    text = describe(plan)
    lines = text.splitlines()
    assert lines[0] == "meta(s=1/2) with adamw: kernel regime, stable"
    assert (
        "net.*.weight (4)  hidden  64 (8) x 64 (8)  0.035 (n^-1/2)  0.28        x 0.03716" in text
    )
    assert "factor of 2; what it repeats is taken as a chain" in text
    assert all(line == line.rstrip() for line in lines)
    heads = planned(
        scaling.mup(),
        model=language_model,
        multiplied=["head", "attention"],
        residual=Fraction(1),
        depth=6,
    )
    assert "In the forward pass, residual: x 0.5." in describe(heads)
    assert "In the forward pass, head: x 0.125." in describe(heads)
    assert "standard has no rule for it" in describe(planned(scaling.standard(), depth=6))


def test_predicted_powers_of_the_readout() -> None:
    for s, half in (("0", "0"), ("1/2", "-1/4"), ("1", "-1/2")):
        plan = planned(scaling.meta(s), "sgd")
        p = predicted(plan, "net.4.weight")
        assert (str(p.output), p.change, p.own_change, p.update) == (half, 0, 0, -1)


@pytest.mark.covers("C62")
def test_transfer_keeps_gamma_or_says_so() -> None:
    plan = planned(scaling.meta("1/2"), "adamw", base=16, target=64, base_depth=3, depth=6)
    hp = transfer(plan, lr=1e-3, weight_decay=0.1, eps=1e-8)
    assert hp.gamma_base == hp.gamma_target == pytest.approx(0.75)
    assert "stays at 0.75" in str(hp)
    hidden = hp["net.4.weight"]
    f = plan.factors("net.4.weight")
    assert hidden.lr == 1e-3 * f.lr
    assert hidden.weight_decay == 0.1 * f.weight_decay
    assert hidden.eps == 1e-8 * f.eps
    assert hidden.lr * hidden.weight_decay == pytest.approx(1e-4)
    other = transfer(planned(scaling.meta("1/2"), base=16, target=64), lr=1.0)
    assert other.depth_at_fixed_gamma == pytest.approx(6)
    assert "a depth of 6 would keep it at width 64" in other.note
    assert other["net.0.weight"].weight_decay is None
    assert transfer(planned(scaling.standard()), lr=1.0).gamma_base is None
    with pytest.raises(KeyError, match="none"):
        hp["none"]


def test_transfer_refuses_bad_numbers() -> None:
    plan = planned(scaling.mup(), "sgd")
    for bad in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(PlanError, match="`lr` must be a positive finite number"):
            transfer(plan, lr=bad)
    with pytest.raises(PlanError, match="`weight_decay` must be a finite number of at least 0"):
        transfer(plan, lr=1.0, weight_decay=-0.1)
    with pytest.raises(PlanError, match="no `eps`"):
        transfer(plan, lr=1.0, eps=1e-8)
