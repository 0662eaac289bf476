"""Breaks of linear limits, of meta-learning, and of Word2Vec."""

from breaks import row

LINEAR = "tests/limits/test_linear.py"
DEEP = "tests/limits/test_linear_deep.py"
MAML = "tests/limits/test_maml.py"
BIAS = "tests/limits/test_maml_stability.py"
KERNEL = "tests/limits/test_maml_kernel.py"
TASKS = "tests/limits/test_maml_tasks.py"
WORDS = "tests/limits/test_word2vec.py"

of_linear = row("limits/linear.py", LINEAR)
of_deep = row("limits/methods/_coefficients.py", DEEP)
of_maml = row("limits/maml/_gram.py", MAML)
of_bias = row("limits/maml/_stability.py", BIAS)
of_kernel = row("limits/maml/_kernels.py", KERNEL)
of_words = row("limits/words/_word2vec.py", WORDS)
of_word_runs = row("limits/words/_training.py", WORDS)
of_analogies = row("limits/words/_analogies.py", WORDS)
of_tasks = row("experiments/_readers.py", TASKS)

MUTANTS = (
    of_linear(
        "linear limit: bias multiplier once",
        '"b": keep * net.b + rate * net.alpha * dbeta',
        '"b": keep * net.b + rate * dbeta',
    ),
    of_linear(
        "linear limit: bias left out of the norm",
        "for part in (du, dv, dbeta)",
        "for part in (du, dv)",
    ),
    of_linear(
        "linear limit: decay without the rate",
        "keep = 1 - sgd.eta * sgd.weight_decay",
        "keep = 1 - sgd.weight_decay",
    ),
    of_linear(
        "linear limit: readout decays not",
        '"v": keep * net.v + rate * dv',
        '"v": net.v + rate * dv',
    ),
    of_linear(
        "linear limit: drawn narrower than told",
        "/ math.sqrt(width)",
        "/ math.sqrt(width + 40)",
    ),
    of_deep(
        "deep linear: known part of an image dropped",
        "A[seen] = (B[:seen_back] @ E[seen]) @ F[:seen_back]",
        "A[seen] = 0 * A[seen]",
    ),
    of_deep(
        "deep linear: fresh part without its deviation",
        "A[seen, target.used] += sigma",
        "A[seen, target.used] += 1",
    ),
    of_deep(
        "deep linear: update not seen forward",
        "(C @ self.R[: self.seen_F, : self.seen_E].T) @ F",
        "0 * (C @ self.R[: self.seen_F, : self.seen_E].T) @ F",
    ),
    of_deep(
        "deep linear: update not seen backward",
        "(C @ self.R[: self.seen_F, : self.seen_E]) @ E",
        "0 * (C @ self.R[: self.seen_F, : self.seen_E]) @ E",
    ),
    of_deep(
        "deep linear: backward by the new readout",
        "back = self.V.copy()\n        self.V -= eta * at.upsilon * rates[-1] * S @ self.h[-1]",
        "self.V -= eta * at.upsilon * rates[-1] * S @ self.h[-1]\n        back = self.V.copy()",
    ),
    of_maml(
        "maml: adaptation without its square, forward",
        "+ eps**2 * Kchi @ MG\n    cross",
        "\n    cross",
    ),
    of_maml(
        "maml: C of a task stays",
        "new_Q = Q - eps * cross + eps**2 * Kchi @ A @ (chi_T @ K_s)",
        "new_Q = Q",
    ),
    of_maml("maml: A of a task stays", "+ eps**2 * chi_T @ Q_s @ chi", ""),
    of_maml("maml: outer gradient at the weights before", "a = b * eps", "a = 0 * b * eps"),
    of_maml(
        "maml: second order without the slope of chi",
        "- eps * through_softmax(slope, chi, tasks.support_class)",
        "",
    ),
    of_maml("maml: second order without its square", "g = eps**2 * chi @ N", "g = 0 * chi @ N"),
    of_maml("maml: norm without the readout", "float(dP + dv)", "float(dP)"),
    of_maml("maml: norm without S", "+ eps**2 * np.vdot(Z, R @ R.T)", ""),
    of_maml(
        "maml: C without its square in S",
        "wide = keep * a * W + R.T @ (0.5 * a**2 * Z)",
        "wide = keep * a * W",
    ),
    of_maml(
        "maml: a network descends at the weights before, inner",
        "dP = net.v.T @ gradient.Gamma - (eps * (P @ gradient.L.T)) @ gradient.R",
        "dP = net.v.T @ gradient.Gamma",
    ),
    of_maml(
        "maml: a network descends at the weights before, outer",
        "dv = gradient.Gamma @ P.T - eps * gradient.N @ net.v",
        "dv = gradient.Gamma @ P.T",
    ),
    of_maml(
        "maml: a network's norm without the readout",
        "float(np.vdot(dP, dP) + np.vdot(dv, dv))",
        "float(np.vdot(dP, dP))",
    ),
    of_maml(
        "maml: a network's bias without its multiplier",
        "net.alpha * P[:, -1], net.alpha)",
        "P[:, -1], net.alpha)",
    ),
    of_maml(
        "maml: products that no network has taken as they are",
        "if square < -_ROUNDING * size:",
        "if square < -1e300 * size:",
    ),
    of_bias(
        "maml bias: without the readout",
        "np.vdot(x_s @ net.C, x_q) + A_zz",
        "np.vdot(x_s @ net.C, x_q) + 0 * A_zz",
    ),
    of_bias("maml bias: without the features", "(np.vdot(x_s @ net.C, x_q) + ", "("),
    of_bias("maml bias: not over the classes", "inner_rate / k * (", "inner_rate * ("),
    of_bias(
        "maml bias: common shifts counted",
        "np.linalg.eigvalsh(Z.T @ net.A @ Z)",
        "np.linalg.eigvalsh(net.A)[1:]",
    ),
    of_bias(
        "maml bias: supports on both sides",
        "for x in (tasks.support, tasks.query)",
        "for x in (tasks.support, tasks.support)",
    ),
    of_kernel(
        "kernel maml: pushed with the wrong sign",
        "model.extended(x, -rate * chi)",
        "model.extended(x, rate * chi)",
    ),
    of_kernel(
        "kernel maml: norm without the kernel",
        "np.vdot(chi @ chi.T, model.kernel(x, x))",
        "np.vdot(chi, chi)",
    ),
    of_kernel(
        "kernel maml: biases of the tangent kernel untrained", "(dot + 1) * beyond", "dot * beyond"
    ),
    of_kernel(
        "kernel maml: bias variance outside the angle",
        "q = sigma_u**2 * dot + sigma_b**2",
        "q = sigma_u**2 * dot",
    ),
    of_kernel(
        "kernel maml: stored rows shared by two models",
        "if count != self.used or count",
        "if count",
    ),
    of_words("word2vec: cases swapped", "c_own = _sigmoid(-np", "c_own = -_sigmoid(np"),
    of_words(
        "word2vec: a word its own negative",
        "_sigmoid(h @ others.T) * apart",
        "_sigmoid(h @ others.T)",
    ),
    of_words(
        "word2vec: sum of a context",
        "np.repeat(1 / sizes, sizes)",
        "np.repeat(np.ones_like(sizes), sizes)",
    ),
    of_words(
        "word2vec: decay once for all touches",
        "keep = (1 - eta * gamma) ** counts",
        "keep = (1 - eta * gamma) ** np.minimum(counts, 1)",
    ),
    of_words(
        "word2vec: own target left out of the change of a context",
        "dh += c_own[:, None] * own",
        "dh += 0 * c_own[:, None] * own",
    ),
    of_analogies(
        "word2vec: the three words may answer",
        "np.put_along_axis(score, questions, -np.inf, axis=1)",
        "pass",
    ),
    of_analogies(
        "word2vec: analogy backwards", "score = G[b] - G[a] + G[c]", "score = G[a] - G[b] + G[c]"
    ),
    of_word_runs(
        "word2vec: the same draws in every block",
        "SeedSequence([settings.seed, index])",
        "SeedSequence([0, index])",
    ),
    of_tasks(
        "tasks: support and query share drawings", "images[:, :, shots:]", "images[:, :, :shots]"
    ),
    of_tasks(
        "tasks: rotations left out",
        "np.rot90(images[part], turn, axes=(2, 3))",
        "np.rot90(images[part], 0, axes=(2, 3))",
    ),
    of_tasks("tasks: tokens of unknown words kept", "tokens[tokens >= 0]", "np.abs(tokens)"),
)
