"""Breaks of the report of signals: what is measured, what the theory says of it, and what gives mistakes away."""

from breaks import row

TESTS = "tests/torch/test_signals.py"
NAMED = f"{TESTS}::test_each_mistake_is_named_and_nothing_else"
RELU = f"{TESTS}::test_what_a_chain_of_relu_does_is_what_the_theory_says"
CHI = f"{TESTS}::test_susceptibilities_are_those_of_the_activation"
AUTODIFF = f"{TESTS}::test_sizes_gradients_and_correlations_are_those_of_autodiff"
SHARES = f"{TESTS}::test_shares_of_units_and_weights"
SKIPS = f"{TESTS}::test_skips_however_they_are_written"
STEPS = f"{TESTS}::test_the_optimizer_is_known_by_its_first_steps"

of_rows = row("torch/_rows.py", AUTODIFF)
of_watch = row("torch/_watch.py", AUTODIFF)
of_theory = row("signals/_theory.py", RELU)
of_findings = row("signals/_findings.py", NAMED)
of_streams = row("signals/_streams.py", NAMED)
of_steps = row("torch/_first_step.py", STEPS)

MUTANTS = (
    of_rows("signals: the gradient of all samples", "uses.slopes / samples", "uses.slopes"),
    of_watch(
        "signals: dead for one sample",
        "(flat == 0).all(dim=1)",
        "(flat == 0).any(dim=1)",
        SHARES,
    ),
    of_watch("signals: a sum that is scaled back is doubled", "<= _SCALED_BACK", "< 0", SKIPS),
    of_theory("signals: the distance of two inputs", "- 2 * own[0, k]", "- own[0, k]", CHI),
    of_theory("signals: sizes are variances", "size = math.sqrt(max(", "size = float(max("),
    of_findings(
        "signals: fan_in for fan_out",
        "abs(off + math.log(own.fan_out / own.fan_in))",
        "abs(off - math.log(own.fan_out / own.fan_in))",
    ),
    of_streams("signals: streams may grow", "grown > _GROWN and", "grown > 40 * _GROWN and"),
    of_steps("signals: the first step is small", "one[0] > _TOO_LARGE", "one[0] > 9"),
)
