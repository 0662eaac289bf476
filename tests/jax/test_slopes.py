"""Agreement and golden tests: what the plan predicts, measured on networks of jax; the rules by another gauge."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scalewise as sw
from grids import thorough
from jax_models import mlp, mlp_roles, preactivations
from scalewise.networks import apply_strategy
from scalewise.plan import predicted

WIDTHS = (128, 256, 512)
X = np.random.default_rng(5).standard_normal((8, 5)).astype(np.float32)
Y = np.sin(2 * X[:, :2])


def loss(params):
    return ((preactivations(params, X)[-1] - Y) ** 2).mean()


# Linear in the outputs, so that what the outputs are at first, which goes with the width, plays no part.
LINEAR = jax.jit(jax.grad(lambda params: (preactivations(params, X)[-1] * TARGETS).sum()))
FORWARD = jax.jit(lambda params: preactivations(params, X))
TARGETS = np.random.default_rng(6).standard_normal((8, 32)).astype(np.float32)


def init_fn(width, seed=0):
    # Many outputs: of a readout with few entries the spread is not known well enough to be corrected.
    return mlp(width, seed=seed, outputs=32)


def change(plan, width, seed, rate=1e-2):
    """Root mean square of what one step changes in every layer's preactivations."""
    params = plan.init(init_fn(width, seed))
    tx = plan.optax(optax.sgd(rate), check=False)
    updates, _ = tx.update(LINEAR(params), tx.init(params), params)
    moved = jax.tree.map(np.add, params, updates)
    pairs = zip(FORWARD(params), FORWARD(moved), strict=True)
    return [float(np.sqrt(np.mean((np.asarray(b) - a) ** 2))) for a, b in pairs]


@pytest.mark.parametrize("s", ["1/2", *thorough("0", "1")])
def test_one_step_slopes(s) -> None:
    base = sw.jax.plan(
        init_fn, base={"width": 128}, target={"width": 128}, strategy=sw.scaling.meta(s=s),
        optimizer="sgd", roles=mlp_roles(3),
    )  # fmt: skip
    sizes = []
    for width in WIDTHS:
        plan = base.at(width=width)
        runs = [np.log(change(plan, width, seed)) for seed in range(16)]
        sizes.append(np.mean(runs, axis=0))
    slopes = np.polyfit(np.log(WIDTHS), np.array(sizes), 1)[0]
    expected = -(1 - float(base.table.strategy.r)) / 2
    for i in range(3):
        # The same number from the plan's own prediction.
        assert float(predicted(base.table, f"layers.{i}.W").change) == pytest.approx(expected)
        assert slopes[i] == pytest.approx(expected, abs=0.05)
    assert slopes[3] == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize("s", ["1/2", *thorough("0", "1")])
def test_gradient_descent_in_the_gauge_of_the_networks(s) -> None:
    r"""The same training written as $W=\sqrt{\lambda_W/n_{\ell-1}}\,\omega$ with one learning rate for all.

    Rates and sizes come from `apply_strategy`, which knows nothing of plans.
    """
    n, m, eta, depth = 16, 64, 0.05, 2
    fan = (5, n, n)  # at the base: there every weight has the rate eta
    strategy = sw.scaling.meta(s=s, depth=depth + 1)
    net = sw.MLP(depth + 1, m, "tanh", input_dim=5, output_dim=2, C_b=0.09, C_W=1.0,
                 lambda_b=1.0, lambda_W=tuple(map(float, fan)))  # fmt: skip
    scaled = apply_strategy(net, strategy, eta=eta, reference_width=n)
    plan = sw.jax.plan(
        lambda width: mlp(width, depth), base={"width": n}, target={"width": m},
        strategy=sw.scaling.meta(s=s), optimizer="sgd", roles=mlp_roles(depth),
    )  # fmt: skip
    names = ("layers.0", "layers.1", "head")
    inputs = (5, m, m)
    for name, C, before, now in zip(names, scaled.net.C_W, fan, inputs, strict=True):
        assert plan.factors(f"{name}.W").init == pytest.approx((C / now * before) ** 0.5)
    with jax.enable_x64(True):
        params = mlp(m, depth, dtype=np.float64)
        tx = plan.optax(optax.sgd(eta))
        rates = zip(scaled.net.lambda_W, scaled.net.lambda_b, inputs, strict=True)
        root = [{"W": (w / k) ** 0.5, "b": b**0.5} for w, b, k in rates]
        root = {"layers": root[:-1], "head": root[-1]}
        omega = jax.tree.map(lambda p, c: p / c, params, root)

        @jax.jit
        def both(params, omega):
            updates, _ = tx.update(jax.grad(loss)(params), tx.init(params), params)
            slope = jax.grad(lambda o: loss(jax.tree.map(jnp.multiply, o, root)))(omega)
            moved = jax.tree.map(lambda o, g: o - scaled.eta * g, omega, slope)
            return optax.apply_updates(params, updates), moved

        for _ in range(5):
            params, omega = both(params, omega)
        again = jax.tree.map(jnp.multiply, omega, root)
        for a, b in zip(jax.tree.leaves(params), jax.tree.leaves(again), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)
        assert abs(params["head"]["W"] - mlp(m, depth)["head"]["W"]).max() > 1e-4
