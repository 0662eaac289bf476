"""Golden and property tests: batch, duration and weight decay by named policies."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from described_models import language_model, planned
from grids import thorough
from scalewise import scaling
from scalewise.plan import DECAYS, POLICIES, Layer, PlanError, Powers, Role, describe, rule
from scalewise.plan._policies import DISAGREE, Training, training

HALF, ONE = Fraction(1, 2), Fraction(1)
BOTH = ["batch", "tokens"]
# Every pair of policies that covers batch and tokens once.
COVERS = [("completed",), ("delphi",)] + [
    (b.name, t.name)
    for b in POLICIES.values()
    for t in POLICIES.values()
    if b.covers == ("batch",) and t.covers == ("tokens",)
]
LAYERS = {
    Role.INPUT: Layer.FIRST,
    Role.HIDDEN: Layer.HIDDEN,
    Role.VECTOR: Layer.HIDDEN,
    Role.OUTPUT: Layer.LAST,
}
SETTINGS = ("init", "lr", "eps", "weight_decay", "beta1", "beta2")


def of_training(
    names: Any, decay: str | None = "timescale", batch: int = 1, tokens: int = 1, **options: Any
) -> Any:
    """A plan of a described language model, at another batch and duration."""
    chosen = training(names, decay, BOTH)
    axes = {"batch": Fraction(batch), "tokens": Fraction(tokens)}
    settings = {"model": language_model, "multiplied": ["head", "attention"]} | options
    return planned(scaling.mup(), axes=axes, training=chosen, **settings)


def test_the_table_of_completed_p() -> None:
    """Factor by factor: lr, eps, decay, moments and spreads of every class of tensor.

    Arguments of powers: width, depth, (batch over tokens). Where ours differs from that table is said.
    """
    alpha, r = ONE, HALF
    table = {
        # role, in a block: init std, lr, eps, decay
        (Role.INPUT, False): ((0, 0, 0), (0, 0, r), (-1, 0, -r), (0, 0, r)),
        (Role.HIDDEN, True): ((-HALF, 0, 0), (-1, alpha - 1, r), (-1, -alpha, -r), (1, 0, r)),
        (Role.VECTOR, True): ((0, 0, 0), (0, alpha - 1, r), (-1, -alpha, -r), (0, 0, r)),
        (Role.OUTPUT, False): ((-1, 0, 0), (-1, 0, r), (0, 0, -r), (1, 0, r)),
    }
    problems = []
    for (role, in_block), (init, *rest) in table.items():
        for a in (ONE, HALF):
            found = rule(
                scaling.mup(), role, LAYERS[role], "adamw", residual=a, in_block=in_block,
                training=training(["completed"], None, BOTH),
            )  # fmt: skip
            for name, (n, depth, ratio) in zip(
                ("init", "lr", "eps", "weight_decay"), (init, *rest), strict=True
            ):
                powers = getattr(found, name)
                if in_block:
                    # At other exponents of the branch: lr and epsilon as theirs, decay keeps the shrinkage.
                    depth = {"lr": a - 1, "eps": -a, "weight_decay": 1 - a}.get(name, depth)
                wanted = (n, depth, ratio, -ratio)
                if (powers.of_width, powers.depth, powers.batch, powers.tokens) != wanted:
                    problems.append((role, a, name, powers))
            if found.beta1 != Powers(batch=ONE, tokens=-ONE) or found.beta2 != found.beta1:
                problems.append((role, a, "betas"))
    assert not problems
    plan = of_training(["completed"], None, 8, 2, optimizer="adamw")
    assert plan.betas(0.9, 0.99) == pytest.approx((1 - 0.4, 1 - 0.04))
    assert plan.factors("blocks.0.up.weight").lr == pytest.approx(
        plan.factors("embed.weight").lr / 8
    )


def test_a_longer_run_of_larger_batches_is_the_same_run() -> None:
    """Complete(d)P: batch and duration enter by their ratio alone."""
    for optimizer in ("adamw", "sgd", "muon", "adafactor"):
        same = of_training(["completed"], None, 4, 4, optimizer=optimizer)
        plain = planned(
            scaling.mup(), optimizer, model=language_model, multiplied=["head", "attention"]
        )
        for t in plain.tensors:
            assert same.factors(t.name) == plain.factors(t.name), (optimizer, t.name)


def test_one_row_serves_every_law() -> None:
    """A root of the batch for Adam is the batch itself for gradient descent; epsilon follows what it is beside."""
    chosen = training(["sde"], "shrinkage", ["batch"])
    for name, (lr, eps, beta) in {
        "adamw": (HALF, -HALF, ONE),
        "sgd": (ONE, 0, 0),
        "adafactor_unscaled": (HALF, -ONE, ONE),
        "muon": (HALF, -HALF, ONE),
        "adamuon": (HALF, 0, ONE),
        "shampoo_half": (0, -ONE, ONE),
    }.items():
        found = rule(scaling.mup(), Role.HIDDEN, Layer.HIDDEN, name, training=chosen)
        assert (found.lr.batch, found.eps.batch, found.beta1.batch) == (lr, eps, beta), name
        assert found.weight_decay.batch == -lr, name


def test_what_others_wrote_down() -> None:
    """Formulas of their own code, put together from a policy and a decay."""
    role = (scaling.mup(), Role.INPUT, Layer.FIRST, "adamw")

    def found(names: Any, decay: str | None) -> tuple[Powers, Powers]:
        r = rule(*role, training=training(names, decay, BOTH))
        return r.lr, r.weight_decay

    # nanochat: lr B^1/2, decay B^1/2 / D.
    assert found(["sde", "fixed_steps"], "timescale") == (
        Powers(batch=HALF), Powers(batch=HALF, tokens=-ONE),
    )  # fmt: skip
    # ArchScale's sdew: lr constant, decay B^1/2.
    lr, decay = found(["sdew", "fixed_steps"], "shrinkage")
    assert (lr, decay) == (Powers(), Powers())
    sdew = rule(*role, training=training(["sdew"], None, ["batch"]))
    assert (sdew.lr, sdew.weight_decay, sdew.eps.batch) == (Powers(), Powers(batch=HALF), -HALF)
    assert (sdew.beta1, sdew.beta2) == (Powers(), Powers(batch=HALF))
    # Power Lines: at a fixed learning rate decay is linear in the batch, and goes as D^(.527 - 1).
    _, decay = found(["fixed_batch", "fixed_steps"], "power_lines")
    assert (decay.batch, decay.tokens, decay.parameters) == (
        1, Fraction(-473, 1000), Fraction(-527, 1000),
    )  # fmt: skip
    plan = of_training(["fixed_batch", "fixed_steps"], "power_lines", 1, 4)
    ratio = sum(np.prod(t.shape) for t in plan.tensors) / sum(
        np.prod(t.base_shape) for t in plan.tensors
    )
    assert plan.factors("embed.weight").weight_decay == pytest.approx((4 / ratio) ** 0.527 / 4)
    assert found(["fixed_batch", "horizon"], "constant")[1] == Powers()
    assert found(["fixed_batch", "horizon"], "constant")[0].tokens == Fraction(-8, 25)
    # Fan: of hidden matrices decay as n^1/2; Qiu: the product as 1/n, so decay stays where the rate is 1/n.
    hidden = (scaling.mup(), Role.HIDDEN, Layer.HIDDEN, "adamw")
    of_width = {
        name: rule(*hidden, training=training([], name, [])).weight_decay.of_width
        for name in DECAYS
    }
    assert of_width == {
        "shrinkage": 1, "timescale": 1, "power_lines": 1, "steady": HALF, "inverse_width": 0, "constant": 0,
    }  # fmt: skip


@pytest.mark.parametrize("optimizer", ["adamw", *thorough("muon", "adam")])
def test_two_steps_are_one_whatever_the_policy(optimizer: str) -> None:
    """From base to middle to target is from base to target; the order in which sizes change is nothing."""

    def at(b: int, t: int, n: int, m: int, *said: Any) -> Any:
        return of_training(*said, b, t, optimizer=optimizer, base=n, target=m)

    cases = [(names, "timescale") for names in COVERS]
    cases += [(("completed",), decay) for decay in DECAYS]
    problems = []
    for said in cases:
        whole = at(2, 6, 8, 32, *said)
        ways = [
            (at(2, 3, 8, 16, *said), at(1, 2, 16, 32, *said)),
            (at(1, 6, 8, 32, *said), at(2, 1, 32, 32, *said)),
        ]
        for one, two in ways:
            for t in whole.tensors:
                a, b, c = (vars(p.factors(t.name)) for p in (one, two, whole))
                problems += [
                    (*said, t.name, s)
                    for s in SETTINGS
                    if not np.isclose(a[s] * b[s], c[s], rtol=1e-12)
                ]
            middle = two.betas(*one.betas(0.9, 0.95))
            if optimizer == "adamw" and middle != pytest.approx(whole.betas(0.9, 0.95)):
                problems.append((*said, "betas"))
    assert not problems, problems[:5]


def rms_after(
    batch: int, seed: int, steps: int, lr: float, betas: tuple[float, float], eps: float
) -> float:
    """Adam in a valley, driven by noise that a larger batch makes smaller."""
    rng = np.random.default_rng(seed)
    x = np.full(4000, 0.5)
    m, v = np.zeros_like(x), np.zeros_like(x)
    for t in range(1, steps + 1):
        g = x + 20 * rng.normal(size=x.size) / batch**0.5
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        x = x - lr * m / (1 - betas[0] ** t) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
    return float(np.sqrt(np.mean(x * x)))


def test_runs_of_other_batches_are_alike() -> None:
    """The root rule on real steps: the same valley, left at the same height by batches of 1, 4 and 16."""
    found, without = [], []
    for batch in (1, 4, 16):
        plan = of_training(["sde", "fixed_steps"], "shrinkage", batch, optimizer="adamw", target=8)
        f = plan.factors("embed.weight")
        steps = 1600 // batch
        found.append(
            rms_after(batch, batch, steps, 1e-2 * f.lr, plan.betas(0.95, 0.98), 8.0 * f.eps)
        )
        without.append(rms_after(batch, batch, steps, 1e-2, (0.95, 0.98), 8.0))
    assert max(found) / min(found) < 1.05
    # The same settings at every batch are off by more than that at the first of them.
    assert without[1] / without[0] > 1.1 or without[0] / without[1] > 1.1
    assert max(without) / min(without) > 1.3


def test_what_is_missing_is_said() -> None:
    problems = []
    for names, decay, changes, said in (
        ([], None, ["batch"], "'batch' differs between `base` and `target`, and no rule for that is agreed on: say "
         "policy=... with one of 'sde', "),
        (["sde"], "shrinkage", BOTH, "'tokens' differs"),
        (["sde"], None, ["batch"], "The policy 'sde' says nothing of weight decay: say decay=... with one of "),
        (["sde", "completed"], None, BOTH, "`policy` has more than one rule for 'batch': 'sde', 'completed'."),
        (["linear"], None, [], "`policy` must be one of 'sde', "),
        ([], "l2", [], "`decay` must be one of 'shrinkage', "),
    ):  # fmt: skip
        try:
            training(names, decay, changes)
            problems.append((names, decay))
        except PlanError as error:
            if not str(error).startswith(said):
                problems.append(str(error))
    assert not problems
    assert training(["completed"], None, BOTH).shrinks(True) == Powers(batch=ONE, tokens=-ONE)
    assert Training().shrinks(True) == Powers()
    with pytest.raises(PlanError, match=r"leaves nothing of the moment"):
        of_training(["sde", "fixed_steps"], "shrinkage", 16).betas(0.9, 0.999)
    kept = of_training(["sde_beta2", "fixed_steps"], "shrinkage", 16).betas(0.9, 0.999)
    assert kept == pytest.approx((0.9, 1 - 0.016))


def test_the_plan_says_what_it_assumes() -> None:
    for names in COVERS:
        text = describe(of_training(names, "timescale", 4, 16))
        assert "Training: batch x 4, tokens x 16, so steps x 4" in text
        for name in names:
            assert POLICIES[name].assumes in text
            assert POLICIES[name].source in text
        assert DECAYS["timescale"].source in text
        assert all(sentence in text for sentence in DISAGREE.values())
    plain = describe(planned(scaling.mup()))
    assert "Weight decay 'shrinkage'" in plain
    assert "Sources disagree" not in plain
    assert all(p.assumes and p.source for p in (*POLICIES.values(), *DECAYS.values()))
