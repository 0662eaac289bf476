"""Breaks of the Gaussian expectations."""

from breaks import row

PRODUCTS = "tests/gaussian/test_four.py::test_many_products_are_single_ones"
of_four = row("gaussian/_four.py", "tests/gaussian/test_four.py")
of_features = row("gaussian/_features.py", "tests/gaussian/test_four.py")
of_products = row("gaussian/_products.py", "tests/gaussian/test_four.py")
of_closed = row(
    "gaussian/_closed.py",
    ("tests/gaussian/test_closed.py", "tests/conformance/test_gaussian_engines.py"),
)
of_hermite = row("gaussian/_hermite.py", "tests/gaussian/test_hermite.py")
of_quadrature = row(
    "gaussian/_quadrature.py",
    "tests/gaussian/test_quadrature.py::test_coincident_hard_tanh_is_a_single_gaussian",
)
of_kinks = row("gaussian/_kinks.py", "tests/gaussian/test_quadrature.py")
of_kinked = row("gaussian/_kinked_moments.py", "tests/gaussian/test_high_kinks.py")
of_increments = row(
    "gaussian/_increments.py",
    "tests/theory/test_small_kernels.py::test_layer_two_to_fifty_digits",
)
of_polar = row("gaussian/_polar.py", "tests/gaussian/test_joint.py")
of_joint = row("gaussian/_joint.py", "tests/gaussian/test_joint.py")
of_moments = row("critical/_moments.py", "tests/test_criticality_susceptibilities.py")

MUTANTS = (
    of_features(
        "four-point: linear part of one leg",
        "            C[row, 1 + j] += moments(p, q + 1)[a, b]\n",
        "",
    ),
    of_features(
        "four-point: square without its half",
        "0.5 * moments(p + 2, q)[a, b]",
        "moments(p + 2, q)[a, b]",
    ),
    of_features(
        "four-point: mixed square dropped",
        "        C[row, forms + self.place[i, j]] += moments(p + 1, q + 1)[a, b]\n",
        "",
    ),
    of_features(
        "four-point: derivatives of the legs swapped",
        "C[row, 1 + i] += moments(p + 1, q)[a, b]",
        "C[row, 1 + i] += moments(p, q + 1)[a, b]",
    ),
    of_features("four-point: one Wick pairing", " + K[np.ix_(a, d)] * K[np.ix_(b, c)]", ""),
    of_features(
        "four-point: exact part of the rests",
        "                + one.best[p] @ (gram[None, None] + covariance) @ other.best[q].T\n",
        "",
    ),
    of_features("four-point: monomials not centred", "        forms -= self.mean\n", ""),
    of_features(
        "four-point: one side's monomials",
        "                - gram[p, None] @ other.best[q].T\n",
        "",
    ),
    of_features(
        "four-point: order of a pair lost",
        "return labels[a], labels[b], np.arange(count * count).reshape(count, count)",
        "return labels[a], labels[b], np.arange(count * count).reshape(count, count).T",
    ),
    of_features(
        "four-point: symmetric pairs where they are not",
        "ordered=pq[0] != pq[1])",
        "ordered=False)",
    ),
    of_features(
        "four-point: weights of the nodes dropped",
        "        right *= w\n",
        "        right *= 1 / nodes.shape[1]\n",
    ),
    of_four(
        "four-point: two inputs left to the nodes",
        "(cheap or count <= _MAX_QUADRATURE_INPUTS):\n",
        "False:\n",
    ),
    of_four(
        "four-point: pattern of the legs",
        "legs = tuple(b if pattern >> i & 1 else a for i in range(4))",
        "legs = tuple(a if pattern >> i & 1 else b for i in range(4))",
    ),
    of_four(
        "four-point: some entries exact among others",
        "wanted = sides is None and (count <= 2 or not rule.alike)",
        "wanted = True",
    ),
    of_joint(
        "joint: entries wrong alike moved one by one",
        "return np.zeros_like(size) if self.alike else unseen(estimates, size)",
        "return unseen(estimates, size)",
        "tests/gaussian/test_four.py",
    ),
    of_joint(
        "joint: an error small by chance",
        "return np.asarray(np.hypot(error, usual * shares))",
        "return np.asarray(error)",
        "tests/training/test_tiles.py::test_accuracies_are_taken_until_little_moves",
    ),
    row(
        "theory/flow/_pairs.py",
        "tests/theory/test_tensor_flow.py::"
        "test_a_source_whose_entries_are_wrong_alike_is_smooth_in_the_inputs",
    )(
        "pairs: some sources exact among others",
        "        if rule.alike:\n            return out, error\n",
        "",
    ),
    of_four(
        "four-point: last pattern forgotten",
        "for family in values for pattern in range(1, 15)]",
        "for family in values for pattern in range(1, 14)]",
    ),
    of_four(
        "four-point: parity of one input",
        "linear, halves = sigma.parity == 0",
        "linear, halves = sigma.parity != 0",
    ),
    row("gaussian/_two_inputs.py", "tests/gaussian/test_four.py")(
        "four-point: constant of the other factor",
        "(centre[j], (i,))",
        "(centre[i], (i,))",
        "tests/gaussian/test_four.py::test_derivatives_stand_on_the_legs_they_are_named_with",
    ),
    of_four(
        "four-point: a difference of large means",
        'return 1.0 if sigma.family == "exp" else increment(sigma, order).centre',
        "return 0.0",
    ),
    of_increments(
        "increments: differences all the way to 0",
        "        return float(r[first_bad - 1]) if first_bad else 0.0\n",
        "        return 0.0\n",
    ),
    of_increments(
        "increments: integral without its length",
        "return z * (self._slope(z[:, None] * t) @ w)",
        "return self._slope(z[:, None] * t) @ w",
    ),
    of_products(
        "products: parity without derivatives",
        "sigma.parity ** len(legs) * (-1) ** sum(legs)",
        "sigma.parity ** len(legs)",
        PRODUCTS,
    ),
    of_products(
        "products: legs swapped",
        "product(sigma, legs), parity)\n"
        "        value, error, size = series.moment(tables[p], tables[q])",
        "product(sigma, legs), parity)\n"
        "        value, error, size = series.moment(tables[q], tables[p])",
        PRODUCTS,
    ),
    of_products("products: weight of a difference", "(5 / 3, -5 / 21", "(5 / 3, 5 / 21"),
    of_products(
        "products: step of the fifth derivative",
        "return total / step**order",
        "return total / step",
    ),
    of_products(
        "products: sign of M_42", "(4, 2): -(second * c + first)", "(4, 2): (second * c + first)"
    ),
    of_products(
        "products: M_51 without its 3",
        "(5, 1): (second * c * c + 3 * first * c)",
        "(5, 1): (second * c * c + first * c)",
    ),
    of_products(
        "products: M_33 by the first variance",
        "(3, 3): second / A / B",
        "(3, 3): second / A / A",
    ),
    of_closed(
        "moments: M_00 of a kink with the far end",
        "self.jump * self.pair.root * _sin_minus_angle_cos(self.angle) + self.end * self.pair.C",
        "self.jump * self.pair.root * _sin_minus_angle_cos(self.angle) - self.end * self.pair.C",
    ),
    of_closed(
        "moments: M_11 without its side",
        "return self.end - self.side * self.jump * self.angle",
        "return self.end - self.jump * self.angle",
    ),
    of_closed(
        "moments: M_20 by the other variance",
        "return self.jump * np.sqrt(self.pair.determinant) / self.pair.A",
        "return self.jump * np.sqrt(self.pair.determinant) / self.pair.B",
    ),
    of_hermite(
        "series: coefficients that the nodes miss are believed",
        "if not (f.resolved and g.resolved):",
        "if False:",
        "tests/gaussian/test_hermite.py::test_a_bump_between_the_nodes_has_no_error_bound",
    ),
    row("gaussian/_kernel_map.py", "tests/theory/test_zero_inputs.py")(
        "zero input: slopes from the function with its constant",
        "    delta, derivative = increment(sigma, 0), sigma.derivatives[1] if slope else None\n",
        "    delta, derivative = increment(sigma, 3), sigma.derivatives[1] if slope else None\n",
        "tests/theory/test_zero_inputs.py::test_slopes_of_pairs_keep_their_digits_at_small_kernels",
    ),
    row("gaussian/_constant.py", "tests/theory/test_zero_inputs.py")(
        "zero input: scale of a traded derivative",
        "unit = factor / variance ** (0.5 * (power + k))",
        "unit = factor / variance ** (0.5 * k)",
        "tests/theory/test_zero_inputs.py::test_moments_of_a_constant_are_limits",
    ),
    row("gaussian/_estimate.py", "tests/theory/test_zero_inputs.py")(
        "zero input: third derivatives without their constant",
        "Estimate(self.value * other.value, error",
        "Estimate(0.0 * self.value * other.value, error",
        "tests/theory/test_zero_inputs.py::test_it_is_the_limit_of_small_inputs_and_one_input_alone",
    ),
    row("theory/_tables/_line_moments.py", "tests/theory/test_zero_inputs.py")(
        "zero input: slope of the mean square",
        "s1 * s1 + s0 * s2",
        "s1 * s1",
        "tests/theory/test_zero_inputs.py::test_expectations_of_one_input_are_limits",
    ),
    of_hermite(
        "mean square: the middle node twice",
        "weight[0] *= 0.5",
        "weight[0] *= 1.0",
        "tests/gaussian/test_hermite.py::test_coefficients_of_sin_and_exp_are_known",
    ),
    of_quadrature("moments: one preactivation, two signs", "f(z) * g(z),", "f(z) * g(-z),"),
    of_hermite(
        "moments: series one power out",
        "own *= powers[step]",
        "own *= powers[1]",
        "tests/gaussian/test_hermite.py::test_the_sum_of_a_pair_is_a_polynomial_in_the_correlation",
    ),
    of_hermite(
        "moments: table of a derivative",
        "factor = np.sqrt(np.arange(1, order))",
        "factor = np.sqrt(np.arange(order - 1))",
        "tests/theory/test_printed_form.py",
    ),
    of_kinks(
        "moments: order of a density",
        "term, slip = self._density(corner.location, p + n - 1 - j)",
        "term, slip = self._density(corner.location, p + n - j)",
    ),
    of_kinks(
        "moments: derivative of a delta function by its own leg alone",
        "factor = math.comb(m, i) * (-rho) ** i * hermite",
        "factor = (i == 0) * hermite",
    ),
    of_kinks(
        "moments: weight of a mean beyond the third derivative",
        "value[place] = fine / tau**k",
        "value[place] = fine / tau ** (k - 1)",
        "tests/gaussian/test_high_kinks.py",
    ),
    of_kinks(
        "moments: one side of a coincident kink",
        "total, slips = total + 0.5 * best",
        "total, slips = total + 1.0 * best",
        "tests/gaussian/test_high_kinks.py",
    ),
    of_kinked(
        "moments: Stein's identity to second order",
        "yield -1 / A, _TILTED[0], q",
        "yield 1 / A, _TILTED[0], q",
    ),
    of_kinked(
        "moments: density of the other leg dropped",
        "value = value + factor * (term + beside)",
        "value = value + factor * term",
    ),
    of_polar(
        "moments: radius of a plane Gaussian",
        "math.gamma(1 + (p + q) / 2)",
        "math.gamma((p + q) / 2)",
    ),
    of_polar(
        "moments: sign of a sector",
        "signs = [(1, -1), (1, 1), (-1, 1), (-1, -1)]",
        "signs = [(1, 1), (1, -1), (-1, 1), (-1, -1)]",
    ),
    of_joint(
        "nodes: square root of the kernel",
        "np.sqrt(value[keep]))[:, ::-1]",
        "value[keep])[:, ::-1]",
    ),
    of_joint("nodes: error of one scramble", "ddof=1) / np.sqrt(len(estimates))", "ddof=1)"),
    of_moments(
        "susceptibility: kinks left out", "        excess += jet(", "        excess += 0 * jet("
    ),
    of_moments(
        "susceptibility: half of the excess",
        "parallel, perp = C_W * (perp + excess), C_W * perp",
        "parallel, perp = C_W * (perp + 0.5 * excess), C_W * perp",
    ),
)
