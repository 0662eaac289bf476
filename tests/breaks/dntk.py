"""Breaks of the dNTK and the ddNTKs for several inputs."""

from breaks import row

TESTS = "tests/theory/test_tensor_flow.py"
ORACLE = f"{TESTS}::test_unequal_widths_and_rates_of_its_own_in_each_layer"
of_dntk = row("theory/flow/_dntk.py", ORACLE)
of_ddntk = row("theory/flow/_ddntk.py", ORACLE)

MUTANTS = (
    of_dntk(
        "P: B dropped",
        '        + np.einsum("ad,eaabc->eabcd", curved, B)\n',
        "",
    ),
    of_dntk("P: B in another order", '"ad,eaabc->eabcd"', '"ad,eabac->eabcd"'),
    of_dntk("P: P with itself in the last leg", '"ad,eabca->eabcd"', '"ad,eabcd->eabcd"'),
    of_dntk("P: <s'' s> with swapped legs", '"ad,eabca->eabcd", bent', '"da,eabca->eabcd", bent'),
    of_dntk(
        "P: source twice",
        "C_W**2 * (_curvature(layer, Theta) + r * np",
        "C_W**2 * (2 * _curvature(layer, Theta) + r * np",
    ),
    of_dntk(
        "P: ratio of widths dropped",
        "_curvature(layer, Theta) + r * np",
        "_curvature(layer, Theta) + np",
    ),
    of_dntk(
        "P: slopes of the wrong legs",
        '"bc,eabcd->eabcd", pp, inner',
        '"ab,eabcd->eabcd", pp, inner',
    ),
    of_dntk(
        "Q: F of the layer below",
        "lambda_W / C_W * F_next.transpose",
        "lambda_W / C_W * F.transpose",
    ),
    of_dntk(
        "Q: F with swapped legs",
        "F_next.transpose(0, 2, 1, 4, 3)",
        "F_next.transpose(0, 1, 2, 4, 3)",
    ),
    of_dntk(
        "Q: rate over weight variance upside down",
        "lambda_W / C_W * F_next",
        "C_W / lambda_W * F_next",
    ),
    of_dntk("Q: F of this layer dropped", "r * (carried + through_F)", "r * carried"),
    of_dntk("Q: nothing carried", "r * (carried + through_F)", "r * through_F"),
    of_dntk("Q: ratio of widths dropped", "r * (carried + through_F)", "(carried + through_F)"),
    of_dntk(
        "Q: Q carried with swapped slopes", "pp, bent.T))\n    carried", "pp, bent))\n    carried"
    ),
    of_dntk("Q: third derivative dropped", "layer.curved(3, 1).T)", "0 * layer.curved(3, 1).T)"),
    of_dntk(
        "Q: F slid by the wrong derivative", "layer.curved(2, 2).T, layer", "layer.M(1, 1).T, layer"
    ),
    of_dntk(
        "Q: NTK of the wrong pair",
        '"ab,ebadc->eabcd", Theta, both',
        '"cd,ebadc->eabcd", Theta, both',
    ),
    of_dntk("P, Q: source with one NTK", '"eadbc,ab,ac->eabcd"', '"eadbc,ab,ab->eabcd"'),
    of_dntk("P, Q: factors of the source swapped", '"eadbc,ab,ac->eabcd"', '"eabdc,ab,ac->eabcd"'),
    of_ddntk(
        "R: forward source with the NTK of leg 1",
        '"eabcd,ac,ad->eabcd", layer.four((2, 0',
        '"eabcd,ab,ad->eabcd", layer.four((2, 0',
    ),
    of_ddntk(
        "R: one NTK short",
        '"eabcd,ab,ac,ad->eabcd", layer.four((3, 1, 1, 1)), Theta, Theta, Theta',
        '"eabcd,ac,ad->eabcd", layer.four((3, 1, 1, 1)), Theta, Theta',
    ),
    of_ddntk(
        "R: C_W for C_W²",
        ' + C_W**2 * np.einsum(\n        "eabcd,ab,ac,ad',
        ' + C_W * np.einsum(\n        "eabcd,ab,ac,ad',
    ),
    of_ddntk(
        "R: third derivative without NTK",
        "C_W * layer.M(3, 1) * Theta\n    on_1 = lambda_W * pp",
        "C_W * layer.M(3, 1)\n    on_1 = lambda_W * pp",
    ),
    of_ddntk(
        "R: B dropped", '        np.einsum("ab,eaacd->eabcd", on_0, B)\n        + np', "        np"
    ),
    of_ddntk(
        "R: P of leg 0 in the printed order",
        '"ab,eacda->eabcd", on_0, P',
        '"ab,eaacd->eabcd", on_0, P',
    ),
    of_ddntk(
        "R: P of leg 1 with swapped legs",
        '"ab,eacdb->eabcd", on_1, P',
        '"ab,eabcd->eabcd", on_1, P',
    ),
    of_ddntk(
        "R: R carried twice",
        '+ C_W * np.einsum("ab,eabcd->eabcd", pp, R)',
        '+ 2 * C_W * np.einsum("ab,eabcd->eabcd", pp, R)',
    ),
    of_ddntk(
        "R: ratio of widths dropped",
        "source + r * C_W * pp * inner\n\n\ndef next_S",
        "source + C_W * pp * inner\n\n\ndef next_S",
    ),
    of_ddntk(
        "S: rate of the source dropped",
        "source = C_W * lambda_W * np.einsum",
        "source = C_W * np.einsum",
    ),
    of_ddntk("S: NTKs of the wrong pairs", '"eabcd,ac,bd->eabcd"', '"eabcd,ad,bc->eabcd"'),
    of_ddntk(
        "S: curvatures dropped", " + C_W**2 * _curvatures(layer, Theta)\n    on_B", "\n    on_B"
    ),
    of_ddntk(
        "S: B without its curvature",
        "on_B = lambda_W * pp + C_W * Theta * layer.M(2, 2)",
        "on_B = lambda_W * pp",
    ),
    of_ddntk(
        "S: B with swapped legs",
        "on_B[:, :, None, None] * B",
        "on_B[:, :, None, None] * B.swapaxes(2, 3)",
    ),
    of_ddntk(
        "S: ratio of widths dropped",
        "source + r * C_W * pp * inner\n\n\ndef next_T",
        "source + C_W * pp * inner\n\n\ndef next_T",
    ),
    of_ddntk("T: rate to the first power", "plain = lambda_W**2", "plain = lambda_W"),
    of_ddntk("T: NTK of the other pair", '"ecdab,ab->eacdb"', '"ecdab,cd->eacdb"'),
    of_ddntk("T: curvatures twice", "both = C_W**2 * np", "both = 2 * C_W**2 * np"),
    of_ddntk(
        "T: no mirror image",
        "plain + both + one + one.transpose(0, 4, 3, 2, 1)",
        "plain + both + 2 * one",
    ),
    of_ddntk(
        "T: Q dropped",
        "slide(Q.transpose(0, 4, 3, 1, 2), on_3, on_1)",
        "slide(0 * Q.transpose(0, 4, 3, 1, 2), on_3, on_1)",
    ),
    of_ddntk("T: Q with swapped legs", "Q.transpose(0, 4, 3, 1, 2)", "Q.transpose(0, 4, 3, 2, 1)"),
    of_ddntk(
        "T: F slid on one leg",
        "swapped(slide(swapped(slide(F, on_3, on_1)), on_3, on_1))",
        "slide(F, on_3, on_1)",
    ),
    of_ddntk("T: derivative by z_1 of the wrong sample", "layer.M(3, 1)).T", "layer.M(3, 1))"),
    of_ddntk("T: F dropped", 'np.einsum("ecadb->eacdb", through_F) + carried', "carried"),
    of_ddntk("T: F in the order it is stored", '"ecadb->eacdb"', '"eacdb->eacdb"'),
    of_ddntk(
        "T: cross source with both NTKs of one leg", '"ebcad,ab,bd->eacdb"', '"ebcad,ab,ac->eacdb"'
    ),
    of_ddntk("T: C_W of the carried", "carried = C_W**2 * pp", "carried = C_W * pp"),
    of_ddntk(
        "T: ratio of widths dropped", " + r * inner\n\n\ndef next_U", " + inner\n\n\ndef next_U"
    ),
    of_ddntk("U: source in the order of S", '"eabcd->eadbc"', '"eabcd->eabcd"'),
    of_ddntk(
        "U: C_W for C_W²",
        "return C_W**2 * (source + r * pp[:, :, None, None] * pp * U)",
        "return C_W * (source + r * pp[:, :, None, None] * pp * U)",
    ),
    of_ddntk(
        "U: one susceptibility", "r * pp[:, :, None, None] * pp * U", "r * pp[:, :, None, None] * U"
    ),
    of_ddntk(
        "U: source twice",
        "(source + r * pp[:, :, None, None] * pp * U)",
        "(2 * source + r * pp[:, :, None, None] * pp * U)",
    ),
    of_ddntk(
        "U: ratio of widths dropped",
        "(source + r * pp[:, :, None, None] * pp * U)",
        "(source + pp[:, :, None, None] * pp * U)",
    ),
    of_ddntk(
        "S, T, U: curvatures with another NTK", '"eabcd,ab,ac,bd->eabcd"', '"eabcd,ab,ad,bc->eabcd"'
    ),
)
