"""Breaks of the scaling strategies and of what is said about them."""

from breaks import row

of_exponents = row("scaling/_exponents.py", "tests/scaling/test_exponents.py")
of_strategies = row("scaling/_strategies.py", "tests/scaling/test_exponents.py")
of_classify = row("scaling/_classify.py", "tests/scaling/test_classify.py")
of_conditions = row("scaling/_conditions.py", "tests/scaling/test_conditions.py")
of_orders = row(
    "scaling/_orders.py",
    "tests/scaling/test_aspect.py",
)
of_aspect = row("scaling/_aspect.py", "tests/scaling/test_aspect.py")
of_shallow = row("scaling/shallow.py", "tests/scaling/test_shallow.py")
of_bookkeeping = row("scaling/_bookkeeping.py", "tests/scaling/test_shallow_agreement.py")
of_general = row("scaling/_general.py", "tests/scaling/test_general.py")
of_scaled = row("networks/_scaled.py", "tests/test_scaled.py")

MUTANTS = (
    of_orders(
        "strategy: readout's rate",
        "strategy.q[:-1]) - strategy.p[-1]\n    return",
        "strategy.q[:-1])\n    return",
    ),
    of_orders(
        "strategy: width of the signal",
        "(-1 + p + u + 2 * top, 1)",
        "(-1 + p + 2 * u + top, 1)",
        "tests/scaling/test_aspect.py",
    ),
    of_exponents(
        "strategy: input layer counted as hidden",
        "offsets = (0, *(1,) * (self.depth - 1))",
        "offsets = (1,) * self.depth",
    ),
    of_aspect(
        "strategy: power of the width",
        "power = depth_exponent - (1 - s)",
        "power = depth_exponent - s",
    ),
    of_conditions(
        "strategy: condition on the readout",
        "(strategy.p[-1] - 1) * _HALF)",
        "(strategy.p[-1] + 1) * _HALF)",
    ),
    of_scaled(
        "strategy: rates by the power of the variances",
        "lambda_W=_times(net.lambda_W, width, q)",
        "lambda_W=_times(net.lambda_W, width, p)",
    ),
    of_exponents(
        "strategy: plain bias of the first layer",
        "(self.q[0], *(q + 1 for q in self.q[1:]))",
        "tuple(q + 1 for q in self.q)",
    ),
    of_exponents(
        "strategy: plain biases lost on the way",
        "return ABC(a, b, -self.r, self.name, plain_biases=self.plain_biases)",
        "return ABC(a, b, -self.r, self.name)",
    ),
    of_exponents(
        "strategy: gauge of half the size",
        "return ABC(a, b, self.c - 2 * t,",
        "return ABC(a, b, self.c - t,",
    ),
    of_exponents(
        "strategy: one hidden layer too few",
        "q = (self.q[0], *(hidden.q,) * (depth - 2), self.q[-1])",
        "q = (self.q[0], *(hidden.q,) * (depth - 3), self.q[-1])",
    ),
    of_strategies(
        "strategy: standard without plain biases",
        ', "standard", plain_biases=True)',
        ', "standard")',
    ),
    of_scaled(
        "strategy: biases by the rates of weights",
        "_times(net.lambda_b, width, strategy.q_bias)",
        "_times(net.lambda_b, width, q)",
    ),
    of_classify(
        "classify: U off by one", "strategy.q[-1] + 1 - strategy.r", "strategy.q[-1] - strategy.r"
    ),
    of_classify(
        "classify: gradients by the first readout only",
        "least = min(readout_exponents(strategy))",
        "least = readout_exponents(strategy)[0]",
    ),
    of_classify(
        "classify: moving features forgotten", "    if A + r < 1:\n", "    if A < 1 - abs(r):\n"
    ),
    of_classify(
        "classify: trivial if one is frozen", "stable and 1 in (U, A + r)", "stable and U == 1"
    ),
    of_classify(
        "classify: GP limit by its initial GP",
        "Regime.KERNEL if A + r == 1 else",
        "Regime.KERNEL if A > _HALF or A + r == 1 else",
    ),
    of_classify("classify: first layer only", "accumulate(self.r_l, min)", "iter(self.r_l)"),
    of_classify("classify: first layer as any", "(p + (i > 1)) / 2} must", "(p + 1) / 2} must"),
    of_classify(
        "classify: hidden layers by the fan-in of the first",
        "tuple(least + q - strategy.r for q in strategy.q[:-1])",
        "tuple(least + q - strategy.r + (i > 0) for i, q in enumerate(strategy.q[:-1]))",
        "tests/scaling/test_classify_agreement.py",
    ),
    of_classify(
        "classify: readout that all features move along",
        "max(1 - max(self.A - self.U, Fraction(0)), _HALF)",
        "Fraction(1)",
        "tests/scaling/test_classify_agreement.py",
    ),
    of_classify(
        "classify: initial outputs as a sum in phase",
        "return _HALF - self.A",
        "return 1 - self.A",
        "tests/scaling/test_classify_agreement.py",
    ),
    of_shallow("shallow: second line", "2 * q + tilde + 1, s + _HALF", "q + tilde + 1, s + _HALF"),
    of_shallow(
        "shallow: band open below",
        "if not -_HALF <= s <= 0:\n        side",
        "if not -_HALF < s <= 0:\n        side",
    ),
    of_shallow(
        "shallow: output's rate without its start", "r - q_a + p, r - q_w", "r - q_a, r - q_w"
    ),
    of_shallow(
        "shallow: rate of hatted weights counted once",
        "a = [-x - rate * _HALF for",
        "a = [-x - rate for",
    ),
    of_bookkeeping(
        "shallow powers: kernels with the other layer's weights",
        "2 * q + 1 + rate_a + 2 * w, 2 * q + 1 + rate_w + 2 * a",
        "2 * q + 1 + rate_a + 2 * a, 2 * q + 1 + rate_w + 2 * w",
    ),
    of_bookkeeping(
        "shallow powers: first order only",
        "max(kernel_a, kernel_w, q + 1 + change_a + change_w)",
        "max(kernel_a, kernel_w)",
    ),
    of_bookkeeping(
        "shallow powers: outputs sum in phase at the start", "q + Fraction(1, 2), (q,", "q + 1, (q,"
    ),
    of_general(
        "tensors: scalar gain by the printed rule",
        "return Fraction(0), Fraction(0)",
        "return Fraction(-1), _HALF",
    ),
    of_general(
        "tensors: vectors as matrices",
        "return growing * _HALF - 1, _HALF",
        "return Fraction(0), _HALF",
    ),
)
