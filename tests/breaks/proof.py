"""Breaks of constants, and of the proof that an optimum stays."""

from breaks import row

CONSTANTS, PROOF = "tests/plan/test_constants.py", "tests/plan/test_proof.py"
TORCH = "tests/torch/test_proof.py"
STANDING, QUALITY = "tests/plan/test_standing.py", "tests/plan/test_quality.py"
of_constants = row("plan/_constants.py", CONSTANTS)
of_table = row("plan/_table.py", CONSTANTS)
of_base = row("plan/_base.py", CONSTANTS)
of_optimum = row("plan/proof/_optimum.py", PROOF)
of_drift = row("plan/proof/_drift.py", PROOF)
of_verdict = row("plan/proof/_verdict.py", PROOF)
of_search = row("plan/proof/_search.py", PROOF)
of_tune = row("plan/proof/_tune.py", PROOF)
of_bench = row("plan/proof/_training.py", PROOF)
of_fresh = row("plan/proof/_fresh.py", STANDING)
of_standing = row("plan/proof/_standing.py", STANDING)
of_baseline = row("plan/proof/_baseline.py", STANDING)
of_quality = row("plan/proof/_quality.py", QUALITY)
of_transfer = row(
    "plan/proof/_transfer.py", f"{TORCH}::test_a_grid_that_is_killed_goes_on_in_another_process"
)

MUTANTS = (
    of_constants(
        "constants: the last key alone", "now[s] * factors.get(s, 1.0)", "factors.get(s, now[s])"
    ),
    of_constants(
        "constants: added, not multiplied",
        "mine.get(setting, 1.0) * factor",
        "mine.get(setting, 1.0) + factor",
    ),
    of_constants("constants: biases too", "if t.kind is not Kind.BIAS]", "]"),
    of_table(
        "constants: of the rate on the decay",
        "p.weight_decay * c.weight_decay",
        "p.weight_decay * c.lr",
    ),
    of_table(
        "constants: only away from the base",
        "self.base != self.target or tensor.constants.std != 1",
        "self.base != self.target",
    ),
    of_table("unit: the fan-in without its root", "* math.sqrt(self.terms)", "* self.terms"),
    of_base(
        "base: constants not seen in the warning",
        "0 < t.unit * (1 + ERRORS",
        "0 < t.unit / t.constants.std * (1 + ERRORS",
    ),
    row("plan/_spread.py", f"{TORCH}::test_constants_are_drawn_at_the_base_and_carried")(
        "constants: lost in the noise of a sample",
        "0.0 if tuned else math.hypot",
        "math.hypot",
    ),
    of_optimum(
        "optimum: vertex of the wrong sign",
        "middle - slope / (2 * bend)",
        "middle + slope / (2 * bend)",
    ),
    of_optimum("optimum: jackknife without its factor", "np.sqrt((m - 1) / m *", "np.sqrt(1 / m *"),
    of_optimum(
        "optimum: a run that diverged left out of its mean",
        "good = np.isfinite(losses).all(axis=1)",
        "good = np.isfinite(losses).any(axis=1)",
    ),
    of_optimum(
        "optimum: a run that diverged taken for one that lost nothing",
        "window, guessed = _among(np.isfinite(mean), near, k)",
        "window, guessed = near",
    ),
    of_optimum(
        "optimum: carried to where runs diverge for nothing",
        'return float("inf"), nan',
        "return 0.0, nan",
        QUALITY,
    ),
    of_optimum(
        "optimum: an edge taken for a minimum", '"left" if k == 0 else', '"" if k == 0 else'
    ),
    of_optimum(
        "optimum: what is lost counted from the lowest value",
        "_value(x, m, window, best))",
        "m.min())",
    ),
    of_drift(
        "drift: natural logarithms",
        "u = np.log2(np.asarray(sizes, float))",
        "u = np.log(np.asarray(sizes, float))",
    ),
    of_drift(
        "drift: errors of seeds without the widths", "math.sqrt(float(weights @ weights))", "1.0"
    ),
    of_drift("drift: scatter about the line forgotten", "max(by_seeds, about)", "by_seeds"),
    of_verdict(
        "verdict: errors forgotten",
        "abs(d.slope) - d.error > tolerance",
        "abs(d.slope) > tolerance",
    ),
    of_verdict(
        "verdict: whatever is not seen to move stays",
        "abs(d.slope) + d.error > tolerance",
        "abs(d.slope) > tolerance",
    ),
    of_verdict(
        "verdict: seeds without their square",
        "seeds * (2 * d.sem / gap) ** 2",
        "seeds * (2 * d.sem / gap)",
    ),
    of_verdict(
        "verdict: left and right exchanged",
        'f"below 2^{x[0]:g}", "left"',
        'f"below 2^{x[0]:g}", "right"',
    ),
    of_search("search: the worst is kept", "k = int(means.argmin())", "k = int(means.argmax())"),
    of_search(
        "search: beyond the budget",
        "self.spent + len(values) * len(self.seeds) > self._budget",
        "0 > self._budget",
    ),
    of_search("search: ever larger weights", "b <= max(a, LARGEST)", "True"),
    of_tune(
        "search: luck is kept",
        "fresh is None or fresh.beyond",
        "True",
        STANDING,
    ),
    of_tune(
        "search: the luck of its own seeds",
        "search.train_on(candidates, seeds, search.plan",
        "search.train_on(candidates, search.seeds, search.plan",
        PROOF,
    ),
    of_tune(
        "search: the theory with other settings",
        "search.train_on([dict(settings)]",
        "search.train_on([dict(start)]",
        STANDING,
    ),
    of_fresh(
        "fresh: a gain beyond one error is enough", "sure(sem, len(self.seeds) - 1, LEVEL)", "sem"
    ),
    of_fresh("fresh: beyond the budget", "if budget - many * candidates < 3", "if budget < 3"),
    of_standing("standing: errors forgotten", "abs(share - SMALL) <= self._error(sem)", "False"),
    of_standing(
        "standing: whatever is below its baseline has learnt", "SMALL = 0.03", "SMALL = 0.0"
    ),
    of_standing(
        "standing: the theory named wherever it is lower",
        "less - self._error(sem) > FURTHER * whole",
        "less > 0",
    ),
    of_standing(
        "standing: progress of a plateau for a beginning",
        "max(self._error(sem), _BEGUN * learnt)",
        "0",
    ),
    of_baseline(
        "baseline: a table held against what it was counted on",
        "known, asked in",
        "known, known in",
    ),
    of_baseline("baseline: base 2", "-(p * np.log(p))", "-(p * np.log2(p))"),
    of_quality("quality: robustness of the wrong sign", "kappa = -float(", "kappa = float("),
    of_quality("quality: a line through three has no error", "/ (len(u) - 2))", "/ len(u))"),
    of_quality(
        "quality: the best power alone is believed",
        "quantile**2 * noise + _tiny(losses)\n    ends",
        "_tiny(losses)\n    ends",
    ),
    of_quality(
        "quality: what seeds share forgotten and what they do not",
        "noise * (weights @ weights - 1 / m) + shared",
        "noise * 0",
    ),
    of_quality("quality: losses that no power fits", "(m - _SIZES) * _largest", "1e9 * _largest"),
    row("plan/proof/_verdict.py", STANDING)(
        "verdict: carried from a base that has not learnt",
        "standing is not None and standing.learnt is False",
        "False",
    ),
    of_bench(
        "bench: half of a curve for its beginning",
        "curve[n // 2 - size : (n + 1) // 2]",
        "curve[:size]",
    ),
    of_search(
        "search: gains of means",
        "return mean_of(before - after)",
        "return mean_of(before - after.mean())",
    ),
    of_bench("bench: the last loss of a curve alone", "len(curve) // _TAIL)", "0)"),
    row("torch/_probe.py", "tests/torch/test_refusals.py::test_no_generator_is_disturbed")(
        "probe: plans that read other draws in every process",
        "        torch.default_generator.manual_seed(0)\n",
        "",
    ),
    row("plan/proof/_transfer.py", "tests/torch/test_proof.py::test_heads_go_along_with_the_width")(
        "check_transfer: heads of the target at every width",
        "{**size.at, **heads_of(plan.table, size.at)}",
        "size.at",
    ),
)
