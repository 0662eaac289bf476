"""Breaks of what plans know of experts, choices, and factors that are left as they are."""

from breaks import row

TODAY = "tests/torch/test_todays_models.py"
ROUTERS = f"{TODAY}::test_a_router_starts_as_a_hidden_matrix_and_experts_may_be_more"
NUMBERS = f"{TODAY}::test_experts_that_go_with_the_width_are_asked_about"
KEPT = f"{TODAY}::test_a_factor_is_asked_for_or_left_as_it_is"
ROOTS = f"{TODAY}::test_attention_that_keeps_its_root_may_grow_by_as_much"
SIZES = f"{TODAY}::test_sizes_do_not_move_with_the_width"
of_choices = row("plan/_choices.py", ROUTERS)
of_picks = row("torch/_picks.py", NUMBERS)
of_kept = row("plan/_kept.py", KEPT)

MUTANTS = (
    of_choices(
        "experts: a router whose scores end at the softmax",
        "for b in before for v in self.compared(b)] or [value]",
        "for b in before for v in self.compared(b)][:0] or [value]",
    ),
    of_choices(
        "experts: a sum over all of them", "return length // of * count", "return length", NUMBERS
    ),
    of_picks("experts: masks that no comparison makes", 'elif name == "eq"', 'elif name == "ne"'),
    of_picks(
        "experts: states of zeros as activations",
        'frozenset(["zeros", "new_zeros", "zeros_like"])',
        'frozenset(["zeros"])',
        SIZES,
    ),
    row("plan/_experts.py", NUMBERS)("experts: any number chosen", "if few != more:", "if few is more is None:"),
    row("plan/_experts.py", ROUTERS)(
        "experts: all as many", "if 0 < other[pattern(t.name)] !=", "if 9**9 < other[pattern(t.name)] !="
    ),
    row("plan/_axes.py", ROUTERS)(
        "experts: modules that see all samples", "part = Powers(**{axis: -Fraction(1)})", "part = Powers()"
    ),
    of_kept("keep: kinds alone", "wanted == place or (name and matching(wanted, [name]))", "wanted == place"),
    row("plan/_rows.py", ROOTS)("keep: logits that may not grow", "top = most + _left(plan, place)", "top = most"),
    row("plan/_small_rate.py", f"{TODAY}::test_rates_close_in_on_a_jump")(
        "verify: rates that jump to and fro", "return math.sqrt(self.low * self.high)", "return lr"
    ),
)  # fmt: skip
