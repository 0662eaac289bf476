"""Breaks of the differentials and influences of the note on the NTK."""

from breaks import row

of_differential_types = row(
    "theory/exact/_differential_types.py", "tests/theory/test_differentials.py"
)
of_differentials = row("theory/exact/_differentials.py", "tests/theory/test_differentials.py")
of_influence = row("theory/note/_influence.py", "tests/theory/test_influence.py")
of_influence_refined = row(
    "theory/note/_influence_refined.py", "tests/theory/test_influence_refined.py"
)

MUTANTS = (
    of_differential_types(
        "differentials: order of the parent",
        "orders=(*raised, 1)",
        "orders=(*term.orders, 1)",
    ),
    of_differentials(
        "differentials: double factorial", "np.arange(m - 1, 0, -2)", "np.arange(m, 0, -2)"
    ),
    of_differentials(
        "differentials: inputs not matched",
        "rate ** len(term.read) * all(i[a] == i[b] for a, b in term.read)",
        "rate ** len(term.read)",
    ),
    of_influence(
        "influence: path from one block late",
        "Q = _moved(kernels.path(ell, L - 1)) / d[ell]",
        "Q = _moved(kernels.path(ell + 1, L - 1)) / d[ell]",
    ),
    of_influence(
        "influence: fourth moment dropped",
        "+ fourth * own * _moved(moved)",
        "+ 0 * fourth * own * _moved(moved)",
    ),
    of_influence("influence: own block dropped", '("abba->ab", B)', '("abba->ab", 0 * B)'),
    of_influence(
        "influence: width of the layer above",
        "net.C_W[k] ** 2 / d[k] * pair_of",
        "net.C_W[k] ** 2 / d[k + 1] * pair_of",
    ),
    of_influence_refined(
        "refined influence: weight variance", "v[..., 0] = net.C_W[L - 1]", "v[..., 0] = 1.0"
    ),
    of_influence_refined(
        "refined influence: curvature of another block",
        "mu, bend = _mean(net, kernels, k - 1, 0)",
        "mu, bend = _mean(net, kernels, k, 0)",
    ),
    of_influence_refined(
        "refined influence: width above",
        "net.widths[k]\n    return front",
        "net.widths[k + 1]\n    return front",
    ),
)
