"""Breaks of the adapter for PyTorch: what is read from modules, and what is written to them."""

from breaks import row

of_describe = row("torch/_describe.py", "tests/torch/test_describe.py")
of_probe = row("torch/_probe.py", "tests/torch/test_refusals.py")
of_moments = row("torch/_moments.py", "tests/torch/test_init.py")
of_init = row("torch/_init.py", "tests/torch/test_init.py")
of_spread = row("plan/_spread.py", "tests/torch/test_init.py")
of_groups = row("torch/_groups.py", "tests/torch/test_groups.py")
of_schedule = row("torch/_schedule.py", "tests/torch/test_schedule.py")
of_scale = row("torch/_scale.py", "tests/torch/test_scale.py")
FORWARD = "tests/torch/test_forward.py"
of_trace = row("torch/_trace.py", FORWARD)
of_rules_of_code = row("plan/_rules.py", FORWARD)
of_products = row("plan/_products.py", FORWARD)
of_flow = row("plan/_flow.py", FORWARD)

MUON, LAWS = "tests/torch/test_muon.py", "tests/torch/test_verify_laws.py"
BLOCKS = f"{LAWS}::test_blocks_of_a_projection_are_verified_apart"
of_adjust = row("plan/_adjust.py", MUON)
of_table = row("plan/_table.py", MUON)

COMPUTED, PARTS = "tests/torch/test_computed.py", "tests/torch/test_parts.py"
of_computed, of_parts = row("plan/_computed.py", COMPUTED), row("plan/_parts.py", PARTS)

DEEPER = (
    "tests/torch/test_critical.py::test_a_deeper_target_has_every_layer_drawn_as_those_of_its_kind"
)

SPARED = "tests/torch/test_speed_of_plans.py"

MUTANTS = (
    row("torch/_weightless.py", SPARED)(
        "speed: true is one where shapes are known", "return type(value), value", "return value"
    ),
    row("torch/_weightless.py", SPARED)(
        "speed: shapes by kind alone", "value.stride(), value.dtype", "(), value.dtype"
    ),
    row("torch/_repeated.py", SPARED)("speed: every entry told apart", "max(1.0, entries / _DIFFERENT)", "1.0"),
    row("torch/_critical.py", DEEPER)(
        "critical base: further layers as the factory draws them", "if not deepens:", "if deepens:"
    ),
    row("plan/_constants.py", DEEPER)(
        "critical base: layers of two kinds are one", "alike[most] > alike[least]", "0 > alike[least]"
    ),
    row("plan/_uses.py", "tests/torch/test_uses.py::test_layers_in_a_row_are_told_apart")(
        "uses: layers in a row go by each other", "(t.name, *t.aliases) if name in uses]", "()]"
    ),
    of_computed(
        "torch computed: a length as if it spanned what it does not",
        "_HALF * (direction - own)",
        "_HALF * (direction + own)",
        f"{COMPUTED}::test_directions_and_lengths_move_as_planned",
    ),
    of_computed(
        "torch computed: a bounded readout taken for a bounded first layer",
        "_HALF * (d.role is Role.INPUT)",
        "_HALF * (d.role is Role.OUTPUT)",
        f"{COMPUTED}::test_a_bounded_singular_value_needs_the_forward_pass",
    ),
    row("torch/_parametrized.py", COMPUTED)(
        "torch computed: length and direction exchanged",
        '{"length": of.original0, "direction": of.original1}',
        '{"length": of.original1, "direction": of.original0}',
        f"{COMPUTED}::test_computed_weights_start_as_plain_ones_are_planned",
    ),
    of_parts(
        "torch parts: what is beside the width starts as a readout",
        "width=init.width + p / 2",
        "width=init.width",
        f"{PARTS}::test_the_two_parts_of_a_weight_start_by_rules_of_their_own",
    ),
    row("torch/_pieces.py", PARTS)(
        "torch parts: forgotten by the next operation",
        "if own is not None and sum(own) in out.shape:",
        "if own is not None and not own:",
        f"{PARTS}::test_the_two_parts_of_a_weight_start_by_rules_of_their_own",
    ),
    row("plan/_laws.py", "tests/torch/test_spheres.py")(
        "laws: steps on spheres are not beside the weight",
        'Optimizer("adamh", Law(RELATIVE,',
        'Optimizer("adamh", Law(ENTRYWISE,',
        "tests/torch/test_spheres.py::test_steps_beside_the_weight_go_as_the_root_of_the_width",
    ),
    row("plan/_uses.py", "tests/torch/test_autoencoders.py")(
        "uses: a matrix used both ways is not known",
        "if not plain or len(sides) != 2 or",
        "if True or len(sides) != 2 or",
        "tests/torch/test_autoencoders.py::test_weights_that_encode_and_decode_lack_the_width_once",
    ),
    row("torch/_verify.py", "tests/torch/test_retrieval.py")(
        "verify: features stand for what is made of them",
        'whole = "the model" if readouts or',
        'whole = "the model" if True or',
        "tests/torch/test_retrieval.py::test_what_the_loss_makes_of_features_is_measured_by_the_loss",
    ),
    of_adjust(
        "muon: the larger side without its root",
        "math.sqrt(max(rows, columns))",
        "float(max(rows, columns))",
    ),
    of_adjust(
        "muon: rows and columns exchanged",
        "math.sqrt(max(1.0, rows / columns))",
        "math.sqrt(max(1.0, columns / rows))",
    ),
    of_table("muon: a library's factor twice", "_whole(lr / own)", "_whole(lr * own)"),
    of_table("muon: decay by the adjusted rate", "shrinks = own if", "shrinks = 1.0 if"),
    of_table(
        "muon: AdamW adjusted too",
        'self.adjust == "none" or tensor.optimizer != self.optimizer',
        'self.adjust == "none"',
    ),
    row("torch/_groups.py", MUON)(
        "muon: all in one list",
        "plan[n].optimizer == t.name]",
        "t.rest is not None]",
    ),
    row("torch/_groups.py", MUON)(
        "muon: PyTorch's own factor",
        '{"adjust_lr_fn": known_to_torch(adjust) or adjust} if',
        '{"adjust_lr_fn": "original"} if',
    ),
    row("torch/_law.py", MUON)(
        "muon: any shape will do",
        "for shape, power in ((tall",
        "for shape, power in () and ((tall",
    ),
    row("torch/_law.py", MUON)(
        "muon: a copy that lacks what it needs",
        "vars(double).update({k",
        "dict().update({k",
    ),
    row("plan/_rules.py", MUON)(
        "muon: fan-outs as wide as the network",
        "fan_out=norm.fan_out * wide)",
        "width=norm.fan_out * wide)",
    ),
    row("plan/_predicted.py", LAWS)(
        "muon: steps measured as entries",
        "tensor.law.degree - (0 if tensor.spectral else 1)",
        "tensor.law.degree - 1",
    ),
    row("plan/_sizes.py", LAWS)(
        "muon: entries for singular values",
        "if moved and n in spectral:",
        "if False:",
    ),
    row("plan/_rows.py", LAWS)(
        "adafactor: a step beside no weight",
        "(law.degree - 1) * law.norm.weight)",
        "0)",
    ),
    of_flow(
        "plan flow: factors of pairs counted twice",
        "size = one.told * two.told",
        "size = one.size * two.size",
        f"{FORWARD}::test_a_factor_between_pairs_counts_once",
    ),
    of_flow(
        "plan flow: sums of pairs without what multiplied them",
        "whole = math.prod(v.size / (v.told or 1.0) for v in factors)",
        "whole = 1.0",
        f"{FORWARD}::test_a_factor_between_pairs_counts_once",
    ),
    of_describe(
        "torch modules: transposed linear layers read as plain ones",
        "Axes(Kind.MATRIX, (0,), (1,)) if",
        "Axes(Kind.MATRIX, (1,), (0,)) if",
        "tests/torch/test_models.py::test_gpt2",
    ),
    of_describe(
        "torch modules: a transposed convolution read as a plain one",
        "if not isinstance(module, _ConvTransposeNd):",
        "if isinstance(module, _ConvNd):",
    ),
    of_describe(
        "torch modules: depthwise transposed convolution sums over channels",
        "Axes(Kind.MATRIX, kernel, (0, 1)) if depthwise",
        "Axes(Kind.MATRIX, (0, *kernel), (1,)) if depthwise",
    ),
    of_describe(
        "torch modules: an embedding multiplied instead of looked up",
        "Axes(Kind.LOOKUP, (0,), (1,))",
        "Axes(Kind.MATRIX, (0,), (1,))",
    ),
    of_describe(
        "torch modules: a parametrization's factors taken for weights",
        'if ".parametrizations." in f".{name}." or',
        'if name == "parametrizations" or',
    ),
    of_probe(
        "torch probe: compared at the base's depth",
        "said = (request.base, request.target, request.width, request.depth)",
        "said = (request.base, request.target, request.width, None)",
        "tests/torch/test_models.py",
    ),
    of_spread(
        "plan spread: error without the fourth moment",
        "math.sqrt((max(kurtosis, 1.0) - 1 + 6 / entries) / (4 * entries))",
        "math.sqrt(2 / (4 * entries))",
    ),
    of_moments(
        "torch moments: complex numbers by their real part",
        "torch.view_as_real(tensor) if",
        "tensor.real if",
    ),
    of_spread("plan spread: the base's for the target", "goal / own.std", "base.std / own.std"),
    of_spread("plan spread: never left alone", "ERRORS * error + rounding", "-1"),
    of_spread("plan spread: always left alone", "ERRORS = 3.0", "ERRORS = 50.0"),
    of_init("torch init: the mean scaled too", "told_mean(own, whole.numel())", "0.0"),
    of_init("torch init: zeros moved with the mean", "told_mean(own, whole.numel())", "own.mean"),
    of_init(
        "torch init: not the identity at the base",
        "if tensor.of or not plan.respreads(tensor):",
        "if tensor.of:",
        "tests/torch/test_identity.py",
    ),
    of_groups("torch groups: epsilon as it is", 'group["eps"] = g.eps', 'group["eps"] = eps'),
    of_schedule(
        "torch schedule: compared with the first step, not with the plan",
        'g["base_lr"] * g["lr_factor"] for g',
        'float(g["lr"]) for g',
    ),
    of_schedule(
        "torch schedule: any difference counts", "_ROUNDING, _SMALL = 1e-3", "_ROUNDING, _SMALL = 1e-17"
    ),
    row("torch/_law.py", "tests/torch/test_schedule.py")(
        "torch law: decoupled decay overlooked",
        '"adamw" if two > 1.5 * one else "adam"',
        '"adam"',
    ),
    row("torch/_law.py", "tests/torch/test_schedule.py")(
        "torch law: whole tensors normalised",
        "if not torch.isclose(alone[0, 0], beside[0, 0], rtol=1e-2):",
        "if False:",
    ),
    of_scale(
        "torch hooks: the other way round",
        "(args[0] * self.factor, *args[1:])",
        "(args[0] / self.factor, *args[1:])",
    ),
    of_scale(
        "torch hooks: branches forgotten",
        "modules[n], n, ScaledOutput(factor)",
        "modules[n], n, ScaledOutput(1.0)",
    ),
    of_trace("torch trace: one number is any", "        return first\n", "        return 1.0\n"),
    row("torch/_trace.py", "tests/torch/test_uses.py")(
        "torch trace: gains without values are those of the base",
        "or names & self.filled:",
        "or names - names:",
    ),
    of_trace("torch trace: quotients are products", '-1 if name == "div" else 1', "1"),
    of_trace("torch trace: the factor of a sum of products lost", 'float(abs(kwargs.get("alpha", 1)))', "1.0"),
    of_trace("torch trace: no norm divides", "act = flow.summed if name ==", "act = flow.summed if name !="),
    of_trace("torch trace: caps hide what they cap", "return flow.capped(values[0])", "return flow.bent(values)"),
    of_flow(
        "torch flow: every product is attention",
        'if saturating and source.kind == "product":',
        'if source.kind == "product":',
    ),
    of_flow("torch flow: sizes of two factors not multiplied", "one.reach * two.reach,", "one.reach,"),
    of_flow(
        "torch flow: a readout's factor left to the norm before it",
        "if e.into is None and e.source.name:",
        "if True:",
    ),
    of_flow("torch flow: squares summed once", "self.scaled(value, float(terms))", "self.scaled(value, 1.0)"),
    of_rules_of_code(
        "plan rules: multipliers of the code the other way round", "Powers(width=-forward,", "Powers(width=forward,"
    ),
    of_products("plan attention: heads over their root always", "min(most - head.scale,", "min(most + _HALF,"),
    row("plan/_planner.py", FORWARD)(
        "plan spread: what a factory does with depth done twice",
        "replace(spread, std=spread.std / self._drawn.get(_law(t), 1.0))",
        "replace(spread, std=spread.std)",
        "tests/torch/test_depth.py::test_an_initialisation_that_knows_the_depth_is_not_scaled_twice",
    ),
    row("plan/_run.py", BLOCKS)(
        "verify blocks: singular values of the whole", "{n: table[n].blocks[1] for n", "{n: 1 for n"
    ),
    row("plan/_verify.py", BLOCKS)(
        "verify blocks: heads of the target at every width",
        "sizes | heads_of(table, sizes)", "sizes",
    ),
    row("plan/_rows.py", f"{LAWS}::test_a_bias_of_the_readout_may_start_smaller")(
        "verify: a bias that starts smaller is blamed", "return p.weight, -math.inf", "return p.weight, p.weight"
    ),
    row("torch/_moments.py", "tests/torch/test_init.py::test_a_large_tensor_is_read_in_parts")(
        "torch moments: the first part alone", "for part in parts:", "for part in parts[:1]:"
    ),
)  # fmt: skip
