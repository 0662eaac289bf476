"""Breaks of the adapter for jax: what modules do, how entries are spread, what optimisers are shown."""

from breaks import row

of_modules = row("jax/_modules.py", "tests/jax/test_describe.py")
of_linen = row("jax/_linen.py", "tests/jax/test_describe.py::test_linen_layout")
of_trees = row("jax/_trees.py", "tests/jax/test_describe.py")
of_probe = row("jax/_probe.py", "tests/jax/test_describe.py")
of_entries = row("jax/_entries.py", "tests/jax/test_plan.py")
of_optax = row("jax/_optax.py", "tests/jax/test_optax.py::test_trajectories_by_hand")
FORWARD = "tests/jax/test_forward.py"
WRITTEN = f"{FORWARD}::test_attention_is_seen_however_it_is_written"
WHERE = f"{FORWARD}::test_where_the_code_multiplies"
LAWS = "tests/jax/test_laws.py::test_what_is_treated_by_name_or_by_shape_is_seen"
WRAPPED = "tests/jax/test_optax.py::test_what_keeps_weights_is_refused_however_it_is_wrapped"
of_trace = row("jax/_trace.py", WHERE)
of_numbers = row("jax/_numbers.py", WHERE)
of_look = row("jax/_look.py", f"{FORWARD}::test_what_is_not_seen_is_said")
of_optimizers = row(
    "jax/_optimizers.py", "tests/jax/test_optax.py::test_optimisers_of_another_kind_are_refused"
)

RECORD = "tests/jax/test_record.py::test_what_every_tensor_writes"
LOGITS = "tests/jax/test_record.py::test_attention_logits_and_their_change_however_they_are_written"
VERIFY = "tests/jax/test_verify.py"
SAME = f"{VERIFY}::test_the_same_networks_have_the_same_sizes_in_torch_and_jax"
of_record = row("jax/_record.py", RECORD)
READING = "tests/jax/test_reading.py"
OPERATION = f"{READING}::test_operations_compute_what_the_model_does"

MUTANTS = (
    row("jax/_applied.py", "tests/jax/test_computed.py::test_computed_weights_start_as_plain_ones_are_planned")(
        "jax: lengths that stay as they are drawn", "if row.of:", "if row.of is None:"
    ),
    row("jax/_record.py", "tests/jax/test_computed.py::test_directions_and_lengths_move_as_planned")(
        "jax: lengths write as well", "if n not in self._lengths", "if n"
    ),
    row("jax/_trace.py", "tests/jax/test_parts.py")(
        "jax: a concatenation is one part", 'if name == "concatenate":', 'if name == "concatenated":'
    ),
    row("jax/_entries.py", "tests/jax/test_parts.py")(
        "jax: columns in the order of their parts", "np.argsort([*stays, *grows])", "np.arange(row.shape[axis])"
    ),
    row("jax/_spread.py", f"{READING}::test_laws_are_those_of_the_factory")(
        "jax network: bits that are not spread over all of them", "* 2.0**width", "* 2.0 ** (width - 1)"
    ),
    row("jax/_sums.py", OPERATION)(
        "jax network: sums of what follows", "np.tri(size).T if not reverse", "np.tri(size) if not reverse"
    ),
    row("jax/_moves.py", OPERATION)(
        "jax network: no zeros between", "wide[:: between + 1] = moved", "wide[: len(moved)] = moved"
    ),
    row("jax/_equations.py", OPERATION)(
        "jax network: a choice the other way round",
        "return np.where(mask, two, one)", "return np.where(mask, one, two)",
    ),
    row("reading/_trees.py", f"{READING}::test_a_softmax_is_known_by_what_it_makes_of_numbers")(
        "jax network: a softmax of another temperature",
        "factor = 1.0 if abs(factor - 1) < 1e-9 else factor", "factor = 1.0",
    ),
    of_record("jax verify: biases apart", "if name in _ADDED and (one.is_weight or two.is_weight):", "if False:"),
    of_record(
        "jax verify: numbers that multiply an output lost", "if name in _MOVED or scaled:", "if name in _MOVED:"
    ),
    of_record(
        "jax verify: own change with that of the layer below",
        "own = [k if k is weight else replace(k, old={}) for k in inputs]", "own = inputs",
    ),
    of_record("jax verify: rows picked are not seen", 'if name == "gather" and one.is_weight:', "if False:"),
    of_record("jax verify: loops not entered", 'if eqn.primitive.name == "scan":', "if False:"),
    of_record("jax verify: gains not seen", 'if name == "mul" and (one.is_weight or two.is_weight):', "if False:"),
    row("jax/_record.py", LOGITS)(
        "jax verify: logits without their scale",
        "carried and _like(eqn, given, carried)", "carried",
    ),
    row("jax/_record.py", LOGITS)(
        "jax verify: a product in two softmaxes counted twice",
        "[one.logits] if one.logits.number not in known else []", "[one.logits]",
    ),
    row("jax/_record.py", LOGITS)(
        "jax verify: earlier keys lost in a loop", '"was": k.was} for k in xs', '"was": None} for k in xs'
    ),
    row("jax/_watched.py", SAME)(
        "jax verify: updates without the rate", "(p + rate * u).astype(p.dtype)", "(p + u).astype(p.dtype)"
    ),
    row("jax/_watched.py", SAME)(
        "jax verify: own change of all tensors at once", '{n: o.value - was for n, was in o.old.items()}',
        '{n: o.value - next(iter(o.old.values())) for n in o.old}',
    ),
    row("jax/_watched.py", SAME)(
        "jax verify: single entries of double size", "np.vdot(p, p).real", "np.vdot(p, p).real * 2"
    ),
    row("jax/_look.py", f"{VERIFY}::test_right_plans_are_silent")(
        "jax verify: what multiplies an output counted after it",
        "Multiplied(m.before * m.inside, m.after)", "m",
    ),
    row("jax/_trace.py", "tests/jax/test_delta.py::test_keys_of_unit_length_need_no_factor_in_heads_that_grow")(
        "jax trace: a state that begins at zero is of order one", "of.constant.entry == 0",
        "of.constant.entry is of",
    ),
    row("jax/_trace.py", "tests/jax/test_delta.py::test_keys_of_unit_length_need_no_factor_in_heads_that_grow")(
        "jax trace: outer products are sums", "if not axes and one.value.data", "if not True and one.value.data",
    ),
    row("plan/_rows.py", "tests/jax/test_parts.py::test_layers_of_two_parts_are_as_planned")(
        "verify: what a readout sums beside the width falls with it", " or plan[name].fixed", "",
    ),
    row("plan/_rows.py", f"{VERIFY}::test_right_plans_are_silent")(
        "jax verify: what multiplies the features forgotten",
        "_ZERO if tied else gauge.before + (gauge.inside if alone else _ZERO)", "_ZERO",
    ),
    row("plan/_run.py", f"{VERIFY}::test_what_cannot_be_verified")(
        "jax verify: one draw for all seeds", "if spreads and all(len", "if not spreads and all(len"
    ),
    of_optax(
        "jax: decay of AdamW as of Adam",
        "added = gradient(name) ** float(decay.gradient) if decay is not None else 1.0",
        "added = gradient(name)",
    ),
    of_optax(
        "jax: decay of Adam as of AdamW",
        "added = gradient(name) ** float(decay.gradient) if decay is not None else 1.0",
        "added = 1.0",
    ),
    of_optax(
        "jax: gradients times epsilon", "lambda name: 1 / gradient(name)", "lambda name: gradient(name)"
    ),
    of_optax(
        "jax: updates unscaled", "(table, out, moved, like", "(table, out, lambda name: 1.0, like"
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
    of_probe("jax: copies not compared", "if len({(r.role, r.fan_in, r.rule) for r in rows}) > 1:", "if not rows:"),
    row("plan/_axes.py", "tests/jax/test_plan.py::test_depth")(
        "jax: depth of the base", "narrow[depth] = target[depth]", "pass",
    ),
    of_entries("jax: spread about zero", "away = abs(entries - mean)", "away = abs(entries)"),
    of_entries("jax: drawn means scaled less", "* factor + mean * (1 - factor)\n", "* factor\n",
               "tests/jax/test_plan.py::test_means_and_zeros_and_types_are_kept"),
    of_optimizers("jax: small gradients only", "_degree(trial, _GREAT)\n    #", "_degree(trial, _SMALL)\n    #"),
    of_optimizers("jax: linear decay everywhere", "two > 1.5 * one", "two < 1.5 * one"),
    of_optimizers("jax: weights kept", "    _check_weights_kept(trial)\n", "", WRAPPED),
    of_optimizers("jax: numbers shared by all", "    _check_shared_numbers(trial)\n", ""),
    of_optimizers("jax: weights of other entries", "(gradient.flat[0], weight.flat[0])", "(gradient.flat[0],) * 2"),
    row("jax/_trials.py", LAWS)("jax: every tensor tried as a matrix", "2 if like is None else np.ndim(leaf)", "2"),
    of_trace("jax: loops walked through once", "if not again:", "if True:"),
    of_trace("jax: branches not walked through", 'if name == "cond":', 'if name == "none":', WRITTEN),
    of_trace("jax: softmax of one's own not seen", 'frozenset(["exp", "exp2", "logistic"])',
             'frozenset(["exp2"])', WRITTEN),
    of_trace("jax: gates taken for products", "related = bool(one.lineage & two.lineage)", "related = False"),
    of_trace("jax: parts of an array taken for all of it",
             "if parts and _data(found) else found", "if False else found", WRITTEN),
    of_trace("jax: means scaled by their length",
             "abs(factor - one.summed) < 0.5:", "abs(factor - one.summed) < -1:"),
    of_trace("jax: masks taken for numbers", "if one.told or two.told:", "if False:"),
    of_trace("jax: quotients taken for products", "flow.scaled(a, factor**sign)", "flow.scaled(a, factor)"),
    of_trace("jax: places by one of the names", "zip(one, two, strict=False)", "zip(one, one, strict=False)",
             f"{FORWARD}::test_attention_of_the_libraries"),
    of_numbers("jax: called functions not computed", "if body is not None:", "if body is None and name:"),
    of_numbers("jax: arrays of one number not read", "broadcast_in_dim reshape squeeze", "reshape squeeze"),
    of_look("jax: other widths not tried", "return Passes(first, seen(call, wide[0], inputs), ratio)",
            "return Passes(first, first, ratio)"),
)  # fmt: skip
