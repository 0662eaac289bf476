"""Breaks of training by gradients at order 1/n."""

from breaks import row

WEIGHTS = "tests/training/test_width_weights.py"
MOMENTS = "tests/training/test_width_moments.py"
VERB = "tests/training/test_width.py"
FLOW = f"{WEIGHTS}::test_a_flow_is_as_exact_where_it_is_fast_as_where_it_is_slow"
CUBIC = f"{WEIGHTS}::test_a_cubic_model_trains_to_what_the_weights_say"
LIMITS = f"{VERB}::test_a_finite_training_is_between_its_start_and_its_end"
UNITS = f"{VERB}::test_units_targets_and_rotated_outputs"
WHY = f"{VERB}::test_what_cannot_be_had_says_why"
KINKS = f"{VERB}::test_training_the_last_layer_alone_moves_no_ntk_and_takes_kinks"
LASTS = "tests/training/posterior/test_posterior_one_over_n.py::test_the_last_layer_alone_by_both_routes"
ENDS = f"{VERB}::test_where_the_expansion_ends_it_says_so"
BLOCKS = f"{VERB}::test_tests_may_come_in_blocks_and_samples_may_repeat"
NUMBERS = f"{VERB}::test_numbers_of_a_setting"

PRINTED = f"{WEIGHTS}::test_projectors_are_the_printed_ones_with_the_symmetry_of_their_tensors"
SUMS = f"{WEIGHTS}::test_sums_over_few_times_are_as_accurate_as_they_say"
FILTER = f"{WEIGHTS}::test_fluctuations_of_the_ntk_are_weighed_as_a_changed_ntk_trains"
USERS = f"{WEIGHTS}::test_projectors_of_a_user_are_refused_or_taken_as_they_are"

of_weights = row("training/width/_weights.py", PRINTED)
of_course = row("training/width/_course.py", CUBIC)
of_flow = row("training/_flow.py", USERS)
of_descent = row("training/_descent.py", USERS)
of_newton = row("training/_newton.py", USERS)
of_tensors = row("training/width/_contractions.py", MOMENTS)
of_moments = row("training/width/_moments.py", MOMENTS)
of_others = row(
    "training/width/_tensors.py",
    "tests/training/test_accuracy.py::test_stated_errors_of_other_networks_hold_beside_another_quadrature",
)
of_made = row("training/width/_tensors.py", VERB)
of_dense = row("training/width/_dense.py", VERB)
of_estimates = row("training/width/_dense_outcomes.py", VERB)
CUMULANTS = f"{MOMENTS}::test_cumulants_are_expectations"
of_cumulants = row("training/width/_cumulants.py", CUMULANTS)
of_errors = row(
    "training/_generalisation.py",
    "tests/training/test_evidence.py::test_cumulants_move_errors_of_classes_as_moved_means_do",
)
of_meeting = row("training/width/_meeting.py", f"{VERB}::test_the_width_that_meets_a_loss")
of_expansion = row("training/_expansion.py", WHY)

TIME = "tests/training/test_accuracy.py::test_the_time_of_few_samples_is_that_of_their_expectations"
SIGNS = "tests/training/test_accuracy.py::test_variances_that_a_width_makes_negative_are_told"

MUTANTS = (
    of_others(
        "trained, other networks: neurons that remember are over nodes",
        "_TOGETHER = 32",
        "_TOGETHER = 2",
    ),
    of_others(
        "trained, other networks: no accuracy reaches their expectations",
        "return runs_of(net, self.inputs, letters, make, together)",
        "return runs_of(net, self.inputs, letters)",
    ),
    of_dense(
        "time of few samples: of the first block",
        "** 4 for setting in settings)",
        "** 4 for setting in settings[:1])",
        TIME,
    ),
    of_expansion(
        "signs: of the coefficient alone",
        "below = beside + added / scale",
        "below = 0.0 * beside + added / n",
        SIGNS,
    ),
    of_weights(
        "projector A: an error too early", "A=((1 - rate * a) / a * x12)", "A=(1 / a * x12)"
    ),
    of_weights("projector B: as printed", "B=products.B,", "B=(1 / a * x12)[:, :, 0],"),
    of_weights(
        "projector IA: one factor", "(a * (1 + p) + p**2 * pair)", "(a * (1 + p) + p * pair)"
    ),
    of_weights("projector IIA: one error", "IIA=-(p**2) * q", "IIA=-p * q"),
    of_weights("projector IIB: legs swapped", "IIB=-p / (a * b) * x13", "IIB=-p / (a * c) * x12"),
    of_weights("X_III: of three errors", "x3 = 1 / (a + p * pair)", "x3 = 1 / (a + pair)"),
    of_weights(
        "ridge: IA without its half",
        "IA=-three / 2, IB=-three / 6",
        "IA=-three, IB=-three / 6",
        CUBIC,
    ),
    of_course(
        "flow: panels of one length",
        "np.array([0.0, *2.0 ** np.arange(-doublings, 1)])",
        "np.linspace(0.0, 1.0, doublings + 2)",
        FLOW,
    ),
    of_weights(
        "sums: IIA of the step before",
        "-c[:, None] * p * (1 - rate * h) * end",
        "-c[:, None] * p * end",
        SUMS,
    ),
    of_weights("sums: error of one projector", "return max(errors)", "return min(errors)", SUMS),
    of_weights(
        "training leg: forgotten",
        "np.multiply.outer(g, Z)",
        "np.multiply.outer(np.ones_like(g), Z)",
        CUBIC,
    ),
    of_course("momentum: of the kernel", "A * a + C * v", "A * a"),
    of_course(
        "steps: forward a step late",
        "            out[s] = a\n            move",
        "            out[s] = a + v\n            move",
    ),
    of_course("steps: kernel without decay", "a + x * pull + F[s]", "a + F[s]"),
    of_course(
        "on the way: A without its error",
        '"A": Reach(_sum(g2, w * p, g)',
        '"A": Reach(_sum(g2, w, g)',
    ),
    of_course(
        "on the way: IIA not nested",
        "-_sum(g3, inner, p, g), -_sum",
        "-_sum(g3, w * p, p, g), -_sum",
    ),
    of_course("on the way: IIB within, legs swapped", '"ta,tr,tqs->aqrs"', '"ta,tr,tsq->aqrs"'),
    of_course(
        "on the way: IB within, of W",
        '-_sum("ta,tq,tr,ts->aqrs", weighed, g, g, g) / 6',
        '-_sum("ta,tq,tr,ts->aqrs", own, g, g, g) / 6',
    ),
    of_course(
        "on the way: second response of the first leg",
        "clock.backward(k[:, :, None], x)",
        "clock.backward(k[:, :, None], x[:, None])",
        FILTER,
    ),
    of_flow(
        "reaches: units of the loss",
        "t = float(self.time if time is None else time) / unit_of(self.loss_units, targets)",
        "t = float(self.time if time is None else time)",
        UNITS,
    ),
    of_descent(
        "reaches: units of a rate",
        "np.atleast_1d(self.rate_used(h, targets=targets)) / unit_of(self.loss_units, targets)",
        "np.atleast_1d(self.rate_used(h, targets=targets))",
        UNITS,
    ),
    of_descent(
        "momentum: the end without it",
        "if steps > gone and (self.ridge or not self.momentum):",
        "if steps > gone:",
        CUBIC,
    ),
    of_newton("newton: half a step", '"B": np.array([[g / 2, g]])', '"B": np.array([[g, g]])'),
    of_newton("projectors: any number of legs", "if len(term) != legs:", "if len(term) > legs:"),
    of_tensors(
        "neurons: forgotten pairing",
        'same = ["".join(neurons[place] for place in pair) for pair in block.pairs]',
        'same = ["".join(neurons[place] for place in pair) for pair in ((0, 1), (2, 3))]',
    ),
    of_tensors(
        "neurons: n_L forgotten",
        "eye, total = np.eye(outputs), 0.0",
        "eye, total = np.eye(outputs) / outputs, 0.0",
    ),
    of_tensors(
        "legs: not moved with their neurons",
        "return PairTensor((first, second), self.values.transpose(places))",
        "return PairTensor(self.pairs, self.values.transpose(places))",
    ),
    of_tensors(
        "tests: what training reads",
        "read = np.tensordot(self.T * self.gain,",
        "read = np.tensordot(self.T,",
    ),
    of_tensors(
        "weighed: training leg added",
        "return beyond - np.tensordot(self.T, within, 1)",
        "return beyond + np.tensordot(self.T, within, 1)",
    ),
    of_moments(
        "fluctuation of the NTK: as printed",
        '"ntk_fluctuation": -self.sum',
        '"ntk_fluctuation": self.sum',
    ),
    of_moments(
        "H1: dropped from the mean",
        '"ntk_nlo": y @ self._once.T,',
        '"ntk_nlo": 0 * y @ self._once.T,',
    ),
    of_moments(
        "H1: dropped from the covariance",
        'half = -np.einsum("ij,da,ea->idje", eye, self._once, self.C)',
        'half = -0 * np.einsum("ij,da,ea->idje", eye, self._once, self.C)',
    ),
    of_moments(
        "covariance: term 5 dropped",
        'half = half + self.sum(self._twice, ("ijjk", "dab"), ("eb", self.C), out="idke")',
        "half = half + 0",
    ),
    of_moments(
        "covariance: initial outputs added",
        'half = half - self.sum(own, ("ijjk"',
        'half = half + self.sum(own, ("ijjk"',
    ),
    of_moments(
        "covariance: C replaced by K",
        "return self.frame.left(self.K, 0)[:, : self.frame.count]",
        "return self.K[self.frame.count :, : self.frame.count]",
    ),
    of_moments(
        "covariance: targets forgotten",
        '"ia,jb->ijab", self.y, self.y\n',
        '"ia,jb->ijab", self.y, 0 * self.y\n',
    ),
    of_moments(
        "dNTK A: legs swapped",
        '"dntk_A": ("A", "dHz", (1, 0, 2, 3))',
        '"dntk_A": ("A", "dHz", (2, 0, 1, 3))',
    ),
    of_moments(
        "dNTK: one of two errors",
        'parts[part] = -first - self.sum(own, ("ijkk"',
        'parts[part] = -2 * first - 0 * self.sum(own, ("ijkk"',
    ),
    of_moments(
        "ddNTK II A: test leg of another",
        '"ddntk_II_A": ("IIA", "ddH_II", (2, 0, 1, 3))',
        '"ddntk_II_A": ("IIA", "ddH_II", (3, 0, 1, 2))',
    ),
    of_moments("ddNTK II B: weights of A", '"ddntk_II_B": ("IIB",', '"ddntk_II_B": ("IIA",'),
    of_moments(
        "cubes: without one of the kernels",
        '+ np.einsum("lc,jk,ab->jklabc", y, eye, K)',
        '+ 0 * np.einsum("lc,jk,ab->jklabc", y, eye, K)',
    ),
    of_cumulants(
        "third cumulant: dNTK with one target of two",
        'total = total - _joined(moments, blocks, "kmji", "mj")',
        "total = total + 0",
    ),
    of_cumulants(
        "third cumulant: targets on one leg of a ddNTK",
        '("ijm", "imj", "mij")',
        '("ijm", "ijm", "ijm")',
    ),
    of_cumulants(
        "fourth cumulant: sign of D and F",
        'total - 0.5 * _joined(moments, _seen(moments), "klij", "l")',
        'total + 0.5 * _joined(moments, _seen(moments), "klij", "l")',
    ),
    of_cumulants(
        "fourth cumulant: vertex left out",
        '+ _joined(moments, four, "ijkl", "")',
        '+ 0 * _joined(moments, four, "ijkl", "")',
    ),
    of_cumulants(
        "cumulants: outputs in one order",
        "for order in permutations(outputs)",
        "for order in [tuple(outputs)] * len(list(permutations(outputs)))",
    ),
    of_errors("wrong classes: not over k!", "/ factorial(k)", ""),
    of_errors("wrong classes: sign of odd orders", "(-y[0] / unit) ** k", "(1 / unit) ** k"),
    of_errors(
        "wrong classes: one index of many",
        "/ prod(map(factorial, times.values()))",
        "/ factorial(k)",
    ),
    of_moments(
        "NTK change: no symmetric part",
        "return change + change.transpose(1, 0, 3, 2)",
        "return 2 * change",
        CUBIC,
        MOMENTS,
    ),
    of_moments(
        "NTK change: twice the second order",
        "half = 0.5 * np.multiply.outer(g, g)",
        "half = np.multiply.outer(g, g)",
    ),
    row("theory/correlators/_neuron_tensors.py", NUMBERS)(
        "ddNTK II: T and U swapped",
        '(("S", "abcd"), ("T", "acdb"), ("U", "adbc"))',
        '(("S", "abcd"), ("U", "acdb"), ("T", "adbc"))',
    ),
    of_estimates(
        "loss: without its bias",
        '(bias * mean + 0.5 * found["variance_nlo"])',
        '(mean + 0.5 * found["variance_nlo"])',
        NUMBERS,
    ),
    of_dense(
        "layers: the wrong one",
        "for layer in range(1, setting.net.depth - 1)",
        "for layer in range(2, setting.net.depth)",
        NUMBERS,
    ),
    of_estimates(
        "alignment: without the targets' size",
        'along / np.einsum("ia,a,ia->", y, own, y)',
        "along / own.sum()",
        NUMBERS,
    ),
    row("training/_asked.py", LASTS)(
        "last layer: its own rates",
        "lambda_W=(*none, net.C_W[-1])",
        "lambda_W=(*none, net.lambda_W[-1])",
    ),
    of_made(
        "last layer: tensors that need derivatives",
        "return LETTERS if learns else tuple",
        "return LETTERS if True else tuple",
        KINKS,
    ),
    of_dense(
        "blocks: the largest parameter of the first",
        "found[name] = np.max(blocks, axis=0)",
        "found[name] = np.min(blocks, axis=0)",
        BLOCKS,
    ),
    of_dense(
        "blocks: targets of the first",
        "None if known is None else known[block]",
        "None if known is None else known[: len(known[block])]",
        BLOCKS,
    ),
    of_estimates(
        "directions: those without a kernel",
        "self.trained.h > 0\n        h, U",
        "self.trained.h > -1\n        h, U",
        BLOCKS,
    ),
    of_estimates(
        "parameter: of all tests together",
        "added[:, open_] / leading[open_]",
        "added[:, open_] / leading.sum()",
        NUMBERS,
    ),
    of_dense(
        "on training samples: never over",
        "np.abs(1 - h * gain).max() > _OVER",
        "True",
        f"{VERB}::test_training_samples_are_tests_of_themselves_until_training_is_over",
    ),
    of_dense(
        "on training samples: of the tests",
        "places=np.tile(setting.places[: len(task.inputs)], 2)",
        "places=setting.places",
        f"{VERB}::test_training_samples_are_tests_of_themselves_until_training_is_over",
    ),
    of_made(
        "tensors: shared by networks of other widths",
        "(net, self.inputs.tobytes(), accuracy)",
        "(self.inputs.tobytes(), accuracy)",
        NUMBERS,
    ),
    of_dense("size: whole tensors of any number", "if count > _TRAINED:", "if count > 10**9:", WHY),
    of_dense(
        "projectors: an NTK of theirs",
        "if name in OF_NTK and not asked.algorithm.moves_as_gradients:",
        "if name in ():",
        WHY,
    ),
    of_meeting(
        "width for a loss: any sign", "if slope > 0 else (0.0, bound)", "if True else (0.0, bound)"
    ),
    of_meeting(
        "width for a loss: twice",
        "bound = slope / (loss - first)",
        "bound = 2 * slope / (loss - first)",
    ),
    of_expansion(
        "expansion: no warning", "if parameter > LARGE * n:", "if parameter > 1e9 * n:", ENDS
    ),
    of_expansion("warning: always", "if parameter > LARGE * n:", "if parameter > 0:", ENDS),
)
