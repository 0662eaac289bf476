"""Breaks of shallow networks, their limits, the divergences between them, and the experiment on them."""

from breaks import Mutant, row

NETWORKS = "tests/limits/test_shallow_networks.py"
LIMITS = "tests/limits/test_shallow_limits.py"
DIVERGENCES = "tests/limits/test_shallow_divergences.py"
of_units = row("limits/shallow/_reference.py", NETWORKS)
of_train = row("limits/shallow/_train.py", NETWORKS)
of_methods = row("limits/shallow/_methods.py", LIMITS)
of_particles = row("limits/shallow/_particles.py", NETWORKS)
of_network = row("limits/shallow/_network.py", NETWORKS)
of_kernels = row("limits/shallow/_kernels.py", LIMITS)
of_scaling = row("limits/shallow/_scaling.py", LIMITS)
of_divergences = row("limits/shallow/_divergences.py", DIVERGENCES)

DYNAMICS = "tests/limits/test_shallow_dynamics.py::test_every_limit_step_by_step"
ASYMPTOTES = f"{LIMITS}::test_first_weights_that_outgrow_their_start_see_asymptotes"
UNEQUAL = f"{LIMITS}::test_wide_networks_with_rates_that_scale_differently"


def of_region(id: str, what: str, change: str) -> Mutant:
    """The dynamics of one region of the band, put wrong."""
    signs = "first, later, remembers, moving = region.signs"
    return of_scaling(
        f"shallow {id}: {what}",
        signs,
        f"{signs}\n    if region.id == {id!r}:\n        {change}",
        DYNAMICS,
    )


REGIONS = (
    of_region("R1", "a finite loss at step 0", "first = 0"),
    of_region("R2", "a finite loss later", "later = 0"),
    of_region("R3", "its start at g", "remembers = 0"),
    of_region("R4", "a loss at step 0 that sees nothing", "first = -1"),
    of_region("R5", "a later loss that sees nothing", "later = -1"),
    of_region("R6", "its start at 0", "remembers = 1"),
    of_region("R7", "its start at 0", "remembers = 1"),
    of_region("R8", "a finite loss later", "later = 0"),
    of_region("R9", "kernels that stand still", "moving = -1"),
    of_region("R10", "a loss at step 0 by signs", "first = 1"),
    of_region("R11", "a finite loss later", "later = 0"),
    of_region("R12", "kernels that stand still", "moving = -1"),
    of_region("R13", "a loss at step 0 that sees g", "first = 0"),
)
MUTANTS = (
    *REGIONS,
    of_methods(
        "shallow: constant kernel of the output weights dropped",
        "_step_a = -factor * (by_a * reference.rate_a) * value",
        "_step_a = 0 * value",
        DYNAMICS,
    ),
    of_methods(
        "shallow: constant kernel of the first weights uphill",
        "_step_w = -factor * (by_w * reference.rate_w) * dots",
        "_step_w = factor * (by_w * reference.rate_w) * dots",
        DYNAMICS,
    ),
    of_scaling(
        "shallow: unequal rates, output weights from their start",
        '"silent": s_a > 0',
        '"silent": False',
        UNEQUAL,
    ),
    of_scaling(
        "shallow: unequal rates, both layers in all limits",
        "by_a, by_w = (share == 0 for share in one.shares)",
        "by_a, by_w = True, True",
        UNEQUAL,
    ),
    of_scaling(
        "shallow: unequal rates, first weights at rest",
        "moving = s_w + max(s_a, Fraction(0)) >= 0",
        "moving = s_w >= 0",
        UNEQUAL,
    ),
    of_scaling(
        "shallow: unequal rates, order of the first layer",
        "p - s_w - 2 * b_a",
        "p - s_w - b_a",
        UNEQUAL,
    ),
    of_scaling(
        "shallow: mirror, order of the output layer", "p - s_a - 2 * b_w", "p - s_a - b_w", UNEQUAL
    ),
    of_scaling(
        "shallow: mirror, first weights from their start",
        '"silent_w": s_w > 0',
        '"silent_w": False',
        UNEQUAL,
    ),
    of_train("shallow: mirror, a unit as large as a step", "eps ** 0.75", "eps ** 0.05", UNEQUAL),
    of_train(
        "shallow: mirror, activations that never become linear",
        "if not settled or np.abs(slope).max() < 1e-2:",
        "if not settled:",
        f"{LIMITS}::test_bad_limits_are_refused",
    ),
    of_particles(
        "shallow: mirror, the activation from near by",
        "there = h if self._unit == 1.0 else h / self._unit",
        "there = h",
        ASYMPTOTES,
    ),
    of_particles(
        "shallow: mirror, no unit of the values",
        "return (self._unit * far).astype(h.dtype, copy=False)",
        "return far.astype(h.dtype, copy=False)",
        ASYMPTOTES,
    ),
    of_scaling(
        "shallow: unequal rates, a start forgotten",
        "remembers = p == q + _HALF",
        "remembers = False",
        UNEQUAL,
    ),
    of_units(
        "shallow: first layer's rate scales as the other's",
        "u ** float(one.q_tilde_a), u ** float(one.q_tilde_w)",
        "u ** float(one.q_tilde_a), u ** float(one.q_tilde_a)",
    ),
    of_units(
        "shallow: step without sigma",
        "rate_w=reference.rate_w * u_w * sigma,",
        "rate_w=reference.rate_w * u_w,",
    ),
    of_methods(
        "shallow: loss blind to what IC-MF adds",
        "taught = self._outputs(self._sums[np.searchsorted(self._have, rows)], rows)",
        "taught = self._outputs(self._sums[np.searchsorted(self._have, rows)], rows) - self.added[:, rows]",
    ),
    of_methods(
        "shallow: both layers by the samples of the last",
        "return (rows[0], chi[0]), (rows[1], chi[1])",
        "return (rows[0], chi[0]), (rows[0], chi[0])",
        f"{NETWORKS}::test_training_is_the_printed_step_again_and_again",
    ),
    of_methods(
        "shallow: outputs of other samples than the next batch",
        "self._sums[np.searchsorted(self._have, rows)]",
        "self._sums[np.arange(rows.size).reshape(rows.shape) % len(self._sums)]",
        f"{NETWORKS}::test_training_is_the_printed_step_again_and_again",
    ),
    row("limits/_loop.py", DYNAMICS)(
        "shallow: the loop's errors in place of the limit's",
        "errors = seen.errors",
        "errors = None",
    ),
    row("tasks/_task.py", NETWORKS)(
        "shallow: a pair of batches repeated too early",
        "step % self.batches.shape[-2]",
        "step % len(self.batches)",
        f"{NETWORKS}::test_training_is_the_printed_step_again_and_again",
    ),
    of_train("shallow: start in the wrong units", "u**-0.5 * first", "first", LIMITS),
    of_train(
        "shallow: kernels of the wrong layer",
        'records.stacked("kernel")[:, :, i]',
        'records.stacked("kernel")[:, :, 0]',
    ),
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
        "shallow: coefficients of the test inputs forget",
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
    of_methods("shallow: hinge without the label", "-y * (f * y < 0)", "-y * (f < 0)"),
    of_methods("shallow: vanishing outputs", "np.full_like(f, 0.5)", "np.full_like(f, 1.0)"),
    of_methods(
        "shallow: frozen after a first sample that is right",
        "self._awake |= errors.any(axis=tuple(range(1, errors.ndim)))",
        "self._awake[:] = True",
    ),
    of_methods(
        "shallow: asleep after the first step",
        "self._awake |= errors.any(axis=tuple(range(1, errors.ndim)))",
        "pass",
    ),
    of_train(
        "shallow: IC-MF's limit without g",
        "added=g if dynamics.keeps else np.zeros_like(g)",
        "added=np.zeros_like(g)",
        LIMITS,
    ),
    of_units(
        "shallow: particles' rate without sigma*",
        "rate_a=by_a * reference.rate_a * reference.sigma,",
        "rate_a=by_a * reference.rate_a,",
        LIMITS,
    ),
    of_units(
        "shallow: sign of the push-forward",
        "rate_w=by_w * reference.rate_w * reference.sigma,",
        "rate_w=-by_w * reference.rate_w * reference.sigma,",
        LIMITS,
    ),
    of_train(
        "shallow: limit starts at 0",
        "g if dynamics.remembers else",
        "0 * g if dynamics.remembers else",
        LIMITS,
    ),
    of_train(
        "shallow: loss of a limit of another order",
        "loss=LOSS_OF_ORDER[dynamics.later]",
        "loss=LOSS_OF_ORDER[0]",
        f"{LIMITS}::test_the_loss_is_in_units_of_the_outputs",
    ),
    of_kernels(
        "shallow: d* missing from the kernels",
        "factor = reference.sigma**2 * reference.width",
        "factor = reference.sigma**2",
    ),
    of_kernels(
        "shallow: limit of Kw without x x'",
        "factor * slope * (both[: len(x)] @ both[first].T)",
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
