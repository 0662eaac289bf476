"""Breaks of plans as other people's trainers are given them: patterns, settings, decays, joined optimizers."""

from breaks import row

HERE = "tests/torch/test_exporters.py"
TRAINERS = "tests/torch/test_trainers.py"
ADAM = f"{HERE}::test_torchtitan_and_megatron_train_by_adam_as_planned"
MUON = f"{HERE}::test_muon_beside_adam_as_planned"
MODDED = f"{HERE}::test_modded_nanogpt_trains_as_planned"
PATTERNS = f"{HERE}::test_patterns_fit_their_own_tensors_and_no_others"
SAID = f"{HERE}::test_what_cannot_be_carried_is_said_or_refused"

patterns = row("plan/_exported.py", PATTERNS)
exporters = row("torch/_exporters.py", ADAM)
nano = row("torch/_nano.py", MODDED)
IN_JAX = "tests/jax/test_exported.py"
MATRICES = f"{IN_JAX}::test_muon_of_optax_takes_what_the_plan_gives_it"
in_jax = row("jax/_exported.py", f"{IN_JAX}::test_partition_trains_as_the_wrapped_optimiser")
joined = row("torch/_joined.py", f"{TRAINERS}::test_muon_and_adamw_as_one_optimizer")

MUTANTS = (
    patterns(
        "exported patterns: all blocks for some",
        "        several = whole[kind] and kind != n\n",
        "        several = kind != n\n",
    ),
    patterns(
        "exported patterns: not behind wrappers of blocks",
        'r"\\." + _WRAPPED if out.endswith(_NUMBER)',
        'r"\\." if out.endswith(_NUMBER)',
    ),
    patterns(
        "exported patterns: not to the end of a name",
        'return f"^{_WRAPPED}{body}$"',
        'return f"{_WRAPPED}{body[:-2]}"',
    ),
    patterns(
        "exported patterns: one name of what is tied",
        "for n in (plan[name].name, *plan[name].aliases)]",
        "for n in (plan[name].name,)]",
        SAID,
    ),
    patterns(
        "exported patterns: without Megatron's prefixes",
        '_IN_MEGATRON = ("", "module.", "module.module.")',
        '_IN_MEGATRON = ("",)',
    ),
    exporters(
        "megatron: a least rate that is not scaled",
        '"min_lr": least[name] * g["lr_factor"]}',
        '"min_lr": least[name]}',
    ),
    exporters(
        "megatron: the trainer's own weight decay",
        '{"start_wd": decay, "end_wd": decay, "wd_mult": 1.0}',
        '{"wd_mult": 1.0}',
    ),
    exporters(
        "megatron: whoever Megatron chooses",
        "        if ours is not theirs:\n",
        "        if False:\n",
        MUON,
    ),
    exporters(
        "torchtitan: several groups for DistMuon",
        "    if len(groups) > 1:\n",
        "    if len(groups) > 2:\n",
        SAID,
    ),
    nano(
        "nanochat: the decay of another library",
        'decay = g["weight_decay"] / own',
        'decay = g["weight_decay"]',
        f"{HERE}::test_nanochat_counts_the_factor_in_its_decay",
    ),
    nano(
        "modded-nanogpt: the decay of AdamW",
        "also = plan.table.adjusted(t) if muon else f.lr",
        "also = plan.table.adjusted(t) if muon else 1.0",
    ),
    in_jax(
        "jax partition: a weight decay that is not scaled",
        '("weight_decay", g.weight_decay))',
        '("weight_decay", given.get("weight_decay")))',
    ),
    in_jax(
        "jax partition: settings of the other optimiser",
        "own |= dict.fromkeys(seconds, rest)",
        "own |= dict.fromkeys(seconds, settings)",
        MATRICES,
    ),
    in_jax(
        "jax dimensions of Muon: every array",
        '.optimizer == "muon"\n        return',
        ".optimizer\n        return",
        MATRICES,
    ),
    joined(
        "joined optimizers: loaded for one alone",
        "        # Loading has put new groups and a new state in place of those that were shared.\n"
        "        self._share()\n",
        "",
    ),
    joined(
        "joined optimizers: a state for each",
        "            part.state = self.state\n",
        "",
    ),
)
