"""Breaks of what all tensors of several inputs are made of: one layer, and the step to the next."""

from breaks import row

TESTS = "tests/theory/test_tensor_flow.py"
ORACLE = f"{TESTS}::test_unequal_widths_and_rates_of_its_own_in_each_layer"
of_layer = row("theory/flow/_layer.py", ORACLE)
of_flow = row("theory/flow/_tensor_flow.py", ORACLE)
DEEP = "tests/theory/test_trajectory.py"
of_trajectory = row(
    "theory/flow/_trajectory.py", f"{DEEP}::test_few_layers_are_evaluated_and_all_are_right"
)
of_deep = row("theory/flow/_deep_kernels.py", f"{DEEP}::test_deep_kernels_are_those_of_every_layer")
of_one = row("theory/flow/_one_input.py", f"{DEEP}::test_one_input_from_tables_is_one_among_many")

MUTANTS = (
    row("theory/flow/_trajectory.py", f"{DEEP}::test_tensors_of_deep_networks")(
        "trajectory: what is interpolated is off by a millionth",
        "                np.tensordot(weights, values, 1),\n",
        "                np.tensordot(weights, values, 1) * (1 + 1e-6),\n",
    ),
    of_layer(
        "layer: diagonal change of the kernel without its half",
        "0.5 * _pair(self.M(p + 2, q)) * same[:, :, None]",
        "_pair(self.M(p + 2, q)) * same[:, :, None]",
    ),
    of_layer(
        "layer: change of the second variance dropped",
        "            + 0.5 * _pair(self.M(p, q + 2)) * same[:, None]\n",
        "",
    ),
    of_layer(
        "layer: changes of the variances swapped",
        "* same[:, :, None]\n            + _pair",
        "* same[:, None]\n            + _pair",
    ),
    of_layer(
        "layer: change of the covariance twice",
        "+ _pair(self.M(p + 1, q + 1)) * T",
        "+ 2 * _pair(self.M(p + 1, q + 1)) * T",
    ),
    of_layer(
        "layer: curvature, wrong legs of V",
        "on_pairs = V.reshape(",
        "on_pairs = V.swapaxes(2, 3).reshape(",
    ),
    of_layer(
        "layer: curvature, legs swapped",
        "self.M(p + s, q + t).ravel()",
        "self.M(p + t, q + s).ravel()",
    ),
    of_layer(
        "layer: transposed moment not turned",
        "return value.T, error.T",
        "return value, error",
    ),
    of_layer(
        "layer: chain rule's curvature at a kink",
        "np.zeros_like(self.K) if self.sigma.is_piecewise_linear else self.M(p, q)",
        "self.M(p, q)",
        f"{TESTS}::test_a_piecewise_linear_network_bends_nowhere",
    ),
    of_flow(
        "flow: ratio of widths upside down",
        "r = net.widths[index] / net.widths[index - 1]",
        "r = net.widths[index - 1] / net.widths[index]",
    ),
    of_flow("flow: C_W of the layer below", '"C_W": net.C_W[index]', '"C_W": net.C_W[index - 1]'),
    of_flow(
        "flow: rate of the layer below",
        '"lambda_W": net.lambda_W[index]',
        '"lambda_W": net.lambda_W[index - 1]',
    ),
    of_flow(
        "flow: tensors of pairs as they are kept",
        "if on_pairs or not RECURSIONS[letter].on_pairs:",
        "if letter != 'V':",
    ),
    of_flow(
        "flow: Q with F of the layer below",
        "(old if name == letter else new)[letter]",
        "old[letter]",
    ),
    of_flow(
        "flow: steps in any order",
        "graph[letter] = row.beside",
        "graph[letter] = ()",
        f"{TESTS}::test_the_steps_are_in_order",
    ),
    of_flow(
        "flow: recursions of the layer below alone",
        "waiting += (*row.below, *row.beside)",
        "waiting += row.below[:2]",
        f"{TESTS}::test_the_steps_are_in_order",
    ),
    of_flow(
        "flow: NTK of the next layer",
        "None if Theta is None else Theta[index - 1]",
        "None if Theta is None else Theta[index]",
    ),
    of_flow(
        "flow: error bars of the coarser rule",
        "with_shakes([run[x] for run in runs])",
        "(runs[0][x][0], 0 * runs[0][x][0])",
        f"{TESTS}::test_error_bars_cover_the_error",
    ),
    of_layer(
        "layer: moments at the place of the other order",
        "value[b, a], error[b, a] = found[q, p].value, found[q, p].error",
        "value[b, a], error[b, a] = found[p, q].value, found[p, q].error",
    ),
    of_layer(
        "layer: every estimate of V the first",
        "return estimates.reshape(SCRAMBLES, -1, *estimates.shape[1:]).mean(axis=1)",
        "return estimates[:1]",
        "tests/properties/test_predict.py::test_what_others_are_told_of_the_vertex_has_its_mean",
    ),
    of_trajectory(
        "trajectory: weights of other nodes",
        "weights[:, j] *= (t - at[k]) / (at[j] - at[k])",
        "weights[:, j] *= (t - at[k]) / (at[j] + at[k])",
    ),
    of_trajectory(
        "trajectory: the kernel is not looked at",
        "return bool(np.all(gap <= _REPRODUCED * size))",
        "return True",
        f"{DEEP}::test_a_layer_between_the_nodes_that_moves_otherwise_is_noticed",
    ),
    of_trajectory(
        "trajectory: expectations are not looked at",
        "if not np.all((tail <= allowed) | noise):",
        "if False:",
    ),
    of_deep(
        "deep kernels: what is left to be mended, once more",
        "new = np.clip(c + delta, -1.0, 1.0)",
        "new = np.clip(c + 2 * delta, -1.0, 1.0)",
        f"{DEEP}::test_deep_kernels_are_found_from_few_layers",
    ),
    of_deep(
        "deep kernels: the NTK of a wrong slope",
        "alpha, beta = (C_W * run.slope).reshape(shape), source.reshape(shape)",
        "alpha, beta = run.slope.reshape(shape), source.reshape(shape)",
    ),
    of_one("one input: twice its kernel", "alone = K[:, 0]", "alone = 2 * K[:, 0]"),
)
