"""Breaks of the route by tiles."""

from breaks import row

TESTS = "tests/training/test_tiles.py"
EXPECTATIONS = "tests/training/test_tile_expectations.py"
DEEP = f"{EXPECTATIONS}::test_every_tensor_on_a_tile_is_that_of_predict"
WHOLE = f"{TESTS}::test_all_outcomes_are_those_of_whole_tensors"
FEW = "tests/training/test_whole.py"
LITTLE = f"{FEW}::test_what_is_left_of_a_sample_may_be_much_or_little"
OPEN = f"{FEW}::test_what_a_series_leaves_out_that_ends_early_is_stated"
SINES = f"{EXPECTATIONS}::test_expectations_of_sines_have_a_closed_form"
FOUR = f"{EXPECTATIONS}::test_expectations_of_four_independent_inputs"
SERIES = f"{EXPECTATIONS}::test_the_series_is_exact_where_two_samples_are_one"
FALL = f"{EXPECTATIONS}::test_terms_that_are_left_out_fall_as_those_of_two_that_are_one"
LABELS = f"{EXPECTATIONS}::test_what_is_alike_is_made_once_and_transposed"
PRODUCTS = f"{EXPECTATIONS}::test_products_on_labels_are_einsum"
REFUSALS = f"{TESTS}::test_refusals_say_what_would_do"
CONTRACTIONS = f"{TESTS}::test_contractions_are_those_of_whole_tensors"
BLOCKS = f"{TESTS}::test_blocks_and_what_is_kept_of_them_change_nothing"
SHARES = f"{TESTS}::test_errors_are_what_few_samples_say_is_left_of_a_step"
COARSER = f"{EXPECTATIONS}::test_the_first_nodes_are_coarser_rules"
FOLLOW = f"{TESTS}::test_errors_follow_steps_that_become_smaller_slowly_or_stop_by_chance"
FAMILIES = f"{EXPECTATIONS}::test_families_that_share_sums_are_those_made_alone"
PASSED = f"{EXPECTATIONS}::test_nodes_that_are_passed_over_tell_of_nothing"
SMALL = f"{EXPECTATIONS}::test_where_an_input_is_small_no_derivative_is"
ZERO = f"{EXPECTATIONS}::test_a_derivative_that_is_zero_needs_no_node"
CLOSE = f"{TESTS}::test_close_inputs_are_not_left_to_single_precision"
ASKED = "tests/training/test_accuracy.py::test_an_accuracy_that_is_asked_for_is_met"
NOTHING = "tests/training/test_accuracy.py::test_what_training_leaves_nothing_of_is_not_made_finer"
ERRORS = f"{TESTS}::test_accuracies_are_taken_until_little_moves"

of_recursions = row("training/tiles/_recursions.py", DEEP)
of_tiles = row("training/tiles/_tiles.py", SINES)
of_conditioned = row("training/tiles/_conditioned.py", SINES)
of_series = row("training/tiles/_series.py", SINES)
of_rules = row("training/tiles/_rules.py", SINES)
of_telling = row("training/tiles/_telling.py", PASSED)
of_refined = row("training/tiles/_refined.py", ERRORS)
of_covariance = row("training/tiles/_covariance.py", CONTRACTIONS)
of_mean = row("training/tiles/_mean.py", CONTRACTIONS)
of_jets = row("theory/order/_jets.py", CONTRACTIONS)
of_sums = row("training/tiles/_sums.py", CONTRACTIONS)
of_route = row("training/tiles/_route.py", WHOLE)
of_whole = row("training/tiles/_whole.py", f"{FEW}::test_a_plane_is_known_from_two_samples_in_it")
of_routes = row(
    "training/_routes.py",
    f"{TESTS}::test_tiles_come_first_where_sampled_tensors_leave_much_open",
)

MUTANTS = (
    of_recursions(
        "tiles, covariance: pairs not exchanged",
        "zip(reversed(at) if found.swap else at, found.turns, strict=True)",
        "zip(at, found.turns, strict=True)",
    ),
    of_recursions(
        "tiles, covariance: labels not turned",
        "(side[::-1] if turned else side for side, turned in sides)",
        "(side for side, turned in sides)",
    ),
    of_recursions(
        "tiles, covariance: in the order of sites",
        "tuple(labels[printed.index(x)] for x in places)",
        "labels",
    ),
    of_recursions(
        "tiles, noise: with the product of both halves",
        "        if term.inside:\n            (x, y, v, w)",
        "        if False:\n            (x, y, v, w)",
    ),
    of_recursions(
        "tiles, answers: the last of each change",
        "found[change] + value if change in found else value",
        "value",
    ),
    of_recursions(
        "tiles, answers: at a pair's own labels",
        "_Answer(value, change.pair, self._at(change, labels))",
        "_Answer(value, change.pair, labels)",
    ),
    of_recursions(
        "tiles, shift: fluctuations counted twice",
        "yield factor * self._site.r, value, old",
        "yield 2 * factor * self._site.r, value, old",
    ),
    of_recursions(
        "tiles, widths: ratio forgotten",
        "yield self._site.r, first.value, _total(terms)",
        "yield 1.0, first.value, _total(terms)",
    ),
    of_recursions(
        "tiles, product: a factor left out",
        "    for part in parts[:-2]:\n        out *= part\n",
        "",
        PRODUCTS,
    ),
    of_series(
        "tiles, series: its remainder left out",
        "out[pairs] += rest",
        "pass",
        SERIES,
    ),
    of_series(
        "tiles, series: powers of correlations forgotten",
        "                    out *= left[pairs]\n",
        "",
        FOUR,
    ),
    of_conditioned(
        "tiles, given two: both axes the same",
        "(first - second) / (2 * t)",
        "(first + second) / (2 * t)",
    ),
    of_rules(
        "tiles, given two: half the nodes counted once",
        "        w[np.any(places != 0, axis=0)] *= 2\n",
        "        pass\n",
    ),
    of_series(
        "tiles, series: terms that are left out fall at once",
        "        ratio *= R\n",
        "        ratio *= 0\n",
        FALL,
    ),
    of_conditioned(
        "tiles, given two: what nothing is left of is 0",
        "product(self.sigma, (p,), m) / math.sqrt(math.factorial(p))",
        "0.0",
    ),
    of_conditioned(
        "tiles, given two: what is known is 0",
        "unit[:, None] ** p * own",
        "0.0 * own",
    ),
    of_conditioned(
        "tiles, given two: what is known is correlated",
        "np.where(x < _KNOWN, np.inf, x)",
        "np.where(x < CLOSE**2, np.inf, x)",
    ),
    of_series(
        "tiles, given two: derivatives without their factor",
        "range(k + 1, k + p + 1)",
        "range(k + 1, k + p)",
    ),
    of_series(
        "tiles, given two: slopes without their scale",
        "one, other = first.v**-p, second.v**-q",
        "one, other = first.v ** -min(p, 1), second.v ** -min(q, 1)",
    ),
    of_series(
        "tiles, families: factors of the terms of another one",
        "(place, n - step)",
        "(place, n)",
        FAMILIES,
    ),
    of_series(
        "tiles, families: each with the factor of the first",
        "part *= dtype.type(size / before)",
        "part *= dtype.type(1.0)",
        FAMILIES,
    ),
    of_refined(
        "tiles, errors: a leap is made for no more than a step",
        "fine.nodes / coarse.nodes",
        "_RATIO",
        SHARES,
    ),
    of_rules(
        "tiles, given two: nodes thinned along one axis twice",
        "(i + j) % 2 == 0 if turn % 2 == 0 else i % 2 == 0",
        "i % 2 == 0 if turn % 2 == 0 else i % 4 == 0",
        COARSER,
    ),
    of_rules(
        "tiles, given two: coarser rules with the weights of all nodes",
        "float(self.w[:count].sum())",
        "1.0",
        COARSER,
    ),
    of_rules(
        "tiles, given two: coarser rules are no lattice",
        'places = places[:, np.argsort(-level, kind="stable")]',
        "level = level.copy()",
        COARSER,
    ),
    of_refined(
        "tiles, errors: one outcome that does not move is enough",
        "        if all(k in still",
        "        if any(k in still",
    ),
    of_refined(
        "tiles, errors: what is rounding alone is made finer and finer",
        "if all(k in still or",
        "if all(",
        NOTHING,
    ),
    of_refined(
        "tiles, errors: what nobody asked for is to be known well, too",
        "if wanted is None or k in wanted",
        "if wanted is None or k",
    ),
    of_refined(
        "tiles, errors: small where nothing moves",
        "part * at_least_usual(value, steps[name])",
        "part * steps[name]",
    ),
    of_refined(
        "tiles, errors: a step that is small by chance is believed",
        "floor * _size(value)",
        "0.0",
    ),
    of_refined(
        "tiles, errors: steps that become smaller slowly add up to one",
        "return ratio / (1 - ratio)",
        "return ratio",
        FOLLOW,
    ),
    of_refined(
        "tiles, errors: a step smaller than could be is believed",
        " * _chance(sizes[k])",
        "",
        FOLLOW,
        SHARES,
    ),
    of_refined(
        "tiles, errors: of steps before the last one alone is remembered",
        "max(now, _RATIO * before)",
        "max(now, _RATIO * before) if before in steps else now",
        FOLLOW,
    ),
    of_refined(
        "tiles, errors: enough whatever is asked",
        "<= enough * _size(v)",
        "<= ENOUGH * _size(v)",
        ASKED,
    ),
    of_refined(
        "tiles, errors: the smallest share of few samples",
        "max(shares, default=1.0)",
        "min(shares, default=1.0)",
        SHARES,
    ),
    of_refined(
        "tiles, errors: a share of a step that is larger than the outcome",
        "max(share[name], 1.0)",
        "share[name]",
        SHARES,
    ),
    of_rules(
        "tiles, nodes: two accuracies at one step",
        "_until(accuracy.across, _ACROSS)",
        "[accuracy.across]",
        f"{EXPECTATIONS}::test_every_accuracy_has_nodes_of_its_own",
    ),
    of_refined(
        "tiles, errors: more than a step is believed",
        "min(1.0, max(shares, default=1.0))",
        "max(shares, default=1.0)",
        SHARES,
    ),
    of_tiles(
        "tiles, given two that are one: as others",
        "        if one.size:\n",
        "        if one.size < 0:\n",
        "tests/training/test_accuracy.py::"
        "test_expectations_are_as_accurate_as_asked_in_few_dimensions",
    ),
    of_tiles(
        "tiles, labels: what is alike not turned back",
        "return found.transpose(back)",
        "return found",
        LABELS,
    ),
    of_tiles(
        "tiles, kept: the first samples of what another tile has",
        "return kept[starts[0] :, starts[1] :]",
        "return kept[: len(self.rows[0]), : len(self.rows[1])]",
        BLOCKS,
    ),
    of_tiles(
        "tiles, kept: a block that stands last not turned",
        "self._of_own(found.swapaxes(2, 3) if last else found)",
        "self._of_own(found)",
        BLOCKS,
    ),
    of_series(
        "tiles, series: what is left is never negative",
        "(e * np.abs(f) + np.abs(e) * f) / 2",
        "np.abs(e * f)",
        SERIES,
    ),
    of_conditioned(
        "tiles, given one: what the series leaves open not found",
        "found = self.two(given, (min(p, q), max(p, q))) - series",
        "found = self.two(given, (min(p, q), max(p, q)))",
        SERIES,
    ),
    of_sums(
        "tiles, sums: a sample of the second block at two places",
        "before = 0 if label[place] > label[3] else last.stop - last.start",
        "before = 0",
    ),
    of_sums(
        "tiles, sums: samples of one block in both orders",
        "if not once or way[0].index(2) < way[0].index(3)]",
        "]",
    ),
    of_sums(
        "tiles, sums: places exchanged, weights not",
        "x, y, own = y, x, own.swapaxes(0, 1)",
        "x, y = y, x",
    ),
    of_sums(
        "tiles, sums: places exchanged, the tensor not",
        "seen = whole.swapaxes(0, 1) if turned else whole",
        "seen = whole",
    ),
    of_sums(
        "tiles, sums: what is found in the order of blocks",
        "found[back[:, None], back[: others[one]]]",
        "found",
    ),
    of_sums(
        "tiles, blocks: those that tell least first",
        "np.argsort(-told",
        "np.argsort(told",
        f"{TESTS}::test_blocks_hold_every_sample_once",
    ),
    of_route(
        "tiles, precision: single for inputs that are close",
        "and not fine and rounding <= enough",
        "and not fine",
        CLOSE,
    ),
    of_route(
        "tiles, precision: what single leaves open not said",
        "least = rounding if single else 0.0",
        "least = 0.0",
        CLOSE,
    ),
    of_jets(
        "tiles, sums: indices exchanged whatever the tensor",
        "for order, way in ways if way.pairs == own)",
        "for order, way in ways)",
    ),
    of_recursions(
        "tiles, sums: indices exchanged at their sites alone",
        "return tuple(tuple(printed.index(way[x]) for x in printed) for way in ways)",
        "return symmetries(*both)",
        CONTRACTIONS,
    ),
    of_mean(
        "tiles, mean: legs of exchanged labels not exchanged",
        "x, y, matrices = y, x, matrices.swapaxes(1, 2)",
        "x, y = y, x",
    ),
    of_mean(
        "tiles, mean: neurons forgotten",
        "times = -n if leg == error else -1",
        "times = -1",
    ),
    of_mean(
        "tiles, mean: T and U exchanged",
        '1: ("T", (1, 0, 3, 2)), 2: ("U", (1, 3, 2, 0))',
        '1: ("U", (1, 3, 2, 0)), 2: ("T", (1, 0, 3, 2))',
    ),
    of_mean(
        "tiles, mean: K of one pair left out",
        "(two, (own, one), K)",
        "(two, (own, one), 0 * K)",
    ),
    of_mean(
        "tiles, mean: NTK fluctuations with the wrong sign",
        '("A", (0, 1, 2, 3), (1, 2), -1.0)',
        '("A", (0, 1, 2, 3), (1, 2), 1.0)',
    ),
    of_covariance(
        "tiles, covariance: derivative of the mean left out",
        '"ijda,ea->ijde", slope, setting.C)',
        '"ijda,ea->ijde", 0 * slope, setting.C)',
    ),
    of_covariance(
        "tiles, covariance: K for C",
        "slope, setting.C)",
        "slope, setting.K[:, : setting.count])",
    ),
    of_covariance(
        "tiles, covariance: outputs not crossed",
        'pairs.crossed("P", (2, 0, 3, 1), turned(A))',
        'pairs.crossed("P", (2, 0, 3, 1), A)',
    ),
    of_covariance(
        "tiles, change: weights of the two ends exchanged",
        'half.crossed("S", (0, 2, 1, 3), A)',
        'half.crossed("S", (0, 2, 1, 3), B)',
    ),
    of_route(
        "tiles, loss: half the variance missing",
        '0.5 * found["variance_nlo"]',
        '0.25 * found["variance_nlo"]',
    ),
    of_routes(
        "tiles, choice: sampled tensors first",
        "for route in ROUTES if len(asked.task.inputs) <= _FEW else _EXACT_FIRST:",
        "for route in ROUTES:",
    ),
    of_routes(
        "tiles, choice: whole tensors beside them unasked",
        "if tiled and routes[name] is DENSE:",
        "if False:",
        f"{TESTS}::test_whole_tensors_beside_tiles_are_for_who_names_them",
    ),
    of_route(
        "tiles, memory: never too much",
        "4 * single + 8 * (sums",
        "0 * single + 0 * (sums",
        REFUSALS,
    ),
    of_whole(
        "few samples, four: the last two given always",
        "found[tuple(entries.samples)] = self._one_by_one(entries, family)",
        "pass",
        f"{FEW}::test_terms_that_do_not_become_smaller_have_all_their_nodes",
    ),
    of_whole(
        "few samples, three: the one given that is more alike",
        "nearer = size[:, :, None] <= size[:, None]",
        "nearer = size[:, :, None] > size[:, None]",
    ),
    of_whole(
        "few samples, four: given ones exchanged",
        "turned = (samples[i] > samples[j])[:, None]",
        "turned = (samples[i] < samples[j])[:, None]",
    ),
    of_whole(
        "few samples, four: derivatives of the last two not exchanged",
        "self._given_last((p, q, s, r))",
        "self._given_last((p, q, r, s))",
        LITTLE,
    ),
    of_whole(
        "few samples, error: a series never ends early",
        "if not self.given.rule.open:",
        "if True:",
        OPEN,
    ),
    of_whole(
        "few samples, error: a tenth of what is left out",
        "found *= self._tails[p]",
        "found *= 0.1 * self._tails[p]",
        OPEN,
    ),
    of_conditioned(
        "few samples, little left: numbers cancel",
        "little = ~known & (v < _LITTLE[self._size] * self.sigma.scale)",
        "little = np.zeros_like(known)",
        LITTLE,
    ),
    of_conditioned(
        "few samples, little left: nothing of it is seen",
        "_KNOWN = 1e-5",
        "_KNOWN = 1e-3",
        LITTLE,
    ),
    of_rules(
        "tiles, nodes: as few as coefficients are wanted",
        "return (terms + some) // 2 + _INNER",
        "return some + _INNER",
        f"{FEW}::test_a_plane_is_known_from_two_samples_in_it",
    ),
    of_rules(
        "tiles, nodes: of the largest sample alone",
        "product_of(_PRODUCTS, _SCALES)",
        "product_of(_PRODUCTS, _SCALES[:1])",
        f"{FEW}::test_nodes_are_those_of_smaller_samples_too",
    ),
    of_telling(
        "tiles, telling: two other factors not counted",
        "rule.w * beside * np.abs(shares)",
        "rule.w * np.abs(shares)",
    ),
    of_telling(
        "tiles, telling: of inputs that tell least",
        "np.cumsum(shares[:, order], axis=1).max(axis=0)",
        "np.cumsum(shares[:, order], axis=1).min(axis=0)",
    ),
    of_telling(
        "tiles, telling: all terms small",
        "rest[:count] * size > accuracy",
        "rest[:count] * size**8 > accuracy",
    ),
    of_telling(
        "tiles, telling: a sum of nothing",
        "np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)",
        "shares.sum(axis=1, keepdims=True)",
        ZERO,
    ),
    of_conditioned(
        "tiles, telling: of the largest input alone",
        "np.unique([self.sd.min(), self.sd.max()])",
        "np.unique([self.sd.max()])",
        SMALL,
    ),
)
