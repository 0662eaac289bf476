"""Breaks of shallow networks, their limits and the divergences between them."""

from breaks import row

NETWORKS = "tests/limits/test_shallow_networks.py"
LIMITS = "tests/limits/test_shallow_limits.py"
DIVERGENCES = "tests/limits/test_shallow_divergences.py"
of_finite = row("limits/shallow/_finite.py", NETWORKS)
of_particles = row("limits/shallow/_particles.py", NETWORKS)
of_network = row("limits/shallow/_network.py", NETWORKS)
of_run = row("limits/shallow/_run.py", LIMITS)
of_limit = row("limits/shallow/_limit.py", LIMITS)
of_kernels = row("limits/shallow/_kernels.py", LIMITS)
of_scaling = row("limits/shallow/_scaling.py", LIMITS)
of_divergences = row("limits/shallow/_divergences.py", DIVERGENCES)

MUTANTS = (
    of_finite(
        "shallow: first layer's rate scales as the other's",
        "u ** float(one.q_tilde_a), u ** float(one.q_tilde_w)",
        "u ** float(one.q_tilde_a), u ** float(one.q_tilde_a)",
    ),
    of_finite(
        "shallow: step without sigma",
        "rate_w=reference.rate_w * u_w * sigma,",
        "rate_w=reference.rate_w * u_w,",
    ),
    of_finite(
        "shallow: loss blind to what IC-MF adds",
        "loss_slope(f + added[rows] if one.initial else f, y, 0)",
        "loss_slope(f, y, 0)",
        LIMITS,
    ),
    of_finite("shallow: start in the wrong units", "u**-0.5 * first", "first", LIMITS),
    of_particles(
        "shallow: first weights follow the new output weights",
        """            D = self._slope(h) * e[:, :, None]
            D *= block
            phi = self._value(h if same else layer.at(from_a))
            block += np.matmul(c.T[:, None, :], phi.transpose(1, 0, 2))[:, 0]
""",
        """            D = self._slope(h) * e[:, :, None]
            phi = self._value(h if same else layer.at(from_a))
            block += np.matmul(c.T[:, None, :], phi.transpose(1, 0, 2))[:, 0]
            D *= block
""",
    ),
    of_particles(
        "shallow: coefficients of the probes forget",
        "self._coefficients[rows] += D",
        "self._coefficients[rows] = D",
    ),
    of_particles(
        "shallow: Gram matrix by its own rows",
        "self._gram[: len(self._h), rows]",
        "self._gram[: len(self._h), : len(D)]",
    ),
    of_particles(
        "shallow: one stream for both layers",
        "for of_a, _ in streams])",
        "for _, of_a in streams])",
    ),
    of_particles(
        "shallow: particles without their opposites",
        """        a, w = part[:, :, 0].T, part[:, :, 1:].T
        a, w = np.concatenate([a, -a], axis=-1)""",
        """        a, w = part[:, :, 0].T, part[:, :, 1:].T
        a, w = np.concatenate([a, a], axis=-1)""",
        LIMITS,
    ),
    of_network(
        "shallow: printed factor (x + x')",
        "left, right = (x @ sample.x_w)[:, None], (others @ sample.x_w)[None, :]",
        "left = right = (x @ sample.x_w)[:, None] + (others @ sample.x_w)[None, :]",
    ),
    of_network(
        "shallow: Kwa without x x'",
        "wa = 2 * (slope * net.a * at_a) @ slope_.T * dots",
        "wa = 2 * (slope * net.a * at_a) @ slope_.T",
    ),
    of_network(
        "shallow: Kw without x x'",
        "(weighted @ net.phi(others, 1).T) * (x @ others.T)",
        "(weighted @ net.phi(others, 1).T)",
    ),
    of_network(
        "shallow: printed factorial of the second sum",
        "total += (net.phi(x, j - 1) * power) @ change_a",
        "total += (net.phi(x, j - 1) * power) @ change_a / j",
    ),
    of_network(
        "shallow: sign of the step",
        "change_a = -units.rate_a * chi_a * net.phi(sample.x_a[None])[0]\n    pull",
        "change_a = units.rate_a * chi_a * net.phi(sample.x_a[None])[0]\n    pull",
    ),
    of_run("shallow: hinge without the label", "return -y * (f * y < 0)", "return -y * (f < 0)"),
    of_run("shallow: vanishing outputs", "np.full_like(f, 0.5)", "np.full_like(f, 1.0)"),
    of_limit(
        "shallow: frozen after a first sample that is right",
        "seen = loss_slope(f + g",
        "self._awake[:] = k > 0\n        seen = loss_slope(f + g",
    ),
    of_limit(
        "shallow: IC-MF's loss without g",
        "loss_slope(f + g if self._dynamics.keeps else f, y, self._dynamics.later)",
        "loss_slope(f, y, self._dynamics.later)",
    ),
    of_limit(
        "shallow: particles' rate without sigma*",
        "rate_a=reference.rate_a * reference.sigma,",
        "rate_a=reference.rate_a,",
    ),
    of_limit(
        "shallow: sign of the push-forward",
        "rate_w=reference.rate_w * reference.sigma,",
        "rate_w=-reference.rate_w * reference.sigma,",
    ),
    of_limit(
        "shallow: limit starts at 0",
        "g if dynamics.remembers else",
        "0 * g if dynamics.remembers else",
    ),
    of_kernels(
        "shallow: d* missing from the kernels",
        "factor = reference.sigma**2 * reference.width",
        "factor = reference.sigma**2",
    ),
    of_kernels(
        "shallow: limit of Kw without x x'",
        "factor * slope * (table[: len(x)] @ table[first].T)",
        "factor * slope",
    ),
    of_scaling(
        "shallow: gradient at step 0 by the later line",
        "LimitDynamics(region.id, moving == 0, first, later, remembers == 0)",
        "LimitDynamics(region.id, moving == 0, later, later, remembers == 0)",
    ),
    of_scaling(
        "shallow: IC-MF of the appendix",
        "_IC_MF = ((-_HALF, 1), (Fraction(-1), -1))",
        "_IC_MF = ((-_HALF, 1), (Fraction(-1), 0))",
        NETWORKS,
    ),
    of_divergences(
        "shallow: Gaussian divergence the other way",
        "0.5 * (ratio - 1 - np.log(ratio)",
        "0.5 * (1 / ratio - 1 + np.log(ratio)",
    ),
    of_divergences(
        "shallow: Beta fit",
        "strength = m * (1 - m) / v - 1\n    return m * strength",
        "strength = m * (1 - m) / v\n    return m * strength",
    ),
    of_divergences(
        "shallow: Dirichlet divergence",
        "slope = digamma(alpha) - digamma(total)[..., None]",
        "slope = digamma(alpha) - digamma(total_star)[..., None]",
    ),
)
