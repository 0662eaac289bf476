"""Breaks of residual networks, exact laws of linear ones, information and couplings."""

from breaks import row

AGREE = "tests/agreement/test_residual_against_ensembles.py::test_theory_and_ensembles_agree"
of_kernel = row("theory/flow/_rules.py", AGREE)
of_residual_tensors = row(
    "theory/residual/_tensors.py",
    "tests/agreement/test_residual_against_ensembles.py::test_without_skip_connections_nothing_is_missing",
)
ONE = "tests/theory/test_residual.py::test_one_input_from_tables_is_one_on_whole_arrays"
of_past = row("theory/order/_one_label.py", ONE)
of_layers = row("theory/order/_one_input.py", ONE)
of_scalars = row("theory/order/_scalar_terms.py", ONE)
of_residual_growth = row("theory/residual/_growth.py", "tests/theory/test_residual_design.py")
of_residual_blocks = row("theory/residual/_blocks.py", "tests/theory/test_residual_design.py")
of_pairings = row("theory/exact/_pairings.py", "tests/theory/test_linear_networks.py")
of_linear_networks = row("theory/exact/_linear_networks.py", "tests/theory/test_linear_networks.py")
of_information = row("theory/information/_information.py", "tests/theory/test_information.py")
of_aspect_ratio = row("theory/information/_aspect_ratio.py", "tests/theory/test_information.py")
of_nearly_gaussian = row("theory/correlators/_nearly_gaussian.py", "tests/theory/test_couplings.py")
of_couplings = row("theory/action/_couplings.py", "tests/theory/test_couplings.py")
of_single_input_couplings = row(
    "theory/action/_single_input_couplings.py", "tests/theory/test_couplings.py"
)
of_complexity = row("theory/action/_complexity.py", "tests/theory/test_complexity.py")

MUTANTS = (
    of_kernel(
        "residual: NTK that forgets",
        "C, T = total([pair.C for pair in below]), total([pair.T for pair in below])",
        "C, T = total([pair.C for pair in below]), total([below[0].T] + [None for _ in below[1:]])",
    ),
    of_kernel(
        "residual: kernel that forgets",
        "                    found += part\n",
        "                    found += 0 * part\n",
    ),
    of_residual_tensors(
        "residual: small parameter without the width",
        "relative.max(axis=(1, 2)) / below",
        "relative.max(axis=(1, 2))",
    ),
    of_layers(
        "residual: kinks of one input dropped",
        "each = zip(late, early, cross, strict=True)",
        "each = zip(late[:0], early[:0], cross[:0], strict=True)",
    ),
    of_layers(
        "residual: means of one input without their weights",
        "return terms.sum(axis=-1)",
        "return 2 * terms.sum(axis=-1)",
    ),
    of_past(
        "residual: covariances of one input without what two layers had in common",
        "value = value + _later(late) * early",
        "value = value",
    ),
    of_past(
        "residual: neurons of one input without their other half",
        "(1 + (P[0] == P[1])) * R",
        "1.0 * R",
    ),
    of_past(
        "residual: a stream of one input without its past",
        "beta = beta + factor * x[:-1]",
        "beta = beta + 0 * factor * x[:-1]",
    ),
    of_past(
        "residual: a law of one input that knows one layer alone",
        "beta = beta + R * x[:-1]",
        "beta = beta + 0 * R * x[:-1]",
    ),
    of_scalars(
        "residual: a stream of one input in one order",
        "for one, other in ((P, Q), (Q, P))",
        "for one, other in ((P, Q),)",
    ),
    of_scalars(
        "residual: laws of one input that do not add up",
        'found[own][("skip",), "", 0] = 1.0',
        'found[own][("skip",), "", 0] = 0.5',
    ),
    of_residual_growth(
        "residual: growth of a geometric sum",
        "c * (1 + gamma**p) / (1 - gamma**p)",
        "c / (1 - gamma**p)",
    ),
    of_residual_blocks(
        "residual: overlap of a block with its input",
        "(math.sqrt(inside) - gamma * G_Rz) / G_RR",
        "(math.sqrt(inside) + gamma * G_Rz) / G_RR",
    ),
    of_pairings("linear: loops", "float(n) ** (loops - m)", "float(n) ** (loops - m - 1)"),
    of_linear_networks(
        "linear: C_W of the first layer",
        "factor = (_slope(net) * net.C_W[below]) ** m",
        "factor = (_slope(net) * net.C_W[0]) ** m",
    ),
    of_linear_networks(
        "linear: law of the metric", "float(n) ** (1 - powers)", "float(n) ** (2 - powers)"
    ),
    of_information(
        "entropy: third order",
        "(m**3 + 10 * m**2 + 16 * m) / 48",
        "(m**3 + 8 * m**2 + 16 * m) / 48",
    ),
    of_information(
        "conditional variance: no half",
        "return G + 0.5 * (z * z - G) * x",
        "return G + (z * z - G) * x",
    ),
    of_aspect_ratio(
        "optimal aspect ratio",
        "return 4 / (20 + 3 * m1 + 3 * m2) / nu",
        "return 6 / (20 + 3 * m1 + 3 * m2) / nu",
    ),
    of_nearly_gaussian(
        "nearly Gaussian: pairs of one neuron",
        '"ab,abm->m", 4 * self_pairs, outer',
        '"ab,abm->m", 2 * self_pairs, outer',
    ),
    of_nearly_gaussian(
        "nearly Gaussian: across neurons", "left, right) / (4 * n)", "left, right) / (8 * n)"
    ),
    of_couplings(
        "couplings: crossed pairs",
        'shift = shift + np.einsum("acbd,cd->ab", raised, K)',
        'shift = shift + np.einsum("abcd,cd->ab", raised, K)',
    ),
    of_couplings(
        "couplings: shift of the metric",
        "shift = shift - up @ G1 @ up / n",
        "shift = shift + up @ G1 @ up / n",
    ),
    of_couplings(
        "couplings: neurons without their half",
        'shift = 0.5 * neurons * np.einsum("abcd,cd->ab", raised, K)',
        'shift = neurons * np.einsum("abcd,cd->ab", raised, K)',
    ),
    of_couplings("action: eighth", "S = S - 0.125 *", "S = S - 0.25 *"),
    of_single_input_couplings(
        "six-point vertex: ratio of widths once",
        "mixed + r**2 * slope**3 * U",
        "mixed + r * slope**3 * U",
    ),
    of_single_input_couplings(
        "six-point vertex: curvature dropped", " + 3 * (r * slope * V) ** 2 * bend", ""
    ),
    of_single_input_couplings(
        "six-point vertex: spread of the variance",
        "mixed = 3 * r * slope * widening * V",
        "mixed = r * slope * widening * V",
    ),
    of_single_input_couplings(
        "sextic coupling: V once", "(6 * V**2 / G - U)", "(3 * V**2 / G - U)"
    ),
    of_single_input_couplings("running coupling: sextic", "+ (m + 4) * u * G", "+ (m + 2) * u * G"),
    of_complexity(
        "numbers at order: one power short", "inputs ** (2 * (order + 1))", "inputs ** (2 * order)"
    ),
    row("observables.py", "tests/theory/test_complexity.py")(
        "count of B", "(N**4 + 3 * N**2) // 4", "(N**4 + N**2) // 2"
    ),
)
