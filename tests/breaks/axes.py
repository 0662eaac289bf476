"""Breaks of policies for batch, duration and decay, and of the rules along sizes beside width and depth."""

from breaks import row

POLICIES = "tests/plan/test_policies.py"
ARCHITECTURE = "tests/plan/test_architecture.py"
AXES = "tests/torch/test_axes.py"
of_policies = row("plan/_policies.py", POLICIES)
of_axes = row("plan/_axes.py", ARCHITECTURE)
of_rules = row("plan/_rules.py", POLICIES)

MUTANTS = (
    of_policies(
        "axes: steps by the batch itself",
        "step=B**_HALF,\n            gradient=noise,\n            beta1=B,",
        "step=B,\n            gradient=noise,\n            beta1=B,",
    ),
    of_policies("axes: noise of any batch", "noise = B**-_HALF", "noise = B**-_ONE"),
    of_policies(
        "axes: shrinkage of a whole run by the batch",
        '"timescale",\n            per_step,',
        '"timescale",\n            per_step**_HALF,',
    ),
    of_policies(
        "axes: tokens per parameter the other way",
        "tokens=Fraction(527, 1000)",
        "tokens=Fraction(-527, 1000)",
    ),
    of_policies(
        "axes: the last policy only", "out = out * (getattr(", "out = Powers() * (getattr("
    ),
    of_policies("axes: two rules for one size", "covered.count(a) > 1", "covered.count(a) > 9"),
    of_rules(
        "axes: noise forgotten where it drives", "driving * noise, entries", "driving, entries"
    ),
    of_rules("axes: epsilon without the noise", "gradient * noise, driving", "gradient, driving"),
    of_rules("axes: steps that no policy moves", "entries * training.step", "entries"),
    of_rules(
        "axes: gradient descent forgets as Adam does",
        "if law.follows and h == 1 else",
        "if law.follows and h == 3 else",
    ),
    row("plan/_table.py", POLICIES)(
        "axes: moments by their rates", "1 - (1 - beta) * factor", "beta * factor"
    ),
    row("plan/_probed.py", POLICIES)(
        "axes: parameters that stay",
        '"parameters": Fraction(after, before)',
        '"parameters": Fraction(1)',
    ),
    row("plan/_axes.py", "tests/torch/test_latent.py")(
        "axes: a latent that is read out", "if role is Role.INPUT:", "if role is Role.OUTPUT:"
    ),
    of_axes("axes: heads of keys as hidden ones", "return few / many", "return many / many"),
    of_axes(
        "axes: a rank that nobody sums over",
        "own, layer = Role.OUTPUT, Layer.LAST",
        "own, layer = Role.INPUT, Layer.FIRST",
    ),
    of_axes(
        "axes: slices that see all samples",
        "gradient = Powers(**{axis: Fraction(-1)})",
        "gradient = Powers()",
    ),
    row("plan/_axes.py", AXES)(
        "axes: a norm of slices without its root", " * Powers(**{axis: law.norm.fan_out})", ""
    ),
    row("plan/_axes.py", AXES)(
        "axes: the batch goes to the factory", "k not in TRAINING and (k", "(k"
    ),
    row("plan/_table.py", AXES)(
        "axes: blocks as one",
        "self.fan_out / Fraction(self.blocks[1], self.blocks[0])",
        "self.fan_out",
    ),
    row("torch/_groups.py", AXES)(
        "axes: moments left as they were", "group |= _scaled(plan, optimizer, g, moments)", "pass"
    ),
    row("torch/_probe.py", AXES)(
        "axes: multipliers along the rank unseen",
        "return {} if passes is None else",
        "return {} if passes else",
    ),
)
