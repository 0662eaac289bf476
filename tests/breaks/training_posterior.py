"""Breaks of posteriors of finite width: order 1/n, and the renormalised kernel."""

from breaks import row

WIDTH = "tests/training/posterior/test_posterior_one_over_n.py"
PRINTED = f"{WIDTH}::test_printed_values"
LINEAR = f"{WIDTH}::test_deep_linear_networks_have_closed_forms"
TENSORS = f"{WIDTH}::test_means_and_features_follow_from_the_tensors"
DRAWN = f"{WIDTH}::test_drawn_hidden_layers_agree"
MEAN = f"{WIDTH}::test_the_mean_metric_is_that_of_the_recursion"
NOISY = f"{WIDTH}::test_linear_networks_with_noise_are_averages_over_one_scale"
WICK = "tests/training/posterior/test_wick.py"
LASTS = f"{WIDTH}::test_the_last_layer_alone_by_both_routes"
SCALES = "tests/training/posterior/test_renormalised.py"

of_responses = row("training/posterior/_responses.py", (TENSORS, DRAWN, MEAN))
of_neurons = row("training/posterior/_neurons.py", (PRINTED, TENSORS))
of_wick = row("training/posterior/_wick.py", (WICK, LINEAR))
of_averages = row("training/posterior/_averages.py", (PRINTED, TENSORS))
of_coefficients = row("training/posterior/_coefficients.py", (PRINTED, TENSORS))
of_point = row("training/posterior/_point.py", (PRINTED, LINEAR))
of_route = row("training/posterior/_route.py", (PRINTED, LINEAR))
METRIC = "tests/training/posterior/test_metric.py"
of_metric = row(
    "training/posterior/_metric.py",
    f"{METRIC}::test_of_a_perceptron_it_says_what_single_neurons_say",
)
of_added = row("training/posterior/_added.py", (PRINTED, LINEAR))
of_scales = row("training/posterior/_scales.py", SCALES)
of_renormalised = row("training/posterior/_renormalised.py", SCALES)

MUTANTS = (
    of_responses(
        "posterior response: bend of the diagonal without its mixed terms",
        "2 * M31 + 1.5 * M22",
        "2 * M31",
    ),
    of_responses(
        "posterior response: slope by one half",
        "np.diagonal(M20 + M11)",
        "np.diagonal(0.5 * M20 + M11)",
    ),
    of_responses(
        "posterior response: curvature not carried on",
        "g.CC * M11**2 + g.beta * M22",
        "g.beta * M22",
    ),
    of_responses(
        "posterior response: legs swapped",
        "by_diagonal + self.beta * dK + np",
        "self.beta * dK + 2 * by_diagonal - np",
    ),
    of_neurons(
        "posterior neurons: not centred",
        "found -= self._centre[:, A] @ v",
        "found -= 0 * (self._centre[:, A] @ v)",
    ),
    of_neurons("posterior weights: diagonal once", "np.diag(2 * (Y", "np.diag((Y"),
    of_wick("posterior wick: one pairing", "(P[:, A] @ E.T) + P * R.T", "(P[:, A] @ E.T)"),
    of_wick(
        "posterior wick: square without its cross",
        "QSQ += bR + bR.T",
        "QSQ += bR",
    ),
    of_wick("posterior wick: square by what is shared alone", "found += P * P.T", "found += 0 * P"),
    of_wick(
        "posterior wick: square, wrong leg", "K * (beta @ M)) @ back", "K * (beta @ S)) @ back"
    ),
    of_neurons(
        "posterior neurons: sum not centred",
        "found - self._centre[:, A] @ v.sum(axis=1)",
        "found",
        WICK,
    ),
    of_wick(
        "posterior wick: variance of the weight doubled", "float(0.5 * np.einsum", "float(np.einsum"
    ),
    of_wick("posterior wick: inverse without its cross", "(2 * K * c + KB)", "(2 * K * c)"),
    of_averages(
        "posterior evidence: trace by one half",
        "0.25 * targets * np.array(trace)",
        "0.5 * targets * np.array(trace)",
    ),
    of_averages(
        "posterior weight: outputs forgotten",
        "at.u @ at.u.T - at.u.shape[1] * at.S",
        "at.u @ at.u.T - at.S",
        PRINTED,
    ),
    of_averages(
        "posterior tails: half a neuron's change of the variance",
        "4 * weight_variance(Q, Y)",
        "weight_variance(Q, Y)",
        NOISY,
    ),
    of_averages(
        "posterior tails: half a neuron's change of the mean",
        "2 * T @ pushed.first",
        "T @ pushed.first",
        NOISY,
    ),
    of_averages(
        "posterior tails: quadratic part twice",
        "push.form(Y, s) - Q.form(Y, z) for Y",
        "push.form(Y, s) for Y",
        LASTS,
    ),
    of_metric("posterior metric: evidence of every sample alike", "X = 0.5 * np", "X = np"),
    of_metric(
        "posterior metric: trace of the evidence by one half", "outputs / 4 *", "outputs / 2 *"
    ),
    of_metric(
        "posterior metric: inverse on the other legs",
        '"baec,ea,ci->ib"',
        '"baec,ec,ai->ib"',
    ),
    of_metric(
        "posterior metric: half of a square",
        'learned = 0.25 * np.einsum("ae',
        'learned = 0.5 * np.einsum("ae',
    ),
    of_metric("posterior metric: sign of the inverse", "shifts[0], -inverse", "shifts[0], inverse"),
    of_metric("posterior metric: between outputs of one", '"baye,ai,ej,', '"baye,ai,ei,'),
    row(
        "training/width/_widened.py",
        f"{METRIC}::test_layers_of_a_convolution_add_as_their_widths_say",
    )(
        "layers of any networks: the one behind",
        "place = _places(net)[layer - 1]",
        "place = _places(net)[layer]",
    ),
    of_added(
        "posterior tails: one pairing of three",
        "for a, b in _PAIRS",
        "for a, b in _PAIRS[:1]",
        LINEAR,
        LASTS,
    ),
    of_averages(
        "posterior evidence: sign of the last term",
        "weight_variance(Q, layer.Y) - 0.5 * half",
        "weight_variance(Q, layer.Y) + 0.5 * half",
    ),
    of_wick(
        "posterior between outputs: made symmetric",
        "c[:, None] * square * d + GS[:, A] @ H.T",
        "c[:, None] * square * d + GS[:, A] @ G.T",
        LASTS,
    ),
    of_averages(
        "posterior between outputs: of the first alone",
        "(own[i] if i == j else products(Q, at.u[:, i], at.u[:, j]))",
        "own[i]",
        LINEAR,
        LASTS,
    ),
    of_coefficients(
        "posterior mean: sign of the inverse", "shifts[0], -r * of", "shifts[0], r * of"
    ),
    of_coefficients(
        "posterior mean: without the metric at 1/n",
        '-r * of["inverse"], shifts[1]]',
        '-r * of["inverse"], 0 * shifts[1]]',
        TENSORS,
    ),
    of_coefficients(
        "posterior covariance: inverse forgotten",
        'changed @ at.T.T - r * of["within"]',
        "changed @ at.T.T",
    ),
    of_coefficients(
        "posterior layers: widths forgotten", "net.widths[-2] / net.widths[layer]", "1.0", LINEAR
    ),
    of_coefficients(
        "posterior features: from the quadratic part alone",
        "return by_sigma + step.here",
        "return 0 * by_sigma + step.here",
    ),
    of_coefficients(
        "posterior last layer: weighted too",
        "if layered.weighted:\n        X",
        "if True:\n        X",
        LASTS,
    ),
    of_point(
        "posterior noise: in the targets' weights only",
        "h = found.h + noise_variance",
        "h = found.h",
        NOISY,
    ),
    of_point(
        "posterior rest of a test sample: sign",
        "np.hstack([-seen @ root.T",
        "np.hstack([seen @ root.T",
    ),
    of_route(
        "posterior features: what is below forgotten",
        "of.learned + of.here.first(change)",
        "of.learned + 0 * change",
        DRAWN,
    ),
    of_route("posterior features: by the wrong variance", "change / net.C_W[of.layer]", "change"),
    of_added(
        "posterior covariance: outputs not told apart",
        "eye = np.eye(at.u.shape[1])",
        "eye = np.ones(2 * (at.u.shape[1],))",
    ),
    of_scales(
        "posterior prior: degrees of freedom doubled",
        "of_root = k * t + np.log(2)",
        "of_root = 2 * k * t + np.log(2)",
    ),
    of_scales(
        "posterior prior: not normalised", "- gammaln(0.5 * free)", "- 0 * gammaln(0.5 * free)"
    ),
    of_scales(
        "posterior Wishart: one degree for all",
        "self.net.widths[1] - rows, 0.0)",
        "self.net.widths[1], 0.0)",
    ),
    of_scales("posterior likelihood: outputs counted once", "+ len(h) * log_det)", "+ log_det)"),
    of_scales(
        "posterior layers: bias scaled too", "self.net.C_b[layer] + Q * _moving", "Q * _moving"
    ),
    of_scales("posterior outputs: not turned back", '"ik,kbc,jk->ijbc"', '"ki,kbc,kj->ijbc"'),
    of_renormalised("posterior draws: without their volume", "    log += log_volume\n", ""),
    of_renormalised(
        "posterior covariance: means do not vary",
        "covariance = within + np.einsum",
        "covariance = within + 0 * np.einsum",
    ),
)
