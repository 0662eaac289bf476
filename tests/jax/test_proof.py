"""Agreement: constants and the check of transfer in JAX do what they do in PyTorch."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scalewise as sw
from jax_models import mlp, mlp_roles
from scalewise.plan import PlanError

ROLES = mlp_roles(2)


def build(width, seed=0):
    return mlp(width, 2, seed=seed)


def apply(params, x):
    h = x
    for layer in params["layers"]:
        h = jnp.tanh(h @ layer["W"] + layer["b"])
    return h @ params["head"]["W"] + params["head"]["b"]


def planned(target=32, **options):
    return sw.jax.plan(
        build, base={"width": 16}, target={"width": target}, strategy=sw.scaling.mup(), optimizer="sgd",
        roles=ROLES, apply=apply, inputs=jnp.ones((2, 5)), **options,
    )  # fmt: skip


def test_constants_are_drawn_at_the_base_carried_and_given_to_optax(tmp_path) -> None:
    constants = {"hidden": {"std": 1.05, "lr": 0.5}, "head": 3}
    plan, plain = planned(constants=constants), planned()
    for width in (16, 32):
        here, without = plan.at(width=width), plain.at(width=width)
        assert here.table.constants == plan.table.constants
        model, bare = here.init(build(width)), without.init(build(width))
        std = float(np.std(model["layers"][1]["W"]))
        assert std == pytest.approx(here.table.std("layers.1.W"), rel=1e-5)
        assert here.table.std("layers.1.W") == pytest.approx(1.05 * without.table.std("layers.1.W"))
        assert np.array_equal(model["layers"][0]["W"], bare["layers"][0]["W"])
        again = here.init(model)
        assert all(
            np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (model, again)), strict=True)
        )
        ones = jax.tree.map(jnp.ones_like, model)
        steps = [p.optax(optax.sgd(1.0)).update(ones, p.optax(optax.sgd(1.0)).init(m), m)[0]
                 for p, m in ((here, model), (without, bare))]  # fmt: skip
        one, two = (np.asarray(s["layers"][1]["W"])[0, 0] for s in steps)
        assert one == pytest.approx(0.5 * two, rel=1e-6)
    plan.save(tmp_path / "plan.json")
    assert sw.jax.load(tmp_path / "plan.json").table == plan.table
    assert plan.with_constants({}).table == plain.table


def test_a_grid_and_a_search_run_the_users_training() -> None:
    x = np.random.default_rng(0).normal(size=(32, 5)).astype(np.float32)
    y = np.stack([np.sin(x[:, 0]), x[:, 1]], 1)

    @jax.jit
    def error(params):
        return jnp.mean((apply(params, x) - y) ** 2)

    slope = jax.jit(jax.grad(error))

    def train(plan, model, seed, lr):
        tx = plan.optax(optax.sgd(lr), check=False)
        state = tx.init(model)
        for _ in range(4):
            updates, state = tx.update(slope(model), state, model)
            model = optax.apply_updates(model, updates)
        return error(model)

    rates = [2.0**k for k in (-6, -3, 0, 3)]
    found = sw.jax.check_transfer(
        planned(), train, widths=[16, 32], rates=rates, seeds=2, client=0, progress=False
    )
    assert found.losses.shape == (2, 4, 2)
    assert len({*found.losses[0, 0]}) == 2  # seeds are networks of their own
    assert found.optima[0].edge == ""
    tuned = sw.jax.tune(
        planned(),
        train,
        start={"lr": 2.0**-6},
        over=["lr"],
        budget=16,
        seeds=2,
        client=0,
        progress=False,
        baseline=y,
    )
    assert tuned.settings["lr"] > 2.0**-6
    assert tuned.fresh.beyond
    # Four steps: of what costs no learning most is left, and JAX has no initialisation of the theory beside it.
    assert tuned.standing.baseline == pytest.approx(np.mean((y - y.mean(0)) ** 2))
    assert tuned.standing.theory == ()
    assert tuned.standing.share is not None
    plateau = sw.jax.check_transfer(
        planned(), train, widths=[16, 32], rates=rates, seeds=4, client=0, progress=False,
        baseline=float(found.losses[0].min()) / 2,
    )  # fmt: skip
    assert plateau.outcome == "not learnt"
    assert plateau.verdict.startswith("The base has not learnt: its loss")
    with pytest.raises(PlanError, match="`train` must be a function"):
        sw.jax.check_transfer(planned(), "train", widths=[16, 32], rates=rates)
