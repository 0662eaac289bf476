"""Breaks of what is learned at infinite width: one factorisation, any loss."""

from breaks import row

NUMERICS = "tests/training/test_numerics.py"
LOSSES = "tests/training/test_losses.py"
GIVEN = "tests/training/test_given.py"
REAL = "tests/training/test_real_networks.py"

of_cholesky = row("training/_cholesky.py", NUMERICS)
of_spectrum = row("training/_spectrum.py", NUMERICS)
of_dynamics = row("training/losses/_dynamics.py", LOSSES)
of_prior = row("training/losses/_prior.py", LOSSES)
of_losses = row("training/losses/_predict.py", (LOSSES, REAL))
of_given = row("training/_given.py", GIVEN)
of_jax = row("jax/_tangents.py", GIVEN)
of_torch = row("torch/_tangents.py", GIVEN)
of_objects = row("training/_kernel_objects.py", "tests/training/test_kernel_objects.py")
of_calibration = row("training/losses/_calibration.py", LOSSES)
of_names = row("tasks/_losses.py", LOSSES)

MUTANTS = (
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
    of_dynamics("loss: mean for sum", "* (len(y) / slow)", "/ slow"),
    of_dynamics("units: ridge not converted", "algorithm.ridge / slow * c", "algorithm.ridge * c"),
    of_dynamics("rate: of None, without units", "0.8 * slow / (np", "0.8 / (np"),
    of_dynamics("momentum: forgotten", "v = momentum * v - rate", "v = -rate"),
    of_dynamics("schedule: one rate", "float(rates[step])", "float(rates[0])"),
    of_dynamics("times: sorted", "done.y.T[places]", "done.y.T"),
    of_dynamics("steps: one late", "found[times == step] = c", "found[times == step + 1] = c"),
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
        "logistic: probability of the class -1", "np.logaddexp(0.0, -f)),", "np.logaddexp(0.0, f)),"
    ),
    of_given("given: rate of biases alone", "net.lambda_W[layer] / n[layer] * seen", "0 * seen"),
    of_given(
        "given: rates without the width", "net.lambda_W[layer] / n[layer]", "net.lambda_W[layer]"
    ),
    of_given(
        "given: slopes of the layer above",
        "np.repeat(slopes[layer - 1]",
        "np.repeat(slopes[layer - 2]",
    ),
    of_given(
        "given: outputs apart",
        "return Tangents(z, H.transpose(0, 2, 1, 3))",
        "return Tangents(z, H.transpose(0, 2, 1, 3) * np.eye(outputs))",
    ),
    of_given("given: starts at 0", "z.reshape(-1)[:count] - y", "0 * z.reshape(-1)[:count] - y"),
    of_given("given: loss of another network", "return z + (c @", "return 0 * z + (c @"),
    of_given("given: bias turned", "np.swapaxes(unseen - task", "np.swapaxes(-unseen + task"),
    of_jax(
        "tangents: rates squared",
        "scaled.reshape(z.size, -1) @ J.reshape",
        "scaled.reshape(z.size, -1) @ scaled.reshape",
    ),
    of_torch("tangents: rates for roots", "np.sqrt(given.get(name, 1.0))", "given.get(name, 1.0)"),
    of_objects(
        "objects: columns of the first inputs", "places[len(X) :]", "places[: len(both) - len(X)]"
    ),
    of_objects(
        "objects: pairs turned", "[at[: len(a)], at[len(a) :]]", "[at[: len(a)], at[: len(a)]]"
    ),
    of_objects(
        "objects: kind forgotten",
        "NetworkKernel(self.net, self.kind)(X, Y)",
        "NetworkKernel(self.net)(X, Y)",
    ),
)
