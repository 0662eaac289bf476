"""Breaks of what is predicted of trained networks."""

from breaks import row

FILTERS = "tests/training/test_filters.py"
VERB = "tests/training/test_predict_training.py"
ONCE = "tests/training/test_once.py"
EVIDENCE = "tests/training/test_evidence.py"
ORDER = "tests/training/test_invariances.py"
REFUSALS = "tests/training/test_refusals.py"
NEW = "tests/training/test_new_algorithm.py"
BLOCKS = f"{ORDER}::test_blocks_of_test_samples_change_nothing"

of_filters = row("training/_filters.py", FILTERS)
of_flow = row("training/_flow.py", FILTERS)
of_descent = row("training/_descent.py", FILTERS)
of_kernel = row("training/_kernel.py", VERB)
of_spectrum = row("training/_spectrum.py", (VERB, REFUSALS))
of_evidence = row("training/_evidence.py", EVIDENCE)
of_classes = row("training/_generalisation.py", EVIDENCE)
of_outcomes = row("training/_outcomes.py", (ORDER, REFUSALS))
of_leading = row("training/_leading.py", (VERB, ORDER))
of_kernels = row("training/_kernels.py", (VERB, ORDER))
of_results = row("training/_results.py", (VERB, ORDER))
of_draws = row("training/_draws.py", (VERB, EVIDENCE))

MUTANTS = (
    of_filters(
        "flow: twice as fast", "np.where(learned, x * t, 0.0)", "np.where(learned, 2 * x * t, 0.0)"
    ),
    of_filters("flow: gain by a difference", "-np.expm1(-spent)", "(1 - np.exp(-spent))"),
    of_filters("ridge: forgotten in what is left", "p + ridge * gain if ridge else p", "p"),
    of_filters(
        "steps: one more",
        "np.exp(t * logarithm), (1 - s) ** t",
        "np.exp((t + 1) * logarithm), (1 - s) ** t",
    ),
    of_filters(
        "steps: gain by a difference", "np.where(slow, -np.expm1(t * logarithm), 1 - p)", "1 - p"
    ),
    of_filters("steps: sign lost beyond 1/h", "(1 - s) ** t)", "np.abs(1 - s) ** t)"),
    of_filters(
        "momentum: of the error, not the velocity",
        "1 - rate * x, -momentum * x",
        "1 - rate * x, momentum * x",
    ),
    of_filters(
        "momentum: not summed",
        "step[:, 1:, 0], step[:, 1:, 1] = rate, momentum",
        "step[:, 1:, 0], step[:, 1, 1] = rate, momentum",
    ),
    of_filters(
        "schedule: one rate late",
        "-p, rates[step], momentum",
        "-p, rates[max(step - 1, 0)], momentum",
    ),
    of_filters(
        "schedule: without momentum",
        "velocity = momentum * velocity - rate * force",
        "velocity = -rate * force",
    ),
    of_filters("schedule: error moved by half", "p - x * move", "p - 0.5 * x * move"),
    of_descent(
        "rate: largest without momentum", "2 * (1 + self.momentum) / largest", "2 / largest"
    ),
    of_descent("rate: largest without ridge", "float(h.max()) + self.ridge", "float(h.max())"),
    of_flow(
        "units: of a flow turned round",
        "t / unit_of(self.loss_units, targets), ridge",
        "t * unit_of(self.loss_units, targets), ridge",
    ),
    of_descent("units: of a rate forgotten", "rate / per, **rest", "rate, **rest"),
    row("training/width/_course.py", NEW)(
        "rules: transposed without the velocity", "pull: Any = B * a + D * v", "pull: Any = B * a"
    ),
    row("training/width/_course.py", NEW)(
        "rules: the force without what is seen", "x * a - F[s], rate", "-F[s], rate"
    ),
    row("training/_algorithm.py", NEW)(
        "own algorithms: steps to the end cut off",
        "own = math.inf if self.steps is None else float(self.steps)",
        "own = 1.0 if self.steps is None else float(self.steps)",
    ),
    of_descent("units: of a schedule forgotten", "np.array(rate) / per", "np.array(rate)"),
    row("training/_posteriors.py", VERB)(
        "bayes: twice the noise",
        "ridge=self.noise_variance)",
        "ridge=2 * self.noise_variance)",
        VERB,
        EVIDENCE,
    ),
    of_kernel(
        "covariance: sign of what is carried over",
        "self._filtered(-filters.gain",
        "self._filtered(filters.gain",
    ),
    of_kernel("covariance: pivots not followed", "K_AB[self.order]", "K_AB[: len(self.order)]"),
    of_kernel("covariance: factor not turned", "L.T @ found.U[order]", "L.T @ found.U"),
    of_kernel(
        "covariance: what is left of samples, once",
        "self._filtered(filters.left,",
        "self._filtered(np.sqrt(np.abs(filters.left)),",
    ),
    of_kernel(
        "covariance: what nobody knows, dropped",
        "np.broadcast_to(self.S,",
        "np.broadcast_to(0 * self.S,",
    ),
    of_kernel(
        "posterior: rest counted twice", "yield np.sqrt(filters.left)", "yield (filters.left)"
    ),
    of_kernel(
        "posterior: on samples",
        "(np.sqrt(filters.left) * self.roots)",
        "(filters.left * self.roots)",
    ),
    of_kernel(
        "mean: without gain",
        "filters.gain[:, None] * learned",
        "(0 * filters.gain[:, None] + 1) * learned",
    ),
    of_kernel(
        "mean: of samples, target added", "learned.y.T - np.einsum", "learned.y.T + np.einsum"
    ),
    of_kernel(
        "twins: mean of their own",
        "if again.any():\n            found[..., again]",
        "if not again.any():\n            found[..., again]",
    ),
    of_kernel("twins: deviations of their own", "D[..., where] = other", "pass"),
    of_kernel("times: as few as 1e-4", "np.finfo(float).eps * s[0]]", "1e-4 * s[0]]"),
    of_kernel(
        "times: groups where they are not", "X[begin:stop]", "X[first : first + stop - begin]"
    ),
    of_kernel("covariance: half of it", "found[:, a, a + 1 :]", "0.0"),
    of_kernel("twins: noise of their own", "* alone\n", "\n"),
    of_kernel("twins: covariance of their own", "(alone[:, None] & alone)", "1.0"),
    of_kernel(
        "rounding: directions of kernel 0 for ever",
        "& (filters.gain > most)",
        "& (filters.gain > np.inf)",
    ),
    of_spectrum("rank: rounding counts", "np.where(h > tolerance, h, 0.0)", "h"),
    of_spectrum("rank: negative eigenvalues forgiven", "h[0] < -_WRONG * h[-1] or", "", REFUSALS),
    of_spectrum(
        "singular: not noticed", "> _TARGETS * np.abs(y).max(initial=0.0))", "> np.inf)", REFUSALS
    ),
    of_evidence("evidence: without 2 pi", "np.log(2 * np.pi * h).sum()", "np.log(h).sum()"),
    of_evidence("evidence: of one output", "-0.5 * (y.shape[1] * np.log", "-0.5 * (np.log"),
    of_evidence("evidence: without noise", "h = found.h + noise_variance", "h = found.h"),
    of_evidence("slope: half the trace", "0.5 * y.shape[1] * trace", "0.25 * y.shape[1] * trace"),
    of_evidence(
        "slope: noise forgotten",
        "s = 1 / (found.h + noise_variance)\n    if",
        "s = 1 / found.h\n    if",
    ),
    of_evidence(
        "slope: by C_W without C_b", "(by_kernel - C_b * by_bias) / C_W", "by_kernel / C_W"
    ),
    of_evidence("slope: by C_b, ones not squared", "(s * ones**2)", "(s * ones)"),
    of_evidence("slope: by noise for one output", "- y.shape[1] * s)", "- s)"),
    of_evidence(
        "leave one out: divided by the variance",
        "@ y)) * variance[:, None]",
        "@ y)) / variance[:, None]",
    ),
    of_evidence(
        "leave one out: score without spread",
        "np.log(2 * np.pi * variance)[:, None]",
        "0 * variance[:, None]",
    ),
    of_evidence("hypotheses: prior forgotten", "odds = weights * np.exp", "odds = np.exp"),
    of_classes("loss: variance of one output", "len(y) * variance", "variance", VERB),
    of_classes("loss: not halved", "return 0.5 * (((mean", "return (((mean", VERB),
    of_classes("class: largest output beats itself", "np.where(other, ndtr", "np.where(True, ndtr"),
    of_classes("class: independent of the others", "ndtr(x + ahead", "ndtr(ahead"),
    of_classes("class: the wrong sign", "ndtr(-ahead / unit)", "ndtr(ahead / unit)"),
    of_classes("class: ties", "(ahead >= 0).all(axis=-2) / tied", "(ahead >= 0).all(axis=-2)"),
    of_classes("class: any numbers", "return bool((np.abs(y) == 1).all())", "return True"),
    of_outcomes("evidence: of every algorithm", "asked.algorithm.has_evidence else", "True else"),
    of_outcomes("train: in spite of at", 'if asked.at == "test" else', "if False else"),
    of_leading(
        "slope: of the first layer", "asked.net.own(asked.net.depth)", "asked.net.own(1)", EVIDENCE
    ),
    of_kernels(
        "kernels: exchanged",
        "return self.asked.algorithm.learns_with, self.asked.algorithm.starts_with",
        "return self.asked.algorithm.starts_with, self.asked.algorithm.learns_with",
    ),
    of_kernels(
        "tests: variance of what learns",
        "in_turn(net, tests, tests, starts_with)",
        "in_turn(net, tests, tests, self._own[0])",
        BLOCKS,
    ),
    of_kernels(
        "tests: the first block for every other",
        "self.asked.task.inputs, self.asked.tests[block]",
        "self.asked.task.inputs, self.asked.tests[: block.stop - block.start]",
        BLOCKS,
    ),
    of_kernels(
        "kernels: twice", "@cached_property\n    def _squares", "@property\n    def _squares", ONCE
    ),
    of_kernels(
        "spectrum: twice", "@cached_property\n    def trained", "@property\n    def trained", ONCE
    ),
    of_kernels("squares: one test late", "first - block.start", "first - block.start + 1", ONCE),
    of_results("bias: without targets", "mean - wanted.T", "mean"),
    of_results(
        "loss: of the training samples",
        'expected_loss(mean, found["variance"], wanted.T)',
        'expected_loss(0 * mean, found["variance"], wanted.T)',
    ),
    of_draws("draws: without root", "np.sqrt(np.maximum(value, 0.0))", "np.maximum(value, 0.0)"),
    of_draws("score: of the targets, not of the error", "test_targets - mean", "test_targets"),
)
