"""Breaks of what all tensors of several inputs are made of: one layer, and the step to the next."""

from breaks import row

TESTS = "tests/theory/test_tensor_flow.py"
ORACLE = f"{TESTS}::test_unequal_widths_and_rates_of_its_own_in_each_layer"
of_layer = row("theory/flow/_layer.py", ORACLE)
DEEP = "tests/theory/test_trajectory.py"
of_trajectory = row(
    "theory/flow/_trajectory.py", f"{DEEP}::test_few_layers_are_evaluated_and_all_are_right"
)
of_deep = row("theory/flow/_deep_kernels.py", f"{DEEP}::test_deep_kernels_are_those_of_every_layer")
of_one = row("theory/order/_one_input.py", f"{DEEP}::test_one_input_from_tables_is_one_among_many")

MUTANTS = (
    row("theory/flow/_trajectory.py", f"{DEEP}::test_tensors_of_deep_networks")(
        "trajectory: what is interpolated is off by a millionth",
        "                np.tensordot(weights, value, 1),\n",
        "                np.tensordot(weights, value, 1) * (1 + 1e-6),\n",
    ),
    of_layer(
        "layer: transposed moment not turned",
        "return value.T, error.T",
        "return value, error",
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
        "alpha, beta = (C_W * slope).reshape(shape), source.reshape(shape)",
        "alpha, beta = slope.reshape(shape), source.reshape(shape)",
    ),
    of_one("one input: twice its kernel", "alone = K[:, 0]", "alone = 2 * K[:, 0]"),
)
