"""Breaks of order 1/n from one rule: jets and their terms, readers, fluctuations, neurons, labels."""

from breaks import row

TESTS = "tests/theory/test_tensor_flow.py"
ORACLE = f"{TESTS}::test_unequal_widths_and_rates_of_its_own_in_each_layer"
WHOLE = "tests/theory/test_whole.py"
PLACED = f"{WHOLE}::test_positions_have_the_tensors_of_independent_recursions"
SPLIT = f"{WHOLE}::test_one_position_is_a_fully_connected_layer"
STREAM = "tests/theory/test_residual.py"
MEMORY = f"{STREAM}::test_one_input_from_tables_is_one_on_whole_arrays"
of_jets = row("theory/order/_jets.py", ORACLE)
of_terms = row("theory/order/_terms.py", ORACLE)
of_reader = row("theory/order/_readers.py", ORACLE)
of_flow = row("theory/order/_fluctuations.py", ORACLE)
of_neurons = row("theory/order/_neurons.py", ORACLE)
of_memory = row("theory/order/_fluctuations.py", MEMORY)
of_way = row("theory/order/_way.py", (SPLIT, MEMORY))
of_whole = row("theory/order/_whole.py", MEMORY)
of_tensors = row("theory/order/_tensor_flow.py", ORACLE)
of_course = row("networks/_course.py", (PLACED, SPLIT))
LAWS = "tests/test_weight_laws.py"
ALONG = f"{LAWS}::test_two_hidden_layers_have_the_fourth_derivative_along_single_units"
ADDED = f"{LAWS}::test_weights_that_add_up_add_their_fourth_cumulants"
DRAWN = f"{LAWS}::test_weights_are_drawn_by_their_law"

MUTANTS = (
    row("gaussian/_four.py", MEMORY)(
        "two labels on two sides: nothing", "if sides is not None and count <= 2:", "if False:"
    ),
    row("theory/order/_fluctuations.py", MEMORY)(
        "streams: what is kept of other averages",
        "kept.setdefault(m, {})",
        "kept.setdefault(None, {})",
    ),
    row("theory/order/_fluctuations.py", ALONG)(
        "laws of weights: no shift", "inner = inner + self._of_laws(reader, part)", "pass"
    ),
    row("theory/order/_readers.py", ALONG)(
        "laws of weights: one variance for two",
        "self.excess * self.C_W**2 / self.n",
        "self.excess * self.C_W / self.n",
    ),
    row("theory/order/_readers.py", ALONG)(
        "laws of weights: only what fluctuates",
        "values = covariance + first * second.T",
        "values = covariance",
    ),
    row("theory/order/_readers.py", ADDED)(
        "laws of weights: different taps together",
        "[on_pairs([B], same=own[0] == own[1]) for own in (_PLAIN, pair)]",
        "[on_pairs(self.taps, same=own[0] == own[1]) for own in (_PLAIN, pair)]",
    ),
    row("theory/order/_terms.py", ALONG)(
        "laws of weights: every order of four derivatives once",
        "1 / math.prod(map(math.factorial, counts.values()))",
        "1.0",
    ),
    row("nets/_drawn.py", f"{LAWS}::test_drawn_networks_are_shifted_as_predicted")(
        "laws of weights: normal ones for measure",
        "w = made.own.law.of_normal(shaped[2 * k])",
        "w = shaped[2 * k]",
    ),
    row("nets/_networks.py", DRAWN)(
        "laws of weights: normal ones at initialisation",
        "laws = made.own.law.of_normal, lambda z: z",
        "laws = (lambda z: z,) * 2",
    ),
    row("nets/_packed.py", DRAWN)(
        "laws of weights: biases too", "(node.own.law, NORMAL)", "(node.own.law, node.own.law)"
    ),
    of_neurons(
        "V: without the width",
        'return self.n * np.einsum(f"...{sites}',
        'return np.einsum(f"...{sites}',
    ),
    of_neurons(
        "G1: twice",
        "np.moveaxis(self._shift(first)[index]",
        "2 * np.moveaxis(self._shift(first)[index]",
    ),
    of_jets(
        "D: NTK first",
        '"D": Component((_Z, _Z), (("a",), ("a",)))',
        '"D": Component((("a",), ("a",)), (_Z, _Z))',
    ),
    of_jets(
        "A: one direction for both NTKs",
        '"A": Component((("a",), ("a",)), (("b",), ("b",)))',
        '"A": Component((("a",), ("a",)), (("a",), ("a",)))',
    ),
    of_jets(
        "F: sites of the second pair exchanged",
        '"F": Component((_Z, ("a",)), (_Z, ("a",)))',
        '"F": Component((_Z, ("a",)), (("a",), _Z))',
    ),
    of_jets(
        "B: sites of the second pair exchanged",
        '"B": Component((("a",), ("b",)), (("a",), ("b",)))',
        '"B": Component((("a",), ("b",)), (("b",), ("a",)))',
    ),
    of_jets(
        "H1: of the metric",
        '"H1": Component((("a",), ("a",)), None',
        '"H1": Component((_Z, _Z), None',
    ),
    of_jets("P: in the order of its sites", '"adbc->abcd"', '"abcd->abcd"'),
    of_jets("Q: last sites exchanged", '(("b",), _Z)),', '(_Z, ("b",))),'),
    of_jets(
        "R: first sites exchanged",
        '(("a", "b", "c"), ("a",)), (("b",)',
        '(("a",), ("a", "b", "c")), (("b",)',
    ),
    of_jets(
        "S: last sites exchanged",
        '(("a", "c"), ("b", "c")), (("a",), ("b",))',
        '(("a", "c"), ("b", "c")), (("b",), ("a",))',
    ),
    of_jets("T: last sites exchanged", '(("b",), ("b", "c"))),', '(("b", "c"), ("b",))),'),
    of_jets("U: last sites exchanged", '(("b", "c"), ("a",))),', '(("a",), ("b", "c"))),'),
    of_jets(
        "rule: a charge that is a union",
        "return frozenset(pair[0]) ^ frozenset(pair[1])",
        "return frozenset(pair[0]) | frozenset(pair[1])",
    ),
    of_jets(
        "rule: the way back of a swap",
        "(False,) if ordered else (False, True), *2",
        "(False,), *2",
    ),
    of_terms("rule: one matching alone", "in enumerate(rest):", "in enumerate(rest[:1]):"),
    of_terms(
        "rule: no rate of learning",
        '    return (("C_W", pair), *without)',
        '    return (("C_W", pair),)',
    ),
    of_terms("rule: a diagonal without its half", "0.5 if u == v else 1.0", "1.0"),
    of_terms("rule: a curvature without its half", "+= 0.5 * factor * other", "+= factor * other"),
    of_terms(
        "rule: means left in what joins nothing",
        "all((x < 2) == (y < 2) for x, y in joined)",
        "False",
    ),
    of_terms(
        "rule: chain rule's curvature at a kink",
        "if not (flat and max(orders) > 1):",
        "if orders:",
        f"{TESTS}::test_a_piecewise_linear_network_bends_nowhere",
    ),
    of_terms(
        "rule: directions never in one block",
        "for size in range(len(rest) + 1):",
        "for size in range(max(1, len(rest))):",
    ),
    of_terms(
        "rule: own past of one site",
        "if charge(term[2].pair) == charge_of(term[1])",
        "if charge(term[2].pair) == charge_of(term[1]) and term[2].at[0] == term[2].at[1]",
        MEMORY,
    ),
    of_terms(
        "rule: needs of a shift forgotten",
        "        yield from ((one.pair, other.pair) for one, other in curvature(part, flat=False))\n",
        "",
        f"{TESTS}::test_the_tensors_of_the_literature_are_all_that_their_recursions_need",
    ),
    of_reader(
        "reader: rate of the noise",
        "part = self.rate(name) * self.mixed_array(one, part)",
        "part = self.mixed_array(one, part)",
    ),
    of_reader(
        "reader: rate of the response",
        "self.mixed(part, self.rate(name) * J)",
        "self.mixed(part, J)",
    ),
    of_reader(
        "reader: NTK between other sites",
        "self.theta[labels[x][:, None], labels[y]][:, None]",
        "self.theta[labels[0][:, None], labels[y]][:, None]",
    ),
    of_reader(
        "reader: orders of the first half exchanged",
        "order[:2] = [1, 0] if p < q else [0, 1]",
        "order[:2] = [0, 1]",
        "tests/theory/test_order.py::test_neurons_that_remember_have_theirs",
    ),
    of_reader(
        "reader: different taps paired",
        '(sparse.kron(sparse.csr_array(B), sparse.csr_array(B), format="csr") for B in matrices[1:])',
        '(sparse.kron(sparse.csr_array(B), sparse.csr_array(matrices[0]), format="csr") for B in matrices[1:])',
        PLACED,
    ),
    of_reader(
        "reader: skips not squared",
        "isinstance(L, np.ndarray) else L**2",
        "isinstance(L, np.ndarray) else L",
        MEMORY,
    ),
    of_flow("flow: widths forgotten", "None if found is None else found / one.n", "found"),
    of_flow(
        "flow: no noise",
        "parts = [self._noise(t, P, k, Q)]",
        "parts: list[OnPairs | None] = [None]",
    ),
    of_flow(
        "flow: nothing handed on",
        "parts.append(left(R, before))",
        "parts.append(0 * left(R, before))",
    ),
    of_flow(
        "flow: sites not turned back", "            if turn:\n", "            if turn is None:\n"
    ),
    of_flow(
        "flow: a shift that is not handed on",
        "total = total + R @ self.shift(j, changed)",
        "total = total",
    ),
    of_memory(
        "stream: own past forgotten",
        "inner = self._bent(reader, part) + self._past(reader, part)",
        "inner = self._bent(reader, part)",
    ),
    of_memory(
        "stream: memory of the layers between forgotten",
        "parts.append(None if before is None else right(before, R))",
        "parts.append(None)",
    ),
    of_memory(
        "stream: own past without the widths",
        "None if found is None else found / reader.n",
        "found",
    ),
    row("theory/order/_neurons.py", MEMORY)(
        "neurons: what one does to the other once",
        "        other = self._remembered(Q, P)\n",
        "        other = None\n",
    ),
    row("theory/order/_neurons.py", MEMORY)(
        "neurons: one Wick pairing", "            if S == T:\n", "            if S is None:\n"
    ),
    row("theory/order/_densities.py", f"{STREAM}::test_the_terms_of_the_mean_metric_at_a_kink")(
        "densities: means left in",
        "values[c] * values[d] - means[:, None]",
        "values[c] * values[d]",
    ),
    row("theory/order/_densities.py", f"{STREAM}::test_the_terms_of_the_mean_metric_at_a_kink")(
        "densities: another height",
        "math.sqrt(2 * math.pi * variance)",
        "math.sqrt(math.pi * variance)",
    ),
    of_way(
        "way: another kernel of labels",
        "return one @ kernel @ other.T",
        "return one @ kernel.T @ other.T * 0.9",
        PLACED,
    ),
    of_way(
        "way: a neuron that does not remember",
        "            remember=remember,\n",
        "            remember=False,\n",
    ),
    row("theory/order/_whole.py", SPLIT)("labels: of the last tile", "np.array(both.C)", "both.C"),
    of_whole("whole: layers in another order", "place = ends.index(end)", "place = done - 1"),
    of_tensors(
        "flow: NTK of the next layer",
        "None if Theta is None else Theta[index]",
        "None if Theta is None else Theta[min(index + 1, net.depth - 1)]",
    ),
    of_tensors(
        "flow: error bars of the coarser rule",
        "with_shakes([run[x] for run in runs])",
        "(runs[0][x][0], 0 * runs[0][x][0])",
        f"{TESTS}::test_error_bars_cover_the_error",
    ),
    row(
        "theory/order/_tensors.py",
        "tests/training/test_accuracy.py::test_kinks_and_samples_that_are_close_by_both_routes",
    )(
        "runs: entries not wrong alike",
        "LayerExpectations, alike=True",
        "LayerExpectations, alike=False",
    ),
    row(
        "theory/order/_readers.py",
        f"{WHOLE}::test_positions_of_one_sample_are_inputs_beside_each_other",
    )(
        "labels: ordered pairs of a layer that mixes positions, in the other order",
        "return total\n    here",
        "return total[np.arange(rows * rows).reshape(rows, rows).T.ravel()]\n    here",
    ),
    row(
        "networks/_course.py",
        f"{WHOLE}::test_positions_of_one_sample_are_inputs_beside_each_other",
    )(
        "course: what reads positions has them backwards",
        "seen.reshape(found.labels[here], node.taps, -1)",
        "seen[..., ::-1].reshape(found.labels[here], node.taps, -1)",
    ),
    of_course("course: weights of all taps", "/ math.sqrt(node.taps)", "/ node.taps"),
)
