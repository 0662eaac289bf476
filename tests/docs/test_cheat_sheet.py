"""Conformance: both cheat sheets show what their scripts write, and one of them what plans of real models have."""

from fractions import Fraction

import pytest
import torch
from torch import nn

import cheat_sheet as sheet
import scalewise as sw
import theory_sheet


def test_the_page_shows_what_the_script_writes() -> None:
    assert sheet.PART.shown() == sheet.PART.marked(sheet.section())


def test_the_page_of_the_theory_shows_what_its_script_writes() -> None:
    written = theory_sheet.PART.marked(theory_sheet.section())
    assert theory_sheet.PART.shown() == written


def test_every_optimizer_is_in_it_once() -> None:
    named = [name for names in sheet.rows().values() for name in names]
    assert sorted(named) == sorted(sheet.OPTIMIZERS)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw", "lamb", "shampoo"])
def test_a_plan_has_the_powers_of_its_row(optimizer: str) -> None:
    """At a ratio of four, of a model that has each role once, a bottleneck with and without a norm among them."""

    def build(width: int) -> nn.Module:
        return nn.Sequential(
            nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 4),
            nn.Tanh(), nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 4), nn.LayerNorm(4),
            nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 3),
        )  # fmt: skip

    plan = sw.torch.plan(
        lambda width: build(width), base={"width": 16}, target={"width": 64}, strategy=sheet.STRATEGY,
        optimizer=optimizer, inputs=torch.randn(2, 4),
    )  # fmt: skip
    tensors = {
        "input": "0.weight", "hidden": "2.weight", "bottleneck": "4.weight", "bottleneck, norm": "8.weight",
        "output": "12.weight", "vector": "2.bias", "fixed": "12.bias",
    }  # fmt: skip
    one = sheet.OPTIMIZERS[optimizer]
    for title, name in tensors.items():
        assert plan[name].role is sheet.COLUMNS[title][0]
        found, factors = sheet.ruled(one, title), plan.factors(name)
        for setting in ("init", "lr", "eps", "weight_decay"):
            power = sheet.power(getattr(found, setting))
            assert getattr(factors, setting) == pytest.approx(4 ** float(power)), (name, setting)


def test_the_table_fits_on_a_page() -> None:
    """Landscape at nine points: some 190 characters, and 40 lines with what stands around it."""
    lines = sheet.table().splitlines()
    assert len(lines) < 26
    assert max(len(line.replace("**", "")) for line in lines[3:]) < 190


def test_multipliers_are_those_of_the_rules() -> None:
    found = list(sheet.multipliers().values())
    assert found == [Fraction(-1), Fraction(-1, 2), Fraction(-1), Fraction(-1)]
