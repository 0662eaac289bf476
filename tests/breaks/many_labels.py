"""Breaks of order 1/n of many labels: read-outs carried back, forms of units, and what is known exactly."""

from breaks import row

TESTS = "tests/theory/test_many_labels.py"
CARRIED = f"{TESTS}::test_read_outs_carried_back_have_the_tensors_of_whole_arrays"
SHIFTED = f"{TESTS}::test_mean_shifts_are_those_of_whole_arrays"
TABLES = "tests/gaussian/test_pair_tables.py"
of_tables = row("gaussian/_pair_tables.py", TABLES)
of_layout = row("theory/order/_layout.py", CARRIED)
of_strips = row("theory/order/_strips.py", CARRIED)
of_forms = row("theory/order/_forms.py", CARRIED)
of_slopes = row("theory/order/_reverse.py", CARRIED)
of_exact = row("theory/order/_second_chaos.py", CARRIED)
of_own = row("theory/order/_own_products.py", CARRIED)
of_units = row("theory/order/_units.py", CARRIED)
of_all = row("theory/order/_many_labels.py", CARRIED)
of_responses = row("theory/order/_unit_responses.py", SHIFTED)
of_second = row("theory/order/_second_order.py", SHIFTED)
of_products = row("theory/order/_exact_products.py", SHIFTED)
of_shifts = row("theory/order/_many_shifts.py", SHIFTED)

READ = f"{TESTS}::test_many_inputs_are_read_where_they_are_asked_for"
of_pairs = row("theory/order/_of_pairs.py", READ)

MUTANTS = (
    of_pairs("pairs: an earlier pair is not exchanged", "swapped, other + (", "swapped, one + ("),
    of_pairs(
        "pairs: tangents are not exchanged in both pairs",
        "np.where(self._turned[a, b], self.numbers.T[c, d], column)",
        "column",
    ),
    of_pairs(
        "pairs: a pair is not the other one of a later pair",
        "places] += values[:, rest].T",
        "places] += 0 * values[:, rest].T",
        CARRIED,
    ),
    of_all(
        "many labels: units of the pairs that end in an input, of those that begin with it",
        "rows = slice(first + b + 1, until) if over else slice(first, first + b + 1)",
        "rows = slice(first, first + b + (not over))",
    ),
    of_exact(
        "chaos: pairs that begin with the later input are not turned over",
        "R[: len(to), second, first] if over",
        "R[: len(to), first, second] if over",
    ),
    of_exact("chaos: roots of K in place of Theta", "self.roots[k].reshape", "self.roots[0].reshape"),
    of_tables("tables: even orders of an odd function", "else (p + 1) % 2", "else p % 2"),
    of_tables("tables: a label with itself as any other", "c[same] = 0.0", "c[same] *= 0.5; same = same & False"),
    of_tables(
        "tables: no root in derivatives",
        "roots = np.sqrt(np.arange(1, len(last)))[:, None] * self._inverse_root",
        "roots = np.arange(1, len(last))[:, None] * self._inverse_root",
        SHIFTED,
    ),
    of_layout(
        "layout: the adjoint of another tap",
        "return tuple(sparse.csr_array(one.T) for one in self.maps)",
        "return tuple(sparse.csr_array(one.T) for one in (*self.maps[1:], self.maps[0]))"
        " if len(self.maps) < 2 else (sparse.csr_array(self.maps[0].T),) * len(self.maps)",
    ),
    of_layout(
        "layout: diagonals stay diagonals through pools",
        "return all(one.is_thin for one in seen)",
        "return True",
    ),
    of_layout(
        "layout: graphs of the first input", "len(x) if varied else 1", "1",
        f"{TESTS}::test_graphs_of_their_own_are_those_of_each_input",
    ),
    of_strips("strips: no rate of weights", "+ rates.lambda_W * carried", ""),
    of_forms(
        "forms: variances move nothing",
        "own = [moments(b, (1, 1)) + moments(b, (2, 0)) for",
        "own = [moments(b, (1, 1)) for",
    ),
    of_forms(
        "forms: labels of the first input twice",
        "return apart.sum(axis=2).T, apart.sum(axis=0)",
        "return apart.sum(axis=2).T, apart.sum(axis=2).T",
    ),
    of_slopes(
        "slopes: no half on the diagonal",
        "own.with_diagonals(0.5 * summed(left)[0], 0.5 * summed(right)[1])",
        "own.with_diagonals(summed(left)[0], summed(right)[1])",
    ),
    of_slopes("slopes: no rate of weights", " + rates.lambda_W * carried.across", ""),
    of_slopes("slopes: tangents do not bend", "        across += slopes * M[2, 2]\n", ""),
    of_exact("chaos: one of two pairings", "+ R[:, second, first])", "+ 0 * R[:, second, first])"),
    of_exact(
        "chaos: parts of one input once",
        "2 * v + standing[key][0][b]",
        "v + standing[key][0][b]",
    ),
    of_exact("chaos: linear parts dropped", "told += _told(of.linear, linear)", "pass"),
    row(
        "theory/order/_many_labels.py",
        f"{TESTS}::test_errors_are_between_what_scrambles_say_and_what_is_usual",
    )("errors of many labels: the usual one counts for nothing", "alike = freedom *", "alike = 0 *"),
    of_own(
        "neurons of many labels: one of two ways",
        "rows += share * (found[first, second, one, other] + turned)",
        "rows += share * turned",
    ),
    of_own("neurons of many labels: one of two pairings", "across + across.swapaxes(2, 3)", "across"),
    of_own("neurons of many labels: of one input once", "2 * (alone + alone.swapaxes(0, 1))", "2 * alone"),
    of_own("neurons of many labels: of fields in place of tangents", "_across(metric, beside[1], beside[1])",
        "_across(metric, beside[0], beside[0])"),
    of_own(
        "neurons of many labels: no form of one input",
        'return np.einsum("abst',
        'return 0 * np.einsum("abst',
    ),
    of_units("units: what is exact twice", "metric, a, sign=-1.0)", "metric, a, sign=0.0)"),
    of_units(
        "units: a tangent has the part of the metric", "form.own.times(2.0)", "form.own.times(1.0)"
    ),
    of_all("many labels: all layers as wide", "net.widths[layer - 1] / own.course.populations[root].n", "1.0"),
    of_responses("responses: no half", "Change(0.5 * M[2, 0] * a", "Change(M[2, 0] * a"),
    of_responses(
        "responses: no rate of weights", "found.Theta + rates.lambda_W * carried.K", "found.Theta"
    ),
    of_responses(
        "responses: the rest keeps squares",
        "        self._take(found, M[2 + p, p], self.squares[0][:, None])\n",
        "",
    ),
    of_second("second order: a quarter", "found = 0.125 * (aa", "found = 0.25 * (aa"),
    of_second(
        "second order: no past of its own",
        "_put(self.K, hop, factor * _moved(s.s[:3], t.s[:3], a, b, c))",
        "pass",
    ),
    of_second("second order: fields beside tangents dropped", "M[pq] * (half * T + X)", "M[pq] * half * T"),
    of_products("products: one of two pairings", "found = 2 * np.einsum(", "found = np.einsum("),
    of_products(
        "products: of one label with no factor",
        "first.times(C_W)",
        "first",
    ),
    of_shifts("shifts: all layers as wide", "net.widths[layers[place] - 1] / some.n", "1.0"),
    of_shifts(
        "shifts: variances are not read out",
        "        found[place] += _on_own(form.own.second[place], alone[b].K[draw])\n",
        "",
    ),
    row("networks/_course.py", f"{TESTS}::test_activations_that_are_added_up_are_those_of_one_channel")(
        "course: what is added up is of different channels",
        "    found.join([draw for point in points for draw in forms[program.nodes[point].of[0]]])\n",
        "",
    ),
    row("selection.py", f"{TESTS}::test_predict_carries_back_what_whole_arrays_do_not_bear")(
        "predict: nothing is carried back", "        if not many:", "        if False:"
    ),
    row("selection.py", "tests/theory/test_many_labels.py")(
        "predict: units of any number of labels",
        "if samples * each <= most:",
        "if True:",
    ),
    row("selection.py", "tests/theory/test_whole.py::test_what_does_not_fit_is_said")(
        "predict: units of heads have one channel", " * heads.get(k, 1)", ""
    ),
)  # fmt: skip
