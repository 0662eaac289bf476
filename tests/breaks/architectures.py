"""Breaks of layers with positions: what windows see, which pairs are kept, the program with and without weights."""

from breaks import row

FIELDS = "tests/theory/test_fields.py"
LAYERS = "tests/test_architectures.py"
DRAWN = "tests/nets/test_program.py"

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

of_pools = row("networks/layers/_pool.py", LAYERS)
of_parallel = row("networks/layers/_parallel.py", LAYERS)
of_norms = row("theory/flow/_maps.py", "tests/theory/test_norms.py")

MUTANTS = (
    of_sites("windows: not centred", "(window.reach - 1) // 2", "0"),
    of_sites("windows: dilation forgotten", "shift = tap * window.dilation", "shift = tap"),
    of_sites("windows: the other end forgotten", "last // size + 1", "1"),
    of_builder(
        "builder: shared random numbers are added",
        "if len(frozenset().union(*draws)) < sum(map(len, draws)):",
        "if False:",
    ),
    of_builder("builder: two means are added", "sum(not f.centred for f in fields) > 1", "False"),
    of_builder("builder: any field is Gaussian", "if not of.gaussian:", "if False:"),
    of_layers("skip: factor forgotten", "(self.factor, 1.0)", "(1.0, 1.0)"),
    of_fields(
        "fields: weights of all taps as one",
        "        C *= own.C_W / taps\n",
        "        C *= own.C_W\n",
    ),
    of_fields("fields: factors not squared", "factor * factor, out=part", "factor, out=part"),
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
        "mixes = isinstance(node, Spread) and node.along[axis].mixes",
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
    of_weights("drawn: zeros beyond the ends forgotten", "if not there.all():", "if False:"),
    of_weights(
        "drawn: weights of all taps as one",
        "made.own.C_W / self.program.fan_in(node)",
        "made.own.C_W / self.program.channels[made.of[0]]",
    ),
    of_weights(
        "drawn: biases learn at one position", "bias = delta.sum(axis=1)", "bias = delta[:, 0]"
    ),
    of_weights(
        "drawn: gradients position by position",
        "each.reshape(samples, sites, samples, sites).sum(axis=(1, 3))",
        "np.einsum('apbp->ab', each.reshape(samples, sites, samples, sites))",
    ),
    of_positions(
        "positions: a matrix the other way round",
        "np.matmul(own.array, moved,",
        "np.matmul(own.array.T, moved,",
    ),
    of_weights(
        "drawn: a matrix the other way round",
        "jnp.tensordot(own.array.astype(x.dtype), x, (1, axis))",
        "jnp.tensordot(own.array.astype(x.dtype), x, (0, axis))",
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
    of_norms("norms: not square", "1.0 / np.sqrt(K + eps)", "1.0 / (K + eps)"),
    of_norms("norms: eps forgotten", "np.sqrt(K + eps)", "np.sqrt(K)"),
    of_fields(
        "fields: a norm leaves the NTK",
        "            for tile in found:\n",
        "            for tile in found[:1]:\n",
        "tests/theory/test_norms.py",
    ),
    of_builder("builder: a norm subtracts any mean", "if centred and not of.centred:", "if False:"),
    of_weights("drawn: a norm keeps the mean", "    if node.centred:\n", "    if False:\n"),
    of_weights("drawn: a trunk is not averaged", "G = G + gram", "G = G + 0 * gram"),
    of_weights(
        "drawn: rates not over the fan-in", "own.lambda_W / m * weight", "own.lambda_W * weight"
    ),
)
