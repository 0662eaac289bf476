"""Breaks of the explorer: the formulas of its script, what its page makes of them, and the tables."""

from breaks import row

_model = row("explorer/model.js", "tests/explorer/test_model.py")
_page = row("explorer/page.js", "tests/explorer/test_page.py")
_tables = row("explorer/_tables.py", "tests/explorer/test_model.py")

MUTANTS = (
    _model("explorer: G1 without one half", "+ 0.5 * C_W * m.g2 * V", "+ C_W * m.g2 * V"),
    _model("explorer: source of V with one C_W", "+ C_W * C_W * m.vss", "+ C_W * m.vss"),
    _model("explorer: NTK carried by chi_parallel", "m.g + perp * Theta", "m.g + chi * Theta"),
    _model(
        "explorer: G1 from V of its own layer",
        "      G1 = chi * G1 + 0.5 * C_W * m.g2 * V;\n      V = chi * chi * V + C_W * C_W * m.vss;",
        "      V = chi * chi * V + C_W * C_W * m.vss;\n      G1 = chi * G1 + 0.5 * C_W * m.g2 * V;",
    ),
    _model("explorer: last Chebyshev term doubled", "return x * here -", "return 2 * x * here -"),
    _model(
        "explorer: chi_perp of the fixed point is chi_parallel",
        "K: shown, chi_parallel: C_W * m.g1, chi_perp: C_W * m.p }",
        "K: shown, chi_parallel: C_W * m.g1, chi_perp: C_W * m.g1 }",
    ),
    _model(
        "explorer: fixed point at the near end",
        "return at(Math.exp(near), Math.exp(near))",
        "return at(Math.exp(start), Math.exp(start))",
    ),
    _model(
        "explorer: lines on the other side of the fixed point",
        "C_b = K - C_W * m.g",
        "C_b = K + C_W * m.g",
    ),
    _model(
        "explorer: shade of a layer too deep", "layer < depth && K > 0", "layer <= depth && K > 0"
    ),
    _model("explorer: gamma with the power s", "n ** (1 - s)", "n ** s"),
    _model(
        "explorer: trained depth nearest by difference",
        "Math.log(row.depth / depth)",
        "row.depth - depth",
    ),
    _model("explorer: loss beyond the expansion", "n > tables.task.large", "n > 1e9"),
    _model(
        "explorer: loss with 1/n^2", "row.leading + row.nlo / n", "row.leading + row.nlo / n ** 2"
    ),
    _page("explorer page: fluctuation over K", "V / (n * flow.K[k] ** 2)", "V / (n * flow.K[k])"),
    _page(
        "explorer page: depth that bears is one less", "(v) => v <= 0.5) + 1", "(v) => v <= 0.5)"
    ),
    _page(
        "explorer page: chi_perp of the first step", "flow.chi_perp[last - 1]", "flow.chi_perp[0]"
    ),
    _page(
        "explorer page: optimal depth at any width",
        "activation.aspect_ratio * n",
        "activation.aspect_ratio",
    ),
    _page(
        "explorer page: gamma at s = 0",
        "state.depth, n, state.s).gamma",
        "state.depth, n, 0).gamma",
    ),
    _page(
        "explorer page: loss of infinite width",
        "loss: row ? Model.loss(tables, row, n)",
        "loss: row ? row.leading",
    ),
    _tables("explorer tables: series cut early", "_CUT = 1e-11", "_CUT = 1e-4"),
    _tables(
        "explorer tables: the last panel overlaps", "middle - len(down)", "middle - len(down) + 1"
    ),
)
