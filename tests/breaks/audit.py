"""Breaks of what `audit` fits, names and extrapolates."""

from breaks import row

REAL = "tests/torch/test_audit.py"
WRONG, NAMED = (
    f"{REAL}::test_one_wrong_tensor_is_named",
    f"{REAL}::test_every_parametrisation_is_named",
)
IN_JAX = "tests/jax/test_audit.py::test_the_same_script_in_torch"
POWERS = f"{REAL}::test_exponents_are_those_of_the_script"
WIDTH = f"{REAL}::test_the_width_at_which_it_blows_up"

of_limits = row("plan/audit/_limits.py", WRONG)
of_powers = row("plan/audit/_powers.py", POWERS)
of_breaks = row("plan/audit/_breaks.py", WIDTH)
of_script = row("torch/_audit.py", POWERS)
of_records = row(
    "cli/_records.py", "tests/test_cli_models.py::test_what_was_not_measured_is_not_ok"
)

MUTANTS = (
    of_records(
        "records: a plan that saw no forward pass is ok",
        "OK if plan.looked else NOT_MEASURED",
        "OK",
    ),
    of_records(
        "records: a check that did not see is a finding",
        "OK if check.ok else NOT_MEASURED if unseen else FINDING",
        "OK if check.ok else FINDING",
    ),
    of_limits(
        "audit bottleneck: what is passed on left out",
        "        out.append(Limit(name, Bound.PASSED, passed))\n",
        "",
    ),
    of_limits(
        "audit wastes: an outlier taken for the measure",
        "if t.own_change.slope <= usual[t.role] + APART]",
        "]",
    ),
    of_limits(
        "audit wastes: a readout that is slow forgotten",
        "    out += [(t.name, lack(t, best)) for t in read if t.own_change.status is Status.FITTED]\n",
        "",
    ),
    of_limits(
        "audit wastes: the factor from the power",
        "widening**power",
        "widening*power",
        POWERS,
    ),
    of_limits(
        "audit fall: every power taken for one",
        "return 0.0 if abs(top.slope) <= APART + top.error else top.slope",
        "return top.slope",
        POWERS,
    ),
    of_powers(
        "audit own change: not beside the size of the output",
        "not np.all(size > 0) else change / size",
        "not np.all(size > 0) else change",
        f"{REAL}::test_a_matrix_drawn_too_large_is_named",
    ),
    of_breaks(
        "audit width: the factor of the rates forgotten",
        "last / measured.lr)",
        "last)",
    ),
    of_breaks(
        "audit width: the wrong way",
        "doublings = -math.log2(last)",
        "doublings = math.log2(last)",
    ),
    row(
        "torch/_measure.py",
        f"{REAL}::test_what_is_not_trained_is_told_and_small_gradients_meet_epsilon",
    )(
        "audit passed on: with the present readout",
        "output({places.local(t): self._old[t] for t in mine})",
        "output({})",
    ),
    of_script(
        "audit script: rates as they are",
        'group["lr"] = rate * factor',
        'group["lr"] = rate * 1e-4',
        WIDTH,
    ),
    of_script(
        "audit script: no rate remembered",
        "        rates |= dict.fromkeys(mine, float(rate))\n",
        "        rates |= dict.fromkeys(mine, 1.0)\n",
        f"{REAL}::test_refusals",
    ),
    row("jax/_audit.py", IN_JAX)(
        "jax audit: weight decay counted as a step",
        "jax.tree.map(jnp.subtract, moved, decay), state", "moved, state",
    ),
    row("jax/_audit.py", IN_JAX)(
        "jax audit: epsilon of a step that is twice as small",
        "(float(most) / small - 1)", "float(most) / small / 2",
    ),
    row("jax/_watched.py", IN_JAX)(
        "jax audit: what is passed on with the readout's own change",
        '_wide(found["value"]) - sum(map(_wide, found["own"].values()))', '_wide(found["value"])',
    ),
)  # fmt: skip
