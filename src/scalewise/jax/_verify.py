"""The networks of jax of one verification: how each is drawn, set up, trained and watched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from scalewise._extras import require
from scalewise.jax._parts import named, parted
from scalewise.jax._watched import Loss, Program, WatchedTree
from scalewise.plan import PlanError
from scalewise.plan.spi import Adapter, Scene

Setup = Callable[[Any, Any], Any]
_HALF = (jnp.bfloat16, jnp.float16)


class JaxBench:
    """The networks of JAX of one measurement; see `scalewise.plan._adapter.Bench`.

    Args:
        batch: What `loss` is given.
        loss: A function of (model, batch).
        setup: What returns an initialised model and its optimiser; ``None`` for the plan's own.
        own: The plan's own setup, for a learning rate of 1.
        layout: How tensors of a tree are named.
    """

    def __init__(
        self, batch: Any, loss: Loss, setup: Setup | None, own: Setup, layout: str
    ) -> None:
        self.batch, self.loss, self.setup, self.own, self.layout = batch, loss, setup, own, layout
        # What is compiled for the networks of one size: they differ by their arrays only.
        self._programs: dict[Any, Program] = {}
        # The network that was looked at last: it need not be drawn twice.
        self._looked: dict[tuple[str, int], tuple[Program, Any, Any]] = {}

    @property
    def searches(self) -> bool:
        """True if the learning rate is ours to choose."""
        return self.setup is None

    def scene(self, plan: Adapter, seed: int) -> Scene:
        """One network as it is measured.

        Raises:
            PlanError: If the loss is not finite, or not a number that depends on the parameters.
        """
        program, params, others = found = self._set_up(plan, seed)
        self._looked[_like(plan, seed)] = found
        program.check(params, others)
        acting, attends = program.written(params, others)
        values = named(plan.table, params)
        tied = [n for n in values if acting.is_tied(n)]
        names = tuple(acting.name(n, looked_up=n in tied) for n in values)
        readouts = acting.readouts(values)
        read = [values[plan.table[n].name] for n in readouts]
        zero = bool(read) and not any(bool(jnp.any(x)) for x in read)
        precision = max(float(jnp.finfo(x.dtype).eps) for x in values.values())
        places = acting.places(readouts, sorted({*attends}))
        return Scene(names, readouts, places, zero, precision, whole="the loss")

    def network(self, plan: Adapter, scene: Scene, seed: int, lr: float) -> WatchedTree:
        """A network, ready to train."""
        rate = lr if self.searches else 1.0
        looked = self._looked.pop(_like(plan, seed), None)
        self._looked.clear()
        return WatchedTree(*(looked or self._set_up(plan, seed)), scene, rate)

    def everywhere(self, plan: Adapter, scene: Scene, seed: int) -> Scene:
        """This scene with the factors of every tensor, and no tensors."""
        return replace(scene, names=(), places=replace(scene.places, reads=scene.places.order))

    def _set_up(self, plan: Adapter, seed: int) -> tuple[Program, Any, Any]:
        """A network's program, and its arrays: those that are trained, and others."""
        size = _like(plan, seed)[0]
        found = (self.setup or self.own)(plan, plan.drawn(seed))
        if not isinstance(found, tuple) or len(found) != 2 or not hasattr(found[1], "update"):
            raise PlanError(
                "`setup` must return the initialised model and the optimiser of optax that trains it, as in "
                f"lambda plan, model: (plan.init(model), plan.optax(optax.adam(1e-3))); it returned {found!r:.200}."
            )
        model, tx = found
        parts = parted(model, self.layout)
        params, batch = parts.params, self.batch
        if any(x.dtype in _HALF for x in jax.tree.leaves(params)):
            params, batch = _single(params), _single(batch)
        if size not in self._programs:
            if self.setup is not None and not self._programs:
                require("optax", for_="`plan.verify`", extra="jax")
                from scalewise.jax._optimizers import check_optimizer

                check_optimizer(tx, plan.table, like=params)
            self._programs[size] = Program(plan.table, parts.join, self.loss, batch, tx)
        return self._programs[size], params, parts.others


def _like(plan: Adapter, seed: int) -> tuple[str, int]:
    return repr(sorted(plan.table.target.items())), seed


def _single(tree: Any) -> Any:
    """A tree with floating-point arrays in single precision, if they are in less."""
    return jax.tree.map(
        lambda x: x.astype(jnp.float32) if getattr(x, "dtype", None) in _HALF else x, tree
    )
