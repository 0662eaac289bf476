"""Breaks of order 1/n of networks of any layers: units, what they feel of each other, and responses to them."""

from breaks import row

TESTS = "tests/theory/test_order.py"
CHAIN = f"{TESTS}::test_fully_connected_layers_have_their_recursions"
NORMS = f"{TESTS}::test_drawn_networks_with_norms_agree"
MEMORY = f"{TESTS}::test_neurons_that_remember_have_theirs"
of_units = row("theory/order/_populations.py", f"{TESTS}::test_channels_that_meet_are_one_unit")
of_program = row("theory/order/_particles.py", (CHAIN, NORMS))
of_influence = row("theory/order/_influences.py", (CHAIN, MEMORY))
of_shift = row("theory/order/_shifts.py", CHAIN)
LETTERS = "tests/theory/test_order_letters.py"
RECURSIONS = f"{LETTERS}::test_fully_connected_layers_have_their_recursions"
of_letters = row("theory/order/_letters.py", RECURSIONS)
of_charges = row("theory/order/_charged.py", RECURSIONS)
of_heads = row("theory/order/_heads.py", f"{LETTERS}::test_tangents_of_heads_are_those_of_autodiff")
of_what_is_drawn = row(
    "theory/order/_given.py", f"{LETTERS}::test_drawn_tangents_and_signs_do_in_place_of_all"
)

of_pairs = row(
    "theory/order/_paired.py", f"{LETTERS}::test_tangents_that_meet_again_add_to_the_mean_ntk"
)

JETS = "tests/theory/test_unit_jets.py"
of_jets = row(
    "theory/order/_unit_jets.py", f"{JETS}::test_fully_connected_layers_have_what_whole_arrays_say"
)

of_norms = row(
    "theory/order/_norms.py",
    (
        "tests/theory/test_norms.py::test_the_small_parameter_sees_what_a_norm_divides_by",
        "tests/theory/test_norms.py::"
        "test_the_small_parameter_of_a_second_norm_counts_what_the_first_one_takes_away",
    ),
)

MUTANTS = (
    of_norms("norms: influences that are not centred", "found, centred=True", "found"),
    of_norms(
        "norms: groups as large as all channels",
        ".groups * part.max()",
        ".groups ** 0 * part.max()",
    ),
    of_norms("norms: the size for the variance", "variances = 4 * jnp.sum", "variances = jnp.sum"),
    row(
        "theory/order/_norms.py",
        "tests/theory/test_norms.py::test_norms_over_few_channels_say_what_width_it_takes",
    )("norms: nobody says that channels are few", "if share > _LARGE", "if share > 9 * _LARGE"),
    row(
        "networks/_forward.py",
        "tests/theory/test_norms.py::test_inputs_of_equal_features_need_an_eps_in_a_norm_over_them",
    )(
        "norms: rounding of inputs is a signal",
        "if (mean(left**2) <= _ROUNDED * mean(groups**2)).any():",
        "if (mean(left**2) == 0).any():",
    ),
    row("selection.py", "tests/theory/test_whole.py::test_what_does_not_fit_is_said")(
        "units: arrays with four of any number of inputs",
        "row.legs > 2 and samples > MOST_INPUTS",
        "False",
    ),
    row(
        "theory/_any_layers.py",
        "tests/theory/test_norms.py::test_the_small_parameter_sees_what_a_norm_divides_by",
    )(
        "norms: not in the small parameter",
        "if not any(net.program.norms(",
        "if any(net.program.norms(",
    ),
    row("_obstacles.py", f"{LETTERS}::test_what_is_not_known_is_refused")(
        "obstacles: norms over any number of channels", "if count < least:", "if count < 0:"
    ),
    row("_obstacles.py", f"{LETTERS}::test_what_is_not_known_is_refused")(
        "obstacles: free keys of heads that grow",
        "if free and math.prod(net.program.positions[node.of[0]]) > 1:",
        "if False:",
    ),
    of_pairs("tangents beside each other: no root of 2", "/ math.sqrt(2)", "/ 2"),
    of_pairs("tangents beside each other: no half", "0.5 * part for part in", "part for part in"),
    of_pairs(
        "tangents beside each other: laws do not move them",
        "((scale[-size:, None] * L[-size:]) @ g)",
        "((still[0][-size:, None] * still[1][-size:]) @ g)",
    ),
    row(
        "theory/order/_runs.py",
        "tests/training/posterior/test_metric.py::test_drawn_networks_agree",
    )(
        "training of any layers: whole arrays of norms",
        "if as_arrays(net, len(x), letters):",
        "if True:",
    ),
    of_jets(
        "jets of units: no learning rate of weights",
        "own.C_W * seen + own.lambda_W * learnt + constant",
        "own.C_W * seen + constant",
    ),
    of_jets(
        "jets of units: no learning rate of biases",
        "constant[a, a] = own.lambda_b",
        "constant[a, a] = 0.0",
    ),
    of_jets(
        "jets of units: nothing along which jets of a pair covary",
        "jet not in first and any(",
        "any(",
    ),
    of_jets(
        "jets of units: normal parts that both influences have, left out",
        "any(jet & x for x in once)",
        "any(jet & x for x in (1, 2, 4))",
    ),
    of_jets(
        "jets of units: letters in the other order",
        "have ^ a, have ^ a",
        "have ^ a, have",
    ),
    of_jets(
        "jets of units: positions and samples exchanged",
        "z.reshape(self.count, made.inputs, *program.positions[here], -1)",
        "z.reshape(self.count, *program.positions[here], made.inputs, -1).swapaxes(1, -2)",
        f"{JETS}::test_windows_of_convolutions",
    ),
    of_jets(
        "jets of units: a neuron shares with itself",
        "values[-1] -= first @ second.T",
        "pass",
        f"{JETS}::test_neurons_that_remember_what_they_were",
    ),
    row(
        "networks/_products.py",
        "tests/nets/test_tensors_of_any_network.py::test_many_networks_at_once_are_those_of_a_few",
    )(
        "measure: many tiny products at once",
        "return (slopes * entries[None, :, :, None]).sum(axis=(2, 5))",
        'return xp.einsum("rapsbq,apbq->rasb", slopes, entries)',
    ),
    row(
        "theory/order/_cumulants.py",
        "tests/test_weight_laws.py::test_single_units_are_moved_as_whole_arrays",
    )(
        "order: laws of weights by fourth moments",
        "along**4 - 6 * square * along**2 + 3 * square**2",
        "along**4",
    ),
    of_units(
        "order: what is added up stays apart",
        "                self._unite(here, one, other)\n",
        "                pass\n",
    ),
    of_units(
        "order: a head is one channel",
        "self.inner[self.of(draw)] = max(known, size)",
        "self.inner[self.of(draw)] = known",
    ),
    of_program(
        "order: bias variance dropped",
        "return (node.own.C_b + node.own.C_W",
        "return (node.own.C_W",
    ),
    of_program(
        "order: norms feel no other units",
        "            found = self.mean(node, values)",
        "            found = jax.lax.stop_gradient(self.mean(node, values))",
    ),
    of_program(
        "order: units have fixed covariances",
        "    rho = Sigma / (scale[:, None] * scale)",
        "    rho = jax.lax.stop_gradient(Sigma) / (scale[:, None] * scale)",
    ),
    of_influence(
        "order: influences not centred",
        "part = found[p] - found[p].mean(axis=-1, keepdims=True) if centred else found[p]",
        "part = found[p]",
    ),
    of_influence(
        "order: a neuron shares with itself", "values[number] -= first @ second.T", "pass"
    ),
    of_influence(
        "order: two letters have one tangent",
        "apart = (1 - np.eye(copies)) * math.sqrt(copies / (copies - 1))",
        "apart = np.ones((copies, copies))",
        f"{LETTERS}::test_drawn_tangents_and_signs_do_in_place_of_all",
    ),
    of_shift("order: no half of the curvature", "0.5 * np.asarray(_curv", "np.asarray(_curv"),
    row("theory/order/_responses.py", RECURSIONS)(
        "order: of all layers the width of the first",
        "return {letter: np.array(below)[:, None] * values for letter",
        "return {letter: below[0] * values for letter",
    ),
    of_shift(
        "order: averages with one tangent do not move the NTK",
        'parts["H1"] = parts["H1"] + change.reshape(len(ends), -1)',
        "pass",
        RECURSIONS,
    ),
    of_letters(
        "order: no rates of weights",
        " + node.own.lambda_W * made.entries[one, other]",
        "",
    ),
    of_letters(
        "order: all of the covariance of tangents is left",
        "        return self.law(one, other) - self.explained[weights][rows, columns]",
        "        return self.law(one, other)",
    ),
    of_charges(
        "order: units do not follow averages with one tangent",
        "            self.means[k] = found[start:end].reshape(made.fields[k].shape)",
        "            self.means[k] = 0 * found[start:end].reshape(made.fields[k].shape)",
    ),
    of_charges(
        "order: a unit's own tangent and its mean do not meet",
        "        found = found + (self._weighed(one, mine) @ y.T).sum(axis=0)\n",
        "",
        f"{LETTERS}::test_the_mean_ntk_of_drawn_networks_is_shifted",
    ),
    of_charges(
        "order: norms keep their tangents",
        "        return factor * x_a - 0.5 * factor**3 * x * q_a",
        "        return factor * x_a",
        f"{LETTERS}::test_drawn_networks_with_norms_agree",
    ),
    of_heads(
        "order: softmax keeps its sum",
        "        return p, p[..., None, :] * (values - out)",
        "        return p, p[..., None, :] * values",
    ),
    of_what_is_drawn(
        "order: drawn tangents add up to several",
        "optimize=True) / math.sqrt(copies)",
        "optimize=True)",
    ),
    row("theory/order/_slopes.py", RECURSIONS)(
        "order: units pass tangents on",
        "return _summed([(_slope(node, below[0]), slopes[0])])",
        "return slopes[0]",
    ),
    of_shift(
        "order: signs do not average to 1",
        "size=(signs, size)) / math.sqrt(signs)",
        "size=(signs, size)) / signs",
        f"{TESTS}::test_random_signs_do_in_place_of_all_directions",
    ),
)
