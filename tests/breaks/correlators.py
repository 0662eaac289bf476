"""Breaks of correlations with any observable, inserted weights, layers above, and ratios of scales."""

from breaks import row

CORRELATORS = "tests/theory/test_correlators.py"
INTERLAYER = "tests/theory/test_interlayer.py"

of_correlators = row(
    "theory/correlators/_correlators.py",
    (
        f"{CORRELATORS}::test_printed_form_with_inverse_metrics",
        f"{CORRELATORS}::test_products_of_preactivations_give_the_tensors_back",
    ),
)
of_neurons = row(
    "theory/correlators/_neuron_tensors.py",
    (
        f"{CORRELATORS}::test_symmetries_of_whole_arrays",
        f"{CORRELATORS}::test_whole_arrays_of_the_second_layer",
    ),
)
of_derivatives = row(
    "theory/correlators/_gaussian_derivatives.py", "tests/theory/test_insertions.py"
)
of_insertions = row("theory/correlators/_insertions.py", "tests/theory/test_insertions.py")
of_interlayer = row(
    "theory/correlators/_interlayer.py",
    (
        f"{INTERLAYER}::test_pairs_of_activations_give_the_recursions",
        f"{INTERLAYER}::test_linear_network_exactly",
        f"{INTERLAYER}::test_one_input_two_layers_up",
        f"{INTERLAYER}::test_several_neurons_one_by_one",
    ),
)
of_ratios = row("theory/deep/_ratios.py", "tests/theory/test_ratios.py")
of_states = row("theory/information/_discrete_information.py", "tests/theory/test_information.py")

MUTANTS = (
    of_correlators("correlation with the NTK: D without its half", "0.5 * np.einsum", "np.einsum"),
    of_correlators(
        "correlation with the NTK: F with swapped neurons",
        '"...irjs,rcsd->...ijcd"',
        '"...irjs,rdsc->...ijcd"',
    ),
    of_correlators(
        "correlation with the dNTK: Q of leg 1 in the order of leg 2",
        '"...jr,acbr,ik->...ijkabc"',
        '"...jr,abcr,ik->...ijkabc"',
    ),
    of_correlators(
        "correlation with the dNTK: P on the wrong neurons",
        '"...ir,abcr,jk->...ijkabc", first, P_u',
        '"...jr,abcr,ik->...ijkabc", first, P_u',
    ),
    of_neurons(
        "pairings of neurons: F in the order it is stored",
        '("D", "abcd"), ("F", "acbd"), ("F", "adbc")',
        '("D", "abcd"), ("F", "acbd"), ("F", "acbd")',
    ),
    of_neurons(
        "pairings of neurons: P and Q exchanged",
        '("Q", "abcd"), ("Q", "acbd"), ("P", "abcd")',
        '("P", "abcd"), ("Q", "acbd"), ("Q", "abcd")',
    ),
    of_neurons("pairings of neurons: T with swapped legs", '("T", "acdb")', '("T", "acbd")'),
    of_derivatives(
        "derivatives of expectations: second without its trace",
        "            found[2] -= zeroth[:, None, None] * eye\n",
        "",
    ),
    of_derivatives(
        "derivatives of expectations: third short of a trace",
        ' + np.einsum("ox,yz->oyzx", first, eye)\n',
        "\n",
    ),
    of_insertions(
        "inserted weights: one contraction short",
        '            total = total + np.einsum("...ef,abcd->...abcdef", plain[1], pair)\n',
        "",
    ),
    of_insertions(
        "inserted weights: variance for its half", "np.exp(0.5 * variance", "np.exp(variance"
    ),
    of_insertions(
        "inserted weights: metric without its biases",
        "return C_b + C_W / len(activations)",
        "return C_W / len(activations)",
    ),
    of_interlayer(
        "layers above: own neurons by the width below",
        "_own_neurons(moments, net, net.widths[layer])",
        "_own_neurons(moments, net, net.widths[layer - 1])",
    ),
    of_interlayer("layers above: own neurons met twice", "            own = None\n", ""),
    of_interlayer("layers above: D dropped", "given.M(1, 1)[:, :, None] * ntk", "0 * ntk"),
    of_interlayer(
        "layers above: V without its half",
        "(2, 3)) / (2 * n_below)",
        "(2, 3)) / n_below",
    ),
    of_ratios(
        "ratio: width of the layer itself",
        "np.array([np.inf, *net.hidden_widths])",
        "np.array([*net.hidden_widths, np.inf])",
    ),
    of_ratios("ratio: power of the kernel", "scale = flow.K**p *", "scale = flow.K**-p *"),
    of_ratios("output scale: without its root", "np.sqrt(K[0] / K)", "kernel[0] / kernel"),
    of_states(
        "information of three: all of them left out", "ones - twos + entropy(table)", "ones - twos"
    ),
    of_states("cross entropy: of q with itself", "-np.sum(first[seen] *", "-np.sum(second[seen] *"),
)
