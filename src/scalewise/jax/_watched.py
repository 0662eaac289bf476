"""One network of jax that is trained for a few steps and watched."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from scalewise.jax._acting import Acting
from scalewise.jax._parts import named, renamed
from scalewise.jax._record import Recorder, SeenArray
from scalewise.plan import Plan, PlanError
from scalewise.plan.spi import Logits, Record, Scene, loss_refused

if TYPE_CHECKING:
    import optax

Loss = Callable[[Any, Any], Any]
# A program runs a few times: to compile it well takes longer than to run it.
_QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
_SUCH_AS = "lambda model, batch: cross_entropy(jax.vmap(model)(batch[0]), batch[1])"
_NOTE = (
    "`loss` was called as loss(model, batch), with what the factory returns and the batch given to `verify`: "
    f"{_SUCH_AS}."
)


def value_of(loss: Loss, model: Any, batch: Any) -> Any:
    """The value that a loss returns.

    Raises:
        PlanError: If it cannot be called with a model and a batch.
    """
    try:
        return loss(model, batch)
    except Exception as error:
        refused = loss_refused(loss, model, batch, error, _SUCH_AS)
        if refused is not None:
            raise refused from error
        error.add_note(_NOTE)
        raise


class Program:
    """The computation of all networks of one size, compiled once.

    Args:
        table: The plan at that size.
        join: Makes a model of trained and other arrays.
        loss: A function of (model, batch).
        batch: What it is given.
        tx: What trains; taken as the same for all networks of the size.
    """

    def __init__(
        self,
        table: Plan,
        join: Callable[[Any, Any], Any],
        loss: Loss,
        batch: Any,
        tx: optax.GradientTransformation,
    ) -> None:
        leaves, tree = jax.tree.flatten(batch)
        arrays = [i for i, x in enumerate(leaves) if isinstance(x, jax.Array | np.ndarray)]
        self.table, self.batch = table, [leaves[i] for i in arrays]

        def value(params: Any, others: Any, given: Any) -> Any:
            whole = list(leaves)
            for i, array in zip(arrays, given, strict=True):
                whole[i] = array
            model, filled = join(params, others), jax.tree.unflatten(tree, whole)
            return value_of(loss, model, filled)

        def step(params: Any, state: Any, others: Any, given: Any, rate: Any) -> Any:
            slopes = jax.grad(value)(params, others, given)
            updates, state = tx.update(slopes, state, params)
            new = jax.tree.map(lambda p, u: (p + rate * u).astype(p.dtype), params, updates)
            return slopes, new, state

        quick = _QUICK if jax.default_backend() == "cpu" else {}
        self._value, self.start = value, tx.init
        self.step = jax.jit(step, compiler_options=quick)
        self._watch = jax.jit(self._watched, static_argnames="reads", compiler_options=quick)
        self._written: tuple[Acting, tuple[str, ...]] | None = None

    def check(self, params: Any, others: Any) -> None:
        """Refuse a loss that is not one.

        Raises:
            PlanError: If it is not a finite number that can be differentiated.
        """
        found = jax.eval_shape(self._value, params, others, self.batch)
        if getattr(found, "shape", None) != () or not jnp.issubdtype(found.dtype, jnp.floating):
            shape = getattr(found, "shape", None)
            got = repr(found) if shape is None else f"an array of {found.dtype} of shape {shape}"
            raise PlanError(
                "`loss` must take the model and the batch and return one number that can be differentiated; it "
                f"returned {got}."
            )
        number = float(jax.jit(self._value)(params, others, self.batch))
        if not math.isfinite(number):
            raise PlanError(
                f"The loss is {number} at initialisation, before any step, so nothing can be measured. Look for "
                "NaN or infinity in the batch, and for a division or a logarithm of zero in the loss."
            )

    def written(self, params: Any, others: Any) -> tuple[Acting, tuple[str, ...]]:
        """Every output by its kind, and the places of attention logits, in order; traced once and not computed."""
        if self._written is None:
            values = named(self.table, params)
            kept: list[Recorder] = []
            jax.eval_shape(
                lambda: self._watched(params, values, others, self.batch, reads=(), kept=kept)
            )
            outputs = tuple((o.tensor, o.looked_up, tuple(o.old)) for o in kept[0].outputs)
            places = tuple(a.place for a in kept[0].attentions)
            self._written = Acting(self.table, outputs), places
        return self._written

    def watch(self, params: Any, old: Mapping[str, Any], others: Any, scene: Scene) -> Record:
        """The observations of one pass."""
        acting, attends = self.written(params, others)
        module = scene.places.module
        labels = [module.get(acting.name(t, looked_up=looked)) for t, looked, _ in acting.written]
        reads = tuple(label in scene.places.reads for label in labels)
        outputs, attentions, loss = self._watch(params, dict(old), others, self.batch, reads=reads)
        # Of a model that is a function, or has several, nothing else shows what it returns as a whole.
        record = Record(returned=[] if scene.readouts else [_wide(loss)])
        wanted = {self.table[n].name: n for n in scene.names}
        for label, found, (main, looked, _) in zip(labels, outputs, acting.written, strict=True):
            if label is None:  # a layer that shallower networks lack
                continue
            record.outputs.setdefault(label, []).append(_wide(found["value"]))
            if found["given"] is not None:
                record.inputs.setdefault(label, []).append(_wide(found["given"]))
            for tensor, change in found["own"].items():
                there = acting.name(main, looked_up=looked) if tensor == main else tensor
                if wanted.get(tensor) == there:
                    record.own.setdefault(there, []).append(_wide(change))
            if found["given"] is not None and found["own"]:
                # What reads out is a sum over its tensors, so each takes its own change back.
                kept = _wide(found["value"]) - sum(map(_wide, found["own"].values()))
                record.kept.setdefault(label, []).append(kept)
        for place, found in zip(attends, attentions, strict=True):
            record.logits.setdefault(place, []).append(_wide(found["value"]))
            # What is not trained does not move.
            before = found["value"] if found["was"] is None else found["was"]
            was = Logits(place, _wide(before), tuple(map(_wide, found["old"])))
            new = Logits(place, _wide(found["value"]), tuple(map(_wide, found["now"])))
            record.moved.setdefault(place, []).append((was, new))
        return record

    def _watched(
        self,
        params: Any,
        old: dict[str, Any],
        others: Any,
        given: Any,
        *,
        reads: tuple[bool, ...],
        kept: list[Recorder] | None = None,
    ) -> Any:
        """The arrays of one pass; what recorded them goes into `kept`."""
        values = named(self.table, params)

        def flat(values: dict[str, Any], others: Any, given: Any) -> Any:
            return self._value(renamed(self.table, params, values), others, given)

        closed = jax.make_jaxpr(flat)(values, others, given)
        tensors = [
            SeenArray(values[n], old={n: old[n]}, was=old[n], origin=frozenset([n]))
            for n in sorted(values)
        ]
        data = [SeenArray(x, data=True) for x in jax.tree.leaves((others, given))]
        recorder = Recorder(frozenset(t.name for t in self.table.tensors if t.of))
        (loss,) = recorder.run(closed, [*tensors, *data])
        if kept is not None:
            kept.append(recorder)
        read = reads or (False,) * len(recorder.outputs)
        outputs = [
            {
                "value": o.value,
                "given": o.given if wanted else None,
                "own": {n: o.value - was for n, was in o.old.items()},
            }
            for o, wanted in zip(recorder.outputs, read, strict=True)
        ]
        attentions = [
            {"value": a.value, "was": a.was, "now": a.factors, "old": a.old_factors}
            for a in recorder.attentions
        ]
        return outputs, attentions, loss.value


class WatchedTree:
    """A network as `scalewise.plan._sizes.Network` asks for it.

    Args:
        program: What it computes.
        params: The arrays that are trained.
        others: Further arrays; every pass starts from them.
        scene: Where its tensors act.
        rate: What multiplies every update.
    """

    def __init__(
        self, program: Program, params: Any, others: Any, scene: Scene, rate: float
    ) -> None:
        self._program, self._params, self._others = program, params, others
        self._scene, self._rate = scene, rate
        self._state = program.start(params)

    def weights(self) -> dict[str, Any]:
        """Arrays of jax do not change."""
        found = named(self._program.table, self._params)
        return {n: _wide(found[self._program.table[n].name]) for n in self._scene.names}

    def put(self, weights: Mapping[str, Any]) -> None:
        """Write tensors."""
        self._params = renamed(self._program.table, self._params, self._all(weights))

    def restart(self, lr: float) -> None:
        """A new state, and the rate that multiplies every update."""
        self._rate, self._state = lr, self._program.start(self._params)

    def step(self, t: int, *, watched: bool) -> tuple[dict[str, Any], Record | None]:
        """One step of the optimiser, with a pass before it if that is watched."""
        seen = self.watch({}) if watched else None
        slopes, self._params, self._state = self._program.step(
            self._params, self._state, self._others, self._program.batch, self._rate
        )
        found = named(self._program.table, slopes)
        table = self._program.table
        return {n: _wide(found[table[n].name]) for n in self._scene.names}, seen

    def watch(self, old: Mapping[str, Any]) -> Record:
        """A pass on the arrays of the first."""
        return self._program.watch(self._params, self._all(old), self._others, self._scene)

    def _all(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Every trained array by the plan's name, some of them replaced."""
        table = self._program.table
        now = named(table, self._params)
        return now | {
            (m := table[n].name): jax.device_put(np.asarray(x, now[m].dtype))
            for n, x in values.items()
        }

    def rms(self, parts: Sequence[Any]) -> float:
        """Over all entries as real numbers, in float64; infinite if one is not finite."""
        count = sum(p.size * (2 if np.iscomplexobj(p) else 1) for p in parts)
        squares = math.fsum(float(np.vdot(p, p).real) for p in parts)
        size = math.sqrt(squares / count) if count else 0.0
        return size if math.isfinite(size) else math.inf

    def spectral(self, array: Any) -> float:
        """Largest singular value, in float64; infinite if an entry is not finite."""
        wide = np.asarray(array, dtype=np.float64).reshape(len(array), -1)
        return float(np.linalg.norm(wide, 2)) if np.isfinite(wide).all() else math.inf

    def spacing(self, array: Any) -> float:
        """Root mean square of the distance from each entry to the next number of its precision."""
        real = array.view(array.real.dtype) if np.iscomplexobj(array) else array
        with np.errstate(divide="ignore"):
            steps = 2.0 ** np.floor(np.log2(np.abs(real)))
        return self.rms([self._scene.precision * steps])

    def spread(self, array: Any) -> tuple[float, bool]:
        """Size of the entries about their mean, or of the mean itself if all are equal, and whether they are."""
        real = array.view(array.real.dtype) if np.iscomplexobj(array) else array
        if real.size <= 1 or bool((real == real.flat[0]).all()):
            return self.rms([real]), True
        return self.rms([real - real.mean()]), False


def _wide(array: Any) -> np.ndarray:
    """On the host, in double precision."""
    found = np.asarray(array)
    return found.astype(np.complex128 if np.iscomplexobj(found) else np.float64)
