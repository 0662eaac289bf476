"""Breaks of the lazily revealed matrix, of programs, and of training at any width."""

from breaks import row

of_lazy = row("limits/_lazy.py", "tests/limits/test_lazy.py")
of_directions = row("limits/_directions.py", "tests/limits/test_lazy.py")
of_real = row("limits/_real.py", "tests/limits/test_mlp_descent.py")
of_rules = row("limits/program/_arrays.py", "tests/limits/test_program.py")
of_exact = row("limits/program/_exact.py", "tests/limits/test_program.py")
of_library = row("limits/program/library.py", "tests/limits/test_program.py")
of_increments = row("limits/program/increments.py", "tests/limits/test_program_increments.py")
of_powers = row("limits/_network.py", "tests/limits/test_mlp_descent.py")
of_run = row("limits/methods/_dense.py", "tests/limits/test_mlp_descent.py")
of_tolerance = row("limits/_tolerance.py", "tests/limits/test_mlp.py")
of_lazily = row("limits/methods/_lazy.py", "tests/limits/test_mlp.py")
of_noise = row("limits/_noise.py", "tests/limits/test_noise.py")

MUTANTS = (
    of_lazy(
        "lazy: known part dropped",
        "self._e_psi[new, :j] / self.rho - self._xi_f",
        "-self._xi_f",
        "tests/limits/test_lazy.py",
        "tests/limits/test_program.py",
    ),
    of_lazy(
        "lazy: fresh noise not orthogonal",
        "self._e_psi[new, :j] / self.rho - self._xi_f[new, :j]",
        "self._e_psi[new, :j] / self.rho",
    ),
    of_lazy(
        "lazy: known part dropped backward",
        "self.rho * self._xi_f[:i, new] - self._e_psi",
        "-self._e_psi",
    ),
    of_lazy(
        "lazy: fresh noise backward not orthogonal",
        "self.rho * self._xi_f[:i, new] - self._e_psi[:i, new]",
        "self.rho * self._xi_f[:i, new]",
    ),
    of_lazy(
        "lazy: rectangular noise as if square",
        "self._noise[1], self.sigma * math.sqrt(self.rho))",
        "self._noise[1], self.sigma)",
    ),
    of_lazy(
        "lazy: rectangular update as if square",
        "moved if self.rho == 1.0 else self.rho * moved",
        "moved",
    ),
    of_lazy(
        "lazy: initial matrix does not shrink",
        "        self.scale += self._drift\n",
        "",
    ),
    of_lazy(
        "lazy: momentum of the decay forgotten",
        "momentum * self._drift - shrink * self.scale",
        "-shrink * self.scale",
    ),
    of_directions(
        "lazy: rounding taken for a direction",
        "    def floor(self, tolerance: float | int) -> float:",
        "    def floor(self, tolerance: float | int) -> float:\n        return 1e-20",
    ),
    of_lazy(
        "lazy: forgotten rows remembered",
        "self._in.count = self._out.images = count",
        "count = k",
    ),
    of_lazy(
        "lazy: a copy that is none",
        "if b and j and not self.decoupled:",
        "if b and j:",
    ),
    of_real("real: velocity forgotten", "            V *= momentum\n", "            V *= 0.0\n"),
    of_real(
        "real: fan-in of the update",
        "(weights[..., None] / self.n_in)",
        "(weights[..., None] / self.n_out)",
    ),
    of_rules(
        "reference: the term of the same step",
        "dot = _correlated(y, self._forward, self.n_in) * self.rho",
        "dot = _correlated(y, self._forward[:-1], self.n_in) * self.rho",
        "tests/limits/test_program.py::test_the_term_of_the_same_step_is_in_the_dot_part",
    ),
    of_rules(
        "reference: no dot part",
        "dot = _correlated(x, self._backward, self.n_out) / self.rho",
        "dot = 0.0",
    ),
    of_rules(
        "reference: hats of two looks independent",
        "return known + sigma",
        "return 0.0 * known + sigma",
    ),
    of_rules(
        "reference: rectangular factor",
        "self.n_in) * self.rho\n",
        "self.n_in)\n",
    ),
    of_exact("exact: moment of the fourth power", "range(power - 1, 0, -2)", "range(power, 0, -2)"),
    of_exact(
        "exact: known part dropped",
        "image = image + rho * back.inner(e) * f",
        "image = image + 0.0",
    ),
    of_library(
        "program: gradient of the readout's own step",
        'dx = dx + (self._weight(layer, old) * overlap) * old["x"][layer - 1]',
        "dx = dx + 0.0",
        "tests/limits/test_program_increments.py",
    ),
    of_increments(
        "theta: of the old terms as printed",
        "th.Wx_h[layer] * old",
        "th.W_h[layer] * old",
    ),
    of_increments(
        "theta: old terms with the features as printed",
        'space.mean(old["x"][layer - 1] * delta_x)',
        'space.mean(old["x"][layer - 1] * self.x[i][layer - 1])',
    ),
    of_increments(
        "theta: of the features in the output",
        "f_features=power(n, 1 - least - so_far[-1])",
        "f_features=power(n, 1 - A - so_far[-1])",
    ),
    of_increments("theta: of the outputs", "f=power(n, -least)", "f=power(n, -A)"),
    of_increments(
        "theta: of the motion of a layer",
        "h=tuple(power(n, -r) for r in so_far)",
        "h=tuple(power(n, -r) for r in r_l)",
    ),
    of_increments(
        "theta: of a layer's own weights",
        "W_h=tuple(power(n, here - own) for",
        "W_h=tuple(power(n, own - here) for",
    ),
    of_increments(
        "theta: of old weights on what moved",
        "Wx_h=tuple(power(n, here - own - under)",
        "Wx_h=tuple(power(n, -own)",
    ),
    of_increments("theta: of the first last weights", "iota=power(n, least - A)", "iota=1.0"),
    of_increments(
        "theta: of the last weights in the output",
        "f_last=power(n, 1 - U)",
        "f_last=power(n, 1 - least)",
    ),
    of_increments(
        "theta: in the gradients of old steps",
        "th.W_h[layer] * th.h[layer] * old",
        "th.W_h[layer] * old",
    ),
    of_increments(
        "change of outputs: the two parts exchanged",
        '"by_last": by_last, "by_features": by_features}',
        '"by_last": by_features, "by_features": by_last}',
    ),
    of_increments("theta: of the readout", "last=power(n, least - U)", "last=power(n, -U)"),
    of_increments(
        "theta: of what moved below",
        "x_h=tuple(power(n, here - under) for _, here, under in pairs)",
        "x_h=tuple(1.0 for _, here, under in pairs)",
    ),
    of_powers(
        "powers: of a hidden update", "power(n, -r) for r in r_l", "power(n, -2 * r) for r in r_l"
    ),
    of_powers("powers: of the readout", "upsilon=power(n, least - U)", "upsilon=power(n, A - U)"),
    of_powers("powers: of the first readout", "iota=power(n, least - A)", "iota=power(n, 0 * A)"),
    of_powers("powers: of the outputs", "kappa=power(n, 1 - least)", "kappa=power(n, 1 - A)"),
    of_powers(
        "powers: of the biases of hidden layers", "power(n, -(least + q))", "power(n, -(A + q))"
    ),
    of_powers("powers: of initial biases", "power(n, -p / 2)", "power(n, -p)"),
    of_powers(
        "powers: of the output bias", "power(n, -rates_b[-1]))", "power(n, -(least + rates_b[-1])))"
    ),
    of_run(
        "training: ratio of the last width",
        "sgd.eta * t * r / net.ratios[-1]\n            for t, r in zip(powers.theta, ",
        "sgd.eta * t * r\n            for t, r in zip(powers.theta, ",
    ),
    of_run("training: clipping without the readout", "(wrong * last).sum(axis=(-1, -2))", "0.0"),
    of_run(
        "training: clipping of unequal widths",
        "(kappa * n / self.widths[-1] / eta)",
        "(kappa / eta)",
    ),
    of_run(
        "training: decay of the velocity only",
        "change = change - shrink * self.value",
        "change = change - 0.0 * self.value",
    ),
    of_lazily(
        "training: copies remembered as one",
        "                decoupled=job.decoupled,\n",
        "",
    ),
    of_tolerance(
        "tolerance: never met",
        "if worst <= on.tolerance:",
        "if worst <= 10 * on.tolerance:",
        "tests/limits/test_mlp.py",
        "tests/limits/test_program.py",
    ),
    of_tolerance("tolerance: error bar of one replica", "/ math.sqrt(len(values))", ""),
    of_lazily(
        "training: inputs within their span without their sizes",
        "axes * sizes, len",
        "axes, len",
        "tests/limits/test_noise.py::test_more_features_than_inputs",
    ),
    of_lazily(
        "training: pairs with equal read-outs",
        "        np.negative(last[:, half:], out=last[:, half:])\n",
        "",
        "tests/limits/test_noise.py::test_spread_particles_learn_the_limit_with_a_fraction_of_the_error",
    ),
    of_noise(
        "noise: radius",
        "np.float32(-2.0)",
        "np.float32(-1.9)",
        "tests/limits/test_noise.py::test_numbers_are_normal_and_independent",
    ),
    of_noise(
        "noise: half of the circle",
        "math.pi * 2.0**-31",
        "math.pi * 2.0**-32",
        "tests/limits/test_noise.py::test_numbers_are_normal_and_independent",
    ),
    of_noise(
        "noise: rows of the net not moved",
        "points ^ self._shift[rows]",
        "points ^ self._shift[:1]",
        "tests/limits/test_noise.py::test_each_particle_of_a_net_has_its_law",
    ),
    of_noise(
        "noise: rows of the net handed out twice",
        "            self._given += more\n",
        "",
        "tests/limits/test_noise.py::test_rows_do_not_depend_on_how_many_are_asked_for_at_once",
    ),
    of_noise(
        "noise: rows drawn ahead handed out twice",
        "        self._ahead = self._ahead[done:]\n",
        "",
        "tests/limits/test_noise.py::test_rows_do_not_depend_on_how_many_are_asked_for_at_once",
    ),
)
