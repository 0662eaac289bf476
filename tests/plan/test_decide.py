"""Golden and error tests: roles from what grows, and what must be asked."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest

from described_models import language_model, mlp, planned
from scalewise import scaling
from scalewise.plan import (
    Kind,
    Layer,
    ModelDescription,
    PlanError,
    Role,
    TensorDescription,
    decide,
)
from scalewise.plan._decide import fan_in_ratio

TWO = Fraction(2)


def grown(*tensors: TensorDescription, axes: dict[str, tuple[int, ...]]) -> ModelDescription:
    """The same tensors with the named axes doubled."""
    return ModelDescription(
        tuple(
            replace(
                t,
                shape=tuple(
                    2 * s if i in axes.get(t.name, ()) else s for i, s in enumerate(t.shape)
                ),
            )
            for t in tensors
        )
    )


def matrix(name: str, shape: tuple[int, ...]) -> TensorDescription:
    return TensorDescription(name, shape, Kind.MATRIX, (1,), (0,), name, "Linear")


def bare(name: str, shape: tuple[int, ...]) -> TensorDescription:
    return TensorDescription(name, shape, Kind.UNKNOWN, (), (), "", "Experts")


def roles_of(model: ModelDescription, wide: ModelDescription, **options) -> dict[str, Role]:
    return {d.tensor.name: d.role for d in decide(model, wide, TWO, **options)}


def test_mlp() -> None:
    decisions = decide(mlp(8, 4), mlp(16, 4), TWO)
    assert [(d.role, d.layer) for d in decisions] == [
        (Role.INPUT, Layer.FIRST),
        (Role.VECTOR, Layer.FIRST),
        (Role.HIDDEN, Layer.HIDDEN),
        (Role.VECTOR, Layer.HIDDEN),
        (Role.HIDDEN, Layer.HIDDEN),
        (Role.VECTOR, Layer.HIDDEN),
        (Role.OUTPUT, Layer.LAST),
        (Role.FIXED, Layer.LAST),
    ]


def test_a_linear_and_an_embedding_of_one_shape_differ() -> None:
    lookup = TensorDescription("e", (10, 8), Kind.LOOKUP, (0,), (1,), "e", "Embedding")
    linear = matrix("w", (10, 8))
    both = {"e": (1,), "w": (1,)}
    assert roles_of(ModelDescription((lookup, linear)), grown(lookup, linear, axes=both)) == {
        "e": Role.INPUT,
        "w": Role.OUTPUT,
    }


def test_two_matrices_to_fixed_sizes_are_asked_about() -> None:
    down, up, head = matrix("a", (8, 32)), matrix("b", (32, 8)), matrix("head", (10, 32))
    wide = grown(down, up, head, axes={"a": (1,), "b": (0,), "head": (1,)})
    model = ModelDescription((down, up, head))
    with pytest.raises(
        PlanError, match=r'`a`, `head` each go .* roles=\{"a": "bottleneck", "head": "output"\}'
    ):
        decide(model, wide, TWO)
    with pytest.raises(PlanError, match="`a` each go"):
        decide(model, wide, TWO, {"head": "output"})
    expected = {"a": Role.BOTTLENECK, "b": Role.INPUT, "head": Role.OUTPUT}
    assert roles_of(model, wide, roles={"a": "bottleneck"}) == expected
    assert roles_of(model, wide, roles={"a": "bottleneck", "head": "output"}) == expected


def test_bare_tensors_are_asked_about() -> None:
    experts = bare("experts.w", (4, 32, 64))
    wide = grown(experts, axes={"experts.w": (1, 2)})
    model = ModelDescription((experts,))
    with pytest.raises(PlanError, match=r"No module says .*\n  `experts.w`: 4 x n x n\nSay it"):
        decide(model, wide, TWO)
    (d,) = decide(model, wide, TWO, {"experts.*": "hidden"})
    assert d.role is Role.HIDDEN
    one = bare("gamma", (32,))
    with pytest.raises(PlanError, match="`gamma`"):
        decide(ModelDescription((one,)), grown(one, axes={"gamma": (0,)}), TWO)
    still, some = bare("temperature", ()), matrix("w", (32, 8))
    model = ModelDescription((still, some))
    found = roles_of(model, grown(still, some, axes={"w": (0,)}))
    assert found == {"temperature": Role.FIXED, "w": Role.INPUT}
    with pytest.raises(PlanError, match="nothing to scale"):
        decide(ModelDescription((still,)), ModelDescription((still,)), TWO)


def test_axes_that_grow_differently_need_their_fan_in() -> None:
    experts = bare("w", (4, 32, 64))
    wide = replace(experts, shape=(4, 64, 120))
    pair = ModelDescription((experts,)), ModelDescription((wide,))
    with pytest.raises(PlanError, match=r'roles=\{"w": \("hidden", AXIS\)\}'):
        decide(*pair, TWO, {"w": "hidden"})
    assert decide(*pair, TWO, {"w": ("hidden", 2)})[0].fan_in == (2,)
    with pytest.raises(PlanError, match=r"sums over the axes \(7,\)"):
        decide(*pair, TWO, {"w": ("hidden", 7)})
    with pytest.raises(PlanError, match=r"fan-in axes \(0,\)"):
        decide(*pair, TWO, {"w": ("hidden", 0)})


def test_what_the_user_says_must_fit() -> None:
    model, wide = mlp(8), mlp(16)
    with pytest.raises(PlanError, match=r"'head.*' *.*fits no tensor"):
        decide(model, wide, TWO, {"head.*": "output"})
    with pytest.raises(PlanError, match="the role 'readout'; roles are 'input'"):
        decide(model, wide, TWO, {"net.4.weight": "readout"})
    with pytest.raises(PlanError, match=r"'fixed', but its shape .* grows"):
        decide(model, wide, TWO, {"net.2.weight": "fixed"})
    with pytest.raises(PlanError, match=r"'vector', but its shape .* does not change"):
        decide(model, wide, TWO, {"net.4.bias": "vector"})


def test_sizes_out_of_proportion() -> None:
    square = replace(matrix("w", (8, 64)), shape=(8, 256))
    with pytest.raises(PlanError, match=r"Axis 1 of `w` goes from 64 to 256 .* the power 2.00"):
        decide(ModelDescription((matrix("w", (8, 64)),)), ModelDescription((square,)), TWO)


def test_models_must_match() -> None:
    with pytest.raises(PlanError, match=r"other tensors at another width.*`net.6.bias`"):
        decide(mlp(8, 3), mlp(16, 4), TWO)


def test_ties() -> None:
    # The same role in both places: one matrix used twice is planned as one.
    shared = replace(matrix("a.weight", (8, 8)), aliases=("b.weight",))
    again = replace(shared, name="b.weight", owner="b", aliases=())
    wide = replace(shared, shape=(16, 16)), replace(again, shape=(16, 16))
    one = ModelDescription((shared,), aliases={"b.weight": again})
    two = ModelDescription((wide[0],), aliases={"b.weight": wide[1]})
    assert roles_of(one, two) == {"a.weight": Role.HIDDEN}
    # An embedding that reads out.
    (d, *_) = decide(language_model(8), language_model(16), TWO)
    assert (d.role, d.readout, d.fan_in) == (Role.INPUT, "head", (1,))
    # A norm's gain that is also a row of weights: nothing suits both.
    odd = replace(matrix("a.weight", (8, 8)), kind=Kind.GAIN, fan_in=(), aliases=("b.weight",))
    wide_odd = replace(odd, shape=(16, 16))
    with pytest.raises(PlanError, match=r"`a.weight` \(vector\), `b.weight` \(hidden\).*untie"):
        decide(
            ModelDescription((odd,), aliases={"b.weight": again}),
            ModelDescription((wide_odd,), aliases={"b.weight": wide[1]}),
            TWO,
        )


def test_tied_readout_needs_its_multiplier() -> None:
    with pytest.raises(
        PlanError, match=r'`head` reads out .* 0.125\..*multiplied=\["attention", "head"\]'
    ):
        planned(scaling.mup(), model=language_model, multiplied=["attention"])
    for s, power in (("0", 0.5), ("1/2", 0.75), ("1", 1.0)):
        heads = ["head", "attention"] if s != "0" else ["head"]
        plan = planned(scaling.meta(s), model=language_model, multiplied=heads)
        assert plan.multiplier("head") == pytest.approx(8.0**-power)
        assert plan["head.weight"].role is Role.INPUT
    with pytest.raises(PlanError, match="no multiplier gives both"):
        planned(
            scaling.pqr((0, 0, 1), (0, 0, 0), 0), model=language_model, multiplied=["attention"]
        )


def test_heads_that_grow_need_a_multiplier() -> None:
    with pytest.raises(
        PlanError, match=r'heads of `blocks.0` grow.*multiplied=\["head", "attention"\]'
    ):
        planned(scaling.mup(), model=language_model, multiplied=["head"])
    plan = planned(scaling.mup(), model=language_model, multiplied=["head", "attention"])
    assert plan.multiplier("attention") == pytest.approx(8**-0.5)
    half = planned(scaling.meta("1/2"), model=language_model, multiplied=["head", "attention"])
    assert half.multiplier("attention") == pytest.approx(8**-0.25)
    with pytest.raises(PlanError, match="names 'attention', but this model needs no multiplier"):
        planned(scaling.mup(), multiplied=["attention"])


def test_what_depth_repeats() -> None:
    plan = planned(scaling.mup(), "adamw", base_depth=3, depth=6)
    inside = [t.name for t in plan.tensors if t.in_block]
    assert inside == [f"net.{i}.{k}" for i in (2, 4, 6, 8) for k in ("weight", "bias")]
    assert plan.factors("net.2.weight").lr == pytest.approx(1 / 16)
    assert plan.factors("net.0.bias").lr == 1
    with pytest.raises(PlanError, match="builds the same tensors for both"):
        planned(scaling.mup(), model=lambda n, _: mlp(n, 3), base_depth=3, depth=6)


def test_residual_branches() -> None:
    options = {"model": language_model, "multiplied": ["head", "attention"], "depth": 12}
    plan = planned(scaling.mup(), residual=Fraction(1, 2), **options)
    assert plan.multiplier("residual") == pytest.approx(0.5)
    assert plan.factors("blocks.0.up.weight").lr == pytest.approx(1 / 8 / 2)
    carried = planned(
        scaling.mup(), residual=Fraction(1, 2), branch_outputs=["blocks.*.down.weight"], **options
    )
    assert carried.multiplier("residual") == 1
    assert carried.factors("blocks.3.down.weight").init == pytest.approx(8**-0.5 / 2)
    assert carried.factors("blocks.3.down.weight").lr == pytest.approx(1 / 8 / 4)
    with pytest.raises(PlanError, match=r"`branch_outputs` names 'blocks.\*.proj', which fits no"):
        planned(scaling.mup(), branch_outputs=["blocks.*.proj"], **options)


def rounded(n: int, depth: int) -> ModelDescription:
    """Hidden sizes as of Llama (multiples of 64), of Mamba (a sixteenth, rounded up), and to even numbers."""
    sizes = {"llama": 64 * -(-8 * n // (3 * 64)), "mamba": -(-n // 16), "even": 2 * -(-n // 3)}
    shapes = {"first": (n, 10)}
    for kind, size in sizes.items():
        shapes |= {f"{kind}.up": (size, n), f"{kind}.down": (n, size)}
    return ModelDescription(tuple(matrix(k, v) for k, v in (shapes | {"head": (5, n)}).items()))


@pytest.mark.parametrize("target", [24, 32, 48, 1000])
def test_sizes_that_are_rounded_are_measured(target: int) -> None:
    narrow, wide = rounded(16, 3), rounded(target, 3)
    roles = {"head": "output"}
    for name in ("llama", "mamba", "even"):
        same = narrow.named()[f"{name}.up"].shape[0] == wide.named()[f"{name}.up"].shape[0]
        # What does not change between the two is fixed there, whatever it would do elsewhere.
        roles |= {f"{name}.down": "input", f"{name}.up": "bottleneck"} if same else {}
    found = {
        d.tensor.name: d
        for d in decide(
            narrow, wide, Fraction(target, 16), roles,
            further=lambda: (rounded(1024, 3), Fraction(64)),
        )
    }  # fmt: skip
    for name, d in found.items():
        way = name.partition(".")[2]
        if way and name not in roles:
            assert d.role is Role.HIDDEN
            # Factors come from the actual sizes.
            sizes = (narrow.named()[name].shape, wide.named()[name].shape)
            assert fan_in_ratio(d, *sizes) == Fraction(sizes[1][1], sizes[0][1])


def test_roots_and_squares_of_the_width_are_no_rounding() -> None:
    def odd(power: float) -> Callable[[int], ModelDescription]:
        def at(n: int) -> ModelDescription:
            shape = (round(n**power), n)
            return ModelDescription((matrix("odd", shape),))

        return at

    for power in (0.5, 2.0):
        at = odd(power)
        with pytest.raises(PlanError, match=rf"Axis 0 of `odd` .* power {power:.2f} of the width"):
            decide(at(16), at(64), Fraction(4), further=lambda at=at: (at(1024), Fraction(64)))
