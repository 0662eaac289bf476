"""Breaks of what `verify` measures, fits, concludes and blames."""

from breaks import row

SIZES = "tests/torch/test_verify_sizes.py"
REAL = "tests/torch/test_verify.py"
NETWORKS = "tests/torch/test_verify_networks.py"
CHECK = "tests/plan/test_check.py"
FITS = "tests/plan/test_fits.py"
CONSISTENCY = "tests/plan/test_consistency.py"
GROWTH = "tests/plan/test_growth.py"
UNSEEN = "tests/torch/test_unseen.py"
COMPLEX = "tests/torch/test_complex.py"
KINDS = (
    "tests/torch/test_muon.py::test_every_kind_of_group_is_tried_and_an_overridden_factor_is_told"
)

of_sizes = row("plan/_sizes.py", SIZES)
of_hooks = row("torch/_measure.py", SIZES)
of_run = row("plan/_run.py", REAL)
of_fits = row("plan/_fits.py", FITS)
of_rows = row("plan/_rows.py", CHECK)
of_verdict = row("plan/_verdict.py", CHECK)
of_diagnosis = row("plan/_diagnosis.py", CHECK)
of_predicted = row(
    "plan/_predicted.py", f"{REAL}::test_hidden_layers_move_by_the_power_of_the_family"
)

DEPTH = "tests/torch/test_depth.py::test_a_residual_multiplier_that_is_not_applied_is_named"
ATTENTION = "tests/torch/test_attention.py"

RETRIEVAL = "tests/torch/test_retrieval.py"
IN_JAX = "tests/jax/test_products.py"
OF_PRODUCTS = f"{RETRIEVAL}::test_what_returns_products_is_as_planned_and_learns_features"

MUTANTS = (
    of_run(
        "verify products: what is multiplied is not known",
        "return tuple(last or grown)",
        "return ()",
        OF_PRODUCTS,
    ),
    of_run(
        "verify products: rows that the code picks stand for nothing",
        "tuple(last or grown)",
        "tuple(last)",
        f"{IN_JAX}::test_what_returns_products_is_as_planned_and_learns_features",
    ),
    row("plan/_over_depths.py", f"{RETRIEVAL}::test_towers_are_seen_over_depths_without_a_readout")(
        "verify products: a readout that is not there is missed over depths",
        "(READOUT, _SEEN) if ends.scene.readouts else (WHOLE, _RETURNED)",
        "(READOUT, _SEEN)",
    ),
    of_sizes(
        "verify products: what is returned at first is its change",
        "network.rms(before.returned) if",
        "sizes.returned if",
        OF_PRODUCTS,
    ),
    of_rows(
        "verify products: what the model returns is not judged",
        'return [\n        Row("", Quantity.OUTPUT',
        'return [] and [\n        Row("", Quantity.OUTPUT',
        f"{RETRIEVAL}::test_a_product_that_is_too_large_is_named",
    ),
    of_rows(
        "verify products: outputs may move by any smaller power",
        'Row("", Quantity.CHANGE, _ZERO, least,',
        'Row("", Quantity.CHANGE, _ZERO, -math.inf,',
        f"{RETRIEVAL}::test_a_product_that_fades_is_named",
    ),
    of_verdict(
        "verify products: outputs that move less and less are no finding",
        "or not measured.readouts\n",
        "\n",
        f"{RETRIEVAL}::test_a_product_that_fades_is_named",
    ),
    of_diagnosis(
        "verify products: a tensor is named for the product",
        "whole[-1] if whole and nearest not in sizes else nearest",
        "nearest",
        f"{RETRIEVAL}::test_a_product_that_is_too_large_is_named",
    ),
    of_hooks(
        "verify products: outputs in the softmax of a loss are attention",
        "with watching(model) as trace, attending(model, trace) as made:",
        "with watching(model) as trace, attending(nn.Module(), trace) as made:",
        OF_PRODUCTS,
    ),
    row("plan/_measurement.py", f"{RETRIEVAL}::test_features_that_do_not_move_are_not_learnt")(
        "verify products: features that nobody saw move",
        "return first and any(rest)",
        "return first",
    ),
    row("plan/_paths.py", OF_PRODUCTS)(
        "verify products: biases that are picked count as features",
        "or n.removeprefix(LOOKED_UP) not in growing",
        "",
    ),
    row(
        "plan/_flow.py",
        "tests/jax/test_latent.py::test_what_a_norm_divides_starts_as_a_hidden_matrix",
    )(
        "plan norms: a variance of squares less a square is another array",
        "next(iter(known)) if len(known) == 1 else None",
        "next(iter(known)) if len(value.parts) == 1 else None",
    ),
    row(
        "jax/_watched.py", f"{IN_JAX}::test_what_returns_products_is_as_planned_and_learns_features"
    )(
        "verify products: the loss is not seen in jax",
        "Record(returned=[] if scene.readouts else [_wide(loss)])",
        "Record()",
    ),
    of_sizes(
        "verify sizes: what biases make of the outputs counts",
        "network.put({n: old[n] for n in fixed})",
        "network.put({})",
        f"{UNSEEN}::test_outputs_that_no_readout_shows_are_seen_where_the_model_returns_them",
    ),
    of_rows(
        "verify rows: what code multiplies after a module is not passed on",
        "factors = np.array([widths ** float(powers[n]) for n in measured.tensors])[:, :, None]",
        "factors = np.array([widths**0.0 for n in measured.tensors])[:, :, None]",
        f"{UNSEEN}::test_what_code_multiplies_after_a_module_is_passed_on",
    ),
    of_rows(
        "verify rows: a readout's output before what its code multiplies",
        "return (max(power, _ZERO) if beside else power) - _after(plan, measured, name), -math.inf",
        "return max(power, _ZERO) if beside else power, -math.inf",
        f"{UNSEEN}::test_what_code_multiplies_after_a_module_is_passed_on",
    ),
    row("torch/_logits.py", f"{UNSEEN}::test_attention_that_is_not_trained_was_seen_not_to_move")(
        "verify attention: what is not trained is not seen",
        "was = _logits(module, mine, given) if mine else new if self._old else []",
        "was = _logits(module, mine, given) if mine else []",
    ),
    of_verdict(
        "verify verdict: what was not seen is trivial",
        "if Status.ABSENT in (features.status, logits.status):",
        "if False:",
        CONSISTENCY,
    ),
    of_verdict(
        "verify verdict: outputs behind the readout are not looked at",
        "if passed.status is Status.FITTED and _fades(passed, 2 * tolerance):",
        "if False:",
        CONSISTENCY,
    ),
    of_verdict(
        "verify verdict: what was not seen dominates",
        "seen = [f for f in fits if f.status is not Status.ABSENT]",
        "seen = list(fits)",
        CONSISTENCY,
    ),
    of_diagnosis(
        "verify diagnosis: attention that was not seen passes",
        "if row.quantity is Quantity.LOGITS_CHANGE and row.fit.status is Status.ABSENT:",
        "if False:",
        CONSISTENCY,
    ),
    of_diagnosis(
        "verify diagnosis: readouts that were not seen pass",
        "if measured.unseen or not measured.seen:",
        "if False:",
        CONSISTENCY,
    ),
    of_diagnosis(
        "verify diagnosis: inputs that do not grow are not told",
        "constant = t.terms - slope * base",
        "constant = 0.0",
        f"{UNSEEN}::test_inputs_that_do_not_grow_are_told_as_a_reason",
    ),
    of_diagnosis(
        "verify diagnosis: no culprit of the depth",
        "row = None if depth is None else depth.worst",
        "row = None",
        f"{UNSEEN}::test_a_depth_that_fails_or_was_not_seen_has_a_culprit",
    ),
    row("plan/_measurement.py", CONSISTENCY)(
        "verify measurement: readouts without a part in the loss are missed",
        "and np.any(self.of(n, Quantity.GRADIENT) != 0)",
        "",
    ),
    row("plan/_depth.py", f"{UNSEEN}::test_a_depth_that_fails_or_was_not_seen_has_a_culprit")(
        "verify depth: what was not seen agrees",
        "if self.fit.status is Status.ABSENT:\n            return False",
        "if False:\n            return False",
    ),
    of_rows(
        "verify rows: tensors of the loss alone are inside the network",
        "return plan[name].role is Role.FIXED and plan[name].unused",
        "return False",
        f"{UNSEEN}::test_tensors_that_the_loss_alone_uses_have_gradients_of_their_own",
    ),
    row("torch/_bare.py", f"{UNSEEN}::test_a_readout_in_no_module_is_seen_in_every_product")(
        "verify bare: the earlier entries not put in",
        "before = _viewed(was, view, tensor)",
        "before = view",
    ),
    row("torch/_bare.py", f"{UNSEEN}::test_a_readout_in_no_module_is_seen_in_every_product")(
        "verify bare: what is added taken for what is read",
        "[name in _SUMS :]",
        "[:]",
    ),
    row(
        "torch/_measure.py",
        f"{UNSEEN}::test_outputs_that_no_readout_shows_are_seen_where_the_model_returns_them",
    )(
        "verify bare: what the model returns is not heard",
        "hooks.append(model.register_forward_hook(self._returned))",
        "pass",
    ),
    row(
        "torch/_law.py",
        KINDS,
    )(
        "torch law: the first group stands for all",
        "for group in kinds_of(optimizer):",
        "for group in kinds_of(optimizer)[:1]:",
    ),
    row(
        "torch/_law.py",
        KINDS,
    )(
        "torch law: an overridden factor passes",
        "if given is not None and given not in factors:",
        "if False:",
    ),
    row(
        "torch/_uses.py",
        f"{COMPLEX}::test_real_tensors_that_are_viewed_as_complex_keep_their_axes",
    )(
        "torch uses: strides of numbers of another size",
        "return [n * tensor.element_size() for n in tensor.stride()]",
        "return list(tensor.stride())",
    ),
    row(
        "torch/_trace.py",
        f"{COMPLEX}::test_complex_models_are_planned_as_real_ones",
    )(
        "torch trace: complex inputs are not data",
        "return tensor.is_floating_point() or tensor.is_complex()",
        "return tensor.is_floating_point()",
    ),
    row(
        "torch/_trace.py",
        f"{COMPLEX}::test_complex_models_are_planned_as_real_ones",
    )(
        "torch trace: complex numbers have no size",
        "first = float(entries[0].abs())",
        "first = 1.0 if factor.is_complex() else float(entries[0].abs())",
    ),
    row("torch/_logits.py", f"{ATTENTION}::test_a_scale_of_attention_that_is_not_applied_is_named")(
        "verify attention: a cache that has grown",
        "    args, kwargs = _untouched(given)\n",
        "    args, kwargs = given\n",
    ),
    of_rows(
        "verify attention: how far queries moved under gradient descent",
        "if any(t.law.follows for t in plan.tensors) and np.all(step > 0):",
        "if False:",
        f"{ATTENTION}::test_a_scale_of_attention_that_is_not_applied_is_named",
    ),
    of_rows(
        "verify attention: no more beside slow queries",
        "max(update_exponents(plan.strategy)[-1], _ZERO)",
        "_ZERO",
        f"{ATTENTION}::test_the_neural_tangent_needs_no_other_scale",
    ),
    row("plan/_depth.py", DEPTH)(
        "verify depth: branches without multiplier are right",
        "near = self.excess <= self.tolerance + self.fit.error",
        "near = self.excess <= 3",
    ),
    row("plan/_over_depths.py", DEPTH)(
        "verify depth: blocks counted below the last block",
        "after = {k for k in counts[0] if all(c[k] == counts[0][k] for c in counts)} | {last_place}",
        "after = set(counts[0]) | {last_place}",
    ),
    of_sizes(
        "verify sizes: own change on the old inputs",
        "after = network.watch(old)",
        "after = network.watch(now)",
    ),
    of_sizes(
        "verify sizes: change counted from the new size",
        "return network.rms([b - a for a, b in zip(parts, later, strict=True)])",
        "return network.rms([b - 0 * a for a, b in zip(parts, later, strict=True)])",
    ),
    of_hooks(
        "verify sizes: weights about zero",
        "return _rms([wide - wide.mean()]), False",
        "return _rms([wide]), False",
    ),
    of_hooks(
        "verify sizes: outputs not copied",
        "self.record.outputs[name].append(found.detach().clone())",
        "self.record.outputs[name].append(found.detach())",
    ),
    of_hooks(
        "verify sizes: other random numbers after",
        "        seed_torch(network.seed)\n        recorder",
        "        recorder",
    ),
    of_hooks(
        "verify sizes: other random numbers for the old tensor",
        "with torch.no_grad(), same_random_numbers():",
        "with torch.no_grad():",
    ),
    of_hooks("verify sizes: running statistics kept", "b.copy_(buffers[n])", "b.add_(0)"),
    of_sizes(
        "verify sizes: gradient of the last step",
        "for n in (n for n in old if not sizes.tensor.get((n, Quantity.GRADIENT))):",
        "for n in old:",
    ),
    of_hooks(
        "verify sizes: whole modules mixed", "m is not None and m not in mixed", "m is not None"
    ),
    of_hooks(
        "verify sizes: NaN let through",
        "return size if math.isfinite(size) else math.inf",
        "return size",
    ),
    of_sizes("verify sizes: nonlinearity of one half", "(c - b) - (b - a) for", "(c - b) for"),
    of_run(
        "verify run: one draw for all seeds",
        "SeedSequence([seed, width])",
        "SeedSequence([0, width])",
        f"{NETWORKS}::test_the_process_is_left_as_it_was",
    ),
    of_run(
        "verify run: a zero readout not seen",
        "steps or (2 if scene.zero_readout else 1)",
        "steps or 1",
        f"{REAL}::test_a_readout_that_starts_at_zero",
    ),
    of_run(
        "verify run: a learning rate as it comes",
        "lr = tried.within(lr * (_RESPONSE / found) ** (1 / self.steps))",
        "lr = lr",
        f"{REAL}::test_hidden_layers_move_by_the_power_of_the_family",
    ),
    of_fits(
        "verify fits: natural logarithm of one axis",
        "np.log2(widths[order]), np.log2(sizes[order])",
        "np.log(widths[order]), np.log2(sizes[order])",
    ),
    of_fits("verify fits: error of one seed", "scatter / seeds * (contrast", "scatter * (contrast"),
    of_fits("verify fits: biased scatter", "ddof=1", "ddof=0"),
    of_fits(
        "verify fits: normal errors of few seeds",
        "stdtrit(self.dof, _ONE_SIDED)",
        "stdtrit(1e9, _ONE_SIDED)",
    ),
    of_fits(
        "verify fits: curvature not apart from the slope",
        " - line * (line @ line**2) / (line @ line)\n",
        "\n",
    ),
    of_fits(
        "verify fits: every curve settles",
        "return bends and surely and abs",
        "return surely or abs",
    ),
    of_rows(
        "verify rows: a rate that is a step",
        "        if power:\n            some",
        "        if False:\n            some",
    ),
    of_rows(
        "verify rows: Adam's step over its gradient",
        "(Quantity.GRADIENT, law.degree)",
        "(Quantity.GRADIENT, 1)",
    ),
    of_rows("verify rows: spreads settle", "if exact or self.fit", "if self.fit"),
    of_rows("verify rows: rounding taken for a gradient", "_ROUNDING = 1e-4", "_ROUNDING = 1e-12"),
    of_rows(
        "verify rows: no mixture of powers",
        "return max(parts), -math.inf if starts_small(plan) else min(parts)",
        "return max(parts), max(parts)",
    ),
    of_rows(
        "verify rows: tied readouts without their own embeddings",
        "power += _HALF if tied else 0",
        "power += 0",
        f"{REAL}::test_a_tied_readout_needs_its_multiplier",
    ),
    of_verdict(
        "verify verdict: the readout's own update unseen",
        "if not moved or (fades and _fades(own, tolerance)):",
        "if not moved or fades:",
    ),
    of_verdict(
        "verify verdict: logits may fade",
        "if not moved or (fades and _fades(own, tolerance)):",
        "if not moved:",
    ),
    of_verdict(
        "verify verdict: features may fade",
        "learns = not _fades(features, tolerance)",
        "learns = True",
    ),
    of_verdict(
        "verify verdict: own updates may grow",
        '    Quantity.OWN_CHANGE: "What the update of `{tensor}` adds to its output",\n',
        "",
    ),
    of_verdict(
        "verify verdict: features not beside their size",
        "ratio = np.divide(change, size,",
        "ratio = np.divide(change, np.ones_like(size),",
    ),
    of_diagnosis(
        "verify diagnosis: consequences blamed",
        "    if own:\n        return tuple(own)\n",
        "",
    ),
    of_diagnosis(
        "verify diagnosis: rounded to quarters",
        "if math.isinf(row.excess) else row.excess",
        "if math.isinf(row.excess) else round(2 * row.excess) / 2",
    ),
    of_diagnosis(
        "verify diagnosis: the far end backwards",
        "gradients[-1] if gradients",
        "gradients[0] if gradients",
    ),
    of_diagnosis(
        "verify diagnosis: every deviation a factor",
        "Cause.WIDTHS if small else Cause.FORWARD",
        "Cause.FORWARD",
    ),
    of_diagnosis(
        "verify diagnosis: a regime that contradicts the plan passes",
        "return (_of_regime(plan, measured, rows, verdict),) if contradicts else ()",
        "return ()",
        CONSISTENCY,
    ),
    of_diagnosis(
        "verify diagnosis: what cannot be told is blamed",
        "told = verdict.regime is not None and not verdict.open",
        "told = verdict.regime is not None",
        CONSISTENCY,
    ),
    row("plan/_check.py", CONSISTENCY)(
        "verify check: a deviation that passes",
        "return self.verdict.stable and not self.culprits",
        "return self.verdict.stable",
    ),
    of_verdict(
        "verify verdict: a bottleneck is not late",
        "yet = late and not learns",
        "yet = False",
        CONSISTENCY,
    ),
    of_fits(
        "verify fits: curvature not in the doubt",
        "return self.error + bent",
        "return self.error",
    ),
    row("plan/_growth.py", GROWTH)(
        "verify growth: every fan-in grows like the width",
        "return powers.fan_in * growth.fan_in + powers",
        "return powers.fan_in + powers",
    ),
    of_predicted(
        "verify predicted: gradients of Adam in its steps",
        "driven = h * _gradient(grown, tensor, zero_readout) if h else _ZERO",
        "driven = _gradient(grown, tensor, zero_readout)",
    ),
    of_predicted(
        "verify predicted: the degree of a step forgotten",
        "driven = h * _gradient",
        "driven = _gradient",
        "tests/plan/test_laws.py::test_hidden_layers_are_predicted_to_move_alike_under_every_law",
    ),
    of_predicted(
        "verify predicted: a zero readout at its random size",
        "size = U if zero_readout else A",
        "size = A",
        CHECK,
        f"{REAL}::test_a_readout_that_starts_at_zero",
    ),
    row("plan/_rows.py", "tests/torch/test_verify_right.py")(
        "verify rows: gradients beside nothing where a norm follows the readout",
        "return measured.of(name, quantity) / from_loss(plan, measured)",
        "return measured.of(name, quantity)",
    ),
    row("plan/_predicted.py", "tests/torch/test_verify_right.py")(
        "verify: what follows the readout is planned",
        "tensor.role is Role.FIXED and tensor.ends and",
        "False and",
    ),
    row("plan/_probed.py", f"{NETWORKS}::test_no_network_is_built_twice")(
        "verify: looked at anew for every width", "if key not in self.found:", "if self:"
    ),
    row("torch/_verify.py", f"{NETWORKS}::test_no_network_is_built_twice")(
        "verify: what was looked at is built again",
        "if looked is None:",
        "if looked or not looked:",
    ),
    row(
        "torch/_measure.py",
        "tests/torch/test_audit.py::test_what_is_not_trained_is_told_and_small_gradients_meet_epsilon",
    )(
        "verify: gradients of what is not trained add up",
        "one.model.zero_grad()",
        "one.optimizer.zero_grad()",
    ),
)
