"""Breaks of the asymptotic solutions of deep networks."""

from breaks import row

of_vanishing_kernel = row("theory/vanishing_kernel.py", "tests/theory/test_asymptotics.py")
of_scale_invariant = row("theory/scale_invariant.py", "tests/theory/test_asymptotics.py")
of_asymptotics = row("theory/asymptotics.py", "tests/theory/test_asymptotics.py")
of_scaling_ansatz = row("theory/scaling_ansatz.py", "tests/theory/test_asymptotics_scaling.py")

MUTANTS = (
    of_vanishing_kernel(
        "class of K* = 0: b_1",
        'a_1, a_2, b_1 = c["a_1"], c["a_2"], c["b_1"]',
        'a_1, a_2, b_1 = c["a_1"], c["a_2"], c["a_1"]',
    ),
    of_vanishing_kernel("deep D: nine", "-2 * d / (9 * -a)", "-2 * d / (8 * -a)"),
    of_vanishing_kernel("deep A: part of the bias rates", "4 / 27 * d**2", "4 / 27 * u * d"),
    of_vanishing_kernel(
        "deep H1: curvature without its exponent", "- w / 3 + p * X / 3", "- w / 3 + X / 3"
    ),
    of_vanishing_kernel(
        "deep R: weight of M dropped",
        '(4 * a - 3 * c["b_1"]) * X - (2 - p) / 3 * M',
        "a * X - (2 - p) / 3 * M",
    ),
    of_vanishing_kernel("deep U: four less p", "e * X**3 / (4 - p)", "e * X**3 / 3"),
    of_vanishing_kernel("deep V: second term", "(82 * a - 90 * b)", "(80 * a - 90 * b)"),
    of_vanishing_kernel(
        "deep K: sign of a logarithm", "(log**2 - log) / ell**3", "(log**2 + log) / ell**3"
    ),
    of_vanishing_kernel(
        "deep G1: tuned as printed",
        'limit = (84 * a**2 - 90 * a * b - c["a_2"]) / (3 * a**3)',
        'limit = 2 / 3 * (3 * c["a_2"] - a**2) / (-a) ** 3',
    ),
    of_vanishing_kernel(
        "deep dK1: logarithm dropped",
        "2 * q / a**2 * log / ell) / ell**2",
        "2 * q / a**2 / ell) / ell**2",
    ),
    of_vanishing_kernel(
        "deep ddK2: sign of the logarithm",
        'c["b_1"] * q / a**3 * log',
        '-c["b_1"] * q / a**3 * log',
    ),
    of_vanishing_kernel(
        "deep robustness: curvature once",
        'M = weight + 4 * (c["b_1"] - a) * X\n',
        'M = weight + (c["b_1"] - a) * X\n',
    ),
    of_vanishing_kernel(
        "uniform rates: as printed",
        'lambda_W * c["sigma_1"] ** 2 - a * lambda_b / 2',
        'lambda_W * c["sigma_1"] ** 2',
    ),
    of_vanishing_kernel("tuned G1: no half", '"G1": -0.5 * K * ell', '"G1": -K * ell'),
    of_scale_invariant(
        "scale-invariant A: lower order", "one * (a - 1) * w * t", "one * (a - 1) * u * t"
    ),
    of_scale_invariant(
        "scale-invariant D: slopes", "(4 * a - 2) * w) * kernel", "(4 * a - 1) * w) * kernel"
    ),
    of_scale_invariant(
        "scale-invariant Q: cube of the depth",
        "ell * (ell**2 - 1) / 6 * a * t * w",
        "ell**3 / 6 * a * t * w",
    ),
    of_scale_invariant(
        "scale-invariant S: swapped with T",
        '"S": quartic * t, "T": quartic * w',
        '"S": quartic * w, "T": quartic * t',
    ),
    of_scale_invariant(
        "scale-invariant G1: pairs of layers", "kernel * C_b * m * (m - 1)", "kernel * C_b * m * m"
    ),
    of_asymptotics("half-stable V: five", "square * s * ell / 5", "square * s * ell / 4"),
    of_asymptotics(
        "half-stable G1: twenty", "square * s * ell**2 / 20", "square * s * ell**2 / 16"
    ),
    of_asymptotics(
        "half-stable slope: twice",
        'C_W * float(value["p1"][0])',
        '0.5 * C_W * float(value["p1"][0])',
    ),
    of_asymptotics(
        "deep rates: depth upside down",
        'depth ** (record.coefficients["p_perp"] - 1)',
        'depth ** (1 - record.coefficients["p_perp"])',
    ),
    of_scaling_ansatz("fitted exponents: sign", "sign = float(np.sign(observed[0]))", "sign = 1.0"),
    of_scaling_ansatz(
        "fitted exponents: powers exchanged",
        "OBSERVABLES[name].dimension or (0, 0)",
        "(OBSERVABLES[name].dimension or (0, 0))[::-1]",
    ),
)
