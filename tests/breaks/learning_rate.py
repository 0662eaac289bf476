"""Breaks of the experiment on optimal learning rates: training, the optimum, and its estimate."""

from breaks import row

TESTS = "tests/experiments/test_learning_rate_transfer.py"
of_training = row(
    "experiments/_training.py",
    f"{TESTS}::test_training_is_gradient_descent_with_the_rates_of_the_network",
)
SWAP = (
    "tests/experiments/test_text_runs.py::test_a_swap_takes_one_setting_and_all_of_them_everything"
)
of_decoder = row("experiments/_decoder.py", SWAP)
of_stack = row(
    "experiments/_stacked.py",
    "tests/experiments/test_stacked.py::test_together_is_one_by_one",
)
of_optimum = row("experiments/_optimum.py", f"{TESTS}::test_the_minimum_of_a_parabola_is_exact")
of_transfer = row(
    "experiments/learning_rate_transfer.py",
    f"{TESTS}::test_standard_scaling_ends_at_minus_a_half",
)

MUTANTS = (
    of_training("training: fan-in of the rates dropped", "rate / n[k] for", "rate for"),
    of_training("training: eta of the strategy dropped", "(rates) * scaled.eta", "(rates)"),
    of_training(
        "training: one sample's labels for all",
        "_loss)(p, x[rows], y[rows]",
        "_loss)(p, x[rows], y[:2]",
    ),
    of_training(
        "initial weights: variance as deviation",
        "(net.C_W[k] / n[k]) ** 0.5",
        "net.C_W[k] / n[k]",
        f"{TESTS}::test_initial_parameters_have_the_variances_of_the_network",
    ),
    of_training(
        "divergence: not a number passes",
        "~(loss < task.ignorance)",
        "loss >= task.ignorance",
        f"{TESTS}::test_divergence_is_a_word_and_not_a_number",
    ),
    of_training(
        "order: images drawn with replacement",
        "rng.permutation(len(train_rows)) for",
        "rng.integers(len(train_rows), size=len(train_rows)) for",
        f"{TESTS}::test_an_epoch_shows_every_image_once",
    ),
    of_optimum("optimum: vertex twice as far", "(left - right) / 2, bend", "left - right, bend"),
    of_optimum(
        "bootstrap: biased variance",
        "np.sqrt(seeds / (seeds - 1))",
        "1.0",
        f"{TESTS}::test_standard_errors_of_the_bootstrap_are_the_spread_of_a_mean",
    ),
    of_transfer("estimate: gamma for its root", "Theta * scale**0.5", "Theta * scale"),
    of_transfer("estimate: NTK left out", "scaled.eta * Theta * scale", "scaled.eta * scale"),
    of_transfer(
        "cost: of the narrowest network",
        "below_best(x, curve[-1], o[0])",
        "below_best(x, curve[0], o[-1])",
        f"{TESTS}::test_claimed_errors_of_a_drift_are_its_spread",
    ),
    of_decoder(
        "swap: a decay of nothing",
        "max(self.weight_decay, other.weight_decay)",
        "self.weight_decay",
    ),
    of_decoder(
        "swap: constants of the base lost",
        "want = free.of(name), self.of(name)",
        "want = free.of(name), free.of(name)",
    ),
    of_stack(
        "stack: gradients of all runs clipped together", "g.norm(dim=1, keepdim=True)", "g.norm()"
    ),
    of_stack("stack: first moment not corrected", "(rate / (one**self.count - 1))", "(-rate)"),
    of_stack("stack: decay without the rate", "1 - rate * self.decay)", "1 - self.decay)"),
    of_stack("stack: no Nesterov", "g = g.lerp(self.momentum, self.keep)", "g = self.momentum"),
    of_stack("stack: warm-up of a tenth", "max(1, steps // 5)", "max(1, steps // 10)"),
    of_decoder(
        "swap: every setting", "want[setting] = other.of(name)[setting]", "want = other.of(name)"
    ),
)
