"""Breaks of the recursions of one input, and of the moments they are made of."""

from breaks import row

of_single_input = row(
    "theory/single/_single_input.py", "tests/theory/test_single_input_recursions.py"
)
of_line_moments = row(
    "theory/_tables/_line_moments.py", "tests/theory/test_single_input_moments.py"
)
of_line_table = row("theory/_tables/_line_table.py", "tests/theory/test_single_input_moments.py")
of_scan = row("theory/_tables/_scan.py", "tests/theory/test_single_input_recursions.py")
of_layer_contributions = row(
    "theory/single/_layer_contributions.py", "tests/theory/test_single_input_recursions.py"
)

of_size = row("theory/flow/_natural_size.py", "tests/theory/test_natural_size.py")
of_bias = row(
    "comparison/_width.py", ("tests/theory/test_natural_size.py", "tests/test_compare.py")
)
of_certainty = row("comparison/_certainty.py", "tests/test_compare.py")
of_judgement = row("comparison/_comparison.py", "tests/test_compare.py")
of_verdict = row("comparison/_compare.py", "tests/test_compare.py")
of_normal = row(
    "comparison/_normal.py", "tests/test_compare.py::test_students_law_in_normal_numbers"
)
of_fewest = row(
    "nets/_moments.py", "tests/nets/test_moments.py::test_two_valued_data_have_a_positive_error"
)

MUTANTS = (
    of_certainty(
        "few networks: errors of what is measured too small",
        "np.maximum(1.0, ratio)",
        "np.minimum(1.0, ratio)",
        "tests/test_compare.py::test_an_ensemble_that_measures_too_little_has_too_small_an_error",
    ),
    of_certainty(
        "few networks: errors as if they were known",
        "return np.asarray((networks - ",
        "return np.asarray(1e9 * (networks - ",
        "tests/test_compare.py::test_so_few_networks_that_nothing_is_decided_say_so",
    ),
    of_certainty(
        "few networks: degrees of freedom of wide networks",
        "w = 1 + epsilon",
        "w = 1 + 0 * epsilon",
        "tests/test_compare.py::test_a_wrong_entry_is_found_named_and_fails",
    ),
    of_certainty(
        "few networks: covariances known as well as means",
        "(_OF_COVARIANCES if covariance else _OF_MEANS)",
        "_OF_MEANS",
        "tests/test_compare.py::test_a_covariance_is_known_less_well_than_a_mean",
    ),
    of_certainty(
        "few networks: a limit for one number",
        "_FALSE_ALARMS / count",
        "_FALSE_ALARMS / 1",
        "tests/experiments/test_experiments.py::test_many_numbers_have_a_wider_limit",
    ),
    of_judgement(
        "verdict: numbers alike by chance are exact",
        "self.in_layers(self.still) & (self.sem",
        "(self.sem",
        "tests/test_compare.py::test_networks_that_are_alike_by_chance_do_not_make_a_number_exact",
    ),
    of_judgement(
        "verdict: layers beyond the expansion decide",
        "(far & self.distinct & ~self.in_layers(self.beyond))",
        "(far & self.distinct)",
        "tests/test_compare.py::test_layers_beyond_the_expansion_are_left_out_of_the_verdict",
    ),
    of_verdict(
        "verdict: what is named need not be decided",
        "(not decided or (whole and bool(found)))",
        "not decided",
        "tests/test_compare.py::test_few_networks_seldom_contradict_the_theory_of_the_same_network",
    ),
    of_verdict(
        "verdict: what was not decided is ok",
        "if s.name not in found)",
        "if s.name)",
        "tests/test_compare.py::test_few_networks_seldom_contradict_the_theory_of_the_same_network",
    ),
    of_normal("few networks: Wallace's factor", "(8 * nu + 1) / (8 * nu + 3) * np", "np"),
    of_fewest("few networks: cumulants below 0", "np.maximum(k22, 0.0)", "k22"),
    of_single_input(
        "one V: ratio of widths",
        'V = scan(r * chi**2, C_W**2 * m["vss"])',
        'V = scan(chi**2, C_W**2 * m["vss"])',
    ),
    of_single_input(
        "one G1: half of the curvature",
        'nlo[1] * m["g"] + 0.5 * r * C_W',
        'nlo[1] * m["g"] + r * C_W',
    ),
    of_single_input(
        "one G1: tuning with the wrong width",
        'nlo[0] + nlo[1] * m["g"]',
        'nlo[0] + r * nlo[1] * m["g"]',
    ),
    of_single_input("one G1: bias tuning dropped", 'nlo[0] + nlo[1] * m["g"]', 'nlo[1] * m["g"]'),
    of_single_input("one H1: tuning dropped", 'r * below + nlo[1] * m["p"] * Theta', "r * below"),
    of_single_input(
        "one H1: F counted as D",
        "+ 4 * h * F +",
        "+ 2 * h * F +",
        "tests/theory/test_single_input_agreement.py",
    ),
    of_single_input(
        "one H1: curvature of the slope",
        'slope = 2 * h * G1 + 0.5 * C_W * m["p2"] * V',
        "slope = 2 * h * G1",
        "tests/theory/test_single_input_agreement.py",
    ),
    of_single_input(
        "one D: V of this layer",
        'D = scan(r * perp * par, ratio * t["V"][1:]',
        'D = scan(r * perp * par, ratio * t["V"][:-1]',
        "tests/theory/test_single_input_golden.py",
    ),
    of_single_input(
        "one D: mixed without V",
        'm["vsp"] + 2 * r * h * par * V',
        'm["vsp"] + r * h * par * V',
        "tests/theory/test_single_input_golden.py",
    ),
    of_single_input(
        "one F: chi_perp for chi_par",
        "F = scan(r * par**2,",
        "F = scan(r * par * perp,",
        "tests/theory/test_single_input_golden.py",
    ),
    of_single_input(
        "one B: Theta to the first power",
        'm["p4"] * Theta**2)\n    slopes',
        'm["p4"] * Theta)\n    slopes',
        "tests/theory/test_single_input_golden.py",
    ),
    of_single_input(
        "one A: slope fluctuation",
        "+ 4 * r * h**2 * V",
        "+ 2 * r * h**2 * V",
        "tests/theory/test_single_input_golden.py",
    ),
    of_single_input(
        "one A: D through the kernel only",
        "(ratio * par + 2 * h * Theta) * D",
        "(ratio * par) * D",
        "tests/theory/test_single_input_golden.py",
    ),
    of_single_input(
        "one P: nothing from B",
        'perp * m["s02"] * t["B"]',
        '0 * m["s02"] * t["B"]',
        "tests/theory/test_single_input_golden.py",
    ),
    of_single_input(
        "one P: factor as autodiff says",
        "P = scan(r * perp * par,",
        "P = scan(r * perp * perp,",
        "tests/theory/test_single_input_golden.py",
    ),
    of_single_input(
        "one Q: F of this layer in both",
        'lam / C_W * t["F"][1:]',
        'lam / C_W * t["F"][:-1]',
        "tests/theory/test_single_input_golden.py",
    ),
    of_single_input(
        "one Q: factor without the kink",
        '"Q": scan(r * perp * par, common',
        '"Q": scan(r * perp * (perp + C_W * m["s02"]), common',
        "tests/theory/test_single_input_agreement.py",
    ),
    of_single_input(
        "one R: B left out",
        "third * (B + P)",
        "third * P",
        "tests/theory/test_single_input_golden.py",
    ),
    of_single_input(
        "one R: mu without rates",
        'mu = lam * m["p"] +',
        "mu =",
        "tests/theory/test_single_input_golden.py",
    ),
    of_single_input("one S: rate", "S = scan(alpha, C_W * lam *", "S = scan(alpha, lam *"),
    of_single_input(
        "one T: Q once",
        "2 * r * perp * kappa * Q",
        "r * perp * kappa * Q",
        "tests/theory/test_single_input_golden.py",
    ),
    of_single_input(
        "one T: kappa without its rate",
        'kappa = lam * m["g1"] +',
        "kappa =",
        "tests/theory/test_single_input_golden.py",
    ),
    of_single_input(
        "one U: chi_perp once",
        '"U": scan(alpha, s)',
        '"U": scan(perp, s)',
        "tests/theory/test_single_input_golden.py",
    ),
    of_single_input("one Theta: first layer", "(K[0] - net.C_b[0]) / C[0]", "K[0] / C[0]"),
    of_single_input(
        "one ratio: widths upside down", "widths[1:-1] / widths[:-2]", "widths[:-2] / widths[1:-1]"
    ),
    of_line_moments("line moments g2: s0 s3 dropped", "3 * s1 * s2 + s0 * s3", "3 * s1 * s2"),
    of_line_moments("line moments delta: g2 corner", "- corner * (1 - u2)", "- corner"),
    of_line_moments(
        "line moments delta: p1",
        'kappa * slope / (2 * K)\n        total["p2"]',
        'kappa * slope / K\n        total["p2"]',
    ),
    of_line_moments(
        "line moments delta: p2 slope",
        "slope * kappa / K * (3 - u2)",
        "slope * kappa / K * (1 - u2)",
    ),
    of_line_moments("line moments delta: p2 both", "2 * both * (u2 - 1)", "both * (u2 - 1)"),
    of_line_moments(
        "line moments p2: centre twice",
        "(z * z / variance - 1) * centre / (2",
        "(z * z / variance - 1) * centre / (1",
    ),
    of_line_moments(
        "line moments jump: g2",
        "6 * u2 + 3) * square / (4",
        "6 * u2 + 3) * square / (2",
        "tests/theory/test_single_input_recursions.py",
    ),
    of_line_moments(
        "line moments jump: g1",
        "(u2 - 1) * square / (2 *",
        "(u2 - 1) * square / (1 *",
        "tests/theory/test_single_input_recursions.py",
    ),
    of_line_moments(
        "line moments exp: twice",
        'dict.fromkeys(("g2", "p2"), 4 * two)',
        'dict.fromkeys(("g2", "p2"), 2 * two)',
    ),
    of_line_table(
        "table: half the coefficients",
        "return panel, size\n            parts",
        "panel[..., 7:] = 0\n                return panel, size\n            parts",
    ),
    of_line_table("table: power series one short", "for c in p[::-1]]", "for c in p[::-1][1:]]"),
    of_scan("scan: block start", "x += a * ends[:-1]", "x += a * ends[1:]"),
    of_layer_contributions(
        "contrib: bias of C_b kept", "second = (K - C_b) / C_W", "second = K / C_W"
    ),
    of_layer_contributions(
        "gradients: one layer too many",
        "np.concatenate([np.cumprod(chi_perp[::-1], axis=0)[::-1], ones])",
        "np.concatenate([ones, np.cumprod(chi_perp[::-1], axis=0)[::-1]])",
        "tests/theory/test_single_input_golden.py",
    ),
    of_size(
        "size: of the tensor alone",
        "if (its.dimension, its.order) == (row.dimension, row.order) and",
        "if its is row and",
    ),
    of_size(
        "size: of the smallest of its dimension",
        "np.max(same, axis=(0, 2))",
        "np.min(same, axis=(0, 2))",
    ),
    of_size("size: correction without its order", "relative * leading", "leading"),
    row("theory/single/_single_input.py", "tests/theory/test_natural_size.py")(
        "size: signs of the expectations kept",
        "{name: np.abs(value) for name, value in moments.items()}",
        "moments",
    ),
    of_bias(
        "bias: entries between inputs forgotten",
        'np.maximum(theory[f"{name}_size"].values, largest)',
        'theory[f"{name}_size"].values',
    ),
    of_bias("bias: corrected observables to first order", "            order = epsilon**2\n", ""),
)
