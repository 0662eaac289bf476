"""Breaks of nearly-kernel methods, of training at finite width network by network, and of cavities."""

from breaks import row

NEARLY = "tests/training/test_nearly_kernel.py"
DYNAMICS = "tests/training/test_dynamics.py"
REAL = "tests/training/test_dynamics_of_networks.py"
ENDS = "tests/training/test_trained_functional.py"
CAVITY = "tests/training/test_cavity.py"
DYN, NEAR, CAV = "training/dynamics/", "training/nearly_kernel/", "training/cavity/"

of_quadratic = row(f"{NEAR}_quadratic.py", NEARLY)
of_regression = row(f"{NEAR}_regression.py", NEARLY)
of_ways = row(f"{NEAR}_ways.py", NEARLY)
of_prediction = row(f"{NEAR}_prediction.py", NEARLY)
of_polynomials = row(f"{NEAR}_polynomials.py", NEARLY)
of_cubic = row(f"{NEAR}_random_features.py", REAL)
of_evolution = row(f"{DYN}_evolution.py", (DYNAMICS, ENDS))
of_free = row(f"{DYN}_free.py", DYNAMICS)
of_interacting = row(f"{DYN}_interacting.py", DYNAMICS)
of_newton = row(f"{DYN}_newton.py", DYNAMICS)
of_trained = row(f"{DYN}_trained.py", ENDS)
of_state = row(f"{DYN}networks/_state.py", REAL)
of_updates = row("training/kernels/_steps.py", REAL)
of_series = row(f"{CAV}_series.py", CAVITY)
of_rest = row(f"{CAV}_rest.py", CAVITY)
of_average = row(f"{CAV}_average.py", CAVITY)
of_correction = row(f"{CAV}_correction.py", CAVITY)

MUTANTS = (
    of_quadratic("quadratic: meta features twice", "self.epsilon / 2 * psi", "self.epsilon * psi"),
    of_quadratic("effective features: half", "+ self.epsilon * bent", "+ self.epsilon / 2 * bent"),
    of_quadratic("meta kernel: legs swapped", '"ajk,bj,ck->abc"', '"ajk,bj,ck->bac"'),
    of_regression(
        "regression: correction twice", "-model.epsilon / 2 * (inverse", "-model.epsilon * (inverse"
    ),
    of_regression(
        "ridge: what is missed left out",
        'np.einsum("aij,ai->ij", bent, dual @ targets)',
        '0 * np.einsum("aij,ai->ij", bent, dual @ targets)',
    ),
    of_ways("trained kernel: as footnote 25 says", "_share_of_A = 0.5", "_share_of_A = 0.0"),
    of_ways("least norm: as the trained kernel", "_share_of_A = 1.0", "_share_of_A = 0.5"),
    of_ways("descent: legs of Z_A swapped", "return found.A, found.B", "return found.A.T, found.B"),
    of_ways("descent: at another rate", "converged(h, self.rate)", "converged(h, 0.0)"),
    of_prediction(
        "nearly kernel: meta kernel's first sample",
        "meta_kernel[:count, :, :count].transpose(1, 0, 2)",
        "meta_kernel[:, :count, :count]",
    ),
    of_prediction(
        "trained kernel: one of two",
        "(bent + bent.transpose(0, 2, 1)) / 2",
        "bent.transpose(0, 2, 1)",
    ),
    of_polynomials("turns: of the polynomial itself", "(np.diff(signs))", "(signs)"),
    of_cubic("cubic model: third order by a half", "third @ theta / 6", "third @ theta / 2"),
    of_cubic("cubic model: dd_II legs swapped", '"ikm,m,jlm->ijkl"', '"ikm,m,jlm->ijlk"'),
    of_evolution("outputs: dNTK twice", "pair[:, :count] @ x / 2", "pair[:, :count] @ x"),
    of_evolution("NTK: second ddNTK once", "/ 2 + twice", "/ 2 + twice / 2"),
    of_evolution(
        "dNTK: second ddNTK untwisted",
        "second + np.swapaxes(second, 1, 2)",
        "2 * second",
    ),
    of_free(
        "free: sums to t",
        "series = self.rate * (1 - gone)",
        "series = self.rate * (1 - gone * each)",
    ),
    of_free("free: a with the other sign", "((1 - self._left(t)) /", "((1 + self._left(t)) /"),
    of_interacting(
        "interaction: leg of the second ddNTK",
        '_sum("ikjl,kl->ij", two[:, A], spent)',
        '_sum("iljk,kl->ij", two[:, A], spent)',
    ),
    of_interacting(
        "interaction: b forgotten",
        "(a, free.modes.inverse @ free.error) - b @ free.modes.inverse",
        "(a, free.modes.inverse @ free.error)",
    ),
    of_interacting("force: sign of the NTK", "force = -interaction", "force = interaction"),
    of_interacting(
        "force: dNTK at the start", "dynamical_dntk(free, t)[:, A, A]", "free.state.dntk[:, A, A]"
    ),
    of_newton(
        "two steps: printed sign of the line linear in the NTK",
        "later = shift @ v - shift",
        "later = -shift @ v - shift",
    ),
    of_newton(
        "two steps: printed sign of the quadratic line",
        "shift @ v - shift @ inverse",
        "shift @ v + shift @ inverse",
    ),
    of_newton(
        "leap: sign of the first ddNTK",
        "@ v @ v / 2 - state.dd_first[:, A, A, A] @ v @ v @ v / 6\n    return",
        "@ v @ v / 2 + state.dd_first[:, A, A, A] @ v @ v @ v / 6\n    return",
    ),
    of_newton("series: signs do not alternate", "step = -inverse", "step = inverse"),
    of_newton(
        "tuned: dNTK twice",
        "@ v / 2 - state.dd_first[A, A, A, A]",
        "@ v - state.dd_first[A, A, A, A]",
    ),
    of_trained("ends: leg of Z_A", '"adb,ab->d"', '"bda,ab->d"'),
    of_trained("ends: leg of Z_IIA", '"abdc,abc->d"', '"badc,abc->d"'),
    of_trained("ends: not pulled back", "carried @ (error + F[A]) + F", "carried @ error + F"),
    of_trained(
        "ends: trained NTK's sign", "- np.multiply.outer(F, v)", "+ np.multiply.outer(F, v)"
    ),
    of_state(
        "state: outputs before samples", "for axis in (k, rank + k)]", "for axis in (rank + k, k)]"
    ),
    of_state(
        "features: biases at rates of weights",
        "np.concatenate([*of_weights, *of_biases])",
        "np.concatenate([*of_biases, *of_weights])",
    ),
    of_updates(
        "two steps: second with the first one's NTK",
        "return first, giant_leap(net, first, x, targets, ntk=ntk)",
        "return first, giant_leap(net, first, x, targets)",
    ),
    of_series(
        "series: product without mixed terms", "if (p or q) and left", "if (p and q) and left"
    ),
    of_series("series: Taylor without factorials", "size /= k", "size /= 1"),
    of_rest(
        "cavity: last weights do not learn",
        "a = -self.rest.lambda_W *",
        "a = -0 * self.rest.lambda_W *",
    ),
    of_rest(
        "cavity: preactivations do not learn", "z = -sums[1 + 2 * n]", "z = -0 * sums[1 + 2 * n]"
    ),
    of_rest("cavity: momentum forgotten", "course.momentum * v + rate", "v * 0 + rate"),
    of_rest("cavity: flow by first order", "(a + 2 * b + 2 * c + d) / 6", "a"),
    of_average(
        "cavity: two neurons twice", "weight * weight_1 / 2 * _mean", "weight * weight_1 * _mean"
    ),
    of_average(
        "cavity: two neurons twice in squares",
        "weight * weight_1 / 2 * _square",
        "weight * weight_1 * _square",
    ),
    of_average(
        "cavity: variance of last weights",
        "size, first, second, count = np.sqrt(C_W)",
        "size, first, second, count = C_W",
    ),
    of_average("cavity: weight of the pairs of points", "(1 / 18, r", "(1 / 9, r"),
    of_correction(
        "cavity: covariance keeps a product of means",
        "second_nlo - cross - cross.transpose(0, 3, 4, 1, 2)",
        "second_nlo - cross",
    ),
    of_correction(
        "cavity: every step at the first rate", "motion.rate(step) for", "motion.rates[0] for"
    ),
)
