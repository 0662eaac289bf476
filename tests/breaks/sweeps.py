"""Breaks of sweeps: what is finished, what is the same, what is whose."""

from breaks import row

SWEEP = "tests/sweeps/test_sweep.py"
of_store = row("sweeps/_store.py", SWEEP)
of_chain = row("sweeps/_chain.py", "tests/limits/test_word2vec.py")
of_sweep = row("sweeps/_sweep.py", SWEEP)
of_grid = row("sweeps/_grid.py", SWEEP)
of_gathered = row("sweeps/_gathered.py", SWEEP)
of_fingerprint = row("sweeps/_fingerprint.py", SWEEP)
of_pooled = row("nets/_pooled.py", SWEEP)

MUTANTS = (
    of_chain(
        "chain: a finished step done again",
        "record.save(name, index + 1, state)",
        "record.save(name, index, state)",
    ),
    of_store(
        "store: other arguments taken for the same",
        "        if differing:\n",
        "        if differing and not differing:\n",
    ),
    of_store(
        "store: whoever writes is not seen",
        "return claim if fresh else None",
        "return None",
    ),
    of_sweep("sweep: finished cells again", "known.has(k, failed=not retry)", "False"),
    of_sweep(
        "sweep: errors tried again unasked",
        "known.has(k, failed=not retry)",
        "known.has(k, failed=False)",
    ),
    of_sweep(
        "sweep: attributes of the first cell for all",
        "if k in new and new[k] == v",
        "if k in new",
    ),
    of_grid(
        "grid: the first name runs fastest",
        "np.unravel_index(cell, self.shape))",
        'np.unravel_index(cell, self.shape, "F"))',
    ),
    of_gathered(
        "gathered: a missing cell is zero",
        "n: v.where(there) for n, v",
        "n: v for n, v",
    ),
    of_gathered(
        "gathered: coordinates of other cells taken for the same",
        "if not np.array_equal(",
        "if False and not np.array_equal(",
    ),
    of_fingerprint(
        "fingerprint: globals left out",
        "if name in function.__globals__:",
        "if name in ():",
    ),
    of_pooled("pooled: error of one part", ".sum(dim)) / size", ".sum(dim))"),
    of_pooled("pooled: networks of one part", "size * int(", "int("),
)  # fmt: skip
