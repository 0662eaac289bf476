"""Breaks of the route by tiles."""

from breaks import row

TESTS = "tests/training/test_tiles.py"
DEEP = f"{TESTS}::test_every_tensor_on_a_tile_is_that_of_predict"
WHOLE = f"{TESTS}::test_all_outcomes_are_those_of_whole_tensors"
SINES = f"{TESTS}::test_expectations_of_sines_have_a_closed_form"
FOUR = f"{TESTS}::test_expectations_of_four_independent_inputs"
SERIES = f"{TESTS}::test_the_series_is_exact_where_two_samples_are_one"
LABELS = f"{TESTS}::test_what_is_alike_is_made_once_and_transposed"
PRODUCTS = f"{TESTS}::test_products_on_labels_are_einsum"
REFUSALS = f"{TESTS}::test_refusals_say_what_would_do"
CONTRACTIONS = f"{TESTS}::test_contractions_are_those_of_whole_tensors"
ERRORS = f"{TESTS}::test_accuracies_are_taken_until_little_moves"

of_recursions = row("training/tiles/_recursions.py", DEEP)
of_tiles = row("training/tiles/_tiles.py", SINES)
of_conditioned = row("training/tiles/_conditioned.py", SINES)
of_refined = row("training/tiles/_refined.py", ERRORS)
of_contractions = row("training/tiles/_contractions.py", CONTRACTIONS)
of_covariance = row("training/tiles/_covariance.py", CONTRACTIONS)
of_change = row("training/tiles/_change.py", CONTRACTIONS)
of_mean = row("training/tiles/_mean.py", CONTRACTIONS)
of_route = row("training/tiles/_route.py", WHOLE)
of_routes = row(
    "training/_routes.py",
    f"{TESTS}::test_tiles_come_first_where_sampled_tensors_leave_much_open",
)

MUTANTS = (
    of_recursions(
        "tiles, F: both slides alike",
        'yield at.C**2 * at.r, first, second, at.old("F", gamma, c, delta, d)',
        'yield at.C**2 * at.r, first, second, at.old("F", a, c, delta, d)',
    ),
    of_recursions(
        "tiles, R: B on its own legs",
        'yield rate, slope, at.X(0, a, b), at.old("B", a, a, c, d)',
        'yield rate, slope, at.X(0, a, b), at.old("B", a, b, c, d)',
    ),
    of_recursions(
        "tiles, T: Q not slid",
        'at.X(0, one, three), at.old("Q", two, four, one, one)',
        'at.X(0, one, three), at.old("Q", two, four, one, three)',
    ),
    of_recursions(
        "tiles, H1: fluctuations counted twice",
        'yield 0.5, at.M(p + 2, p + 2, a, b), at.old("V", a, b, a, b)',
        'yield 1.0, at.M(p + 2, p + 2, a, b), at.old("V", a, b, a, b)',
    ),
    of_recursions(
        "tiles, widths: ratio forgotten",
        "self._site.lambda_W, self._site.r",
        "self._site.lambda_W, 1.0",
    ),
    of_recursions(
        "tiles, product: a factor left out",
        "    for part in parts[:-2]:\n        out *= part\n",
        "",
        PRODUCTS,
    ),
    of_tiles(
        "tiles, series: its remainder left out",
        "            out += power\n",
        "            pass\n",
        SERIES,
    ),
    of_tiles(
        "tiles, series: powers of correlations forgotten",
        "            power = power * left\n",
        "            pass\n",
        FOUR,
    ),
    of_conditioned(
        "tiles, given two: both axes the same",
        "(first - second) / (2 * t)",
        "(first + second) / (2 * t)",
    ),
    of_conditioned(
        "tiles, given two: half the nodes counted once",
        "        w[np.any(places != 0, axis=0)] *= 2\n",
        "        pass\n",
    ),
    of_conditioned(
        "tiles, given two: what is known is 0",
        "own[where, 0, :, sample] = product(self.sigma, (p,), at)",
        "own[where, 0, :, sample] = 0.0",
    ),
    of_conditioned(
        "tiles, given two: derivatives without their factor",
        "for i in range(1, p + 1)",
        "for i in range(1, p)",
    ),
    of_conditioned(
        "tiles, given two: slopes without their scale",
        "factor = np.sqrt(_falling(terms, p))[:, None, None] / by[pairs, None, None] ** p",
        "factor = np.sqrt(_falling(terms, p))[:, None, None] / by[pairs, None, None] ** min(p, 1)",
    ),
    of_refined(
        "tiles, errors: one outcome that does not move is enough",
        "        if all(_size(",
        "        if any(_size(",
    ),
    of_refined(
        "tiles, errors: small where nothing moves",
        "_SAFETY * at_least_usual(value, np.asarray(np.abs(value - before[name])))",
        "_SAFETY * np.asarray(np.abs(value - before[name]))",
    ),
    of_tiles(
        "tiles, labels: what is alike not turned back",
        "return None if found is None else found.transpose(axes)",
        "return found",
        LABELS,
    ),
    of_contractions(
        "tiles, mean: neurons forgotten",
        "first = on_first[0] + n * on_first[1] + on_first[2]",
        "first = on_first[0] + on_first[1] + on_first[2]",
    ),
    of_contractions(
        "tiles, mean: T and U exchanged",
        "{1: T, 2: U, 3: S})",
        "{1: U, 2: T, 3: S})",
    ),
    of_contractions(
        "tiles, mean: K of one pair left out",
        '        along = along + np.einsum("dpqr,pq->dr", w, K, optimize=True)\n',
        "",
    ),
    of_mean(
        "tiles, mean: NTK fluctuations with the wrong sign",
        'linear["ntk_fluctuation"] = -np.concatenate(through)',
        'linear["ntk_fluctuation"] = np.concatenate(through)',
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
        '"P", (2, 0, 3, 1), turned(A))',
        '"P", (2, 0, 3, 1), A)',
    ),
    of_change(
        "tiles, change: weights of the two ends exchanged",
        'crossed(tensors, "S", (0, 2, 1, 3), A)',
        'crossed(tensors, "S", (0, 2, 1, 3), B)',
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
    of_route("tiles, memory: never too much", "8 * (70 * tile", "0 * (70 * tile", REFUSALS),
)
