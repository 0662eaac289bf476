"""Breaks of nearby inputs and of the angle between two."""

from breaks import row

of_perturbations = row("theory/single/_perturbations.py", "tests/theory/test_perturbations.py")
of_angles = row("theory/deep/_angles.py", "tests/theory/test_angles.py")

MUTANTS = (
    of_perturbations(
        "near dK2: h", "ddK2 = scan(perp, h * square", "ddK2 = scan(perp, 2 * h * square"
    ),
    of_perturbations("near dK0: unequal norms", '0.5 * (m["g2"] - m["p1"]) * square', "0 * square"),
    of_perturbations(
        "near dTheta1: kernel of this layer",
        "dTheta1 = scan(perp, lam / C_W * dK1[1:] + turn",
        "dTheta1 = scan(perp, lam / C_W * dK1[:-1] + turn",
    ),
    of_perturbations("near dTheta2: crossed", "ddK2[1:] + curved + crossed", "ddK2[1:] + curved"),
    of_perturbations("near dTheta2: s22_1", '0.5 * m["s22_1"] * square', 'm["s22_1"] * square'),
    of_perturbations("near dTheta0: crossed", "ddK0[1:] + shifted + crossed", "ddK0[1:] + shifted"),
    of_perturbations(
        "near dTheta0: s13 derivative", '(m["p2"] - m["s22_1"]) * square', 'm["p2"] * square'
    ),
    of_perturbations(
        "near expectation: tilt squared", "tilt**2 * (z * z - K00)", "tilt**2 * (z * z)"
    ),
    of_perturbations("near expectation: ddK0", "ddK0 / (2 * K00) * z", "ddK0 / K00 * z"),
    of_perturbations(
        "near robustness: square",
        "- 2 * flow.ddTheta2 / flow.Theta00 + tilt**2",
        "- 2 * flow.ddTheta2 / flow.Theta00",
    ),
    of_perturbations("near variance: middle", "2 * flow.dK1 * tilt", "flow.dK1 * tilt"),
    of_angles(
        "angle: C_b gap dropped",
        "below = C_b * chi * gap / (norm + C_b + chi * k) + chi",
        "below = chi",
    ),
    of_angles("angle: above", "C_b * (C_b + chi * total) / (norm + chi * k) + C_b", "C_b"),
    of_angles(
        "angle: NTK slope", "E = chi * (E + rho * psi * cross)", "E = chi * (E + rho * psi * E)"
    ),
    of_angles("angle: NTK gap", "(0.5 * gap + k * minus_c)", "(k * minus_c)"),
    of_angles("angle: series", "3991680.0, -45360.0, 840.0", "3991680.0, -45360.0, 850.0"),
    of_angles(
        "angle: bend of the wrong sign",
        "2 * np.sin(psi / 2) ** 2 - bend",
        "2 * np.sin(psi / 2) ** 2 + bend",
    ),
    of_angles("angle: deep log", "1.5 * np.log(ell)", "1.0 * np.log(ell)"),
)
