"""Breaks of the built-in activations, and of recognition by values."""

from breaks import row

ACTIVATIONS = "tests/test_activations.py"
NAMES = "tests/test_names.py"

of_smooth = row("activations/_smooth.py", f"{ACTIVATIONS}::test_tails_keep_their_digits")
of_piecewise = row(
    "activations/_piecewise.py", f"{ACTIVATIONS}::test_kinks_are_where_and_as_large_as_declared"
)
of_recognition = row(
    "activations/_recognise.py",
    f"{ACTIVATIONS}::test_what_only_resembles_a_built_in_is_not_taken_for_it",
)
of_digest = row(
    "activations/_activation.py", f"{NAMES}::test_two_functions_of_one_name_are_told_apart"
)

MUTANTS = (
    of_smooth(
        "gate: curvature without the slope squared",
        "return 2 * s1 * v1 + z * (s2 * v1 * v1 + s1 * v2)",
        "return 2 * s1 * v1 + z * (s2 * v1 + s1 * v2)",
    ),
    of_smooth("gate: a factor of the third derivative", "3 * s2 * v1 * v2", "2 * s2 * v1 * v2"),
    of_smooth("gelu_tanh: the cubic term", "c * (1 + 3 * a * u * u)", "c * (1 + 2 * a * u * u)"),
    of_smooth("mish: the slope of the gate", "1 + special.expit(u)", "1 + special.expit(z)"),
    of_smooth(
        "logsigmoid: a sign of the second derivative",
        "lambda z: -_sigmoid_jet(z, 1),",
        "lambda z: _sigmoid_jet(z, 1),",
    ),
    of_smooth("softplus: a power of beta", "beta * beta * _sigmoid_jet", "beta * _sigmoid_jet"),
    of_smooth(
        "tanhshrink: a difference of equals",
        "np.where(np.abs(z) < 1, z * q / (1 + q), z - np.tanh(z))",
        "z - np.tanh(z)",
        f"{ACTIVATIONS}::test_values_near_0_keep_their_digits",
    ),
    of_smooth(
        "softplus_shifted: a difference of equals",
        "np.where(np.abs(z) < 2, small,",
        "np.where(np.abs(z) < 0, small,",
        f"{ACTIVATIONS}::test_values_near_0_keep_their_digits",
    ),
    of_smooth(
        "gelu: 0 times infinity far out",
        "        u = np.clip(z, -_FAR, _FAR)\n        return (2 - u * u)",
        "        u = z\n        return (2 - u * u)",
        f"{ACTIVATIONS}::test_values_far_out_are_numbers",
    ),
    of_piecewise(
        "exponential: jump of the slope", "scale * (1 - alpha / length)", "scale * (1 - alpha)"
    ),
    of_piecewise(
        "clipped: sign of the second kink", "Kink(high, 0.0, -slope)", "Kink(high, 0.0, slope)"
    ),
    of_piecewise("hardswish: size of a kink", "Kink(-3.0, 0.0, -0.5)", "Kink(-3.0, 0.0, 0.5)"),
    of_piecewise(
        "softsign: no break",
        "        breaks=(0.0,),\n        parity",
        "        parity",
        f"{ACTIVATIONS}::test_taylor_coefficients_agree_with_autodiff",
    ),
    of_recognition(
        "recognition: nothing looked at far out", "[_NEAR, _OUT, -_OUT, _SMALL", "[_NEAR, _SMALL"
    ),
    of_recognition(
        "recognition: a loose tolerance", "<= tolerance * size", "<= 1e5 * tolerance * size"
    ),
    of_digest(
        "digest: blind far out",
        "[np.linspace(-4.0, 4.0, 33) + 0.0123, _FAR, -_FAR[:-1]]",
        "[np.linspace(-4.0, 4.0, 33) + 0.0123]",
    ),
    row("limits/methods/_dense.py", f"{NAMES}::test_a_name_decides_nothing")(
        "run: tanh by its name", "if value is np.tanh:", 'if activation.name == "tanh":'
    ),
    row(
        "limits/program/_exact.py",
        f"{NAMES}::test_the_exact_backend_reads_the_polynomial_off_the_values",
    )(
        "exact: a polynomial not differentiated",
        "(c * math.perm(power + order, order))",
        "c",
    ),
)
