"""The first update of every tensor by three optimisers of optax around or within a plan."""

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

import scalewise as sw
from scalewise.experiments._look import COLORS

LAYERS = ("first", "second", "head")


def init_fn(width: int, seed: int = 0) -> dict[str, dict[str, jax.Array]]:
    """Three layers on eight inputs."""
    draw, sizes = np.random.default_rng(seed).standard_normal, (8, width, width, 4)
    return {
        name: {
            "kernel": jnp.asarray(draw((a, b)) / a**0.5, jnp.float32),
            "bias": jnp.zeros(b),
        }
        for name, a, b in zip(LAYERS, sizes, sizes[1:], strict=False)
    }


def apply(params: dict[str, dict[str, jax.Array]], x: jax.Array) -> jax.Array:
    """The outputs."""
    for name in ("first", "second"):
        x = jnp.tanh(x @ params[name]["kernel"] + params[name]["bias"])
    return x @ params["head"]["kernel"] + params["head"]["bias"]


roles = {"first.kernel": "input", "second.kernel": "hidden", "head.kernel": "output"}
plan = sw.jax.plan(
    init_fn,
    base={"width": 64},
    target={"width": 256},
    strategy=sw.scaling.mup(),
    optimizer="adamw",
    roles={**roles, "first.bias": "vector", "second.bias": "vector"},
    apply=apply,
    inputs=np.ones((2, 8), np.float32),
)
params = plan.init(init_fn(256))


def everywhere(mark):
    """A tree like that of the parameters, of what `mark` says of the layer and the tensor."""
    return {layer: {name: mark(layer, name) for name in of} for layer, of in params.items()}


matrices = everywhere(lambda layer, name: name == "kernel")
head = everywhere(lambda layer, name: layer == "head")
rest = everywhere(lambda layer, name: layer != "head")
labels = everywhere(lambda layer, name: "first" if layer == "first" else "rest")
decay = plan.optax(optax.adamw(3e-3, weight_decay=1.0, mask=matrices))
two = {"first": plan.optax(optax.adamw(1e-2)), "rest": plan.optax(optax.adamw(3e-3))}
frozen = optax.chain(
    optax.masked(plan.optax(optax.adamw(3e-3)), head), optax.masked(optax.set_to_zero(), rest)
)
ways = (
    ("no decay of biases", decay, 0.0),
    ("a rate for some", optax.multi_transform(two, labels), 1.0),
    ("all but head frozen", frozen, 1.0),
)
figure, axes = plt.subplots(1, 3, figsize=(7.2, 2.4), sharey=True)
for axis, (title, tx, gradient) in zip(axes, ways, strict=True):
    gradients = jax.tree.map(lambda p, g=gradient: jnp.full_like(p, g), params)
    updates, _ = tx.update(gradients, tx.init(params), params)
    names = [f"{layer}.{name}" for layer in LAYERS for name in ("kernel", "bias")]
    sizes = [float(abs(updates[a][b]).max() / 3e-3) for a, b in (n.split(".") for n in names)]
    bars = axis.barh(names[::-1], sizes[::-1], height=0.6, color=COLORS[0])
    axis.bar_label(bars, fmt="%.2f", padding=3, fontsize=9)
    axis.set(title=title, xlabel="update / 0.003", xlim=(0, 1.35 * max(sizes)))
    axis.grid(visible=False)
