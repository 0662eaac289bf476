"""Breaks of blocks that are repeated: covariances through them, where they settle, factors of small changes."""

from breaks import row

TESTS = "tests/theory/test_blocks.py"
DENSE = f"{TESTS}::test_of_fully_connected_layers_they_are_those_of_the_activation"
WAVES = f"{TESTS}::test_waves_along_circular_convolutions"
RANKS = f"{TESTS}::test_deep_attention_settles_as_fast_as_it_says"
BAD = f"{TESTS}::test_bad_blocks"

of_block = row("theory/blocks/_block.py", DENSE)
of_settled = row("theory/blocks/_fixed_points.py", DENSE)
of_repeated = row("theory/blocks/_repeated.py", DENSE)
of_verb = row("theory/blocks/_susceptibilities.py", DENSE)

MUTANTS = (
    of_block(
        "repeated: a second input is the first",
        "own = [sizes * np.hstack([halves[0], s * halves[1]])",
        "own = [sizes * np.hstack([halves[0], halves[1]])",
    ),
    of_block(
        "repeated: layers learn",
        "replace(node, own=replace(node.own, lambda_b=0.0, lambda_W=0.0))",
        "replace(node, own=replace(node.own, lambda_b=0.0, lambda_W=1.0))",
    ),
    of_block(
        "repeated: fields that are not Gaussian are taken for it",
        "if not (out.gaussian or _by_covariance(program, entry.node)):",
        "if False:",
        BAD,
    ),
    of_block(
        "repeated: a block may not end with an activation",
        "isinstance(node, PositionMap) or (isinstance(node, Normalise) and not node.centred)",
        "False",
        f"{TESTS}::test_a_block_may_end_with_an_activation_if_it_begins_with_weights",
    ),
    of_block(
        "repeated: the first layer that changes the shape is named",
        "last = max(k for k",
        "last = min(k for k",
        BAD,
    ),
    of_settled(
        "repeated: differences of sizes are not extrapolated",
        "/ (4**m - 1)",
        "/ (5**m - 1)",
    ),
    of_settled(
        "repeated: jumps fall short of all that is left",
        "times = max(ratio, 0.0) / (1 - ratio) if ratio < 1",
        "times = 0.5 if ratio < 1",
        f"{TESTS}::test_what_vanishes_and_what_is_critical",
    ),
    of_settled(
        "repeated: at size 0 half of the slope is left",
        "return (4 * half - one - 3 * at_zero) / step",
        "return (half - at_zero) / step",
        f"{TESTS}::test_sizes_may_be_given",
    ),
    of_repeated(
        "repeated: small differences at unequal inputs",
        '"chi_perp": chi_perp,',
        '"chi_perp": self.growth(K, R, C),',
    ),
    of_repeated(
        "repeated: departures from c* at equal inputs",
        "(chi_perp if C is R else self.growth(K, R, C))",
        "chi_perp",
    ),
    of_repeated(
        "repeated: waves of sizes along with the uniform one",
        "self.waves(slope(lambda k: self.sizes(k, R, K), K, levels))",
        "self.waves(slope(lambda k: self.sizes(k, R), K, levels))",
        WAVES,
    ),
    of_repeated(
        "repeated: correlations in units of what enters",
        "kept = K / K_next if K_next else 1.0",
        "kept = 1.0",
        f"{TESTS}::test_correlations_at_a_size_that_does_not_stay",
    ),
    of_repeated(
        "repeated: collapsed positions with what is common to them",
        "return off @ T @ off if centred else T",
        "return T",
        f"{TESTS}::test_attention_that_looks_back",
    ),
    of_repeated(
        "repeated: positions by the way all of it",
        "(4 * half - one) / (_NUDGE * (1 - between))",
        "(4 * half - one) / _NUDGE",
        RANKS,
    ),
    of_verb(
        "repeated: depth scales without a logarithm",
        "return -1 / math.log(abs(chi)) if chi else 0.0",
        "return 1 / (1 - abs(chi)) if chi else 0.0",
        DENSE,
    ),
)
