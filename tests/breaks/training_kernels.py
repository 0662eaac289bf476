"""Breaks of what is learned at infinite width: one factorisation, any loss."""

from breaks import row

NUMERICS = "tests/training/test_numerics.py"
LOSSES = "tests/training/test_losses.py"
GIVEN = "tests/training/test_given.py"
REAL = "tests/training/test_real_networks.py"

of_cholesky = row("training/_cholesky.py", NUMERICS)
of_spectrum = row("training/_spectrum.py", NUMERICS)
of_dynamics = row("training/losses/_dynamics.py", LOSSES)
of_motions = row("training/_motions.py", LOSSES)
of_prior = row("training/losses/_prior.py", LOSSES)
of_losses = row("training/losses/_predict.py", (LOSSES, REAL))
CURVED = "tests/training/test_curved.py"
ITERATIVE = "tests/training/test_iterative.py"
of_given = row("training/_given.py", GIVEN)
of_series = row("training/_series.py", CURVED)
of_curvature = row("training/_curvature.py", CURVED)
LAYERS = "tests/training/test_given_networks.py"
PASSES = f"{LAYERS}::test_passes_of_numpy_are_those_of_autodiff"
READ = f"{LAYERS}::test_what_reads_inputs_and_images_flows_back_too"
of_design = row("training/_design.py", "tests/training/test_design.py")
of_network = row("training/_one_network.py", LAYERS)
of_bent = row("training/_curved_network.py", PASSES)
of_back = row("networks/_backward.py", PASSES)
of_function = row(
    "training/_by_jax.py", f"{CURVED}::test_functions_and_modules_bend_as_the_network_that_they_are"
)
of_size = row(
    "training/_given.py",
    "tests/training/test_curved.py::test_what_is_left_of_really_trained_networks_falls_twice_as_fast",
)
of_iterations = row("training/_iterative.py", ITERATIVE)
of_slopes = row("training/_evidence_slopes.py", "tests/training/test_evidence_slopes.py")
OWN_JAX = "tests/jax/test_tangents.py"
of_jax = row("jax/_tangent_rows.py", OWN_JAX)
OWN = "tests/torch/test_tangents.py"
of_ways = row("torch/_tangent_ways.py", OWN)
of_calls = row("torch/_dense_calls.py", OWN)
of_rows = row("torch/_tangent_rows.py", OWN)
of_products = row("torch/_tangent_products.py", OWN)
of_blocks = row("training/_row_blocks.py", OWN)
of_objects = row("training/_kernel_objects.py", "tests/training/test_kernel_objects.py")
of_samples = row("training/_sample_kernels.py", "tests/training/test_kernel_objects.py")
of_pairs = row("theory/flow/_pair_sets.py", "tests/theory/test_pair_sets.py")
PIECES = "tests/training/test_kernel_pieces.py"
of_linear = row("training/kernels/_linear_models.py", PIECES)
of_steps = row("training/kernels/_steps.py", PIECES)
of_hidden = row("training/kernels/_hidden.py", PIECES)
of_priors = row("training/kernels/_priors.py", PIECES)
of_star = row("training/kernels/_star_polation.py", PIECES)
of_calibration = row("training/losses/_calibration.py", LOSSES)
of_names = row("tasks/_losses.py", LOSSES)

MUTANTS = (
    of_size(
        "given: parts of a correction that cancel are none",
        "np.maximum(one, other), move",
        "np.abs(one - other), move",
    ),
    of_size("given: a correction of any size is believed", "if size > _LARGE:", "if size > 1e9:"),
    of_cholesky("evidence: pivots not squared", "np.diag(self.L) ** 2)", "np.diag(self.L))"),
    of_cholesky(
        "posterior: sure of what it saw with noise", "spread = K_BB - w.T @ w", "spread = K_BB"
    ),
    of_cholesky("posterior: a target not met", "y[known[again]].T", "0.0"),
    of_cholesky("noise: not on the diagonal", "+= noise_variance", "+= 0.0"),
    of_cholesky(
        "condition: smallest not inverted", "smallest = 1 / _extreme", "smallest = _extreme"
    ),
    of_cholesky("condition: one step of Lanczos", "_STEPS = 6", "_STEPS = 1"),
    of_spectrum("condition: without what noise adds", "self.h[0] + added", "self.h[0]"),
    of_spectrum("warning: never", "if error > _TOLD", "if error > 1e300"),
    of_dynamics("loss: mean for sum", "loss.slopes(f, y) * len(y)", "loss.slopes(f, y)"),
    of_dynamics("loss: without its ridge", "+ algorithm.ridge * c", ""),
    of_dynamics("times: not converted", "times / algorithm.unit(y.size)", "times"),
    of_motions("momentum: forgotten", "self.rate(step), self.momentum)", "self.rate(step), 0.0)"),
    of_motions("schedule: one rate", "step if len(self.rates) > 1 else 0", "0"),
    of_motions("times: sorted", "done.y.T[places]", "done.y.T"),
    of_motions("steps: one late", "found[times == step] = c", "found[times == step + 1] = c"),
    of_prior("prior: variances for roots", "root = np.sqrt(found.h[some])", "root = found.h[some]"),
    of_prior("prior: tests do not share", "w.T @ w)", "0 * w.T @ w)"),
    of_losses(
        "tests: what nobody read, dropped", "[:, :, None, None] * begin.S", "[:, :, None, None] * 0"
    ),
    of_losses("tests: variance without it", "+ np.maximum(own, 0.0)", "+ 0 * own"),
    of_losses("tests: law without it", "z = g + noise", "z = g"),
    of_losses(
        "tests: kernel of training samples",
        "Theta[count:, :count] if",
        "Theta[:count, :count][: len(Theta) - count] if",
    ),
    of_losses("errors: not of a mean", "/ math.sqrt(REPLICAS)", "* math.sqrt(REPLICAS)"),
    of_dynamics("end: for ever", "if np.isinf(found).any()", "if False"),
    of_losses(
        "wrong class: ties of signs", "(z[..., 0] * y[:, 0] < 0)", "(z[..., 0] * y[:, 0] > 0)"
    ),
    of_calibration("reliability: bins not weighted", "(count[some] * np.abs", "(np.abs"),
    of_calibration("reliability: confidence of class 0", "sure = p.max(axis=1)", "sure = p[:, 0]"),
    of_names(
        "logistic: probability of the class -1",
        "np.exp(-np.logaddexp(0.0, -f))",
        "np.exp(-np.logaddexp(0.0, f))",
    ),
    of_given("given: starts at 0", "error = (z[: len(y)] - y)", "error = (0 * z[: len(y)] - y)"),
    of_given("given: loss of another network", "return z + np.einsum", "return 0 * z + np.einsum"),
    of_given("given: bias turned", "np.swapaxes(unseen - task", "np.swapaxes(-unseen + task"),
    of_design("design: widths between multiples", "return low * step", "return low * step + 1"),
    of_design(
        "design: the first network of a family",
        "wide = net.at_width(width)",
        "wide = net",
    ),
    of_design(
        "design: families that do not fit", "    check_fit(Asked(net, task, algorithm))\n", ""
    ),
    of_network("one network: masks are no obstacle", "    refuse_masks(net.program)\n", ""),
    of_network("one network: of any shape", "    check_shapes(net", "    0 and check_shapes(net"),
    of_network("one network: features before the activation", "last=last - 1", "last=last - 2"),
    of_network(
        "one network: outputs apart",
        "return z, H.transpose(1, 3, 0, 2)",
        "return z, H.transpose(1, 3, 2, 0)",
        PASSES,
    ),
    of_network(
        "one network: one row for all",
        "for e in np.eye(z.shape[1])",
        "for e in np.ones((z.shape[1],) * 2)",
        PASSES,
    ),
    of_bent("bent: rates of biases first", ".T[::-1]", ".T", PASSES),
    of_bent("bent: a maximum is smooth", "if isinstance(node, Max):", "if False:", LAYERS),
    of_bent(
        "bent: weights that are used again once",
        "before = slopes.get(own, (0.0, 0.0))",
        "before = (0.0, 0.0)",
        PASSES,
    ),
    of_function("bent: terms without factorials", "/ math.factorial(order)", "/ 1"),
    of_series("series: second order without its half", "rest[0] ** 2 / 2", "rest[0] ** 2"),
    of_series("series: third derivative not over 3!", "rest[0] ** 3 / 6", "rest[0] ** 3 / 2"),
    of_series(
        "series: products of first orders alone",
        "if sum(orders) < len(terms):",
        "if sum(orders) < 2:",
    ),
    of_series("series: exponential", "sum(i / k * a[i]", "sum(1 / k * a[i]", PASSES),
    of_series("series: root", "/ (2 * found[0])", "/ found[0]", PASSES),
    of_series(
        "series: quotient",
        "found.append((own - sum(",
        "found.append((own + sum(",
        PASSES,
    ),
    of_series(
        "series: constants at every order",
        "[a, *(np.zeros_like(a),) * (count - 1)]",
        "[a] * count",
        PASSES,
    ),
    of_back(
        "back: mean of a norm",
        "return back - mean(back) if node.centred else back",
        "return back",
        PASSES,
    ),
    of_back(
        "back: keys for queries",
        "slopes = [by_logits @ hats[1], np.swapaxes(by_logits, -1, -2) @ hats[0]]",
        "slopes = [by_logits @ hats[0], np.swapaxes(by_logits, -1, -2) @ hats[1]]",
        PASSES,
    ),
    of_back(
        "back: logits of softmax apart",
        "p * (by_p - (by_p * p).sum(axis=-1, keepdims=True))",
        "p * by_p",
        PASSES,
    ),
    of_back(
        "back: equal maxima each whole",
        "(largest / count)",
        "(largest * 2.0)",
        PASSES,
    ),
    of_back(
        "back: beyond the ends",
        "index == np.arange(sizes[axis])",
        "index % sizes[axis] == np.arange(sizes[axis])",
        PASSES,
    ),
    of_back(
        "back: matrices not transposed",
        "np.tensordot(own.array.T, x",
        "np.tensordot(own.array, x",
        PASSES,
    ),
    of_back(
        "back: graph of each sample not transposed",
        "np.swapaxes(A.reshape(len(A), -1, A.shape[-1]), 1, 2) @ flat",
        "A.reshape(len(A), -1, A.shape[-1]) @ flat",
        READ,
    ),
    of_back(
        "back: mask of another field",
        "return [delta * below[1]]",
        "return [delta]",
        READ,
    ),
    of_back(
        "back: taps before groups",
        "return np.moveaxis(apart, 2, 3).reshape(*delta",
        "return apart.reshape(*delta",
        PASSES,
    ),
    of_back(
        "back: fields that several read",
        "deltas[k] = deltas[k] + part if k in deltas else part",
        "deltas[k] = part",
        PASSES,
    ),
    of_curvature(
        "curvature: first order bends twice", "[-phi, psi, -chi]", "[-phi, 2 * psi, -chi]"
    ),
    of_curvature("curvature: sign of third order", "[-phi, psi, -chi]", "[-phi, psi, chi]"),
    of_curvature("curvature: half of the third derivative", "chi -= 2 * at.bent", "chi -= at.bent"),
    of_curvature(
        "curvature: the force drives nothing", "return F - at.H @ (at.U @ back)", "return F"
    ),
    of_curvature(
        "curvature: no second order on the way",
        "at.bent(e, [-f, p])[1]",
        "0 * at.bent(e, [-f, p])[1]",
    ),
    of_iterations(
        "iterations: ridge forgotten", "kernels.times(P) + self._added * P", "kernels.times(P)"
    ),
    of_iterations("iterations: never foretold", "if foretold > _STEPS:", "if False:"),
    of_iterations("iterations: time not told", "if steps * seconds > _PATIENCE:", "if False:"),
    of_iterations(
        "iterations: columns that leave, in others' places",
        "every[:, on], on, fit = X,",
        "every[:, : len(on)], on, fit = X[:, ::-1],",
    ),
    of_iterations(
        "iterations: a strip counts once", "out[rows.stop :] += H[:, beyond:].T @ v[rows]", "pass"
    ),
    of_iterations(
        "iterations: ensembles are posteriors", "if not algorithm.is_posterior:", "if False:"
    ),
    of_iterations(
        "iterations: samples in their own order",
        "y, added = task.targets[order]",
        "y, added = task.targets",
    ),
    of_slopes("slopes: trace of one output", "y.shape[1] * (found.U * s)", "(found.U * s)"),
    of_slopes("slopes: variances below stay", "+ np.diag(own))", "+ 0 * np.diag(own))"),
    of_slopes(
        "slopes: rates of the layer below", "g = net.C_W[layer] *", "g = net.C_W[layer - 1] *"
    ),
    of_jax(
        "tangents: rates squared",
        "root = np.sqrt(flat[cut] if rate.ndim else flat)",
        "root = flat[cut] if rate.ndim else flat",
    ),
    of_function("curvature: the first block alone", "np.sum(parts, axis=0)", "parts[0]"),
    of_jax("tangents: samples that mix, alone", "if not apart <= _LOOSE", "if apart < 0 * _LOOSE"),
    of_ways(
        "tangents: rates squared, torch",
        "asked.rates.get(name, 1.0)",
        "asked.rates.get(name, 1.0) ** 2",
    ),
    of_ways("tangents: no way is checked", "<= loose * (sizes[name] + least)", "<= np.inf"),
    of_calls("tangents: padded words count", 'more.get("padding_idx") is None', "True"),
    of_calls(
        "tangents: weights stay trained in calls",
        "args = tuple(weight.detach() if a is weight",
        "args = tuple(weight if a is weight",
    ),
    of_rows("tangents: a weight that is also added", "if g is None and", "if"),
    of_products("tangents: places of another sample", '"aktbls,atbs->abkl"', '"aktbls,atbs->ablk"'),
    of_products(
        "tangents: places that are read dropped", "amax((0, 1, 3)) > 0", "amax((0, 1, 3)) > 0.1"
    ),
    of_blocks("tangents: pairs of blocks once", "if other is not one:", "if other is one:"),
    of_blocks("tangents: the mean is a sum", "return H / reads if mean else H", "return H"),
    of_given("linearised: one NTK for all outputs", "columns = z.size // len(H)", "columns = 1"),
    of_samples(
        "kernels: the first samples again", "PairSet.in_turn(x, y)", "PairSet.in_turn(x, x)"
    ),
    of_samples(
        "kernels: one kind for the other",
        "[found[different.index(kind)] for kind in kinds]",
        "[found[-1] for kind in kinds]",
        PIECES,
    ),
    of_pairs(
        "pairs: columns of the first inputs",
        "places[len(X) :]\n        sides",
        "places[: len(both) - len(X)]\n        sides",
    ),
    of_pairs(
        "pairs: not turned",
        "target[tile.place[::-1]] = turned(values, len(tile.shape))",
        "target[tile.place[::-1]] = 0.0",
    ),
    of_pairs(
        "pairs: repeated inputs apart",
        "known.setdefault(row.tobytes(), len(known))",
        "known.setdefault(bytes(len(known)), len(known))",
        "tests/training/test_predict_training.py",
    ),
    of_pairs("pairs: order of a rectangle", "rank[first], rank[second])", "first, second)"),
    of_objects(
        "objects: kind forgotten",
        "kernel, (X, Y) = NetworkKernel(self.net, self.kind),",
        "kernel, (X, Y) = NetworkKernel(self.net),",
    ),
    of_linear("linear: ridge of the text without 2", "h = h + 2 * ridge", "h = h + ridge"),
    of_linear(
        "linear: dual ridge without 2",
        "found.solve(targets, 2 * ridge)",
        "found.solve(targets, ridge)",
    ),
    of_linear(
        "linear: weights of features", "features @ weights @ others.T", "features @ others.T"
    ),
    of_linear("linear: width of a Gaussian", "(2 * length**2)", "length**2"),
    of_linear("linear: n_L as printed", "last.C_W / phi.shape[1]", "last.C_W / net.output_dim"),
    of_steps("steps: uphill", "-model.gradients(factors)[0]", "model.gradients(factors)[0]"),
    of_steps("leap: away from the targets", "error = z - targets", "error = targets - z"),
    of_steps("loss: without its half", "float(0.5 * (error", "float((error"),
    of_steps(
        "decay: of weights as of biases", "(weight_decay, bias_decay)", "(bias_decay, weight_decay)"
    ),
    of_steps(
        "decay: of parameters of one", "np.concatenate(decay) * theta", "np.concatenate(decay)"
    ),
    of_hidden("hidden: mean for one output", "-outputs * C_W * Theta", "-C_W * Theta"),
    of_hidden("hidden: targets forgotten", "+ y @ y.T", "+ 0 * y @ y.T"),
    of_hidden(
        "hidden: kernel of the layer below",
        "outputs * last + y",
        "outputs * K + y",
    ),
    of_priors(
        "rates: all layers", "still = (0.0,) * (net.depth - 1)", "still = (1.0,) * (net.depth - 1)"
    ),
    of_priors("decay of a prior: not by the width", "np.array(net.widths[:-1]) / (2", "1.0 / (2"),
    of_star(
        "star-polation: four times, as printed", "- t * (1 - t) * bent", "- 4 * t * (1 - t) * bent"
    ),
    of_star("star-polation: bent the other way", "- t * (1 - t) * bent", "+ t * (1 - t) * bent"),
)
