"""Breaks of the experiments on networks of infinite width: what they run, count and tell."""

from breaks import row

of_experiment = row(
    "experiments/cifar2_limits.py",
    "tests/experiments/test_cifar2_limits.py::test_every_number_is_that_of_bare_networks",
)
BATCHES = "tests/experiments/test_cifar2_limits.py::test_batches_take_every_image_once_in_each_pass"
SEEDS = "tests/experiments/test_cifar2_limits.py::test_seeds_share_no_network"
of_batches = row(
    "experiments/cifar2_batches.py",
    "tests/experiments/test_cifar2_limits.py::test_batches_side_by_side",
)
of_few_shot = row("experiments/omniglot_maml.py", "tests/experiments/test_omniglot_maml.py")
of_images = row(
    "experiments/cifar2_limits.py",
    "tests/experiments/test_cifar2_limits.py::test_images_are_those_of_both_classes",
)
of_numbers = row(
    "experiments/cifar2_limits.py",
    "tests/experiments/test_cifar2_limits.py::test_numbers_are_what_the_curves_say",
)

MUTANTS = (
    of_experiment("cifar2: kernels in units of the limit", "few = power * both", "few = both"),
    of_experiment(
        "cifar2: every step the first batch",
        ".reshape(config.steps, config.batch)",
        ".reshape(config.steps, config.batch)[[0] * config.steps]",
        BATCHES,
    ),
    of_experiment(
        "cifar2: batches by chance",
        "rng.permutation(config.samples)",
        "rng.integers(config.samples, size=config.samples)",
        BATCHES,
    ),
    of_experiment(
        "cifar2: networks of every run the same",
        '"seed": config.seed + seeds[0]',
        '"seed": seeds[0]',
        SEEDS,
    ),
    of_batches(
        "cifar2: batches all full", "batch=0 if batch == config.samples else batch", "batch=0"
    ),
    of_batches(
        "cifar2: the reference over the model",
        'last.sel(model=model) / last.sel(model="reference")',
        'last.sel(model="reference") / last.sel(model=model)',
    ),
    row("experiments/word2vec_analogies.py", "tests/experiments/test_word2vec_numbers.py")(
        "word vectors: questions not compared one by one",
        "_mean(found[-1] - width)",
        "_mean(found[-1])",
    ),
    of_few_shot(
        "few shot: runs for tasks",
        "    tasks = _by_tasks(dataset)\n    ahead",
        "    tasks = sem\n    ahead",
    ),
    of_few_shot(
        "few shot: more runs tell no more",
        'dataset.kept_sem.median("run") / runs**0.5',
        'dataset.kept_sem.median("run")',
    ),
    of_experiment("cifar2: output of the library", "sigma=(3 * d) ** -0.5", "sigma=d**-0.5"),
    of_experiment("cifar2: rate of the output", "config.rate * 3 * d", "config.rate * d"),
    of_experiment(
        "cifar2: rate of the first weights", "config.rate / _SCALE**2", "config.rate / _SCALE"
    ),
    of_experiment("cifar2: normal weights", 'law="uniform"', 'law="normal"'),
    of_experiment("cifar2: another slope", '"leaky_relu(0.1)"', '"leaky_relu(0.01)"'),
    of_experiment(
        "cifar2: a reference with the seeds of the limits",
        'drawn["seed"] += config.seeds',
        'drawn["seed"] += 0',
    ),
    of_experiment(
        "cifar2: a reference of the limits' width", '(d, "NTK") if', '(config.width, "NTK") if'
    ),
    of_experiment(
        "cifar2: kernels without their rates",
        "reference.rate_a * one.kernel_a + reference.rate_w * one.kernel_w",
        "one.kernel_a + one.kernel_w",
    ),
    of_experiment(
        "cifar2: rescaled logits of networks",
        "logits, power = one.logits,",
        "logits, power = one.scaled_logits,",
    ),
    of_experiment(
        "cifar2: divergence the other way",
        "shallow.logit_divergence(f, g)",
        "shallow.logit_divergence(g, f)",
    ),
    of_experiment(
        "cifar2: divergence from another limit",
        "zip(one, logits[0], strict=True)",
        "zip(one, logits[1], strict=True)",
    ),
    of_experiment(
        "cifar2: loss of the other class",
        "-log_expit(logits * labels)",
        "-log_expit(-logits * labels)",
    ),
    of_experiment("cifar2: kernel not from its start", "kernel / kernel[:, :1]", "kernel"),
    of_images(
        "cifar2: tests among the samples", '("test", config.tests)', '("train", config.tests)'
    ),
    of_images("cifar2: an image twice", "replace=False", "replace=True"),
    of_images("cifar2: pixels not centred", "(pixels - _MEAN) / _STD", "pixels / _STD"),
    of_images("cifar2: one class alone", "for c in (0, 1)]", "for c in (0, 0)]"),
    of_numbers("cifar2: ties without a margin", "axis=0) + floor", "axis=0)"),
    of_numbers(
        "cifar2: start of the mean field",
        "0.5 * (share - 1 - np.log(share))",
        "0.5 * (share - 1 + np.log(share))",
    ),
    of_numbers("cifar2: late from the start", "steps >= steps[-1] / 2", "steps >= 0"),
    of_numbers(
        "cifar2: order of the last two",
        '(divergence["MF"] < divergence["NTK"])[late]',
        '(divergence["MF"] < np.inf)[late]',
    ),
    of_numbers(
        "cifar2: growth the other way",
        'last.kernel.sel(model="IC-MF") / last.kernel.sel(model="reference")',
        'last.kernel.sel(model="reference") / last.kernel.sel(model="IC-MF")',
    ),
)
