"""Breaks of the adapter for jax: what modules do, how entries are spread, what optimisers are shown."""

from breaks import row

of_modules = row("jax/_modules.py", "tests/jax/test_describe.py")
of_linen = row("jax/_linen.py", "tests/jax/test_describe.py::test_linen_layout")
of_trees = row("jax/_trees.py", "tests/jax/test_describe.py")
of_probe = row("jax/_probe.py", "tests/jax/test_describe.py")
of_entries = row("jax/_entries.py", "tests/jax/test_plan.py")
of_plan = row("jax/_plan.py", "tests/jax/test_plan.py")
of_optax = row("jax/_optax.py", "tests/jax/test_optax.py::test_trajectories_by_hand")
of_optimizers = row(
    "jax/_optimizers.py", "tests/jax/test_optax.py::test_optimisers_of_another_kind_are_refused"
)

MUTANTS = (
    of_optax(
        "jax: decay of AdamW as of Adam", 'before_decay = table.optimizer == "adam"', "before_decay = True"
    ),
    of_optax(
        "jax: decay of Adam as of AdamW", 'before_decay = table.optimizer == "adam"', "before_decay = False"
    ),
    of_optax(
        "jax: gradients times epsilon", "lambda name: 1 / factors[name].eps", "lambda name: factors[name].eps"
    ),
    of_optax("jax: updates unscaled", "lambda name: factors[name].lr, like", "lambda name: 1.0, like"),
    of_optax(
        "jax: what optimisers make of whole numbers",
        "tree if like is None else like",
        "tree",
        "tests/jax/test_optax.py::test_leaves_that_are_not_trained_are_passed_on",
    ),
    of_modules(
        "jax: transposed kernels as they stand", "ins, out = (*kernel, last), last - 1", "ins, out = ins, out"
    ),
    of_modules("jax: linear of Equinox turned", "Axes(Kind.MATRIX, (1,), (0,)))\n\n\ndef _eqx_conv",
               "Axes(Kind.MATRIX, (0,), (1,)))\n\n\ndef _eqx_conv"),
    of_modules("jax: copies counted as inputs", "tuple(i + extra for i in axes.fan_in)", "axes.fan_in"),
    of_linen("jax: heads of Linen as one axis", "return 2 if own in _INWARD else 1", "return 1"),
    of_trees("jax: shared arrays as two", "identity=values[id(place.value)].identity", "identity=place.name"),
    of_trees(
        "jax: running statistics trained", '("StateIndex", "State")', '("State",)'
    ),
    of_trees(
        "jax: gaps filled", "return change(dotted(path), leaf) if number else leaf",
        "return change(dotted(path), leaf)", "tests/jax/test_plan.py::test_nothing_changes_at_the_base",
    ),
    of_probe("jax: copies not compared", "if len({(r.role, r.fan_in, r.rule) for r in rows}) > 1:", "if not rows:"),
    of_probe(
        "jax: attended embeddings not asked",
        "    if name is not None:\n        raise PlanError(\n            f\"The model has the embedding",
        "    if False:\n        raise PlanError(\n            f\"The model has the embedding",
    ),
    of_probe(
        "jax: depth of the base", "deep[request.depth] = request.target[request.depth]", "pass",
        "tests/jax/test_plan.py::test_depth",
    ),
    of_entries("jax: spread about zero", "away = abs(entries - mean)", "away = abs(entries)"),
    of_entries("jax: drawn means scaled less", "* factor + mean * (1 - factor)\n", "* factor\n",
               "tests/jax/test_plan.py::test_means_and_zeros_and_types_are_kept"),
    of_plan("jax: no shapes compared", "!= row.shape:", "== (0,):"),
    of_optimizers("jax: small gradients only", "_degree(trial, _GREAT)\n    #", "_degree(trial, _SMALL)\n    #"),
    of_optimizers("jax: linear decay everywhere", "two > 1.5 * one", "two < 1.5 * one"),
    of_optimizers("jax: weights kept", "    _check_weights_kept(trial)\n", ""),
    of_optimizers("jax: numbers shared by all", "    _check_shared_numbers(trial)\n", ""),
    of_optimizers("jax: weights of other entries", "(gradient[0, 0], weight[0, 0])", "(gradient[0, 0],) * 2"),
)  # fmt: skip
