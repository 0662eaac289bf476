"""Breaks of the fluctuations of the NTK, and of its mean beyond infinite width, for several inputs."""

from breaks import row

TESTS = "tests/theory/test_tensor_flow.py"
ORACLE = f"{TESTS}::test_unequal_widths_and_rates_of_its_own_in_each_layer"
of_ntk = row("theory/flow/_ntk_statistics.py", ORACLE)

MUTANTS = (
    of_ntk(
        "D: means left in the source",
        "source = lambda_W * layer.covariance((0, 0, 0, 0))",
        "source = lambda_W * layer.four((0, 0, 0, 0))",
    ),
    of_ntk(
        "D: weight variance of the slopes dropped",
        "source + C_W * Theta * layer.covariance",
        "source + Theta * layer.covariance",
    ),
    of_ntk(
        "D: <s s s' s'> with its pairs swapped",
        "source + C_W * Theta * layer.covariance((0, 0, 1, 1))",
        "source + C_W * Theta * swapped(layer.covariance((0, 0, 1, 1)))",
    ),
    of_ntk(
        "D: V through the metric on both sides",
        "    through_V = _omega_pushed(\n"
        "        layer, swapped(layer.pushed(0, 0, V)), C_W=C_W, lambda_W=lambda_W, Theta=Theta\n"
        "    )\n",
        "    through_V = layer.pushed(0, 0, swapped(layer.pushed(0, 0, V)))\n",
    ),
    of_ntk("D: legs of V left swapped", "r * (swapped(through_V)", "r * (through_V"),
    of_ntk(
        "D: D carried twice",
        "r * (swapped(through_V) + carried))",
        "r * (swapped(through_V) + 2 * carried))",
    ),
    of_ntk("D: nothing carried", "layer.pushed(0, 0, D)\n", "layer.pushed(0, 0, 0 * D)\n"),
    of_ntk(
        "D: ratio of widths dropped",
        "(source + r * (swapped(through_V) + carried))",
        "(source + (swapped(through_V) + carried))",
    ),
    of_ntk(
        "A: rate to the first power",
        "lambda_W**2 * layer.covariance",
        "lambda_W * layer.covariance",
    ),
    of_ntk("A: crossed source once", "        + swapped(mixed)\n", ""),
    of_ntk(
        "A: NTK of one pair in the source",
        "Theta[:, :, None, None] * Theta\n    )",
        "Theta * Theta\n    )",
    ),
    of_ntk(
        "A: means left in the source",
        "C_W**2 * layer.covariance((1, 1, 1, 1))",
        "C_W**2 * layer.four((1, 1, 1, 1))",
    ),
    of_ntk("A: D on one side only", " + swapped(through_D))", ")"),
    of_ntk("A: V twice", "r * (through_V + carried", "r * (2 * through_V + carried"),
    of_ntk(
        "A: C_W for C_W²",
        "carried = C_W**2 * pp[:, :, None, None] * pp * A",
        "carried = C_W * pp[:, :, None, None] * pp * A",
    ),
    of_ntk(
        "A: ratio of widths dropped",
        "source + r * (through_V + carried",
        "source + (through_V + carried",
    ),
    of_ntk(
        "F: NTK of the wrong legs",
        '"eabcd,cd->eacbd", layer.four',
        '"eabcd,ab->eacbd", layer.four',
    ),
    of_ntk(
        "F: stored in another order",
        '"eabcd,cd->eacbd", layer.four',
        '"eabcd,cd->eabcd", layer.four',
    ),
    of_ntk(
        "F: second leg not handed on",
        "swapped(slide(swapped(half), layer.M(1, 1), layer.M(0, 2))))",
        "half)",
    ),
    of_ntk(
        "F: slope of sigma' forgotten",
        "half = slide(F, layer.M(1, 1), layer.M(0, 2))",
        "half = slide(F, layer.M(1, 1), 0 * layer.M(0, 2))",
    ),
    of_ntk(
        "F: M_02 with swapped legs",
        "half = slide(F, layer.M(1, 1), layer.M(0, 2))",
        "half = slide(F, layer.M(1, 1), layer.M(2, 0))",
    ),
    of_ntk(
        "F: ratio of widths dropped", "(source + r * swapped(slide(", "(source + swapped(slide("
    ),
    of_ntk(
        "F: leg kept on the wrong sample", '"eccbd->ecbd", T', '"eaabd->eabd", T.swapaxes(1, 3)'
    ),
    of_ntk(
        "B: one NTK in the source",
        '"eabcd,ab,cd->eacbd", layer.four((1, 1, 1, 1)), Theta, Theta',
        '"eabcd,ab->eacbd", layer.four((1, 1, 1, 1)), Theta',
    ),
    of_ntk("B: pairs of the source exchanged", '"eabcd,ab,cd->eacbd"', '"eabcd,ac,bd->eacbd"'),
    of_ntk(
        "B: C_W for C_W²",
        "C_W**2 * (source + r * pp[:, :, None, None] * pp * B)",
        "C_W * (source + r * pp[:, :, None, None] * pp * B)",
    ),
    of_ntk(
        "B: one susceptibility",
        "r * pp[:, :, None, None] * pp * B",
        "r * pp[:, :, None, None] * B",
    ),
    of_ntk(
        "B: ratio of widths dropped",
        "source + r * pp[:, :, None, None] * pp * B",
        "source + pp[:, :, None, None] * pp * B",
    ),
    of_ntk("H1: curvature without its half", "0.5 * layer.bent(p, p, V)", "layer.bent(p, p, V)"),
    of_ntk("H1: curvature dropped", "0.5 * layer.bent(p, p, V)", "0.0 * layer.bent(p, p, V)"),
    of_ntk(
        "H1: shift of the metric dropped",
        "G1[..., None, None])[..., 0, 0]",
        "0 * G1[..., None, None])[..., 0, 0]",
    ),
    of_ntk("H1: D dropped", "corrected(1) + through_D + through_F", "corrected(1) + through_F"),
    of_ntk("H1: F dropped", "corrected(1) + through_D + through_F", "corrected(1) + through_D"),
    of_ntk(
        "H1: D with swapped pairs",
        '"eabab->eab", layer.pushed(1, 1, D)',
        '"eabab->eab", layer.pushed(1, 1, swapped(D))',
    ),
    of_ntk(
        "H1: F of equal legs only",
        '(np.einsum("eaabb->eab", F) + np.einsum("ebaab->eab", F))',
        '(2 * np.einsum("eaabb->eab", F))',
    ),
    of_ntk(
        "H1: F by z_b twice with swapped legs",
        'layer.M(1, 3) * np.einsum("ebabb->eab", F)',
        'layer.M(1, 3) * np.einsum("eabbb->eab", F)',
    ),
    of_ntk(
        "H1: third derivative on the wrong leg",
        'layer.M(3, 1) * np.einsum("eaaab->eab", F)',
        'layer.M(1, 3) * np.einsum("eaaab->eab", F)',
    ),
    of_ntk(
        "H1: forward term dropped",
        "r * (lambda_W * corrected(0) + C_W * inner)",
        "r * (C_W * inner)",
    ),
    of_ntk("H1: nothing carried", "layer.M(1, 1) * H1 +", "0 * H1 +"),
    of_ntk(
        "H1: ratio of widths dropped",
        "return r * (lambda_W * corrected(0)",
        "return (lambda_W * corrected(0)",
    ),
)
