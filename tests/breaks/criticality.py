"""Breaks of universality classes and of the scaling strategies."""

from breaks import row

of_universality = row("criticality/_universality.py", "tests/test_criticality_exponents.py")
of_equivalence = row("criticality/_equivalence.py", "tests/test_network_rates.py")
of_orders = row("scaling/orders.py", "tests/scaling")
of_exponents = row("scaling/exponents.py", "tests/scaling")
of_aspect = row("scaling/aspect.py", "tests/scaling")
of_conditions = row("scaling/conditions.py", "tests/scaling/test_conditions.py")
of_scaled = row("scaled.py", "tests/test_scaled.py")
of_s_family = row(
    "experiments/s_family.py",
    "tests/experiments/test_s_family.py::test_means_are_those_of_the_recursions",
)

MUTANTS = (
    of_universality("class of K* = 0: growth", '"nu": float(source) / 3}', '"nu": float(source)}'),
    of_universality(
        "class of K* = 0: a_2",
        "0.625 * s4 * s2 / s1**2",
        "0.5 * s4 * s2 / s1**2",
        "tests/theory/test_asymptotics.py",
    ),
    of_universality(
        "class of K* = 0: b_1 with the factor of a_1",
        '"b_1": s3 / s1 + (s2 / s1) ** 2,',
        '"b_1": s3 / s1 + 0.75 * (s2 / s1) ** 2,',
        "tests/test_criticality_universality.py",
    ),
    of_universality(
        "class of half-stable points: no half",
        "+ 3 * second) / (8 * K**2)\n    slopes",
        "+ 3 * second) / (4 * K**2)\n    slopes",
        "tests/test_criticality_universality.py",
    ),
    of_equivalence(
        "equivalent rates: power of the depth",
        "layers**-p_perp * depth ** (p_perp - 1)",
        "layers**-p_perp",
    ),
    of_equivalence(
        "equivalent rates: one layer too many",
        "np.append(np.cumprod(np.array(chi)[::-1])[::-1], 1.0)",
        "np.append(1.0, np.cumprod(np.array(chi)[::-1])[::-1])",
    ),
    of_orders(
        "strategy: readout's rate",
        "strategy.q[:-1]) - strategy.p[-1]\n    return",
        "strategy.q[:-1])\n    return",
    ),
    of_orders(
        "strategy: width of the signal",
        "(-1 + p + u + 2 * top, 1)",
        "(-1 + p + 2 * u + top, 1)",
        "tests/scaling/test_aspect.py",
    ),
    of_exponents(
        "strategy: input layer counted as hidden",
        "offsets = (0, *(1,) * (self.depth - 1))",
        "offsets = (1,) * self.depth",
    ),
    of_aspect("strategy: power of the width", "power = e - (1 - value)", "power = e - value"),
    of_conditions(
        "strategy: condition on the readout",
        "(strategy.p[-1] + 1) * _HALF)",
        "strategy.p[-1] * _HALF)",
    ),
    of_scaled(
        "strategy: rates by the power of the variances",
        "lambda_W=_times(net.lambda_W, width, q)",
        "lambda_W=_times(net.lambda_W, width, p)",
    ),
    of_s_family("s family: prediction without its 3", '(3 * t["R"],', '(t["R"],'),
)
