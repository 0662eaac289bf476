"""Breaks of universality classes and of the equivalence of learning rates."""

from breaks import row

of_universality = row("critical/_universality.py", "tests/test_criticality_exponents.py")
of_equivalence = row("critical/_equivalence.py", "tests/test_network_rates.py")
of_search = row("critical/_search.py", "tests/test_criticality_units.py")
of_s_family = row(
    "experiments/s_family.py",
    "tests/experiments/test_s_family.py::test_means_are_those_of_the_recursions",
)

MUTANTS = (
    of_search("search: in units of 1", "[bool(decades) :] * sigma.scale**2", "[bool(decades) :]"),
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
    of_s_family("s family: prediction without its 3", '(3 * t["R"],', '(t["R"],'),
)
