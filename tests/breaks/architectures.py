"""Breaks of layers with positions: what windows see, which pairs are kept, the program with and without weights."""

from breaks import row

FIELDS = "tests/theory/test_fields.py"
LAYERS = "tests/test_architectures.py"
DRAWN = "tests/nets/test_program.py"
UNITS = "tests/theory/test_units.py"
OWN = "tests/test_layers.py"
POINT = "tests/test_criticality_layers.py"

of_fields = row("theory/flow/_rules.py", FIELDS)
of_labels = row("theory/flow/_labels.py", FIELDS)
of_positions = row("theory/flow/_positions.py", FIELDS)
of_shifts = row("theory/flow/_shifts.py", FIELDS)
of_moves = row("theory/flow/_moves.py", FIELDS)
of_flow = row("theory/flow/_kernel_flow.py", "tests/theory/test_golden_preactivation.py")
of_passing = row("theory/flow/_passing.py", FIELDS)
of_places = row("gaussian/_places.py", FIELDS)
of_maps = row("gaussian/_in_place.py", FIELDS)
of_sites = row("networks/_sites.py", LAYERS)
MASKS = "tests/test_masks.py"
ALONE = f"{MASKS}::test_averages_without_a_formula_of_a_sample_alone"
ORDER = f"{MASKS}::test_order_1_over_n_of_a_sample_alone"
SAME = f"{MASKS}::test_one_network_does_to_a_sample_what_it_does_to_it_alone"
of_masks = row("networks/_masks.py", MASKS)
of_links = row("theory/flow/_links.py", FIELDS)
of_builder = row("networks/_builder.py", LAYERS)
of_layers = row("networks/layers/_skip.py", FIELDS)
of_weights = row("nets/_program.py", DRAWN)
of_forward = row("networks/_forward.py", DRAWN)
ONE = "tests/nets/test_any_network.py"
of_parameters = row("networks/_weights.py", ONE)
of_draws = row("nets/_networks.py", ONE)
of_whole = row("networks/_by_jax.py", ONE)
of_slopes = row("networks/_products.py", DRAWN)
of_errors = row("nets/_backprop.py", ONE)
of_places_ = row("networks/layers/_places.py", OWN)
of_aggregate = row("networks/layers/_aggregate.py", OWN)
of_packed = row("nets/_packed.py", "tests/training/test_any_layers.py")
of_units = row("theory/flow/_units.py", UNITS)
of_means = row("theory/flow/_means.py", FIELDS)
of_attention = row("theory/flow/_attention.py", UNITS)

NEEDED = f"{FIELDS}::test_fields_of_the_same_weights_meet_where_something_takes_them_together"
HEADS = "tests/theory/test_units.py::test_heads_of_finite_size_are_those_of_drawn_heads"
NORMED = "tests/test_qk_norm.py"
GROUPED = "tests/test_groups_of_heads.py"

of_pools = row("networks/layers/_pool.py", LAYERS)
of_parallel = row("networks/layers/_parallel.py", LAYERS)
of_norms = row("theory/flow/_maps.py", "tests/theory/test_norms.py")

KNOWN = "tests/test_network.py"
of_numbers = row("networks/_layers.py", KNOWN)

MUTANTS = (
    of_numbers("perceptrons: of weights of any law", "if not made.own.law.is_normal:", "if False:"),
    of_numbers("perceptrons: of branches times anything", "or factors[draw] != 1", ""),
    of_numbers(
        "perceptrons: of several activations",
        "if len(program.activations) > 1 or program.positions[0]:",
        "if program.positions[0]:",
    ),
    of_numbers("perceptrons: of weights that are used again", "or made.again is not None ", ""),
    row("networks/layers/_stack.py", KNOWN)(
        "perceptrons: widths that differ are as usual", "if alike_wide and layer", "if layer"
    ),
    row("networks/_network.py", KNOWN)(
        "networks: a law is lost", "if self.is_perceptron else self.program.own(layer)", ""
    ),
    of_sites("windows: not centred", "(window.reach - 1) // 2", "0"),
    of_sites("windows: dilation forgotten", "shift = tap * window.dilation", "shift = tap"),
    of_sites("windows: the other end forgotten", "last // size + 1", "1"),
    of_builder(
        "builder: shared random numbers are added",
        "return different and not program.closure(program.bound(nodes))[1]",
        "return True",
        UNITS,
    ),
    of_builder(
        "builder: any field is Gaussian",
        "if of.draws and not of.gaussian else made",
        "if False else made",
        UNITS,
    ),
    row("networks/_field.py", LAYERS)(
        "builder: channels of several kinds", "if not of.alike:", "if False:"
    ),
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
    row("theory/_any_layers.py", "tests/theory/test_whole.py::test_what_does_not_fit_is_said")(
        "any layers: why whole arrays do not tell it", "if told.reason:", "if False:"
    ),
    of_fields("fields: a pool once", "scaled(node.factor * node.factor)", "scaled(node.factor)"),
    of_labels(
        "fields: a trunk is written over",
        "        if spare:\n            return pair",
        "        if True:\n            return pair",
    ),
    of_moves(
        "moves: taps paired with other taps",
        "product(shifts, repeat=len(axes))",
        "zip(*[shifts] * len(axes), strict=True)",
    ),
    of_moves("moves: across the edges", "            A[part] = 0.0\n", "            pass\n"),
    of_moves("moves: a tile is spoiled", "            A[part] = values\n", "            pass\n"),
    of_moves(
        "moves: the wrong way", "slice(to.start + by, to.stop + by)", "slice(to.start, to.stop)"
    ),
    of_positions(
        "positions: a pool of equal positions alone",
        "axis >= shifted and node.along[axis].mixes",
        "False",
    ),
    of_moves("moves: across a break", "in ((0, at), (at, size))", "in ((0, size),)"),
    of_places("places: further on the wrong way", "first + axis: -shift", "first + axis: shift"),
    of_shifts("shifts: both of two", "if not alike or shifts <= back:", "if True:"),
    of_shifts("shifts: one of two once", "2 if alike and shifts != back else 1", "1"),
    of_shifts("shifts: one alone", "target += weight * values", "target[...] = weight * values"),
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
    row("nets/_drawn.py", DRAWN)(
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
        "(slopes * entries[None, :, :, None]).sum(axis=(2, 5))",
        'jnp.einsum("rapsbp,apbp->rasb", slopes, entries)',
    ),
    of_positions(
        "positions: a matrix the other way round",
        "np.matmul(own.array, A,",
        "np.matmul(own.array.T, A,",
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
        "return _whole(build, of, average=False)",
        "return _whole(build, of, average=True)",
    ),
    of_parallel(
        "parallel: factors forgotten",
        "add(ends, self.factors)",
        "add(ends, (1.0,) * len(ends))",
    ),
    of_parallel(
        "parallel: one after the other",
        "ends.append(build.run(branch, of))",
        "of = build.run(branch, of)\n            ends.append(of)",
    ),
    of_norms("norms: not square", "1.0 / np.sqrt(square + node.eps)", "1.0 / (square + node.eps)"),
    of_norms("norms: eps forgotten", "np.sqrt(square + node.eps)", "np.sqrt(square)"),
    of_norms(
        "norms: the NTK is left",
        "for tile in (C, T):\n            if tile is not None:\n                tile *= at.left(",
        "for tile in (C,):\n            if tile is not None:\n                tile *= at.left(",
    ),
    of_norms("norms: the mean is left", "mean if node.centred else None", "None", FIELDS),
    of_forward("drawn: a norm keeps the mean", "    if node.centred:\n", "    if False:\n"),
    of_fields(
        "fields: means of sums forgotten",
        "if m is not None and n is not None:",
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
        "below = self.tangents.get((k, m))",
        "below = self.tangents.get((k, k))",
    ),
    of_units(
        "units: tangents by value",
        "= T.copy(), T.T.copy()",
        "= T, T.T",
    ),
    of_units(
        "units: a maximum of any tap",
        "lambda tap: largest == tap)",
        "lambda tap: np.ones(1))",
    ),
    of_units("units: points in one order", "rng.permutation(uniform).T", "uniform.T"),
    row("theory/flow/_room.py", FIELDS)(
        "room: arrays of one row",
        "list(np.empty((_BLOCK, size)))",
        "[np.empty(size)] * _BLOCK",
    ),
    of_units("units: errors of one draw", "(self.count - 1) / self.count)", "(self.count - 1))"),
    of_attention(
        "attention: softmax moves one logit",
        "    if not softmax:\n        return found",
        "    if True:\n        return found",
    ),
    of_attention(
        "attention: queries alone move",
        "            found += _changed(both, both, C, Tk, softmax=softmax) * queries\n",
        "",
    ),
    of_attention("attention: logits at their size", "return scale**2 *", "return scale *"),
    row("theory/flow/_fields.py", FIELDS)(
        "attention: free keys are tied",
        "            if not node.tied:\n",
        "            if False:\n",
    ),
    of_forward(
        "attention: all is seen",
        "np.tri(*shape, dtype=bool) if node.causal",
        "np.tri(*shape, dtype=bool) if False",
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
    of_draws("draws: variance of one tap", "program.fan_in(node)", "program.channels[0]"),
    of_draws("draws: all layers alike", "jax.random.fold_in(key, layer)", "key"),
    of_draws(
        "draws: numbers that know how many there are",
        "bool(partitionable) and",
        "True or",
        "tests/nets/test_one_network.py::test_a_network_is_the_same_whether_it_is_traced",
    ),
    of_whole(
        "whole: rates of another layer",
        "zip(weights, rates, strict",
        "zip(weights, rates[::-1], strict",
    ),
    of_errors("errors: steps uphill", "-rate * np.asarray(slope)", "rate * np.asarray(slope)"),
    of_errors("errors: the last layer's first", "sorted(found)[:-1]", "sorted(found)[1:]"),
    of_labels("fields: places share", "tile *= same", "tile *= 1.0"),
    of_fields(
        "fields: masks of all are one", "tile[at.known.at] /= node.keep", "tile /= node.keep"
    ),
    of_norms(
        "norms: a joint mean by places",
        "self._averaged(self._before) if node.joint",
        "self._before if node.joint",
        FIELDS,
    ),
    of_norms("norms: a joint square by places", "square = self._averaged(square)", "pass", FIELDS),
    of_places_("places: tokens of any size", "* float(count) ** 0.5", "* 1.0"),
    row("networks/_masks.py", OWN)(
        "places: nearest at the start",
        "(2 * places + 1) * lengths // (2 * wanted)",
        "places * lengths // wanted",
    ),
    row("networks/_masks.py", OWN)(
        "places: no antialiasing", "xp.maximum(1.0, lengths / wanted)", "1.0"
    ),
    row("networks/_sites.py", "tests/test_graphs.py")(
        "matrices: read transposed",
        'array[given["rows"], given["columns"]] =',
        'array[given["columns"], given["rows"]] =',
    ),
    of_aggregate(
        "aggregate: the first features",
        "_some(build, inputs, inputs.channels - nodes, inputs.channels)",
        "_some(build, inputs, 0, nodes)",
    ),
    row("networks/layers/_excite.py", OWN)(
        "gates: of each position alone", "GlobalAvgPool().into(build, of)", "of"
    ),
    row("networks/layers/_excite.py", OWN)(
        "gates: without a layer between", "(between, self.sigma, Dense", "(Dense"
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
        "    for k in first:\n",
        "    for k in [*first][:-1]:\n",
        "tests/training/test_any_layers.py",
    ),
    row("theory/flow/_fields.py", FIELDS)(
        "fields: what is read twice is written over", " and node.of.count(k) == 1 for k", " for k"
    ),
    of_positions(
        "links: of other positions at equal ones", "if both[0] != both[1]:", "if False:", NEEDED
    ),
    of_positions(
        "links: positions taken apart at equal ones",
        "and a.along[axis] != b.along[axis]",
        "and False",
        NEEDED,
    ),
    row("theory/flow/_fields.py", NEEDED)(
        "links: given back before they are read",
        "until[need] = max(until[need], max(link))",
        "pass",
    ),
    of_links("links: tangents are left", "slope *= below.T", "pass"),
    of_links("links: sums without factors", "C += f * pair.C", "C += pair.C"),
    of_links(
        "links: a norm of the other side",
        "if left else (its, mine)",
        "if not left else (its, mine)",
    ),
    of_norms(
        "links: a norm keeps the mean",
        "C += mine(self._left - self._before) * its(mean)",
        "pass",
        FIELDS,
    ),
    of_fields("links: fields of a stack are apart", "found = links[one, other]", "found = None"),
    of_fields("links: fields of a sum are apart", "C += f * g * link.C", "pass"),
    row("networks/_program.py", DRAWN)(
        "ties: averaged over weights that the layers below have",
        "return len(part) == 1 and self.is_fresh(node, self.behind(self.nodes[node].of))",
        "return len(part) == 1 and isinstance(self.nodes[node], Draw)",
    ),
    of_slopes(
        "ties: gradients use by use",
        "found.setdefault(program.weights_of(k), []).append(side)",
        "found.setdefault(program.weights_of(k), [])[:] = [side]",
    ),
    row("theory/flow/_units.py", DRAWN)(
        "ties: channels drawn apart",
        "z = given @ self.z + rooted(C - given @ between.T) @ normals",
        "z = rooted(C) @ normals",
    ),
    row("theory/flow/_units.py", ALONE)(
        "units: a graph's first position for all",
        "whole[:, position].reshape",
        "whole[:, 0].reshape",
    ),
    of_masks("masks: windows by their first tap alone", ".min(axis=-2)", "[..., 0, :]"),
    of_masks(
        "masks: means over all positions",
        "1.0 / xp.maximum(count, 1.0)",
        "0.0 * count + 1.0 / x[0].size",
    ),
    of_masks(
        "masks: the last position of all",
        "(mask * (behind == 1.0))",
        "(xp.arange(mask.shape[1]) == mask.shape[1] - 1.0) + 0.0 * mask",
    ),
    row("networks/_forward.py", HEADS)(
        "normed heads: queries that keep their length",
        "(own - hat * (hat * m).mean(axis=-1, keepdims=True)) / root",
        "own / root",
    ),
    row("networks/_forward.py", f"{NORMED}::test_slopes_of_logits_are_their_derivatives")(
        "rotary: slopes of what is not turned back", '"...uj,sji->...sui"', '"...uj,sij->...sui"'
    ),
    row("networks/_forward.py", f"{NORMED}::test_one_network_is_its_formula")(
        "rotary: turned the other way",
        '"...pj,pji->...pi" if back else "...pj,pij->...pi"',
        '"...pj,pij->...pi" if back else "...pj,pji->...pi"',
    ),
    row("networks/_forward.py", f"{NORMED}::test_one_network_is_its_formula")(
        "normed heads: logits of what is not normed",
        "    if node.norm is not None:\n        q, k",
        "    if False:\n        q, k",
    ),
    row("networks/_forward.py", f"{GROUPED}::test_one_network_is_its_formula")(
        "grouped heads: slopes of the first head for all",
        "np.arange(logits.shape[-3]) % len(node.bias)",
        "0 * np.arange(logits.shape[-3])",
    ),
    row("networks/_backward.py", f"{GROUPED}::test_one_network_is_its_formula")(
        "grouped heads: keys told by the mean of heads",
        ".sum(axis=2) for a in found[1:]",
        ".mean(axis=2) for a in found[1:]",
    ),
    row(
        "theory/order/_populations.py",
        f"{GROUPED}::test_heads_in_turn_are_the_mean_of_their_kinds",
    )("grouped heads: kinds that fluctuate", "node.size * node.together", "node.size"),
    row("networks/_backward.py", f"{NORMED}::test_one_network_is_its_formula")(
        "normed heads: errors pass norms", "    if node.norm is not None:\n", "    if False:\n"
    ),
    of_attention(
        "normed heads: changes of keys beside themselves",
        "_changed(by_key[[a, b]], p[[a, b], :, None]",
        "_changed(by_key[[a, b]], by_key[[a, b]]",
        HEADS,
    ),
    row(
        "networks/layers/_attention.py",
        f"{NORMED}::test_logits_of_heads_that_grow_are_correlations",
    )("normed heads: not where they grow", "if norm is not None and self.heads:", "if False:"),
    row("theory/order/_particles.py", ORDER)(
        "masks: order 1/n of norms of what is not there",
        "if len(node.of) > 1 else",
        "if False else",
    ),
    row("theory/order/_slopes.py", ORDER)(
        "masks: order 1/n of maxima of what is not there",
        "among(node, below, sizes, jnp)",
        "among(node, below[:1], sizes, jnp)",
    ),
    row("theory/order/_heads.py", f"{NORMED}::test_order_1_over_n_is_that_of_drawn_networks")(
        "normed heads: order 1/n of keys that keep their length",
        "U = W[..., None] * by_key[:, :, :, None]",
        "U = W[..., None] * by_query[:, :, :, None]",
    ),
    row("networks/_there.py", SAME)(
        "masks: windows see what is not there",
        "    return shown(put, of), along, mask\n",
        "    return of, along, mask\n",
    ),
    row("networks/_there.py", SAME)(
        "masks: ends never meet",
        "        return (*_joined(put, of, along), mask)\n",
        "        pass\n",
    ),
    row("networks/_masks.py", SAME)(
        "masks: ends meet at the end of the longest", "at % lengths if", "at % size if"
    ),
    row("networks/_masks.py", SAME)(
        "masks: all are resized as the longest",
        "return inside * resized(positions, lengths, shape",
        "return inside * resized(positions, sizes[axis] + 0 * lengths, shape",
    ),
    row("networks/_masks.py", SAME)(
        "masks: a place for each position alone",
        "np.minimum(places // stride, size - 1)",
        "np.minimum(places, size - 1)",
    ),
    row("networks/_forward.py", SAME)(
        "masks: norms of what is not there",
        "    if mask is None:\n        return lambda",
        "    if True:\n        return lambda",
    ),
    row("networks/_forward.py", SAME)(
        "masks: maxima of what is not there", "    if len(below) > 1:\n", "    if False:\n"
    ),
    row("networks/_backward.py", SAME)(
        "masks: errors of norms flow to all positions",
        "        back = back - there * delta.sum(axis=axes, keepdims=True) * node.centred\n",
        "",
    ),
    row("theory/flow/_maps.py", MASKS)(
        "masks: theory of norms of what is not there",
        "there / there.sum(axis=1, keepdims=True)",
        "np.ones_like(there) / there.shape[1]",
    ),
    row("networks/_builder.py", MASKS)(
        "masks: keys that are not there", "() if mask is None else (mask,)", "()"
    ),
    row("theory/flow/_rules.py", MASKS)(
        "masks: one side alone", "                tile *= at.left(own)\n", ""
    ),
    row("theory/flow/_means.py", MASKS)(
        "masks: means are left", "if isinstance(made, Mix | Weigh):", "if isinstance(made, Mix):"
    ),
)
