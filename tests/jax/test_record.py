"""Golden tests: what is recorded of a traced function, against the same computed by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grids import thorough
from jax_attending import (
    by_vmap,
    capped,
    fused,
    in_pieces,
    linear,
    own_rule,
    rooted,
)
from scalewise.jax._record import Recorder, SeenArray

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def recorded(run: Callable[..., Any], new: dict[str, Any], old: dict[str, Any], x: Any) -> Recorder:
    """What is seen of a function of tensors by name and of data."""
    closed = jax.make_jaxpr(run)(new, x)
    tensors = [
        SeenArray(new[n], old={n: old[n]}, was=old[n], origin=frozenset([n])) for n in sorted(new)
    ]
    recorder = Recorder()
    (out,) = recorder.run(closed, [*tensors, SeenArray(x, data=True)])
    # Computed on the way is what the function computes.
    np.testing.assert_allclose(out.value, run(new, x), rtol=1e-5, atol=1e-6)
    return recorder


NEW = {"embed": drawn(5, 4), "blocks": drawn(2, 4, 4), "gain": drawn(4), "shift": drawn(4), "head": drawn(4, 3),
       "bias": drawn(3)}  # fmt: skip
OLD = {n: a + 0.1 * drawn(*a.shape) for n, a in NEW.items()}
TOKENS = np.array([0, 3, 2])


def block(x: Any, W: Any) -> Any:
    return jnp.tanh(0.5 * (x @ W) / 3)


def by_scan(p: Any, tokens: Any) -> Any:
    x = p["embed"][tokens] * 2.0
    x, _ = jax.lax.scan(lambda x, W: (x + jax.checkpoint(block)(x, W), None), x, p["blocks"])
    y = x / jnp.sqrt((x**2).mean(-1, keepdims=True)) * p["gain"] + p["shift"]
    return jax.vmap(lambda row: row @ p["head"] + p["bias"])(y)


def by_loop(p: Any, tokens: Any) -> Any:
    x = jnp.take(p["embed"], tokens, axis=0) * 2.0
    for i in range(2):
        x = x + jax.jit(block)(x, p["blocks"][i])
    y = p["shift"] + p["gain"] * (x / jnp.sqrt((x**2).mean(-1, keepdims=True)))
    return y @ p["head"] + p["bias"]


def test_what_every_tensor_writes() -> None:
    x = NEW["embed"][TOKENS] * 2
    given = [x]
    for W in NEW["blocks"]:
        given.append(given[-1] + np.asarray(block(given[-1], W)))
    z = given[-1] / np.sqrt((given[-1] ** 2).mean(-1, keepdims=True))
    y = z * NEW["gain"] + NEW["shift"]
    moved = {n: NEW[n] - OLD[n] for n in NEW}
    blocks = [v @ W / 6 for v, W in zip(given, NEW["blocks"], strict=False)]
    steps = [v @ W / 6 for v, W in zip(given, moved["blocks"], strict=False)]
    right: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "embed": (x, None, {"embed": moved["embed"][TOKENS] * 2}),
        "blocks": (np.stack(blocks), np.stack(given[:2]), {"blocks": np.stack(steps)}),
        "gain": (y, None, {"gain": z * moved["gain"], "shift": np.broadcast_to(moved["shift"], y.shape)}),
        "head": (y @ NEW["head"] + NEW["bias"], y,
                 {"head": y @ moved["head"], "bias": np.broadcast_to(moved["bias"], (3, 3))}),
    }  # fmt: skip
    problems = []
    for run in (by_scan, by_loop):
        found = recorded(run, NEW, OLD, TOKENS)
        assert not found.attentions
        for name, (value, was_given, own) in right.items():
            mine = [o for o in found.outputs if o.tensor == name]
            assert all(o.looked_up == (name == "embed") for o in mine)
            pairs = [("value", value, [o.value for o in mine])]
            if was_given is not None:
                pairs.append(("given", was_given, [o.given for o in mine]))
            pairs += [(n, a, [o.value - o.old[n] for o in mine]) for n, a in own.items()]
            for what, wanted, seen in pairs:
                # A loop has one output a step, a scan all of them at once.
                whole = np.concatenate([np.asarray(s).ravel() for s in seen])
                if not np.allclose(whole, np.ravel(wanted), rtol=1e-4, atol=1e-5):
                    problems.append(f"{run.__name__}: {name}, {what}")
            if {n for o in mine for n in o.old} != own.keys():
                problems.append(f"{run.__name__}: {name} has {[list(o.old) for o in mine]}")
    assert not problems


def twice(q: Any, k: Any, v: Any) -> Any:
    logits = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 2
    weights = jnp.exp(logits) / jnp.exp(logits).sum(-1, keepdims=True)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


@pytest.mark.parametrize(
    "ways",
    [[capped, own_rule, in_pieces, twice], *thorough([rooted, fused, by_vmap])],
    ids=["some", "more"],
)
def test_attention_logits_and_their_change_however_they_are_written(
    ways: list[Callable[..., Any]],
) -> None:
    new = {"mix": drawn(8, 24), "turn": drawn(24)}
    old = {n: a + 0.1 * drawn(*a.shape) for n, a in new.items()}
    x = drawn(2, 3, 8)

    def split(p: Any, x: Any) -> Any:
        return jnp.moveaxis((x @ p["mix"] + p["turn"]).reshape(2, 3, 3, 2, 4), 2, 0)

    def size(p: Any) -> Any:
        q, k, _ = split(p, x)
        return jnp.einsum("bqhd,bkhd->bhqk", q, k) / 2

    problems = []
    for write in ways:
        found = recorded(lambda p, x, write=write: write(*split(p, x)), new, old, x).attentions
        values = [np.sort(np.concatenate([np.ravel(v) for v in arrays])) for arrays in (
            [a.value for a in found], [a.was for a in found], [size(new)], [size(old)])]  # fmt: skip
        if any(
            a.shape != b.shape or not np.allclose(a, b, rtol=1e-4, atol=1e-5)
            for a, b in (values[::2], values[1::2])
        ):
            problems.append(write.__name__)
    assert not problems
    assert not recorded(lambda p, x: linear(*split(p, x)), new, old, x).attentions
