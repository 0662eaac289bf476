"""Breaks of the recursions of one input, and of the moments they are made of."""

from breaks import row

of_single_input = row(
    "theory/single/_single_input.py", "tests/theory/test_single_input_recursions.py"
)
of_chain = row("theory/order/_one_label.py", "tests/theory/test_single_input_recursions.py")
of_scalars = row("theory/order/_scalar_terms.py", "tests/theory/test_single_input_recursions.py")
of_line_moments = row(
    "theory/_tables/_line_moments.py", "tests/theory/test_single_input_moments.py"
)
of_line_table = row("theory/_tables/_line_table.py", "tests/theory/test_single_input_moments.py")
of_scan = row("theory/_tables/_scan.py", "tests/theory/test_single_input_recursions.py")
of_layer_contributions = row(
    "theory/single/_layer_contributions.py", "tests/theory/test_single_input_recursions.py"
)

of_size = row("theory/flow/_natural_size.py", "tests/theory/test_natural_size.py")
of_any = row("theory/_any_layers.py", "tests/theory/test_natural_size.py")
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
    of_chain("one label: ratio of widths", "start=self.r", "start=1.0"),
    of_chain(
        "one label: covariances of this layer",
        "beta = beta + factor * Y[:-1]",
        "beta = beta + factor * Y[1:]",
        "tests/theory/test_single_input_golden.py",
    ),
    of_chain("one label: tuning of C_b dropped", "self.shifts[0] * (not", "0.0 * (not"),
    of_chain("one label: tuning of C_W dropped", "self.shifts[1] * beta", "0.0 * beta"),
    of_chain(
        "one label: Theta to the first power",
        "value * self.Theta**term.tangents",
        "value * self.Theta",
        "tests/theory/test_single_input_golden.py",
    ),
    of_scalars("one label: curvature twice", "m, last, 0.5 * factor)", "m, last, factor)"),
    of_scalars("one label: powers of a product", "* number / 2**count", "* number"),
    of_scalars(
        "one label: both sides change alike",
        "if charge(one) == charge(other)\n",
        "if one == other\n",
    ),
    of_scalars(
        "one label: squares that are not less their means",
        "_COVARIANCES if own.inside else _FOURS",
        "_FOURS",
    ),
    of_scalars(
        "one label: noise of one rate", "sorted((rate, other_rate))", "sorted((rate, rate))"
    ),
    of_chain("one label: C_b in every shift", "(not any(of[0]))", "True"),
    of_scalars("one label: fourth derivative of a square", '(4, "g2")', '(2, "g2")'),
    of_scalars(
        "one label: chain rule of a kink",
        '(1, "z12")',
        '(1, "p1")',
        "tests/theory/test_single_input_agreement.py",
    ),
    of_scalars(
        "one label: second derivative by parts",
        '((0, 1), 1): (1, "g1")',
        '((0, 1), 1): (1, "p")',
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
        "if (its.dimension, its.order, its.takes_jets) == kind",
        "if its is row",
    ),
    of_size(
        "size: of the smallest of its kind",
        ".max(axis=(0, 2))",
        ".max(axis=2).min(axis=0)",
    ),
    of_size("size: correction without its order", "relative * leading", "leading"),
    of_size("size: B counted once", '{"A": 1, "B": 2}', '{"A": 1, "B": 1}'),
    of_size("size: the whole variance of the NTK", "INDEPENDENT = 0.5", "INDEPENDENT = 1.0"),
    of_any(
        "size: weights used again forgotten",
        "again = any(net.program.weights_of(draw) != draw for draw in draws)",
        "again = False",
    ),
    of_any("size: norms add nothing", "scatter = norms + ", "scatter = "),
    of_any("size: what stands above scatters alone", "np.maximum.accumulate(found)", "found"),
    row("networks/_network.py", "tests/theory/test_natural_size.py")(
        "size: a second layer behind a norm is exact", "return 2 if apart", "return 2 if True"
    ),
    row("theory/_predict.py", "tests/theory/test_natural_size.py")(
        "size: streams as their branches",
        "    if not skips:\n        found = single_input_tensors",
        "    if True:\n        found = single_input_tensors",
    ),
    of_bias(
        "bias: entries between inputs forgotten",
        "size + _largest(values)\n",
        "size + size\n",
    ),
    of_bias(
        "bias: of the metric alone",
        ' + row.dimension[1] * _at(hidden, theory, "ntk_expansion_parameter")',
        "",
    ),
    of_bias("bias: corrected observables to first order", "            order = order**2\n", ""),
)
