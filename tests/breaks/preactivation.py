"""Breaks of the kernel, the mean NTK, the four-point vertex and the correction of the metric."""

from breaks import row

GOLDEN = "tests/theory/test_golden_preactivation.py"
PRINTED = "tests/theory/test_printed_form.py"

of_flow = row("theory/flow/_rules.py", (PRINTED, "tests/theory/test_golden_ntk.py"))
MAP = "tests/gaussian/test_kernel_map.py"
KINKS = f"{MAP}::test_kinks_have_a_series_up_to_correlations_near_1"
of_orders = row("gaussian/_split_orders.py", KINKS)
of_closed_map = row("gaussian/_in_place.py", ("tests/theory/test_golden_ntk.py", GOLDEN))
of_angle = row("gaussian/_angle.py", "tests/gaussian/test_angle.py")
of_map = row("gaussian/_kernel_map.py", ("tests/theory/test_golden_ntk.py", GOLDEN))
of_pairs = row("theory/flow/_pairs.py", (PRINTED, GOLDEN))

of_expansion = row("theory/flow/_expansion.py", "tests/theory/test_expansion.py")

MUTANTS = (
    of_expansion(
        "expansion: diagonal only", "np.maximum(best, np.max(V", "np.maximum(best, 0 * np.max(V"
    ),
    of_expansion("expansion: mixed derivative of the grid once", "0.5 * a2 * b, a1", "a2 * b, a1"),
    of_expansion("expansion: legs aa", "out[layer] = V[:, 1, 1]", "out[layer] = V[:, 0, 0]"),
    of_expansion("expansion: mixed derivative once", "0.5 * M[2, 0].value", "M[2, 0].value"),
    of_expansion(
        "expansion: diagonal slope",
        "J[:, 0, 0], J[:, 2, 2] = alone",
        "J[:, 0, 0], J[:, 2, 2] = alone[::-1]",
    ),
    of_expansion(
        "expansion: means left in", "features -= (features @ weights)[..., None]", "features -= 0.0"
    ),
    of_expansion(
        "expansion: half the angle",
        "* np.cos(phi + shift * angle[part])",
        "* np.cos(phi + angle[part])",
    ),
    of_expansion(
        "expansion: order of the inputs", "np.lexsort((project, norm))", "np.arange(len(x))"
    ),
    of_expansion(
        "expansion: widths",
        "widths[layer] / net.widths[layer - 1] if layer > 1 else 1.0\n        here",
        "widths[layer] / 99.0 if layer > 1 else 1.0\n        here",
    ),
    of_expansion(
        "expansion: never near 0", "targets = [min(max(0.0, low), high), low", "targets = [low"
    ),
    of_expansion(
        "expansion: within the metric",
        "size[near])], near[np.argmin",
        "size[near])], near[np.argmax",
    ),
    of_flow(
        "K: bias variance dropped off the diagonal",
        "            C += own.C_b\n",
        "            pass\n",
    ),
    of_flow(
        "K: weight variance of the layer below",
        "        C *= own.C_W / taps\n",
        "        C *= own.lambda_W / taps\n",
    ),
    row("theory/flow/_labels.py", (PRINTED, "tests/theory/test_golden_ntk.py"))(
        "K: input width forgotten",
        "        out /= features\n",
        "",
    ),
    of_map(
        "K: series cut one order short",
        "return max(2, int(np.searchsorted(-tail, -_SERIES_TOLERANCE)))",
        "return max(2, int(np.searchsorted(-tail, -_SERIES_TOLERANCE)) // 2)",
    ),
    of_map(
        "K: what further orders hold forgotten",
        "rest = max(float(((whole - parts.sum(axis=0)) * inverse).max()), 0.0)",
        "rest = 0.0",
        "tests/gaussian/test_kernel_map.py",
    ),
    of_closed_map(
        "K: angle term of ReLU with the wrong sign",
        "sine *= self._beta\n",
        "sine *= -self._beta\n",
    ),
    of_angle(
        "angles: the polynomial for negative correlations", "if least >= 0.0", "if least >= -1.0"
    ),
    of_angle("angles: a term too few", "for term in terms[-2:0:-1]", "for term in terms[-3:0:-1]"),
    of_angle(
        "angles: terms of larger correlations", "if least >= level", "if least + 0.1 >= level"
    ),
    of_map(
        "K: pairs close to 1 by the series",
        "return np.abs(c) > low",
        "return np.abs(c) > 2.0",
        KINKS,
    ),
    of_map(
        "K: pairs that are met twice, once",
        "target[block] = np.where(turned, target[block].T, target[block])",
        "pass",
        f"{MAP}::test_a_tile_of_inputs_with_themselves_is_computed_once",
    ),
    of_orders(
        "kinks: rule not split", "np.array([0.0, *(t for t in splits if t)])", "np.array([0.0])"
    ),
    of_orders("kinks: polynomials not normalised", "after /= math.sqrt(k + 1)", "after /= k + 1.0"),
    of_orders("kinks: slope not squared", "w * slope(z) ** 2", "w * np.abs(slope(z))"),
    of_flow(
        "Theta: forward term dropped",
        "                T += share\n",
        "",
    ),
    of_flow(
        "Theta: rates of biases and weights swapped",
        "np.multiply(C, own.lambda_W / taps, out=share)",
        "np.multiply(C, own.lambda_b / taps, out=share)",
    ),
    of_flow(
        "Theta: weight variance dropped",
        "                T *= own.C_W / taps\n",
        "                T /= taps\n",
    ),
    of_map(
        "Theta: factor 2 in the derivative of the series",
        "            slope *= 2.0  # d p(c²)/dc\n",
        "",
    ),
    of_pairs(
        "V: Jacobian counts the first diagonal twice",
        "[0.5 * M[2, 0], M[1, 1]",
        "[1.0 * M[2, 0], M[1, 1]",
    ),
    of_pairs(
        "V: Wick pairing with swapped legs",
        "wick += kernel[a][:, b] * kernel[b][:, a]",
        "wick += kernel[a][:, a] * kernel[b][:, b]",
    ),
    of_pairs(
        "V: constant part of the features dropped",
        "        out += delta.centre * (s[pairs.first] + s[pairs.second])\n",
        "        pass\n",
        "tests/theory/test_small_kernels.py::test_three_inputs_are_the_sum_over_the_plane",
    ),
    of_pairs(
        "V: <s_a³ s_b> in the place of <s_a s_b³>",
        "0b1011: (aa[b], ab)",
        "0b0100: (aa[b], ab)",
    ),
)
