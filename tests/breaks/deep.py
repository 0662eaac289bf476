"""Breaks of the asymptotic solutions of deep networks."""

from breaks import row

of_vanishing_kernel = row("theory/deep/_vanishing_kernel.py", "tests/theory/test_asymptotics.py")
of_scale_invariant = row("theory/deep/_scale_invariant.py", "tests/theory/test_asymptotics.py")
of_power_laws = row("theory/deep/_power_laws.py", "tests/theory/test_asymptotics_derived.py")
of_half_stable = row("theory/deep/_half_stable.py", "tests/theory/test_asymptotics_derived.py")
of_asymptotics = row("theory/deep/_asymptotics.py", "tests/theory/test_asymptotics.py")
of_scaling_ansatz = row(
    "theory/deep/_scaling_ansatz.py", "tests/theory/test_asymptotics_scaling.py"
)

MUTANTS = (
    of_vanishing_kernel(
        "class of K* = 0: b_1",
        'a_1, a_2, b_1 = c["a_1"], c["a_2"], c["b_1"]',
        'a_1, a_2, b_1 = c["a_1"], c["a_2"], c["a_1"]',
    ),
    of_power_laws("deep D: curvature", "(spread - nu * d) / 3", "(spread + nu * d) / 3"),
    of_power_laws(
        "deep D: fluctuations of the slope", "spread = (kappa - 1) * X", "spread = 0.0 * X"
    ),
    of_power_laws(
        "deep A: part of the bias rates", "spread * X - 2 * d * D", "spread * X - 2 * X * D"
    ),
    of_power_laws(
        "deep H1: second derivative of the slope",
        "s * (s - 1) / 2 * p * nu * X",
        "s * s / 2 * p * nu * X",
    ),
    of_power_laws("deep H1: tensors crosswise once", "-s * p * (D + 2 * F)", "-s * p * (D + F)"),
    of_power_laws("deep K: power", "K = (-law.a * s * ell)", "K = (-law.a * ell)"),
    of_power_laws("deep V: a third of 3κ - 1", "nu = kappa - 1 / 3", "nu = 2 / 3 * kappa"),
    of_power_laws("deep G1: any power", "-(1 + s) / 4 * nu", "-0.5 * nu"),
    of_power_laws("deep F: exponents", "4 - p + 1 / s, 1 + 1 / s - p", "5 - p, 1 + 1 / s - p"),
    of_power_laws(
        "deep P: susceptibilities", "4 - p + 1 / s, 1 + 1 / s - p", "4 - p + 1 / s, 2 - p"
    ),
    of_power_laws(
        "deep R: weight of M dropped", "third * (B + P) + M * P) / q", "third * (B + P)) / q"
    ),
    of_power_laws("deep U: four less p", "(4 - p - m / s)", "(4 - p)"),
    of_power_laws(
        "deep U: fourth derivative",
        'quartic = 0.75 * c["sigma_4"] ** 2',
        'quartic = c["sigma_4"] ** 2',
    ),
    of_power_laws(
        "deep rates: depth upside down", "(ell / depth) ** (1 - p)", "(ell * depth) ** (1 - p)"
    ),
    of_power_laws("deep exponents: of D", "p - 2 + 1 / s)", "p - 1)"),
    of_vanishing_kernel(
        "deep kinks: fluctuations of the vertex alone",
        '(c["vertex_source"] + 1) / 3',
        'c["vertex_source"] / 2',
        "tests/theory/test_asymptotics_derived.py",
    ),
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
    of_half_stable("half-stable V: five", "point.K_star**2 / 5", "point.K_star**2 / 4"),
    of_half_stable("half-stable G1: a quarter", "a * v / 4", "a * v / 5"),
    of_half_stable("half-stable slope: twice", 'C_W * moments["p1"]', '0.5 * C_W * moments["p1"]'),
    of_half_stable("half-stable D: five", "b * v * X / 5", "b * v * X / 4"),
    of_half_stable("half-stable A: twice", "2 * b * X * D / 5", "b * X * D / 5"),
    of_half_stable("half-stable H1: metric dropped", "b * (D + X * metric) / 4", "b * D / 4"),
    of_half_stable("half-stable F: six", "* X * over[6]\n    if", "* X * over[5]\n    if"),
    of_half_stable(
        "half-stable P: curvature dropped",
        '(C**2 * m["s0112"] * X**2 + (p - 2) * B)',
        '(C**2 * m["s0112"] * X**2)',
    ),
    of_half_stable(
        "half-stable P: kinks", 'C * m["s02"] * B * over[6]', 'C * m["s02"] * B * over[5]'
    ),
    of_half_stable("half-stable Q: kinks", 'C * m["z12"] * X * F', "b * X * F"),
    of_half_stable("half-stable R: curvature", '+ C * m["s22"] * X * P) * over[5]', ") * over[5]"),
    of_half_stable(
        "half-stable S: six", 'C * m["s22"] * X * B * over[5]', 'C * m["s22"] * X * B * over[6]'
    ),
    of_half_stable("half-stable T: twice", "2 * b * X * Q * over[6]", "b * X * Q * over[6]"),
    of_half_stable("half-stable U: four", "X**3 * over[4]", "X**3 * over[5]"),
    of_half_stable("half-stable forms: none forgotten", "power if p < limit", "power if p < 1e9"),
    of_asymptotics(
        "deep rates: not shared", '"lambda_b": lambda_b / share', '"lambda_b": lambda_b'
    ),
    of_asymptotics(
        "half-stable rates: without the depth",
        '"depth": float(depth or 1)',
        '"depth": 1.0',
        "tests/theory/test_asymptotics_derived.py",
    ),
    of_scaling_ansatz("fitted exponents: sign", "sign = float(np.sign(observed[0]))", "sign = 1.0"),
    of_scaling_ansatz(
        "fitted exponents: powers exchanged",
        "row.letter: row.dimension for",
        "row.letter: row.dimension[::-1] for",
    ),
)
