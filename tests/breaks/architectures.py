"""Breaks of layers with positions: what windows see, which pairs are kept, the program with and without weights."""

from breaks import row

FIELDS = "tests/theory/test_fields.py"
LAYERS = "tests/test_architectures.py"
DRAWN = "tests/nets/test_program.py"
UNITS = "tests/theory/test_units.py"
OWN = "tests/test_layers.py"
POINT = "tests/test_criticality_layers.py"

of_fields = row("theory/flow/_fields.py", FIELDS)
of_positions = row("theory/flow/_positions.py", FIELDS)
of_flow = row("theory/flow/_kernel_flow.py", "tests/theory/test_golden_preactivation.py")
of_passing = row("theory/flow/_passing.py", FIELDS)
of_places = row("gaussian/_places.py", FIELDS)
of_maps = row("gaussian/_in_place.py", FIELDS)
of_sites = row("networks/_sites.py", LAYERS)
of_builder = row("networks/_builder.py", LAYERS)
of_layers = row("networks/layers/_skip.py", FIELDS)
of_weights = row("nets/_program.py", DRAWN)
of_forward = row("networks/_forward.py", DRAWN)
ONE = "tests/nets/test_any_network.py"
of_parameters = row("networks/_weights.py", ONE)
of_draws = row("nets/_networks.py", ONE)
of_whole = row("networks/_by_jax.py", ONE)
of_slopes = row("networks/_by_jax.py", DRAWN)
of_errors = row("nets/_backprop.py", ONE)
of_places_ = row("networks/layers/_places.py", OWN)
of_aggregate = row("networks/layers/_aggregate.py", OWN)
of_packed = row("nets/_packed.py", "tests/training/test_any_layers.py")
of_units = row("theory/flow/_units.py", UNITS)
of_means = row("theory/flow/_means.py", FIELDS)
of_attention = row("theory/flow/_attention.py", UNITS)

of_pools = row("networks/layers/_pool.py", LAYERS)
of_parallel = row("networks/layers/_parallel.py", LAYERS)
of_norms = row("theory/flow/_maps.py", "tests/theory/test_norms.py")

MUTANTS = (
    of_sites("windows: not centred", "(window.reach - 1) // 2", "0"),
    of_sites("windows: dilation forgotten", "shift = tap * window.dilation", "shift = tap"),
    of_sites("windows: the other end forgotten", "last // size + 1", "1"),
    of_builder(
        "builder: shared random numbers are added",
        "return made if _apart(fields) else self._sampled(made)",
        "return made",
        UNITS,
    ),
    of_builder(
        "builder: any field is Gaussian",
        "if of.draws and not of.gaussian else made",
        "if False else made",
        UNITS,
    ),
    of_builder("builder: channels of several kinds", "if not of.alike:", "if False:"),
    of_layers("skip: factor forgotten", "(self.factor, 1.0)", "(1.0, 1.0)"),
    of_fields(
        "fields: weights of all taps as one",
        "        C *= own.C_W / taps\n",
        "        C *= own.C_W\n",
    ),
    of_fields(
        "fields: axes that grow come first",
        "key=lambda k: along[k].length(sizes[k]) / sizes[k])",
        "key=lambda k: -along[k].length(sizes[k]) / sizes[k])",
        "tests/test_layers.py",
    ),
    of_fields("fields: factors not squared", "weights = [f * f for f in", "weights = [f for f in"),
    of_fields("fields: a pool once", "array *= node.factor * node.factor", "array *= node.factor"),
    of_fields(
        "fields: a trunk is written over",
        "        if spare:\n            return pair",
        "        if True:\n            return pair",
    ),
    of_positions(
        "positions: taps paired with other taps",
        "for other in pieces if len(axes) == 2 else (piece,):",
        "for other in (piece,):",
    ),
    of_positions(
        "positions: a pool of equal positions alone",
        "mixes = node.along[axis].mixes",
        "mixes = False",
    ),
    of_flow(
        "flow: every layer in the place of the first",
        "everything.fill(target[kept.index(layer)], tile, values)",
        "everything.fill(target[0], tile, values)",
    ),
    of_passing(
        "passing: maps of the first inputs for all",
        "K = np.concatenate([part.maps[here].K for part in parts])",
        "K = np.concatenate([parts[0].maps[here].K for part in parts])",
    ),
    of_places(
        "places: positions of the second input first",
        "own = np.moveaxis(own, each, range(own.ndim - len(each), own.ndim))",
        "own = np.moveaxis(own, each, range(own.ndim - len(each), own.ndim)[::-1])",
    ),
    of_places("places: nothing is known", "        if not same.size:", "        if True:"),
    of_maps(
        "maps: dead labels with the mean slope",
        "2 * minus / (minus + plus), 1.0)",
        "1.0, 1.0)",
        "tests/gaussian/test_kernel_map.py",
    ),
    of_forward("drawn: zeros beyond the ends forgotten", "if not there.all():", "if False:"),
    of_weights(
        "drawn: weights of all taps as one",
        "made.own.C_W / self.program.fan_in(node)",
        "made.own.C_W / self.program.channels[made.of[0]]",
    ),
    of_slopes(
        "drawn: biases learn at one position",
        "_gram(delta.sum(axis=2), other.sum(axis=2))",
        "_gram(delta[:, :, 0], other[:, :, 0])",
    ),
    of_slopes(
        "drawn: gradients position by position",
        '"rapsbq,apbq->rasb"',
        '"rapsbp,apbp->rasb"',
    ),
    of_positions(
        "positions: a matrix the other way round",
        "np.matmul(own.array, moved,",
        "np.matmul(own.array.T, moved,",
    ),
    of_forward(
        "drawn: a matrix the other way round",
        "xp.tensordot(own.array.astype(x.dtype), x, (1, axis))",
        "xp.tensordot(own.array.astype(x.dtype), x, (0, axis))",
    ),
    of_sites(
        "transposed: not transposed", "Piece(piece.of, piece.to)", "Piece(piece.to, piece.of)"
    ),
    of_sites(
        "transposed: one place too few",
        "(size - 1) * self.window.stride + self.window.reach",
        "size * self.window.stride",
    ),
    of_positions(
        "positions: one grows into equal ones alone",
        "(needed[below][axis] or alone)",
        "needed[below][axis]",
    ),
    of_pools(
        "pools: a sum is an average",
        "return _whole(build, of, 1.0)",
        "return _whole(build, of, 1 / math.prod(of.positions))",
    ),
    of_parallel(
        "parallel: factors forgotten",
        "add(tuple(ends), self.factors)",
        "add(tuple(ends), (1.0,) * len(ends))",
    ),
    of_parallel(
        "parallel: one after the other",
        "ends.append(build.run(branch, of))",
        "of = build.run(branch, of)\n            ends.append(of)",
    ),
    of_norms("norms: not square", "1.0 / np.sqrt(square + node.eps)", "1.0 / (square + node.eps)"),
    of_norms("norms: eps forgotten", "np.sqrt(square + node.eps)", "np.sqrt(square)"),
    of_norms("norms: the NTK is left", "for tile in (C, T):", "for tile in (C,):"),
    of_norms("norms: the mean is left", "mean if node.centred else None", "None", FIELDS),
    of_forward("drawn: a norm keeps the mean", "    if node.centred:\n", "    if False:\n"),
    of_fields(
        "fields: means of sums forgotten",
        "if m is not None and other is not None:",
        "if False:",
    ),
    of_fields(
        "fields: a product moves one factor",
        "for a, b in ((T, other), (its, C)):",
        "for a, b in ((T, other),):",
    ),
    of_means("means: all are 0", "if made.sigma.parity < 0 else", "if True else"),
    of_units("units: both signs alone", "np.concatenate([half, -half], axis=1)", "np.abs(half)"),
    of_units(
        "units: one tangent for all",
        "if k == other and below is not None:",
        "if below is not None:",
    ),
    of_units(
        "units: tangents by value",
        "T.copy()  # its array is used again",
        "T  # its array is used again",
    ),
    of_units(
        "units: a maximum of any tap",
        "share = lambda tap: largest == tap",
        "share = lambda tap: 1.0",
    ),
    of_units("units: points in one order", "rng.permutation(uniform).T", "uniform.T"),
    row("theory/flow/_room.py", FIELDS)(
        "room: arrays of one row",
        "list(np.empty((_BLOCK, self.size)))",
        "[np.empty(self.size)] * _BLOCK",
    ),
    of_passing("passing: errors of one draw", "np.sqrt(variance / n)", "np.sqrt(variance)", UNITS),
    of_attention(
        "attention: softmax moves one logit",
        "    if node.sigma is not None:\n        return found",
        "    if True:\n        return found",
    ),
    of_attention(
        "attention: queries alone move", "_sum(Tq * by_keys + by_queries)", "_sum(by_queries)"
    ),
    of_attention("attention: logits at their size", "T[a, b] += scale**2 *", "T[a, b] += scale *"),
    of_attention("attention: free keys are tied", "K if node.tied else np.zeros_like(K)", "K"),
    of_forward(
        "attention: all is seen",
        "np.tri(places, dtype=bool) if node.causal",
        "np.tri(places, dtype=bool) if False",
    ),
    of_weights("drawn: a trunk is not averaged", "G = G + gram", "G = G + 0 * gram"),
    of_parameters(
        "drawn: rates not over the fan-in",
        "node.own.lambda_W / program.fan_in(here)",
        "node.own.lambda_W",
    ),
    of_parameters(
        "drawn: groups read all",
        "node.taps, node.groups, u.shape[-1]",
        "node.groups, node.taps, u.shape[-1]",
    ),
    of_slopes("drawn: places share", "rates[1] * entries)).sum", "rates[1] * entries[:1])).sum"),
    of_whole(
        "whole: one set of inputs",
        "left, right = sides[0], sides[-1]",
        "left, right = sides[0], sides[0]",
    ),
    of_parameters(
        "parameters: taps behind", "(*lead, n, *taps, below), (", "(*lead, n, below, *taps), ("
    ),
    of_parameters("parameters: of any network", "if got != wanted:", "if False:"),
    of_draws("draws: variance of one tap", "net.program.fan_in(node)", "net.program.channels[0]"),
    of_draws("draws: all layers alike", "jax.random.fold_in(key, layer)", "key"),
    of_whole(
        "whole: rates of another layer",
        "zip(weights, rates, strict",
        "zip(weights, rates[::-1], strict",
    ),
    of_errors("errors: steps uphill", "-rate * np.asarray(slope)", "rate * np.asarray(slope)"),
    of_errors("errors: the last layer's first", "sorted(found)[:-1]", "sorted(found)[1:]"),
    of_fields("fields: places share", "tile *= same", "tile *= 1.0"),
    of_fields(
        "fields: masks of all are one", "tile[at.known.at] /= node.keep", "tile /= node.keep"
    ),
    of_norms(
        "norms: a joint mean by places",
        "self._averaged(self._before, sites) if node.joint",
        "self._before if node.joint",
        FIELDS,
    ),
    of_norms(
        "norms: a joint square by places", "square = self._averaged(square, sites)", "pass", FIELDS
    ),
    of_places_("places: tokens of any size", "* float(self.count) ** 0.5", "* 1.0"),
    of_places_(
        "places: nearest at the start",
        "(2 * np.arange(wanted) + 1) * size // (2 * wanted)",
        "np.arange(wanted) * size // wanted",
    ),
    of_places_("places: no antialiasing", "max(1.0, size / wanted)", "1.0"),
    of_aggregate(
        "aggregate: the first features",
        "Columns(inputs.channels - nodes, inputs.channels)",
        "Columns(0, nodes)",
    ),
    row("networks/layers/_skip.py", POINT)(
        "critical skips: the trunk counts once", "1 - self.factor**2", "1 - self.factor"
    ),
    row("networks/layers/_parallel.py", POINT)(
        "critical branches: each takes all", "(1 - trunk) / others if", "(1 - trunk) if"
    ),
    row("networks/_program.py", POINT)(
        "critical layers: none follows another", "not isinstance(made, Draw | Sum) and all", "all"
    ),
    of_parameters(
        "packed: weights the other way round",
        "xp.swapaxes(W.reshape(*lead, n, -1), -1, -2)",
        "W.reshape(*lead, -1, n)",
    ),
    of_packed(
        "packed: variances of one place",
        "np.full(math.prod(weights), of_weight / fan_in)",
        "np.full(math.prod(weights), of_weight)",
    ),
    of_slopes(
        "packed: the NTK of the hidden layers",
        "for k, node in nodes)\n\n\ndef _slopes",
        "for k, node in [*nodes][:-1])\n\n\ndef _slopes",
        "tests/training/test_any_layers.py",
    ),
)
