"""Optimisers of optax beyond Adam, wrapped by a plan: each moves a tensor as its own law says."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import scalewise as sw
from grids import thorough
from jax_models import mlp
from scalewise.plan import PlanError

BASE, TARGET = {"width": 8}, {"width": 32}
ROLES = {"first": "input", "bias": "vector", "hidden": ("hidden", 0), "head": "output"}


def init_fn(width: int, seed: int = 0) -> dict[str, Any]:
    made = mlp(width, 2, inputs=3, seed=seed)
    first, hidden, head = (layer["W"] for layer in (*made["layers"], made["head"]))
    return {"first": first, "bias": jnp.full(width, 0.5), "hidden": hidden, "head": head}


def forward(params: Any, x: Any) -> Any:
    h = jax.nn.relu(x @ params["first"] + params["bias"])
    return jax.nn.relu(h @ params["hidden"]) @ params["head"]


def planned(optimizer: str, **options: Any) -> Any:
    return sw.jax.plan(
        init_fn, base=BASE, target=TARGET, strategy=sw.scaling.mup(), optimizer=optimizer,
        roles=ROLES, apply=forward, inputs=jnp.ones((2, 3)), **options,
    )  # fmt: skip


@jax.jit
def gradients(params: Any) -> Any:
    x = np.random.default_rng(1).standard_normal((4, 3))
    return jax.grad(lambda p: jnp.sum(forward(p, x)[:, 0] ** 2))(params)


def test_a_decay_beside_relative_steps_is_refused() -> None:
    plan = planned("adafactor")
    tx = optax.adafactor(1e-2, min_dim_size_to_factor=1, weight_decay_rate=1e-3)
    with pytest.raises(
        PlanError, match=r"scales its step by the size of the weight and also decays the weight"
    ):
        plan.optax(tx)
    inner = plan.optax(optax.adafactor(1e-2, min_dim_size_to_factor=1))
    chained = optax.chain(inner, optax.add_decayed_weights(-1e-3))
    params = init_fn(32)
    without, with_ = stepped(inner, params), stepped(chained, params)
    assert all(jnp.allclose(with_[k], without[k] - 1e-3 * params[k], rtol=1e-4) for k in params)


def stepped(tx: Any, params: Any) -> Any:
    return jax.jit(tx.update)(gradients(params), tx.init(params), params)[0]


def matrices(params: Any) -> Any:
    """Which tensors optax is to orthogonalise: those of the plan."""
    return {
        k: optax.contrib.MuonDimensionNumbers() if k in ("first", "hidden") else None
        for k in params
    }


def muon(lr: float, **options: Any) -> Any:
    return optax.contrib.muon(lr, muon_weight_dimension_numbers=matrices, **options)


@pytest.mark.parametrize(
    ("optimizer", "tx", "options"),
    [
        (
            "adafactor",
            lambda: optax.adafactor(1e-2, min_dim_size_to_factor=1, eps=1e-30, momentum=None),
            {},
        ),
        *thorough(
            ("lamb", lambda: optax.lamb(1e-2, eps=1e-20), {}),
            ("muon", lambda: muon(1e-2, consistent_rms=0.2), {"adjust": "consistent_rms"}),
            ("lion", lambda: optax.lion(1e-2, weight_decay=0.0), {}),
            ("muon", lambda: muon(1e-2), {"adjust": "optax"}),
            (
                "adafactor_unscaled",
                lambda: optax.adafactor(1e-2, multiply_by_parameter_scale=False, eps=1e-30),
                {},
            ),
        ),
    ],
)
def test_a_tensor_moves_by_its_factor(optimizer: str, tx: Any, options: Any) -> None:
    """Without epsilon and decay, a step is the optimiser's own times the factor of the learning rate."""
    plan = planned(optimizer, **options)
    params = plan.init(init_fn(**TARGET))
    own, found = stepped(tx(), params), stepped(plan.optax(tx()), params)
    problems = [
        name
        for name in params
        if not np.allclose(found[name], plan.factors(name).lr * own[name], rtol=2e-2, atol=1e-9)
    ]
    assert not problems


def test_epsilon_beside_a_square() -> None:
    """Adafactor compares epsilon with a square: at the target it is as large beside it as planned."""
    plan = planned("adafactor_unscaled")
    params = plan.init(init_fn(**TARGET))

    def tx(eps: float) -> Any:
        return optax.adafactor(1e-2, multiply_by_parameter_scale=False, eps=eps)

    eps = 1e-3
    found = stepped(plan.optax(tx(eps), check=False), params)
    for name in params:
        f = plan.factors(name)
        own = stepped(tx(eps * f.eps), params)[name]
        np.testing.assert_allclose(found[name], f.lr * own, rtol=1e-4, atol=1e-9)
    assert plan.factors("hidden").eps == 4**-2


def test_the_size_of_a_weight_with_decay() -> None:
    """LAMB is shown a multiple of the weight for its decay, and must not move that many times as far."""
    plan = planned("lamb")
    params = plan.init(init_fn(**TARGET))
    found = stepped(plan.optax(optax.lamb(1e-2, eps=1e-20, weight_decay=0.1)), params)
    for name in params:
        f = plan.factors(name)
        own = stepped(optax.lamb(1e-2, eps=1e-20, weight_decay=0.1 * f.weight_decay), params)[name]
        np.testing.assert_allclose(found[name], f.lr * own, rtol=1e-4, atol=1e-9)


def test_optimisers_of_another_law_are_refused() -> None:
    params = init_fn(**TARGET)
    with pytest.raises(PlanError, match=r"which sets the size of a step by the whole tensor"):
        planned("muon").optax(optax.adamw(1e-2)).init(params)
    with pytest.raises(PlanError, match=r"depend on its other entries"):
        planned("adamw").optax(muon(1e-2)).init(params)
    with pytest.raises(
        PlanError, match=r"'adamuon' compares epsilon with a step that is normalised"
    ):
        planned("adamuon").optax(muon(1e-2))


@pytest.mark.parametrize(
    ("optimizer", "tx"),
    [
        ("adafactor", lambda: optax.adafactor(1e-4, min_dim_size_to_factor=1)),
        *thorough(("lion", None), ("lamb", None)),
    ],
)
def test_real_optimisers_are_as_planned(optimizer: str, tx: Any) -> None:
    def loss(params: Any, batch: Any) -> Any:
        logits = forward(params, batch[0])
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch[1]).mean()

    def setup(plan: Any, model: Any) -> Any:
        return plan.init(model), plan.optax(tx(), check=False)

    plan = sw.jax.plan(
        init_fn, base={"width": 32}, target={"width": 128}, strategy=sw.scaling.mup(),
        optimizer=optimizer, roles=ROLES, apply=forward, inputs=jnp.ones((2, 3)),
    )  # fmt: skip
    batch = np.random.default_rng(1).standard_normal((8, 3), np.float32), jnp.arange(8) % 2
    options = {} if tx is None else {"setup": setup}
    check = plan.verify(batch, loss, widths=[32, 64, 128], **options)
    assert check.ok, str(check)
