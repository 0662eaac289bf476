"""Agreement: on a second task a base drawn at 0.02 is told that it has not learnt, and others are told nothing."""

import numpy as np
import pytest
import torch

import scalewise as sw
from teacher_of_four import CONTEXT, GPT, text, trainer

STEPS, RATE = 100, 2.0**-7
QUIET = {"client": 0, "progress": False}


def planned(std=0.02, *, init="drawn", target=64, strategy="mup"):
    return sw.torch.plan(
        GPT, base={"width": 32, "std": std}, target={"width": target, "std": std}, strategy=strategy,
        init=init, inputs=torch.zeros(1, CONTEXT, dtype=torch.long),
    )  # fmt: skip


def tuned(plan, *, seeds=1, budget=12, over=("lr",), steps=STEPS):
    return sw.torch.tune(
        plan, trainer(steps), start={"lr": RATE}, over=over, budget=budget, seeds=seeds, baseline=text(),
        **QUIET,
    )  # fmt: skip


def test_a_base_that_has_not_learnt_is_told_by_the_tools_own_path() -> None:
    found = tuned(planned())
    standing = found.standing
    assert standing.baseline == pytest.approx(2.818, abs=1e-3)  # a table of the last token
    assert standing.learnt is False
    assert standing.share[0] < 0.03
    assert "The base has not learnt: its loss" in found.verdict
    assert 'init="critical"' in found.verdict
    # On the same seeds the theory's initialisation has learnt, and was measured to.
    assert np.mean(standing.theory) < 0.95 * np.mean(standing.losses)
    assert "the theory's initialisation ends" in found.verdict
    assert found.spent <= 12


@pytest.mark.thorough("test_a_base_that_has_not_learnt_is_told_by_the_tools_own_path")
@pytest.mark.parametrize(("std", "init"), [(0.0, "drawn"), (0.02, "critical")])
def test_a_base_that_has_learnt_is_told_nothing(std: float, init: str) -> None:
    """PyTorch's own initialisation, and the theory's."""
    found = tuned(planned(std, init=init))
    assert found.standing.learnt is True
    assert found.standing.sentence == ""


@pytest.mark.thorough("test_a_base_that_has_not_learnt_is_told_by_the_tools_own_path")
def test_carried_from_a_base_that_has_not_learnt_is_refused_and_from_the_theory_wins() -> None:
    """At four times the width: planned from 0.02, plain retuned, and planned from the critical initialisation."""

    def checked(plan, middle):
        rates = [2.0**k for k in (middle - 1, middle, middle + 1)]
        return sw.torch.check_transfer(
            plan, trainer(STEPS), widths=[32, 128], rates=rates, seeds=3, baseline=text(), **QUIET
        )

    carried = checked(planned(), -8)
    assert carried.outcome == "not learnt"
    assert carried.verdict.startswith("The base has not learnt: its loss")
    warm = checked(planned(init="critical"), -6)
    assert warm.outcome != "not learnt"
    plain = checked(planned(strategy=sw.scaling.standard()), -9)

    def at_best_of_the_base(found):
        k = int(found.losses[0].mean(axis=1).argmin())
        return found.losses[1, k]

    retuned = plain.losses[1, int(plain.losses[1].mean(axis=1).argmin())]
    # Paired by the seed, which is that of the data too.
    assert (at_best_of_the_base(carried) - retuned).mean() > 0.05
    assert (at_best_of_the_base(warm) - retuned).mean() < -0.3
