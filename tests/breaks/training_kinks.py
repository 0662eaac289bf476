"""Breaks of powers of n^(-1/2) after training over kinks."""

from breaks import row

KINKS = "tests/training/test_kinks.py"
ONE = f"{KINKS}::test_one_sample_under_flow_is_known_in_closed_form"
STORED = f"{KINKS}::test_stored_ensembles_have_these_coefficients_of_the_root"
FLOW = f"{KINKS}::test_small_steps_lead_to_the_flow_and_neurons_stick_to_kinks"
STICK = f"{KINKS}::test_neurons_stick_to_a_kink_that_both_sides_lead_to"
STEP = f"{KINKS}::test_a_kink_that_nothing_pushes_apart_sends_as_many_there_as_back"
SAYS = f"{KINKS}::test_what_has_no_power_of_a_half_says_so"
FITS = f"{KINKS}::test_widths_are_fitted_in_powers_of_the_root_where_there_is_a_kink"
WIDTH = f"{KINKS}::test_a_width_adds_the_root_and_states_what_is_next"
AGREE = f"{KINKS}::test_trained_networks_agree_with_the_root_and_one_width_decides_nothing"

of_neurons = row("training/kinks/_neurons.py", STORED)
of_closed = row("training/kinks/_neurons.py", ONE)
of_crossing = row("training/kinks/_crossing.py", STEP)
of_flow = row("training/kinks/_crossing.py", FLOW)
of_course = row("training/kinks/_course.py", STORED)
of_presence = row("training/_moved_kinks.py", SAYS)
of_measure = row("training/ensembles/_measure.py", FITS)
of_width = row("comparison/_trained.py", WIDTH)
of_doubt = row("comparison/_trained.py", AGREE)

MUTANTS = (
    of_closed(
        "kinks: length of last weights squared alone",
        "math.exp(gammaln((n + 3) / 2) - gammaln(n / 2))",
        "math.exp(gammaln((n + 2) / 2) - gammaln(n / 2))",
    ),
    of_closed("kinks: diagonal as a row", "kink.right**2 - kink.left**2", "kink.right - kink.left"),
    of_neurons(
        "kinks: sides of others forgotten",
        "hidden.Lambda[s] * kinked.slopes(normal)",
        "hidden.Lambda[s] * (0 * kinked.slopes(normal) + 0.5)",
    ),
    of_neurons("kinks: output at its own kink", "+ Y[:, :, None] * (itself[:count] @ U)", ""),
    of_neurons("kinks: covariance without zeta", "(known - setting.unlearned(k)).T", "known.T"),
    of_neurons(
        "kinks: odd and even exchanged",
        "(ways[0][0] + ways[1][0]) / 2",
        "(ways[0][0] - ways[1][0]) / 2",
    ),
    of_crossing("crossing: one speed", "(kink.left + kink.jump * share) * F", "kink.left * F"),
    of_crossing("crossing: sides not looked at again", "theta = (u > 0).astype(float)\n", "pass\n"),
    of_flow(
        "flow: nobody sticks",
        "holds = (back > 0) & (on < 0)",
        "holds = (back > 0) & (on < -np.inf)",
        STICK,
    ),
    of_flow(
        "flow: on the kink is on the right",
        "np.minimum((1 - when) * back, -_BEYOND)",
        "np.maximum((1 - when) * back, 0.0)",
    ),
    of_course("course: what is moved is not unlearned", "(self.h * a + P[k])", "(self.h * a)"),
    of_presence("kinks: last layers move them", "not algorithm.trains_hidden or", ""),
    of_measure("widths: kinks in whole powers", "1 / n**power", "1 / n"),
    of_width(
        "width: the root as a whole power",
        "theory[own].values / n**power)\n            error",
        "theory[own].values / n)\n            error",
    ),
    of_doubt("width: one decides", "not halves & {*names}", "not halves & {*names} or True"),
)
