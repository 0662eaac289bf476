"""Golden, property: the NTK of a JAX function beside its explicit Jacobian, within any budget of memory."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grids import thorough
from refusals import unlike
from scalewise.jax import _tangent_rows, tangents
from scalewise.training import _row_blocks

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 6))


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape) / shape[0] ** 0.5


def perceptron(p: Any, x: Any) -> Any:
    return jnp.tanh(x @ p["in"] + p["b"]) @ p["out"]


def deep(p: Any, x: Any) -> Any:
    """One matrix for each step of a scan, computed again on the way back; the last is that of the first layer."""
    step = jax.checkpoint(lambda z, W: (jnp.tanh(z @ W), None))
    return jax.lax.scan(step, x @ p["in"], p["W"])[0] @ p["in"][:3].T


def one_output(p: Any, x: Any) -> Any:
    return jnp.where(x.sum(1) > 0, x @ p["a"], jnp.sin(x) @ p["b"])


def mixing(p: Any, x: Any) -> Any:
    return jnp.tanh((x - x.mean(0)) @ p["in"]) @ p["out"]


MODELS: dict[str, tuple[Callable[[Any, Any], Any], dict[str, np.ndarray]]] = {
    "perceptron": (perceptron, {"in": normal(6, 9), "b": normal(9), "out": normal(9, 3)}),
    "deep": (deep, {"in": normal(6, 6), "W": normal(4, 6, 6)}),
    "one output": (one_output, {"a": normal(6), "b": normal(6)}),
    "mixing": (mixing, {"in": normal(6, 5), "out": normal(5, 2)}),
}


def explicit(f: Any, params: Any, rates: Any) -> tuple[np.ndarray, np.ndarray]:
    def columns(p: Any) -> Any:
        z = f(p, X)
        return z[:, None] if z.ndim == 1 else z

    z, J = jax.tree.map(np.asarray, jax.jit(lambda p: (columns(p), jax.jacrev(columns)(p)))(params))
    H = sum(
        np.einsum("aie,bje->abij", g, g * np.ravel(rate))
        for g, rate in zip(
            (g.reshape(*z.shape, -1) for g in jax.tree.leaves(J)),
            jax.tree.leaves(rates),
            strict=True,
        )
    )
    return z, np.asarray(H)


@pytest.mark.covers("B69")
@pytest.mark.parametrize("name", ["deep", *thorough("one output", "perceptron", "mixing")])
def test_the_ntk_is_that_of_the_explicit_jacobian_within_any_budget(name: str) -> None:
    f, params = MODELS[name]
    rates: dict[str, Any] = dict.fromkeys(params, 0.3)
    rates[next(iter(params))] = RNG.uniform(0.5, 2, next(iter(params.values())).shape)
    with jax.enable_x64(True):
        z, H = explicit(f, params, rates)
        trace, R = H.trace(axis1=2, axis2=3) / z.shape[1], RNG.normal(size=(2, z.shape[1]))
        for memory in ("1 GiB", H.nbytes + 4000, H.nbytes):
            found = tangents(f, params, X, rates=rates, memory=memory)
            np.testing.assert_allclose(found[0], z, rtol=1e-12)
            np.testing.assert_allclose(found[1], H, rtol=1e-11, atol=1e-12)
            mean = tangents(f, params, X, rates=rates, memory=memory, outputs="mean")[1]
            np.testing.assert_allclose(mean[..., 0, 0], trace, rtol=1e-11, atol=1e-12)
        read, between = tangents(f, params, X, rates=rates, outputs=R)
        np.testing.assert_allclose(read, z @ R.T, rtol=1e-11)
        np.testing.assert_allclose(
            between, np.einsum("ri,abij,sj->abrs", R, H, R), rtol=1e-10, atol=1e-12
        )


def test_blocks_of_arrays_and_of_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    f, params = MODELS["perceptron"]
    kept = [_row_blocks.Kept(0, 72), _row_blocks.Kept(40, 432), _row_blocks.Kept(9, 216)]
    passes = []
    for memory in (2**20, 13_000, 8_000, 1_500):
        for mean in (False, True):
            plan = _row_blocks.groups(kept, 7, 3, memory=memory, mean=mean)
            assert sorted(k for tensors, _ in plan for k in tensors) == [0, 1, 2]
            for tensors, blocks in plan:
                rows = np.zeros((7, 3))
                for block in blocks:
                    rows[block.samples, block.reads] += 1
                    samples, reads = (part.stop - part.start for part in block)
                    pairs = 2 if len(blocks) > 1 and not mean else 1
                    taken = samples * sum(kept[k].of(reads) for k in tensors)
                    assert pairs * taken <= 0.75 * memory or samples == reads == 1
                assert (rows == 1).all()
            passes.append(sum(len(blocks) for _, blocks in plan))
    assert passes[:2] == [1, 1]
    assert passes[::2] == sorted(passes[::2])
    assert passes[-2] > 20
    monkeypatch.setattr(_tangent_rows, "SEVERAL", 1)
    with jax.enable_x64(True):
        one = tangents(f, params, X)[1]
        monkeypatch.undo()
        np.testing.assert_allclose(one, tangents(f, params, X)[1], rtol=1e-12)


def test_what_does_not_fit_is_refused_in_a_sentence() -> None:
    f, params = MODELS["perceptron"]
    cases = [
        (lambda: tangents(lambda p, x: f(p, x)[:3], params, X), "outputs .* for 7 samples"),
        (lambda: tangents(f, params, X, rates=1.0), "pytree like `params`, with 3 leaves; got 1"),
        (lambda: tangents(f, params, X, outputs=np.eye(2)), r"matrix \(read-outs, 3\)"),
        (lambda: tangents(f, params, X, memory="1 kB"), "NTK of 7 samples and 3 outputs takes"),
    ]
    assert unlike(cases) == []
