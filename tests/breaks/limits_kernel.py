"""Breaks of the kernel regime and of the derivatives of learning."""

from __future__ import annotations

from breaks import row

of_kernel = row("limits/_kernel_regime.py", "tests/limits/test_kernel_regime.py")
of_training = row("limits/methods/_kernel.py", "tests/limits/test_kernel_regime.py")
of_limit = row("limits/methods/_kernel.py", "tests/limits/test_mlp_regimes.py")
of_given = row("limits/learning/_conditioned.py", "tests/limits/test_kernel_regime.py")
of_solid = row("scaling/polyhedron.py", "tests/scaling/test_polyhedron.py")
of_learning = row("limits/learning/_derivatives.py", "tests/limits/test_learning_derivatives.py")
of_losses = row("tasks/_losses.py", "tests/limits/test_kernel_regime.py")
of_transfer = row("limits/learning/_transfer.py", "tests/limits/test_transfer.py")

MUTANTS = (
    of_kernel("kernel regime: readout always", "    if U == 1:\n", "    if U:\n"),
    of_kernel(
        "kernel regime: every layer that could move the outputs",
        "if r_l[m] == r:",
        "if r_l[m] >= r:",
    ),
    of_kernel(
        "kernel regime: slopes of a layer too few",
        "back = np.prod(kernels.slopes[m : layer - 1], axis=0)",
        "back = np.prod(kernels.slopes[m + 1 : layer - 1], axis=0)",
    ),
    of_kernel(
        "kernel regime: slopes of a layer too many in between",
        "self.slopes[m:top]",
        "self.slopes[m : top + 1]",
    ),
    of_kernel(
        "kernel regime: variance of the slopes",
        "slopes.append(C_W * slope)",
        "slopes.append(slope)",
    ),
    of_kernel(
        "kernel regime: biases as inputs",
        "net.lambda_b[m] * back",
        "net.lambda_b[m] * back * back",
    ),
    of_kernel(
        "kernel regime: biases at the rate of weights",
        "strategy.q_bias[m] - strategy.r == r",
        "strategy.q[m] - strategy.r == r",
    ),
    of_kernel("kernel regime: bias of the output", "theta += net.lambda_b[last]", "theta += 0.0"),
    of_kernel("kernel regime: initial outputs at any strategy", "[0] * 2 != 1:", "[0] * 2 < 1:"),
    of_training(
        "kernel regime: initial outputs uncorrelated",
        "root = vectors * np",
        "root = np.eye(len(K)) * np",
    ),
    of_training(
        "kernel regime: clipping by the error alone",
        "errors, self.theta[np.ix_(rows, rows)], errors",
        "errors, np.eye(len(rows)), errors",
    ),
    of_training(
        "kernel regime: velocity forgotten", "sgd.momentum * self._velocity + change", "change"
    ),
    of_losses("training: mean over the batch", "f.shape) / f.shape[-2]", "f.shape)"),
    of_kernel(
        "kernel regime: slopes of the last hidden layer",
        "_motion(net, kernels, last, decoupled) * kernels.slopes[-1]",
        "_motion(net, kernels, last, decoupled)",
    ),
    of_kernel(
        "kernel regime: motion of all layers by the power of the last",
        "r = min(r_l[:layer])",
        "r = min(r_l)",
    ),
    of_kernel(
        "kernel regime: copies that are none",
        "range(layer - 1 if decoupled else 0, layer)",
        "range(0, layer)",
        "tests/limits/test_mlp_regimes.py",
    ),
    of_given("given outputs: noise along the features kept", "features @ readout.T / n", "0.0"),
    of_given("given outputs: root of the width", "outputs / math.sqrt(n) -", "outputs / n -"),
    of_solid(
        "solid: facets in another order", "found.r == 0, found.U == 1", "found.U == 1, found.r == 0"
    ),
    of_solid("solid: chart by A alone", "r - min(A, U)) / 2", "r - A) / 2"),
    of_limit("kernel limit: opposite draws equal", "theta, sign * f)", "theta, f)"),
    of_limit("kernel limit: features of a layer below", "X).features[1:]", "X).features[:-1]"),
    of_learning(
        "learning: flag of the layer as printed", "d_beta = -theta * d_gamma", "d_beta = -d_gamma"
    ),
    of_learning("learning: C as printed", "C = beta**2 * dx", "C = 2 * beta**2 * dx"),
    of_learning(
        "learning: third derivative as printed",
        "third = 3 * (",
        "third = (",
    ),
    of_learning(
        "learning: motion of the preactivation as printed",
        "2 * C * gamma_11 + below",
        "2 * C + gamma_11 * below",
    ),
    of_learning(
        "learning: gradient of its own layer",
        "slopes[k:], start=1.0) for k in range(1, layers + 1)",
        "slopes[k:], start=1.0) for k in range(layers)",
    ),
    of_learning(
        "learning: features in place of their gradient",
        "moved = beta * d_gamma_11",
        "moved = -gamma * d_gamma_11",
    ),
    of_learning("learning: term of the layer below", "0.5 * m(0, 2) * below", "0.0 * below"),
    of_learning(
        "learning: slopes below",
        "0.5 * m(1, 3) * below + m(2, 2)",
        "0.5 * m(1, 3) * below + m(1, 1)",
    ),
    of_learning(
        "learning: a first step that the last weights cannot carry",
        "float(r == 0 and A <= U)",
        "float(r == 0)",
    ),
    of_learning("learning: hat part with all its variance", "max(lam - mean**2, 0.0)", "lam"),
    of_learning(
        "learning: layers below move too",
        "beta = -theta * gamma + beta * gamma_11\n        z0",
        "beta = -theta * gamma\n        z0",
    ),
    of_learning(
        "learning: smoothed relu twice as smooth",
        "0.5 * z * (erf(z / s) + 1) + 0.5 * s * bell(z)",
        "0.5 * z * (erf(z / s) + 1) + s * bell(z)",
    ),
    of_transfer(
        "transfer: first layer forgotten",
        "replace(one, last=real_start(after, on, draw).last)",
        "real_start(after, on, draw)",
    ),
    of_transfer(
        "transfer: body trained with the head", "    if head_only:", "    if not head_only:"
    ),
    of_transfer("transfer: no pretraining", "for T in (steps[0], 0)", "for T in (0, 0)"),
    of_transfer(
        "transfer: last weights kept",
        "two = replace(one, last=real_start(after, on, draw).last)",
        "two = one",
    ),
)
