"""Breaks of networks that are really trained, and of what they are compared with."""

from breaks import row

TRAINED = "tests/training/test_ensembles.py"
LOOP = f"{TRAINED}::test_every_algorithm_is_a_plain_loop"
CONTROLS = f"{TRAINED}::test_controls_change_no_mean_and_make_it_surer"
LINEAR = f"{TRAINED}::test_the_last_layer_of_a_linear_network_is_exact"
BAYES = f"{TRAINED}::test_the_posterior_of_a_linear_network_has_its_first_correction"
WIDTH = "tests/training/test_compare_trained.py::test_a_width_adds_what_the_table_says"

of_training = row("training/ensembles/_training.py", LOOP)
of_newton = row("training/ensembles/_newton.py", LOOP)
of_reading = row("training/ensembles/_reading.py", CONTROLS)
of_control = row("training/ensembles/_ensembles.py", CONTROLS)
of_conditioned = row("training/ensembles/_conditioned.py", LINEAR)
of_estimates = row("training/ensembles/_estimates.py", LOOP)
of_comparison = row("comparison/_trained.py", WIDTH)
TWICE = "tests/agreement/test_trained_strangers.py::test_samples_that_are_there_twice_teach_twice"
EVERY = "tests/training/test_compare_trained.py::test_every_algorithm_has_a_width_and_a_comparison"
of_scalars = row("training/_outcomes.py", EVERY)
of_choice = row("comparison/_trained.py", EVERY)

MUTANTS = (
    of_training(
        "descent: without momentum",
        "rule(0 if velocity is None else velocity, force",
        "rule(0, force",
    ),
    of_training(
        "descent: ridge towards 0 of the weights",
        "force += ridge * delta",
        "force += ridge * start",
    ),
    of_training("flow: weights of the stages", "2 * first + 3 * second", "3 * first + 2 * second"),
    of_newton("newton: one step", "for _ in range(steps):", "for _ in range(1):"),
    of_reading(
        "free control: variance forgotten",
        "0.5 * (square**2 - variances).sum(axis=1)",
        "0.5 * (square**2).sum(axis=1)",
    ),
    of_reading(
        "free control: products with their mean",
        "products = products - own[",
        "products = products - 0 * own[",
    ),
    of_control(
        "NTK control: away from the targets",
        "e = self._wrong(start) - y\n",
        "e = self._wrong(start) + y\n",
    ),
    of_control(
        "NTK control: taken off and not put back",
        'found["ntk_change"] = self._led(start)\n        return',
        'found["ntk_change"] = 0 * self._led(start)\n        return',
    ),
    of_control(
        "free control: noise of the targets forgotten",
        "own = own + self.curriculum.noise_variance *",
        "own = own + 0 * self.curriculum.noise_variance *",
    ),
    of_conditioned(
        "last layer: nothing learned of the spread",
        "spread = G - np.einsum(",
        "spread = G + 0 * np.einsum(",
    ),
    of_conditioned(
        "posterior: every drawing counts the same",
        "w = np.exp(evidence - level)[:, None]",
        "w = np.exp(0 * evidence)[:, None]",
        BAYES,
    ),
    of_estimates(
        "covariance: mean as if it were known",
        "away[a] * away[b] + source.covariance_of_mean()",
        "away[a] * away[b]",
    ),
    of_scalars(
        "width: numbers over no dimension",
        "spread = values.reshape((*lead,",
        "spread = values.reshape((1, *lead,",
    ),
    of_comparison(
        "width: coefficient undivided",
        "np.asarray(value + theory[own].values / n**power)",
        "np.asarray(value + theory[own].values)",
    ),
    of_comparison(
        "width: bias of the wrong order",
        "size = factors * epsilon * _largest(theory[own].values) / n",
        "size = factors * epsilon * _largest(theory[own].values)",
    ),
    row("training/width/_dense_outcomes.py", TWICE)(
        "NTK change: a test in place of a direction that is missing",
        "back = np.zeros((len(frame.U) + tests, n + tests))",
        "back = np.eye(len(frame.U) + tests, n + tests)",
    ),
    of_choice(
        "comparison: what has no coefficient of 1/n",
        "return bool(there and (name in own or name in own.values()))",
        "return bool(there)",
    ),
)
