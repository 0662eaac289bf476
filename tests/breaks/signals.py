"""Breaks of the report of signals: what is measured, what the theory says of it, and what gives mistakes away."""

from breaks import row

TESTS = "tests/torch/test_signals.py"
NAMED = f"{TESTS}::test_each_mistake_is_named_and_nothing_else"
RELU = f"{TESTS}::test_what_a_chain_of_relu_does_is_what_the_theory_says"
CHI = f"{TESTS}::test_susceptibilities_are_those_of_the_activation"
AUTODIFF = f"{TESTS}::test_sizes_gradients_and_correlations_are_those_of_autodiff"
SHARES = f"{TESTS}::test_shares_of_units_and_weights"
SKIPS = f"{TESTS}::test_skips_however_they_are_written"
STREAM = f"{TESTS}::test_susceptibilities_of_a_stream_of_tokens_are_those_of_drawn_models"
BESIDE = f"{TESTS}::test_the_theory_stands_beside_the_places_that_it_is_of"
FIELDS = "tests/theory/test_fields.py"
GIVEN = f"{FIELDS}::test_fields_without_weights_may_be_given"
SILENT = f"{TESTS}::test_right_models_are_passed_in_silence"
NUMBERS = f"{TESTS}::test_numbers_of_what_looks_right_are_those_of_its_weights"
STEPS = f"{TESTS}::test_the_optimizer_is_known_by_its_first_steps"

of_rows = row("torch/_rows.py", AUTODIFF)
of_watch = row("torch/_watch.py", AUTODIFF)
of_theory = row("signals/_theory.py", RELU)
of_every_node = row(
    "theory/flow/_every_node.py",
    f"{FIELDS}::test_kernels_of_all_fields_are_those_of_site_matrices",
)
of_findings = row("signals/_findings.py", NAMED)
of_streams = row("signals/_streams.py", NAMED)
of_steps = row("torch/_first_step.py", STEPS)

MUTANTS = (
    of_rows("signals: the gradient of all samples", "uses.slopes / samples", "uses.slopes"),
    of_rows(
        "signals: dead for one sample",
        "(by_unit(values) == 0).all(dim=1)",
        "(by_unit(values) == 0).any(dim=1)",
        SHARES,
    ),
    of_watch("signals: a sum that is scaled back is doubled", "<= _SCALED_BACK", "< 0", SKIPS),
    of_theory("signals: the distance of two inputs", "- 2 * K[0, k]", "- K[0, k]", CHI),
    of_theory("signals: sizes are variances", "size = math.sqrt(max(", "size = float(max("),
    of_theory("signals: words are not moved", "hot[-1] += _MOVED", "hot[-1] += 0 * _MOVED", CHI),
    of_theory(
        "signals: a stream begins at its second sum",
        "before = own.joined.entry if own.joined.before is None else own.joined.before",
        "before = own.joined.before",
        STREAM,
    ),
    of_theory("signals: layers in one product are added", "channels[k] / whole", "1.0", BESIDE),
    of_every_node("fields: positions of all inputs", '"aapq->apq", whole', '"abpq->apq", whole'),
    of_every_node("fields: what is given is left", "if here in given:", "if not given:", GIVEN),
    of_findings(
        "signals: fan_in for fan_out",
        "abs(off + math.log(own.fan_out / own.fan_in))",
        "abs(off - math.log(own.fan_out / own.fan_in))",
    ),
    of_streams("signals: streams may grow", "ends > _largest(", "ends > 40 * _largest("),
    of_streams("signals: branches scaled by the depth grow", "_GAIN = 2.0", "_GAIN = 0.0", SILENT),
    of_streams(
        "signals: streams may be halved", "_HALVED, _FEWEST = 0.6", "_HALVED, _FEWEST = 0.4"
    ),
    of_streams(
        "signals: sums over the root of two are means",
        "_HALVED, _FEWEST = 0.6",
        "_HALVED, _FEWEST = 0.8",
        SILENT,
    ),
    of_findings(
        "signals: a tied readout of its own outputs",
        "row.reads * math.sqrt(own.C_W)",
        "row.reads * own.C_W",
        NUMBERS,
    ),
    of_findings("signals: readouts that a number scales", "outputs > size / 2", "True", SILENT),
    of_findings("signals: any eps", "n[2] > _ADDED", "n[2] > 0.9"),
    of_watch(
        "signals: products that a number scales",
        "unscaled=None if own.scaled else variance",
        "unscaled=variance",
        SILENT,
    ),
    of_watch(
        "signals: a head of one number", "operands[0].shape[-1], variance", "1, variance", NUMBERS
    ),
    of_rows(
        "signals: gates of a recurrence", "units = replace(units, saturated=None)", "pass", SILENT
    ),
    of_rows("signals: units that a slope leaves", "< _AWAKE[name]", "< 9 * _AWAKE[name]", NAMED),
    of_rows(
        "signals: the share of eps",
        "(eps / (eps + variances.detach()))",
        "(eps / variances)",
        NUMBERS,
    ),
    of_findings(
        "signals: gates want another variance", "abs(math.log(own.C_W)) < _ALIKE", "False", SILENT
    ),
    of_steps("signals: the first step is small", "one[0] > _TOO_LARGE", "one[0] > 9"),
)
