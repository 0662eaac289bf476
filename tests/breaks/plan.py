"""Breaks of the rules of a plan, of how roles are decided, and of what is carried to the target."""

from breaks import row

RULES = "tests/plan/test_rules.py"
DECIDE = "tests/plan/test_decide.py"
TABLE = "tests/plan/test_table.py"

LAWS = "tests/plan/test_laws.py"
STRANGERS = "tests/torch/test_strangers.py"
of_rules = row("plan/_rules.py", RULES)
of_laws = row("plan/_laws.py", LAWS)
of_decide = row("plan/_decide.py", DECIDE)
of_make = row("plan/_make.py", DECIDE)
of_products = row("plan/_products.py", DECIDE)
HEADS = "tests/torch/test_heads.py"
PRODUCTS = "tests/torch/test_products.py"
LATENT = "tests/torch/test_latent.py::test_what_a_norm_divides_starts_as_a_hidden_matrix"
DISTANCES = "tests/jax/test_distances.py"
of_planner = row("plan/_planner.py", DECIDE)
BARE = "tests/jax/test_bare_arrays.py"
SPHERE = "tests/jax/test_normalised_weights.py"
of_ambiguous = row("plan/_ambiguous.py", DECIDE)
USES = "tests/torch/test_uses.py"
TIES = "tests/torch/test_ties.py"
of_uses = row("plan/_uses.py", USES)
of_watched = row("torch/_uses.py", USES)
of_flow = row("plan/_flow.py", USES)
of_paths = row("plan/_paths.py", USES)
of_nested = row("plan/_nested.py", "tests/torch/test_outputs.py")

MUTANTS = (
    row("plan/_forward.py", STRANGERS)(
        "forward: powers that undo each other are not there",
        "if found != Gauge():",
        "if found.total:",
        f"{STRANGERS}::test_features_of_length_one_and_a_factor_that_makes_up_for_it",
    ),
    row("plan/_flow.py", STRANGERS)(
        "flow: a tensor over its norm has entries of order one",
        "return replace(weights, unit=norm.size**-root)",
        "return weights",
        f"{STRANGERS}::test_distances_of_what_has_length_one_do_not_grow",
    ),
    row("plan/_ambiguous.py", STRANGERS)(
        "ambiguous: a spare readout is asked about",
        "if len(roles) == 1}",
        "if len(roles) > 1}",
        f"{STRANGERS}::test_a_readout_that_the_pass_leaves_alone_goes_by_the_one_that_it_takes",
    ),
    row("jax/_uses.py", "tests/jax/test_both_ways.py")(
        "jax: axes of a transposed layer are not known",
        'if name == "transpose":',
        'if name == "transposed":',
    ),
    row("jax/_uses.py", BARE)(
        "jax: a sum of products entry by entry is not a matrix",
        'if eqn.primitive.name == "reduce_sum":',
        'if eqn.primitive.name == "sum":',
    ),
    row("plan/_run.py", STRANGERS)(
        "run: a spare readout is waited for",
        "if n in readouts and n not in spare)",
        "if n in readouts)",
        f"{STRANGERS}::test_a_readout_that_the_pass_leaves_alone_goes_by_the_one_that_it_takes",
    ),
    row("plan/_flow.py", "tests/jax/test_both_ways.py")(
        "flow: a matrix and its transpose are one",
        "return source if not over or known == frozenset(over) else",
        "return source if True else",
    ),
    row("jax/_probe.py", "tests/jax/test_both_ways.py")(
        "jax: a bare matrix that is used both ways is one",
        "if len(axes) == 2 and all(axes)",
        "if False",
    ),
    row("plan/_rows.py", SPHERE)(
        "rows: what a norm says the size of is planned",
        "own = plan[name].directed or plan[name].role is Role.VECTOR",
        "own = False",
    ),
    row("plan/_rows.py", SPHERE)(
        "rows: the power of a readout's gradient is that of the loss",
        "/ widths ** float(plan[n].gauge.total)",
        "/ widths ** 0.0",
    ),
    row("plan/_rows.py", SPHERE)(
        "rows: a gain behind the readout moves at order one",
        "(kind is Kind.UNKNOWN and _by_own_norms(plan))",
        "(kind is Kind.UNKNOWN and not _by_own_norms(plan))",
    ),
    row("torch/_uses.py", SPHERE)(
        "uses: rows that were picked are multiplied as a matrix",
        "if a is not None and a.picked and b is not None and not b.picked:",
        "if False:",
    ),
    row("jax/_uses.py", SPHERE)(
        "jax: a tensor over its own norm is another",
        "if len(alike) == len(seen) == 2 and seen[0][1] == seen[1][1]:",
        "if False:",
    ),
    row("torch/_trace.py", "tests/torch/test_uses.py::test_rows_of_a_bare_table_are_activations")(
        "trace: rows of a bare table are weights",
        "args[0].ndim <= 2",
        "args[0].ndim < 2",
    ),
    row("plan/_ambiguous.py", BARE)(
        "ambiguous: what ends is a readout however it is used",
        "if found and paths is not None:",
        "if False:",
    ),
    row("plan/_flow.py", BARE)(
        "flow: a distance by products is a readout",
        "if s in squares), None)) is not None:",
        "if s in squares), None)) is parts:",
    ),
    row("plan/_flow.py", BARE)(
        "flow: the place of the smallest entry feels its size",
        "return self.bent([replace(value, trails={})])\n\n    def rows",
        "return self.bent([value])\n\n    def rows",
    ),
    row("plan/_uses.py", BARE)(
        "uses: a codebook is asked about",
        'if verbs == {"added", "picked"}:',
        "if False:",
    ),
    row(
        "plan/_flow.py",
        "tests/jax/test_both_ways.py::test_the_largest_singular_value_of_a_tensor_is_not_an_activation",
    )(
        "jax: the largest entry of a tensor is an activation",
        "data=any(value.data for value in values)",
        "data=any(value.data for value in values) or kind == 'most'",
    ),
    of_rules(
        "plan rules: variance instead of standard deviation", "-p / 2) * stored", "-p) * stored"
    ),
    of_rules(
        "plan rules: fan-in of a learning rate",
        "entries = Powers(-fan_in,",
        "entries = Powers(-_HALF * fan_in,",
    ),
    of_rules(
        "plan rules: Adam at the rates of gradient descent",
        "r - q) * driving",
        "r - q)",
    ),
    of_rules("plan rules: degree forgotten", "lr = entries * driving**-h", "lr = entries", LAWS),
    of_rules("plan rules: norm forgotten", " * factor(law.norm) ** (1 - h)\n", "\n", LAWS),
    of_rules(
        "plan rules: norm at any degree", "factor(law.norm) ** (1 - h)", "factor(law.norm)", LAWS
    ),
    of_rules("plan rules: a norm without the weight", "sides * weight**norm.weight", "sides", LAWS),
    of_rules("plan rules: norms of the standard", "ENTRYWISE if plain else norm", "norm", LAWS),
    of_laws(
        "plan laws: Shampoo's degree",
        "degree = 1 - 2 * (left + right)",
        "degree = 1 - (left + right)",
    ),
    of_laws(
        "plan laws: Shampoo's epsilon",
        "Size(Fraction(2), SPECTRAL ** Fraction(2))",
        "Size(_ONE, SPECTRAL)",
    ),
    of_laws(
        "plan laws: SOAP's sides",
        "Norm(_HALF * inputs, _HALF * outputs)",
        "Norm(_HALF * outputs, _HALF * inputs)",
    ),
    of_laws(
        "plan laws: an epsilon after the gradient",
        "after = Size(norm=SPECTRAL**-_ONE)",
        "after = Size(_ONE, SPECTRAL)",
    ),
    of_laws(
        "plan laws: Muon's epsilon by the entry",
        "Law(SPECTRAL, _ZERO, Size(_ONE, SPECTRAL)), adamw)",
        "Law(SPECTRAL, _ZERO, _ENTRY), adamw)",
    ),
    of_laws(
        "plan laws: Adafactor's epsilon not squared",
        "squares = Size(Fraction(2))",
        "squares = Size(_ONE)",
    ),
    of_laws(
        "plan laws: embeddings under Muon",
        "role is Role.OUTPUT or kind is Kind.LOOKUP or axes != 2",
        "axes != 2",
    ),
    of_rules(
        "plan rules: a scalar takes the gradient of a neuron",
        "if role in (Role.FIXED, Role.BOTTLENECK):\n        return _HALF - A",
        "if role in (Role.BOTTLENECK,):\n        return _HALF - A",
    ),
    of_rules(
        "plan rules: epsilon at the readout's update",
        "return -A if initial else -min(A, U)",
        "return -A if initial else -max(A, U)",
    ),
    of_rules("plan rules: decay shrinks by the rate", "else lr**-1 * shrinks", "else lr * shrinks"),
    of_rules(
        "plan rules: decay of Adam without the weight", "of(law.decay) * init**-1", "of(law.decay)"
    ),
    of_rules(
        "plan rules: biases of the standard parametrisation",
        "q = own.q_bias if role in (Role.VECTOR, Role.FIXED) else own.q",
        "q = own.q",
    ),
    of_rules(
        "plan rules: blocks that do not add up",
        "Powers(depth=residual - 1)",
        "Powers(depth=residual)",
    ),
    of_rules(
        "plan rules: gradients of branches",
        "branch = Powers(depth=-residual)",
        "branch = Powers()",
    ),
    of_rules("plan rules: a branch's rate", ", entries * stored\n", ", entries\n"),
    of_rules(
        "plan rules: a branch's gradient",
        "gradient * stored**-1, driving",
        "gradient * stored, driving",
    ),
    row("plan/_powers.py", RULES)(
        "plan rules: equal ratios not cancelled",
        "total[ratio] = total.get(ratio, _ZERO) + power",
        "total[ratio] = power",
    ),
    of_decide(
        "plan roles: a lookup read as a matrix",
        "if tensor.kind is Kind.LOOKUP and out and not into:\n        return Decision(tensor, Role.INPUT",
        "if tensor.kind is Kind.LOOKUP and out and not into:\n        return Decision(tensor, Role.HIDDEN",
    ),
    of_ambiguous(
        "plan roles: bottlenecks taken for readouts",
        'if len(open_) > 1 or (open_ and "output" in named):',
        "if len(open_) > 9:",
    ),
    of_decide(
        "plan roles: a first bias taken for a hidden one",
        "layer = Layer.FIRST if sibling and sibling.layer is Layer.FIRST else Layer.HIDDEN",
        "layer = Layer.HIDDEN",
    ),
    of_decide(
        "plan roles: sizes out of proportion let through",
        "return 0.6 < power < 1.4",
        "return True",
    ),
    of_decide(
        "plan roles: rounded sizes refused",
        "return _proportional(_power(narrow.shape[axis], found.shape[axis], ratio))",
        "return False",
    ),
    of_decide(
        "plan roles: fan-in of unequal axes guessed",
        "if len(set(growing.values())) > 1:",
        "if False:",
    ),
    of_decide("plan roles: ties of any two roles", "if len(kinds) == 1:", "if len(kinds) <= 2:"),
    of_ambiguous(
        "plan questions: the first matrix taken for the readout",
        "likely[open_[-1]] = Role.OUTPUT",
        "likely[open_[0]] = Role.OUTPUT",
    ),
    of_make(
        "plan questions: an embedding that may read out not asked about",
        "if name is None:\n        return []",
        "if True:\n        return []",
        "tests/jax/test_describe.py::test_an_embedding_that_also_reads_out",
    ),
    row("plan/_probed.py", DECIDE)(
        "plan multipliers: a bare table's taken from where it multiplies",
        "return t.name in seen.lookups and (",
        "return t.kind is Kind.LOOKUP and (",
        "tests/jax/test_forward.py::test_multipliers_in_the_code_are_a_gauge",
    ),
    of_make(
        "plan multipliers: a tied readout of its variance",
        "Powers(-_HALF, -last.p / 2 - own[0] + own[1])",
        "Powers(-_HALF, -last.p - own[0] + own[1])",
    ),
    of_make(
        "plan multipliers: a tied readout not asked about",
        "if lacking and m.name not in multiplied]",
        "if False]",
    ),
    of_flow(
        "plan products: one factor does not cancel in a quotient",
        "if degrees[self._made[s][1]]}",
        "}",
        PRODUCTS,
    ),
    of_flow(
        "plan products: a size beside another is not felt",
        "if len({t.degree for t in trails}) == 1:",
        "if True:",
        PRODUCTS,
    ),
    of_flow(
        "plan products: the root of a factor of a square forgotten",
        "t.factor ** (1 / t.degree) if t",
        "t.factor if t",
        PRODUCTS,
    ),
    of_rules(
        "plan norms: a normalised bottleneck drawn as a readout",
        "        p = strategy.hidden.p",
        "        pass",
        LATENT,
    ),
    of_flow(
        "plan norms: a norm without a name not seen",
        "== [(frozenset(a.parts), -1.0)]:",
        "== [(frozenset(a.parts), 0.0)]:",
        LATENT,
    ),
    of_flow(
        "plan norms: any quotient taken for a norm",
        "== [(frozenset(a.parts), -1.0)]:",
        "!= [None]:",
        LATENT,
    ),
    of_flow(
        "plan norms: what others add to is scale invariant too",
        "if len(owners) == 1 and None not in owners:",
        "if True:",
        LATENT,
    ),
    of_flow(
        "plan products: a distance taken for a square",
        '"gap" if value.apart and',
        '"gap" if False and',
        PRODUCTS,
        DISTANCES,
    ),
    of_flow(
        "plan products: a variance taken for a distance",
        "value.apart.issuperset(n for n in sizes if n > 1)\n        if (kinds",
        "bool(value.apart)\n        if (kinds",
        PRODUCTS,
        DISTANCES,
    ),
    of_flow(
        "plan products: a difference over its own size asked about",
        "over = self._over_itself(one, two) or self._over_itself(two, one)",
        "over = None",
        PRODUCTS,
        DISTANCES,
    ),
    of_products(
        "plan products: distances by the rule of products",
        "if place is Place.DISTANCE:\n        return",
        "if False:\n        return",
        PRODUCTS,
        DISTANCES,
    ),
    row("torch/_trace.py", PRODUCTS)(
        "plan products: a mean that is taken off taken for another array",
        "if n == m]",
        "]",
    ),
    row("jax/_trace.py", DISTANCES)(
        "plan products: the same in jax",
        "in pairs if n == m]",
        "in pairs]",
    ),
    row("torch/_trace.py", PRODUCTS)(
        "plan products: weights of a softmax of order one",
        "1 / flat[0].shape[[*args][1]])",
        "1.0)",
    ),
    of_planner(
        "plan multipliers: what is to stay is taken back",
        "Fraction(0) if t.name in self.kept else gauge.total",
        "gauge.total",
        PRODUCTS,
    ),
    of_products(
        "plan heads: heads that are said silence what grows",
        "if (size != 1 or h not in said if",
        "if (size != 1 if",
        HEADS,
    ),
    of_products(
        "plan heads: heads that the factory ignores",
        "if every and not said:",
        "if False:",
        HEADS,
    ),
    of_products(
        "plan heads: another width has the target's heads",
        "keep = heads == ratio if ratio == request.wider else heads == request.wider != 1",
        "keep = heads == ratio",
        HEADS,
    ),
    of_products(
        "plan multipliers: attention of any strategy",
        "return update_exponents(request.strategy)[-1] - 1\n",
        "return Fraction(-1)\n",
    ),
    of_planner(
        "plan depth: the first bias counted with the blocks",
        "and not (t.kind is Kind.BIAS and t.owner in outside)",
        "",
    ),
    of_planner(
        "plan depth: everything counted with the blocks",
        "if one[key(t)] != two[key(t)]}",
        "}",
    ),
    row("plan/_transfer.py", TABLE)(
        "plan transfer: gamma of the other width",
        "wanted = depth_for_gamma(before, m, s)",
        "wanted = depth_for_gamma(before, n, s)",
    ),
    row("plan/_transfer.py", TABLE)(
        "plan transfer: rate instead of decay",
        "else weight_decay * g.weight_decay",
        "else weight_decay * g.lr",
    ),
    row("plan/_settings.py", TABLE)(
        "plan groups: decay not told apart",
        "f.lr, eps * f.eps, weight_decay * f.weight_decay, f.beta1",
        "f.eps, f.eps, f.eps, f.beta1",
    ),
    row("plan/_predicted.py", TABLE)(
        "plan predicted: the readout's features forgotten",
        "return [1 - U, *passed], _HALF - A",
        "return [1 - U], -A",
    ),
    of_uses(
        "plan uses: products entry by entry taken for a matrix",
        'if "multiplied" in verbs or',
        "if",
    ),
    of_uses(
        "plan uses: a tensor that reads out too is not seen",
        "axes and not own & set(axes)]",
        "own and not axes]",
        TIES,
    ),
    of_uses(
        "plan uses: a sum over picked rows reads out",
        'if u.verb == "summed" and not u.of}',
        'if u.verb == "summed"}',
        TIES,
    ),
    of_decide(
        "plan roles: a second use inside the network reads out",
        "last = Role.OUTPUT if t.name in ends else Role.BOTTLENECK",
        "last = Role.OUTPUT",
        TIES,
    ),
    of_uses(
        "plan uses: two different sums are one matrix",
        "len(axes) != 1",
        "not axes",
    ),
    of_uses(
        "plan uses: rows that are added are numbers per neuron",
        'verbs == {"added"} and len(long) <= 1',
        'verbs == {"added"}',
    ),
    of_watched(
        "plan uses: a matrix sums over its last axis always",
        "b.axes[-2:-1] if len(b.axes) > 1 else b.axes",
        "b.axes[-1:]",
    ),
    of_watched(
        "plan uses: a sum of products entry by entry is not seen",
        'operation not in ("sum", "mean")',
        'operation not in ("mean",)',
    ),
    of_watched(
        "plan uses: what is computed from a parameter is forgotten",
        "alike = all(t.shape == weight.shape for t in results)",
        "alike = False",
    ),
    of_watched(
        "plan uses: a bare kernel sums over its outputs",
        "self._sums(kernel, kernel.axes[1:])",
        "self._sums(kernel, kernel.axes[:1])",
    ),
    of_paths(
        "plan paths: readouts are sought inside the network",
        "if any(n.removeprefix(LOOKED_UP) in growing for n in names):",
        "if not names:",
    ),
    of_paths(
        "plan paths: what is returned and read on reads out",
        "if alone or one - inside or not one",
        "if True",
    ),
    of_paths(
        "plan paths: nothing follows a readout",
        "if names & new for n in made",
        "if not names for n in made",
    ),
    row("plan/_uses.py", USES)(
        "plan uses: any product of two tensors is of rows and a matrix",
        "by.kind is Kind.MATRIX and by.fan_in == use.axes",
        "bool(use.axes)",
    ),
    of_paths(
        "plan paths: what the pass does not use is used",
        "_NONE.union(*self.returned, *self.before, *self.before.values())",
        "_NONE.union(*self.returned)",
    ),
    of_paths(
        "plan paths: the width lies behind what it follows",
        "return self.used() - behind",
        "return self.used()",
        "tests/jax/test_describe.py::test_the_pass_tells_which_side_of_a_bare_matrix_is_proposed",
    ),
    of_ambiguous(
        "plan questions: sides that nothing tells are proposed",
        "if likely is None:\n                open_.add",
        "if False:\n                open_.add",
        USES,
    ),
    row("torch/_describe.py", USES)(
        "plan questions: declared sides taken the other way round",
        "(into,), (1 - into,)",
        "(1 - into,), (into,)",
    ),
    of_flow(
        "plan flow: what multiplies after a module is lost",
        "return after.get(source) or self._inside.get(source) or 1.0",
        "return self._inside.get(source) or after.get(source) or 1.0",
    ),
    of_nested(
        "plan outputs: keys in place of values",
        "value.values() if isinstance(value, Mapping)",
        "value.keys() if isinstance(value, Mapping)",
    ),
    of_nested(
        "plan outputs: attributes are not looked into",
        'list(getattr(value, "__dict__", {}).values())',
        "[]",
    ),
    of_nested(
        "plan outputs: slots are not looked into",
        "return kept + list(",
        "return list(",
    ),
    of_nested(
        "plan outputs: what holds itself is looked into for ever",
        "id(value) not in seen",
        "True",
    ),
    of_nested(
        "plan outputs: modules are looked into",
        "not isinstance(value, shut) and",
        "",
    ),
    of_watched(
        "plan uses: positions of another length are others",
        'if "upsample" in operation',
        "if False",
    ),
    of_watched(
        "plan uses: quotients of parameters are others",
        "large and not (entrywise and all(map(fixed, large)))",
        "large",
    ),
)
