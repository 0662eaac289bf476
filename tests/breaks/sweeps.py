"""Breaks of sweeps, and of the Datasets that all results are."""

from breaks import row

SWEEP = "tests/sweeps/test_sweep.py"
of_store = row("sweeps/_store.py", SWEEP)
of_chain = row("sweeps/_store.py", "tests/limits/test_word2vec.py")
of_sweep = row("sweeps/_sweep.py", SWEEP)
of_grid = row("sweeps/_grid.py", SWEEP)
of_gathered = row("sweeps/_gathered.py", SWEEP)
of_fingerprint = row("sweeps/_fingerprint.py", SWEEP)
of_pooled = row("nets/_pooled.py", SWEEP)
of_suspects = row(
    "sweeps/_engines.py",
    "tests/sweeps/test_clusters.py::test_of_cells_that_died_together_each_is_tried_alone",
)

of_labels = row("_labelled.py", "tests/test_labelled.py")

MUTANTS = (
    of_labels(
        "names: dask is woken by a variable",
        "xr.Variable(dims, np.asarray(values), attrs, fastpath=True)",
        "xr.Variable(dims, np.asarray(values), attrs)",
    ),
    of_labels(
        "names: dask is woken by labels",
        "xr.IndexVariable(name, array.view(_Labels), *attrs, fastpath=True)",
        "xr.IndexVariable(name, array, *attrs, fastpath=True)",
    ),
    of_labels(
        "names: attributes forgotten",
        "return variable(dims, array, *attrs)",
        "return variable(dims, array)",
    ),
    of_chain(
        "chain: a finished step done again",
        "_DONE: np.array(index + 1)",
        "_DONE: np.array(index)",
    ),
    of_store(
        "store: other arguments taken for the same",
        "        if not differing:\n",
        "        if True:\n",
    ),
    of_store(
        "claim: whoever writes is not seen",
        "    if _alive(claim):",
        "    if False:",
    ),
    of_sweep("sweep: finished cells again", "known.missing(failed=not retry)", "np.arange(axes.size)"),
    of_sweep(
        "sweep: errors tried again unasked",
        "known.missing(failed=not retry)",
        "known.missing(failed=False)",
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
    of_suspects("cluster: suspects together", "iter(suspects), 1, client", "iter(suspects), ahead, client"),
)  # fmt: skip
