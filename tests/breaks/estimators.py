"""Breaks of everything that is measured in networks."""

from breaks import row

NETWORK = "tests/nets/test_one_network.py::"
ONE = f"{NETWORK}test_tensors_of_layers_are_the_definitions"
ANY = "tests/nets/test_tensors_of_any_network.py::"
EXACT = f"{ANY}test_one_network_is_that_of_explicit_jacobians"
IN_PAIRS = f"{ANY}test_neurons_that_remember_themselves_are_taken_in_pairs"
GROUPS = f"{ANY}test_groups_of_entries_with_signs_leave_no_bias"
WIDE = f"{ANY}test_wide_layers_are_measured_in_groups"
INTEGRATED = "tests/nets/test_deeper_layers.py::test_the_weights_above_are_integrated_out_of_the"
SLOPE = "tests/nets/test_deeper_layers.py::test_the_slope_of_the_mean_ntk_of_a_quadratic_network"
LAWS = (
    "tests/nets/test_preactivations.py::test_the_second_layer_is_exact_at_any_width",
    "tests/nets/test_preactivations.py::test_the_exact_law_of_scale_invariant_networks",
    "tests/nets/test_preactivations.py::test_real_weights_have_the_same_law",
)
MEANS = (
    "tests/nets/test_ntk.py::test_the_mean_is_exact_for_scale_invariant_networks",
    "tests/nets/test_ntk.py::test_rows_average_to_whole_matrices_given_the_preactivations",
    "tests/nets/test_ntk.py::test_the_ensemble_has_the_mean_of_single_networks",
)

ANY_LAYERS = "tests/nets/test_one_network_of_any_layers.py::"
BY_PLACES = f"{ANY_LAYERS}test_differentials_are_their_definitions"
LEGS = f"{ANY_LAYERS}test_legs_may_differ_and_steps_come_in_batches"
of_layers = row("nets/_layer_tensors.py", ONE)
of_contracted = row(
    "nets/_contracted.py", f"{NETWORK}test_directional_derivatives_are_the_definitions"
)
of_dntk = row("nets/_dntk.py", f"{INTEGRATED}_differentials")
of_ntk_statistics = row("nets/_ntk_statistics.py", f"{INTEGRATED}_ntk_statistics")
of_neurons = row("nets/_neurons.py", f"{INTEGRATED}_differentials")
of_slopes = row("nets/_slopes.py", f"{INTEGRATED}_differentials")
of_passes = row("nets/_passes.py", f"{INTEGRATED}_differentials")
of_estimators = row(
    "nets/_estimators.py",
    "tests/nets/test_second_layer.py::test_the_second_layer_is_exact_at_any_width",
)
of_measure = row("nets/_measure.py", SLOPE)
of_sampler = row("nets/_sampler.py", LAWS)
of_ntk = row("nets/_ntk.py", MEANS)
AGREE = "tests/agreement/test_residual_against_ensembles.py::"
of_moments = row("nets/_moments.py", "tests/nets/test_moments.py")
of_extrapolate = row("nets/_extrapolate.py", "tests/nets/test_extrapolate.py")
SHARED = "tests/nets/test_devices.py"
of_ensemble = row("nets/_ensemble.py", f"{SHARED}::test_four_devices_find_what_one_finds")
of_devices = row(
    "nets/_devices.py", f"{SHARED}::test_every_device_has_an_equal_part_within_the_memory"
)
of_differentials = row("nets/_differentials.py", "tests/nets/test_differentials.py")

MUTANTS = (
    of_devices("devices: the first alone", "(backend=chosen))", "(backend=chosen)[:1])"),
    of_devices("devices: copies for parts", 'PartitionSpec("network")', "PartitionSpec()"),
    of_ensemble(
        "ensemble: what fills up a batch is kept",
        "min(size, networks - index * size)",
        "networks - index * size",
    ),
    of_ensemble(
        "ensemble: a batch begins behind what filled the last",
        "np.arange(index * size, index * size + filled(size)",
        "np.arange(index * filled(size), (index + 1) * filled(size)",
    ),
    row("networks/_by_jax.py", f"{SHARED}::test_no_product_takes_a_short_cut")(
        "precision: TF32 let in",
        ', jax.default_matmul_precision("highest")',
        ', jax.default_matmul_precision("default")',
    ),
    row("nets/_devices.py", f"{SHARED}::test_a_store_is_of_one_generator")(
        "random numbers: one name for two generators",
        'return "philox" if on_host() else "threefry"',
        'return "philox" if on_host() else "philox"',
    ),
    of_layers(
        "measured layers: samples first",
        "return np.moveaxis(tensor, range(legs), range(-legs, 0))",
        "return tensor",
    ),
    of_layers("measured layers: none bends", "if drawn == [node] else", "if drawn else"),
    of_contracted("measured dH: samples of two legs", "jbiakc->abcijk", "jbiakc->acbijk"),
    of_contracted(
        "measured dd_I: steps in one order",
        "(first, second), (second, first)",
        "(first, second), (first, second)",
    ),
    of_contracted(
        "measured dd_I: what enters is bent once", ", (twice, own)]", "]", BY_PLACES, LEGS
    ),
    of_contracted(
        "measured dd_II: steps along the other leg",
        "zip(legs[:2], legs[2:], strict=True)",
        "zip(legs[:2], legs[:1:-1], strict=True)",
        LEGS,
    ),
    of_contracted(
        "measured legs: alike without being so",
        "if np.array_equal(leg, other)]",
        "if leg.shape == other.shape]",
        LEGS,
    ),
    of_dntk(
        "measured P: legs exchanged",
        'jnp.einsum("bcan,dn->abcd", at.twice',
        'jnp.einsum("bcdn,an->abcd", at.twice',
    ),
    of_dntk(
        "measured Q: F with swapped legs",
        'jnp.einsum("badc->abcd", F)',
        'jnp.einsum("abcd->abcd", F)',
    ),
    of_dntk(
        "measured R: P with swapped legs",
        'own * jnp.einsum("acdb->abcd", found["P"])',
        'own * found["P"]',
    ),
    of_dntk("measured S: trace of two NTKs dropped", ' + own * means["HH"]', ""),
    of_dntk("measured T: F once", "own**2 *", "own *"),
    of_dntk("measured T: one of the two Q", ' + jnp.einsum("acbd->acdb", tilde))', ")"),
    of_dntk("measured U: crossed with itself", "(back, crossed))", "(crossed, crossed))"),
    of_dntk(
        "measured signs: one probe is its own pair",
        "jnp.roll(a, -1, axis=0)",
        "jnp.roll(a, 0, axis=0)",
    ),
    of_dntk("measured dNTK: one neuron for two", "halves[1 - mine]", "halves[mine]", IN_PAIRS),
    of_ntk_statistics("measured omega: metric without its rate", "neurons.rate * gram +", "gram +"),
    of_ntk_statistics(
        "measured omega: one neuron of the layer below",
        "for k, (_, delta) in sides.items()}).sum(axis=0)",
        "for k, (_, delta) in sides.items()})[0]",
    ),
    of_ntk_statistics(
        "measured B: printed order lost",
        "jnp.swapaxes((flat @ flat.T).reshape((samples,) * 4), 1, 2)",
        "(flat @ flat.T).reshape((samples,) * 4)",
    ),
    of_ntk_statistics(
        "measured F: legs exchanged",
        'found["F"] = F.reshape(-1)',
        'found["F"] = F.transpose(0, 3, 2, 1).reshape(-1)',
    ),
    of_ntk_statistics(
        "measured groups: one set of signs",
        "zip(neurons.halves, signs, strict=True)",
        "zip(neurons.halves, signs[:1] * 2, strict=True)",
        GROUPS,
    ),
    of_neurons(
        "measured neurons: what they remember is averaged over",
        "alone = all(program.is_fresh(end, below) for end in ends)",
        "alone = True",
        IN_PAIRS,
    ),
    of_neurons(
        "measured neurons: weights of unit variance", "own.own.C_W / u.shape[1]", "1 / u.shape[1]"
    ),
    of_slopes(
        "measured slopes: biases do not learn", " + scale[0] * first[:, -1]", " + 0 * first[:, -1]"
    ),
    of_slopes(
        "measured slopes: what enters is not bent",
        "            found[k] = [(u[:, None], back), (jnp.swapaxes(by_step, 0, 1), delta[row][:, None])]",
        "            found[k] = [(u[:, None], back)]",
    ),
    of_slopes(
        "measured slopes: steps in one order",
        "            (by_step[:, pairs[1]], own[:, pairs[0]]),\n",
        "",
    ),
    of_slopes(
        "measured slopes: biases of one site",
        "(delta.sum(axis=2) if node.shared",
        "(delta[:, :, 0] if node.shared",
        BY_PLACES,
    ),
    of_passes(
        "measured slopes: both steps on what one has changed",
        "self._push(other, at, first)]",
        "self._push(other, at, second)]",
    ),
    of_passes(
        "measured slopes: steps leave what flows back",
        "back = (change or at).back[k]",
        "back = 0 * (change or at).back[k]",
    ),
    of_slopes(
        "measured slopes: biases enter derivatives",
        "if len(orders) == 1 else 0.0",
        "if orders else 0.0",
    ),
    of_slopes(
        "measured slopes: derivatives of both sides in one order",
        "zip(orders, orders[::-1], strict=True)",
        "zip(orders, orders, strict=True)",
        BY_PLACES,
    ),
    of_passes(
        "measured slopes: rates for roots", "tuple(jnp.sqrt(pair))", "tuple(pair)", BY_PLACES
    ),
    of_slopes(
        "measured slopes: steps without their rates",
        "z = scale[1] * times(u, first, made, jnp)",
        "z = times(u, first, made, jnp)",
        EXACT,
    ),
    of_estimators(
        "measured B: width forgotten",
        "return n * sums.mean().reshape(shape), n *",
        "return sums.mean().reshape(shape), n *",
    ),
    of_estimators(
        "measured A: of one neuron with itself",
        "_either(_covariance(1, 3), _covariance(3, 1))",
        "_either(_covariance(1, 1), _covariance(3, 3))",
        WIDE,
    ),
    of_estimators(
        "measured vertex: with skip connections of one neuron",
        "_either(_covariance(0, 1), _covariance(1, 0))",
        "_either(_covariance(0, 0), _covariance(1, 1))",
        f"{AGREE}test_theory_and_ensembles_agree",
    ),
    of_sampler(
        "measured metric: skip connection without its square",
        "net.skips[i + 1] ** 2",
        "net.skips[i + 1]",
        f"{AGREE}test_theory_and_ensembles_agree",
    ),
    of_sampler(
        "sampled layers: what is remembered",
        "return fresh + skip * below",
        "return fresh + skip**2 * below",
        f"{AGREE}test_mean_ntk_and_metric_are_those_of_real_weights",
    ),
    of_ntk(
        "measured NTK: row through a skip connection",
        "below = below + skip * above",
        "below = below + skip**2 * above",
        f"{AGREE}test_mean_ntk_and_metric_are_those_of_real_weights",
    ),
    of_ntk(
        "measured NTK: a neuron of the layer above",
        "B = B + skip**2",
        "B = B + skip",
        f"{AGREE}test_theory_and_ensembles_agree",
    ),
    of_estimators(
        "measured D: metric with itself",
        "_JOINT, CovarianceSums, _covariance(0, 1)",
        "_JOINT, CovarianceSums, _covariance(0, 0)",
    ),
    of_estimators(
        "measured A: NTK with the metric",
        "_JOINT, CovarianceSums, _covariance(1, 1)",
        "_JOINT, CovarianceSums, _covariance(1, 0)",
    ),
    of_estimators(
        "measured V: width forgotten",
        "values, sems = n * sums.covariance(), n * sums.covariance_sem()",
        "values, sems = sums.covariance(), n * sums.covariance_sem()",
        *LAWS,
    ),
    of_estimators(
        "measured V: width in the value only",
        "values, sems = n * sums.covariance(), n * sums.covariance_sem()",
        "values, sems = n * sums.covariance(), sums.covariance_sem()",
        *LAWS,
    ),
    of_measure(
        "measured H1: intercept for slope",
        "order = 1 if rows[name].slope_of else 0",
        "order = 0",
    ),
    of_sampler(
        "measured metric: bias of the layer below",
        "Q, R = _factor(s, *(np.asarray(c[i + 1], dtype)",
        "Q, R = _factor(s, *(np.asarray(c[i], dtype)",
    ),
    of_sampler(
        "measured metric: width of the features",
        "xp.concatenate([xp.sqrt(C_W / width) * s",
        "xp.concatenate([xp.sqrt(C_W / (width + 1)) * s",
    ),
    of_sampler(
        "measured metric: weights of the layer below",
        "np.array(c[1:])[:, None, None]",
        "np.array(c[:-1])[:, None, None]",
    ),
    of_sampler(
        "measured metric: first layer without its input width",
        "np.sqrt(net.C_W[0] / net.input_dim) * x.T",
        "np.sqrt(net.C_W[0]) * x.T",
    ),
    of_ntk(
        "mean NTK: rate of the layer below",
        "net.lambda_b[i] + net.lambda_W[i] *",
        "net.lambda_b[i] + net.lambda_W[i - 1] *",
    ),
    of_ntk(
        "mean NTK: slopes dropped",
        "below = scale * below[:, :, :-1] * slopes[:, None]",
        "below = scale * below[:, :, :-1]",
    ),
    of_ntk(
        "mean NTK: a row meets only what it knows",
        "products = products + scale**2 * B",
        "products = products + 0 * B",
    ),
    of_ntk(
        "mean NTK: free weights counted whole",
        "free = 1.0 - (Q * Q)",
        "free = 1.0 - 0 * (Q * Q)",
    ),
    of_ntk(
        "mean NTK: rows end at the first weights",
        "below = below + scale * (beside",
        "below = below + 0 * (beside",
    ),
    of_ntk(
        "mean NTK: continuation not orthogonal",
        "return (eta - Q @ (xp.swapaxes(Q, 2, 3) @ eta))[:, :, :-1]",
        "return eta[:, :, :-1]",
    ),
    of_ntk(
        "mean NTK: rates of one layer for two",
        "ntk = ntk + np.asarray(rows[1], np.float64) * own[i]",
        "ntk = ntk + np.asarray(rows[1], np.float64) * own[i + 1]",
    ),
    of_moments(
        "covariance: biased",
        "return self._m11() / (self.count - 1)",
        "return self._m11() / self.count",
    ),
    of_moments(
        "covariance error: Gaussian part once", "(product + 2 * m11**2)", "(product + m11**2)"
    ),
    of_moments("covariance error: pilot", "- 3 * m * di**2 * dj**2", "- 2 * m * di**2 * dj**2"),
    of_moments("mean error: m for m - 1", "0.0) / (m * (m - 1)))", "0.0) / (m * m))"),
    of_extrapolate(
        "extrapolation: errors added, not squared",
        'np.einsum("epk,ke->pe", rescaled**2, s**2)',
        'np.einsum("epk,ke->pe", rescaled, s) ** 2',
    ),
    of_extrapolate(
        "extrapolation: never above a line",
        "return min(widths - 1, most)",
        "return min(widths - 1, 1)",
    ),
    of_extrapolate(
        "extrapolation: units of the slope",
        "rescaled = pseudo_inverse / unit **",
        "rescaled = pseudo_inverse / 1.0 **",
    ),
    of_differentials(
        "differentials of a network: rates of biases for weights", ".T[::-1].astype", ".T.astype"
    ),
    of_differentials(
        "differentials of a network: output scale once",
        "entering * scales[0, -1] ** 2 / program",
        "entering * scales[0, -1] / program",
    ),
    of_differentials(
        "differentials of a network: weights of any layer last",
        "if isinstance(made, Draw):",
        "if True:",
        f"{ANY_LAYERS}test_products_with_outputs_are_averaged_over_last_weights_that_are_their_own",
    ),
)
