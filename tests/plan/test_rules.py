"""Golden and property tests: the powers of every role, by hand, by gauge and by composition."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from described_models import language_model, mlp, planned
from grids import each
from scalewise import scaling
from scalewise.plan import Layer, PlanError, Powers, Role, rule
from scalewise.plan._rules import gradient_exponent

OPTIMIZERS = ("sgd", "adam", "adamw")
HALF = Fraction(1, 2)
FAMILY = [scaling.meta(Fraction(k, 4)) for k in range(5)]
LAYERS = {
    Role.INPUT: Layer.FIRST,
    Role.HIDDEN: Layer.HIDDEN,
    Role.VECTOR: Layer.HIDDEN,
    Role.OUTPUT: Layer.LAST,
    Role.BOTTLENECK: Layer.LAST,
    Role.FIXED: Layer.LAST,
}

# Powers of the width of (init, rate, epsilon) where the fan-in grows with it. Maximal update: Yang &
# Hu, Table 3 of the fifth of their papers, moved to the gauge without multipliers; the neural-tangent
# rates of gradient descent are one over the fan-in; those of Adam leave features n^(-1/2) to move.
BY_HAND = {
    ("mup", "sgd"): {
        Role.INPUT: (0, 1, 0),
        Role.VECTOR: (0, 1, 0),
        Role.HIDDEN: (-HALF, 0, 0),
        Role.OUTPUT: (-1, -1, 0),
        Role.BOTTLENECK: (-1, -1, 0),
        Role.FIXED: (0, 0, 0),
    },
    ("mup", "adam"): {
        Role.INPUT: (0, 0, -1),
        Role.VECTOR: (0, 0, -1),
        Role.HIDDEN: (-HALF, -1, -1),
        Role.OUTPUT: (-1, -1, 0),
        Role.BOTTLENECK: (-1, -1, 0),
        Role.FIXED: (0, 0, 0),
    },
    ("ntk", "sgd"): {
        Role.INPUT: (0, 0, 0),
        Role.VECTOR: (0, 0, 0),
        Role.HIDDEN: (-HALF, -1, 0),
        Role.OUTPUT: (-HALF, -1, 0),
        Role.FIXED: (0, 0, 0),
    },
    ("ntk", "adam"): {
        Role.INPUT: (0, -HALF, -HALF),
        Role.VECTOR: (0, -HALF, -HALF),
        Role.HIDDEN: (-HALF, -3 * HALF, -HALF),
        Role.OUTPUT: (-HALF, -1, 0),
        Role.FIXED: (0, 0, 0),
    },
    ("standard", "sgd"): {
        Role.INPUT: (0, 0, 0),
        Role.VECTOR: (0, 0, 0),
        Role.HIDDEN: (-HALF, 0, 0),
        Role.OUTPUT: (-HALF, 0, 0),
        Role.BOTTLENECK: (-HALF, 0, 0),
        Role.FIXED: (0, 0, 0),
    },
    ("standard", "adam"): {
        Role.INPUT: (0, 0, 0),
        Role.VECTOR: (0, 0, 0),
        Role.HIDDEN: (-HALF, 0, 0),
        Role.OUTPUT: (-HALF, 0, 0),
        Role.BOTTLENECK: (-HALF, 0, 0),
        Role.FIXED: (0, 0, 0),
    },
}


@pytest.mark.covers("E3")
@each(("name", "optimizer"), BY_HAND)
def test_named_strategies_by_hand(name: str, optimizer: str) -> None:
    strategy = getattr(scaling, name)()
    for role, expected in BY_HAND[name, optimizer].items():
        r = rule(strategy, role, LAYERS[role], optimizer)
        got = (r.init.of_width, r.lr.of_width, r.eps.of_width)
        assert got == expected, role


@pytest.mark.covers("E3")
@each("strategy", FAMILY)
@each("optimizer", OPTIMIZERS)
def test_features_move_alike_under_every_optimizer(
    strategy: scaling.Strategy, optimizer: str
) -> None:
    """What a tensor's own update does to the output of its module, put together from its parts.

    Gradient descent moves an entry by rate times gradient, Adam by the rate; a matrix sums the fan-in.
    """
    r_hidden = scaling.update_exponents(strategy)[-1]
    for role in (Role.INPUT, Role.HIDDEN, Role.VECTOR, Role.OUTPUT, Role.BOTTLENECK, Role.FIXED):
        step = rule(strategy, role, LAYERS[role], optimizer).lr.of_width
        if optimizer == "sgd":
            step += gradient_exponent(strategy, role)
        if role in (Role.HIDDEN, Role.OUTPUT, Role.BOTTLENECK):
            step += 1
        below = role in (Role.INPUT, Role.HIDDEN, Role.VECTOR)
        assert step == (-r_hidden if below else 0), role


@pytest.mark.covers("E3")
@given(
    st.sampled_from([*FAMILY, scaling.mup(), scaling.standard(), scaling.uniform("1/8")]),
    st.fractions(-3, 3, max_denominator=8),
    st.sampled_from(list(Role)),
    st.sampled_from(OPTIMIZERS),
)
def test_gauge_changes_no_setting(
    strategy: scaling.Strategy, g: Fraction, role: Role, optimizer: str
) -> None:
    one = rule(strategy, role, LAYERS[role], optimizer)
    assert rule(strategy.gauge(g), role, LAYERS[role], optimizer) == one


def test_equal_strategies_give_equal_plans() -> None:
    for role, layer in LAYERS.items():
        for optimizer in OPTIMIZERS:
            one = rule(scaling.mup(), role, layer, optimizer)
            assert one == rule(scaling.meta(1), role, layer, optimizer)
            assert one == rule(scaling.mean_field(), role, layer, optimizer)


@each("optimizer", OPTIMIZERS)
@each("strategy", FAMILY)
def test_weight_decay(strategy: scaling.Strategy, optimizer: str) -> None:
    for role, layer in LAYERS.items():
        r = rule(strategy, role, layer, optimizer, in_block=True, residual=HALF)
        if optimizer == "adam":
            # Added to the gradient: decay times weight stays comparable with it.
            assert r.weight_decay * r.init == r.eps
        else:
            assert r.weight_decay * r.lr == Powers()


@each("alpha", [Fraction(0), HALF, Fraction(1)])
def test_depth_keeps_the_sum_over_blocks(alpha: Fraction) -> None:
    """L branches of size L^-alpha: the NTK's sum, Adam's coherent steps, and the gradient."""
    for role in (Role.HIDDEN, Role.VECTOR):
        sgd = rule(scaling.mup(), role, Layer.HIDDEN, "sgd", in_block=True, residual=alpha)
        assert 1 - 2 * alpha + sgd.lr.depth == 0
        adam = rule(scaling.mup(), role, Layer.HIDDEN, "adamw", in_block=True, residual=alpha)
        assert 1 - alpha + adam.lr.depth == 0
        assert adam.eps.depth == -alpha
        outside = rule(scaling.mup(), role, Layer.HIDDEN, "adamw", residual=alpha)
        assert outside.lr.depth == outside.eps.depth == outside.init.depth == 0


@each("optimizer", OPTIMIZERS)
def test_a_branch_may_carry_its_multiplier(optimizer: str) -> None:
    """W' = L^-alpha W: same function, same change of it, same shrinkage."""
    alpha = HALF
    one = rule(scaling.mup(), Role.HIDDEN, Layer.HIDDEN, optimizer, in_block=True, residual=alpha)
    two = rule(
        scaling.mup(), Role.HIDDEN, Layer.HIDDEN, optimizer, in_block=True, residual=alpha,
        absorbs_branch=True,
    )  # fmt: skip
    assert two.init.depth == one.init.depth - alpha
    # The gradient of W' is L^alpha times that of W, so W' moves by rate' L^alpha g; it must move by
    # L^-alpha rate g. Adam's step knows no gradient.
    shift = 2 * alpha if optimizer == "sgd" else alpha
    assert two.lr.depth == one.lr.depth - shift
    if optimizer != "sgd":
        assert two.eps.depth == one.eps.depth + alpha


def test_standard_has_no_rule_for_depth() -> None:
    r = rule(scaling.standard(), Role.HIDDEN, Layer.HIDDEN, "adamw", in_block=True)
    assert r.lr == Powers(Fraction(-1), Fraction(1))
    assert r.lr.factor({"fan_in": Fraction(8), "width": Fraction(8), "depth": Fraction(4)}) == 1.0


def test_unknown_optimizer() -> None:
    with pytest.raises(PlanError, match=r"must be one of 'sgd', 'adam', 'nadam', .*; got 'newton'"):
        rule(scaling.mup(), Role.HIDDEN, Layer.HIDDEN, "newton")


def test_factor_is_exact_where_ratios_cancel() -> None:
    third = Powers(Fraction(-1), Fraction(1))
    assert third.factor({"fan_in": Fraction(3), "width": Fraction(3)}) == 1.0
    assert third.factor({"fan_in": Fraction(6), "width": Fraction(3)}) == pytest.approx(
        0.5, rel=1e-15
    )
    assert Powers(Fraction(-1, 3), HALF, HALF).factor({}) == 1.0
    with pytest.raises(ValueError, match=r"`ratios` must have names out of fan_in, .*; got 'size'"):
        third.factor({"size": HALF})


@each("model", [mlp, language_model])
@each("optimizer", OPTIMIZERS)
def test_two_steps_are_one(model, optimizer: str) -> None:
    options = {"multiplied": ["head", "attention"]} if model is language_model else {}
    s = scaling.meta("3/4")
    one = planned(s, optimizer, model=model, base=8, target=24, depth=6, **options)
    two = planned(s, optimizer, model=model, base=24, target=96, base_depth=6, depth=6, **options)
    whole = planned(s, optimizer, model=model, base=8, target=96, depth=6, **options)
    for t in whole.tensors:
        a, b, c = (p.factors(t.name) for p in (one, two, whole))
        for setting in ("init", "lr", "eps", "weight_decay"):
            assert getattr(a, setting) * getattr(b, setting) == pytest.approx(
                getattr(c, setting), rel=1e-12
            ), (t.name, setting)
    for m in whole.multipliers:
        assert one.multiplier(m.name) * two.multiplier(m.name) == pytest.approx(m.factor)


@each("strategy", [*FAMILY, scaling.standard(), scaling.mup()])
@each("optimizer", OPTIMIZERS)
def test_base_is_left_exactly_as_it_is(strategy: scaling.Strategy, optimizer: str) -> None:
    plan = planned(strategy, optimizer, base=8, target=8)
    for t in plan.tensors:
        f = plan.factors(t.name)
        assert (f.init, f.lr, f.eps, f.weight_decay) == (1.0, 1.0, 1.0, 1.0)
        assert plan.std(t.name) == t.base.std
