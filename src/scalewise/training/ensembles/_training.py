r"""Training of many networks at once: descent step by step, a flow by an adaptive integrator, Newton's steps.

With $F=\lambda\nabla\mathcal L+\rho(\theta-\theta_0)$ descent moves by a rule of `_motions`, as the heavy ball
$u\leftarrow mu-\eta F$, $\theta\leftarrow\theta+u$, and the flow is $\dot\theta=-F$. What is kept is
$\theta-\theta_0$, so that small steps are not lost beside large weights: float32 then trains as far as its outputs
can be told apart.

Each network stops by itself, at a multiple of 16 steps, so it does not matter who is trained beside it. One that
fails is told from the others and takes none of them along.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from scalewise.nets.spi import Packed, spread
from scalewise.networks import Network
from scalewise.training._filters import Rule
from scalewise.training._motions import ByDescent
from scalewise.training.ensembles._start import packed, rates_of

CHUNK = 16  # steps between two looks at who has finished
SEVERAL = 8  # networks of which not all fail by chance
LEAST = 0.01  # of the time of the fastest direction: the least step of a flow
# What may become of a network, and what to do about it.
FAILURES = {
    "diverged, as their own NTKs are larger than that of an infinitely wide one": "Take a smaller rate or wider "
    "networks",
    "had not converged when they were to": "Stop training at a time or after a number of steps, give a `ridge`, or "
    "take wider networks",
    "have a singular NTK, whose inverse is needed": "Use dtype='float64', wider networks or fewer samples",
}
CLOSE = {"float32": 1e-4, "float64": 1e-6}  # of the initial error: what may be left at the end
LOCAL = 0.05  # of that: what a step of a flow may be off by


@dataclass(frozen=True)
class Lesson:
    """The task of a training, and how far it goes.

    Args:
        net: Shape and hyperparameters.
        x: Training samples, in the precision wanted.
        ridge: That of the algorithm.
        scale: A typical initial error of an output.
        to_the_end: Whether training ends when it has converged.
    """

    net: Network
    x: Float[np.ndarray, "train *positions feature"]
    ridge: float
    scale: float
    to_the_end: bool

    @property
    def own(self) -> Packed:
        """The network, its parameters in a row: the key by which its program is compiled."""
        return packed(self.net)

    @property
    def pull(self) -> Any:
        """The ridge as programs take it: none where it is 0."""
        return np.asarray(self.ridge, self.dtype) if self.ridge else None

    @property
    def rates(self) -> np.ndarray:
        """The rate of each parameter."""
        return rates_of(self.net, self.dtype)

    @property
    def dtype(self) -> str:
        """The precision of the networks."""
        return str(self.x.dtype)


# Networks after training: their parameters, (network, parameter), or what they were before if a network failed; of
# each which of `FAILURES` was its own; and what steps beyond the error control may have moved outputs by.
Finished = tuple[Any, Bool[np.ndarray, "network failure"], Float[np.ndarray, " network"]]


@dataclass(frozen=True)
class DescentProgram:
    """Descent step by step.

    Args:
        motion: The rule, with its rates.
        steps: How many; at the end of that many a network must have converged if it is trained to the end.
    """

    motion: ByDescent
    steps: int

    def begun(self, lesson: Lesson, start: Any, y: Any) -> tuple[Any, ...]:
        """Rest."""
        return _laid(start, 0.0), _laid(start, 0.0) if self.motion.remembers else None

    def chunk(
        self, lesson: Lesson, start: Any, y: Any, state: tuple[Any, ...], done: int
    ) -> tuple[tuple[Any, ...], Any, Any]:
        """The state a few steps later, what is left of the error, and who has no steps left."""
        count, rates = min(CHUNK, self.steps - done), self.motion.rates
        first = done if len(rates) > 1 else 0
        eta = np.zeros(CHUNK, lesson.dtype)
        eta[:count] = np.resize(np.array(rates), first + count)[first:]
        numbers = np.asarray(self.motion.momentum, lesson.dtype), lesson.pull
        given = (start, y, state, lesson.x, lesson.rates, numbers, eta, count)
        delta, velocity, left = _descended(lesson.own, self.motion.rule, *given)
        return (delta, velocity), left, np.full(len(y), done + count >= self.steps)

    def off(self, lesson: Lesson, state: tuple[Any, ...]) -> Float[np.ndarray, " network"]:
        """Nothing: steps are what training is made of."""
        return np.zeros(len(state[0]))


@dataclass(frozen=True)
class FlowProgram:
    r"""Gradient flow, by pairs of orders 3 and 2 whose difference keeps the error of each step small.

    Where a neuron slides along the kink of its activation the force jumps to and fro, and no step is short enough
    for that error. A least step, a share `LEAST` of $1/(h_{\max}+\rho)$, is taken all the same. What it may be off
    by is known, and such errors undo each other, as the kink is approached from both sides in turn: their squares
    are added up.

    Args:
        time: In units of the sum.
        h_max: The largest eigenvalue of the mean NTK: what an error of parameters may cost in outputs.
        steps: How many at most.

    Source: P. Bogacki, L. Shampine, Appl. Math. Lett. 2 (1989) 321.
    """

    time: float
    h_max: float
    steps: int

    def begun(self, lesson: Lesson, start: Any, y: Any) -> tuple[Any, ...]:
        """Rest, with the force there; a first step that is surely short enough."""
        delta = _laid(start, 0.0)
        force, left = _forces(lesson.own, start, delta, y, lesson.x, lesson.rates, lesson.pull)
        t = _laid(left, 0.0)
        return delta, force, t, _laid(left, 0.1 / (self.h_max + lesson.ridge)), t, left

    def chunk(
        self, lesson: Lesson, start: Any, y: Any, state: tuple[Any, ...], done: int
    ) -> tuple[tuple[Any, ...], Any, Any]:
        """The state a few steps later, what is left of the error, and who has reached the time."""
        allowed = LOCAL * CLOSE[lesson.dtype] * lesson.scale / math.sqrt(self.h_max)
        least = LEAST / (self.h_max + lesson.ridge)
        end, *rest = np.array([self.time, allowed, least], lesson.dtype)
        given = (start, y, state, lesson.x, lesson.rates, (lesson.pull, end, *rest))
        state = _flowed(lesson.own, *given)
        return state, state[-1], np.asarray(state[2]) >= end

    def off(self, lesson: Lesson, state: tuple[Any, ...]) -> Float[np.ndarray, " network"]:
        """From the squares of errors of parameters to an error of outputs."""
        return np.sqrt(self.h_max * np.asarray(state[4], np.float64))


def looped(
    program: DescentProgram | FlowProgram,
    lesson: Lesson,
    start: Any,
    goals: Float[np.ndarray, "network output train"],
) -> Finished:
    """Networks after training, some steps of all of them at a time.

    Args:
        program: What a few steps do.
        lesson: What is taught.
        start: The parameters before, (network, parameter).
        goals: Targets of each network.

    Raises:
        ValueError: If all of several networks fail.
    """
    y = spread(goals.astype(lesson.dtype).swapaxes(1, 2))
    state = program.begun(lesson, start, y)
    open_, done, half = np.ones(len(y), bool), 0, (0, np.ones(len(y)))
    left, failed = np.ones(len(y)), np.zeros((len(y), len(FAILURES)), bool)
    close, beyond = CLOSE[lesson.dtype] * lesson.scale, 1e6 * lesson.scale
    while open_.any():
        after, error, over = program.chunk(lesson, start, y, state, done)
        state = _kept(open_, after, state) if not open_.all() else after
        left = np.where(open_, np.asarray(error, np.float64), left)
        done += min(CHUNK, program.steps - done)
        failed[:, 0] |= open_ & ~(left <= beyond)
        if lesson.to_the_end and done >= program.steps:
            failed[:, 1] |= open_ & ~failed[:, 0] & (left > close)
        # A new array: JAX may be reading the old one still.
        open_ = open_ & ~over & ~(lesson.to_the_end & (left <= close)) & ~failed.any(axis=1)
        if 2 * done <= program.steps:
            half = (done, left)
    lost = failed.any(axis=1)
    if lost.all() and len(failed) >= SEVERAL:
        if failed[:, 0].any():
            raise _diverged(lesson, failed[:, 0])
        raise _unfinished(lesson, failed[:, 1], left, close, done, half)
    after = _moved(start, state[0], lost)
    return after, failed, np.where(lost, 0.0, program.off(lesson, state))


def _laid(like: Any, value: float) -> Any:
    """An array of one number, over the devices as another array; nothing is compiled for it."""
    return jax.device_put(np.full(like.shape, value, like.dtype), like.sharding)


@jax.jit
def _moved(start: Any, delta: Any, lost: Any) -> Any:
    """Parameters after training; those of networks that failed are what they were."""
    return start + jnp.where(lost[:, None], 0, delta)


@jax.jit
def _kept(open_: Any, after: Any, before: Any) -> Any:
    """The new state of those that are still trained."""
    return jax.tree.map(
        lambda new, old: jnp.where(open_.reshape(-1, *(1,) * (new.ndim - 1)), new, old),
        after,
        before,
    )


def _diverged(lesson: Lesson, which: np.ndarray) -> ValueError:
    return ValueError(
        f"`algorithm` makes {int(which.sum())} of {len(which)} networks of hidden widths "
        f"{list(lesson.net.widths[1:-1])} diverge: their own NTKs are larger than that of an infinitely wide "
        "one. Take a smaller rate or wider networks."
    )


def _unfinished(
    lesson: Lesson, late: np.ndarray, left: np.ndarray, close: float, done: int, half: Any
) -> ValueError:
    worst = int(np.argmax(np.where(late, left, 0.0)))
    before, then = half
    fall = math.log(then[worst] / left[worst]) if left[worst] < then[worst] else 0.0
    more = (
        f"it would take about {done + math.ceil((done - before) * math.log(left[worst] / close) / fall):.3g} steps"
        if fall
        else "the error does not fall any more"
    )
    return ValueError(
        f"`algorithm` has not converged after {done} steps in {int(late.sum())} of {len(late)} networks of hidden "
        f"widths {list(lesson.net.widths[1:-1])}: the largest error left is {left[worst]:.2g}, and {close:.2g} is "
        f"asked for; {more}. Stop training at a time or after a number of steps, give a `ridge`, or take wider "
        "networks."
    )


def _force(
    own: Packed, start: Any, delta: Any, y: Any, x: Any, rates: Any, ridge: Any
) -> tuple[Any, Any]:
    r"""$F$ of one network, and a bound of what is left of the errors of its outputs.

    Without a ridge, the errors. With one, what $\sqrt{\sum F^2/\lambda}$ can still move outputs by: in a
    direction of the NTK it is $\sqrt h\,r$, which moves them by $hr/(h+\rho)\le\sqrt h\,r/(2\sqrt\rho)$.
    """
    z, pull = jax.vjp(lambda p: own.outputs(p, x)[0], start + delta)
    e = z - y
    force = rates * pull(e)[0]
    if ridge is None:
        return force, jnp.abs(e).max()
    force += ridge * delta
    return force, _length(force, rates) / (2 * jnp.sqrt(ridge))


def _length(step: Any, rates: Any) -> Any:
    r"""$\sqrt{\sum(\Delta\theta)^2/\lambda}$; parameters without a rate do not move."""
    moves = rates > 0
    return jnp.sqrt(jnp.where(moves, step**2 / jnp.where(moves, rates, 1), 0).sum())


@partial(jax.jit, static_argnames="own")
def _forces(own: Packed, start: Any, delta: Any, y: Any, x: Any, rates: Any, ridge: Any) -> Any:
    return jax.vmap(lambda p, d, t: _force(own, p, d, t, x, rates, ridge))(start, delta, y)


@partial(jax.jit, static_argnames=("own", "rule"))
def _descended(
    own: Packed,
    rule: Rule,
    start: Any,
    y: Any,
    state: Any,
    x: Any,
    rates: Any,
    numbers: Any,
    eta: Any,
    count: Any,
) -> Any:
    momentum, ridge = numbers

    def one(start: Any, y: Any, delta: Any, velocity: Any) -> Any:
        def step(k: Any, now: Any) -> Any:
            delta, velocity, left = now
            force, error = _force(own, start, delta, y, x, rates, ridge)
            move, after = rule(0 if velocity is None else velocity, force, eta[k], momentum)
            after = None if velocity is None else after
            return delta + move, after, jnp.maximum(left, error)

        return jax.lax.fori_loop(0, count, step, (delta, velocity, jnp.zeros((), x.dtype)))

    return jax.vmap(one)(start, y, *state)


@partial(jax.jit, static_argnames="own")
def _flowed(own: Packed, start: Any, y: Any, state: Any, x: Any, rates: Any, numbers: Any) -> Any:
    ridge, end, allowed, least = numbers

    def one(start: Any, y: Any, *state: Any) -> Any:
        def force(delta: Any) -> Any:
            return _force(own, start, delta, y, x, rates, ridge)

        def step(_: Any, now: Any) -> Any:
            delta, first, t, dt, square, error = now
            dt = jnp.minimum(jnp.maximum(dt, least), end - t)
            second, _ = force(delta - dt / 2 * first)
            third, _ = force(delta - dt * 3 / 4 * second)
            moved = delta - dt / 9 * (2 * first + 3 * second + 4 * third)
            last, left = force(moved)
            off = dt / 72 * (-5 * first + 6 * second + 8 * third - 9 * last)
            wrong = _length(off, rates) / allowed
            grow = jnp.clip(0.9 * jnp.maximum(wrong, 1e-6) ** (-1 / 3), 0.2, 5.0)
            grow = jnp.where(jnp.isfinite(grow), grow, 0.2)
            forced = (wrong > 1) & (dt <= least)
            squares = square + jnp.where(forced, (wrong * allowed) ** 2, 0)
            after, before = (moved, last, t + dt, squares, left), (delta, first, t, square, error)
            kept = [
                jnp.where((wrong <= 1) | forced, a, b) for a, b in zip(after, before, strict=True)
            ]
            return *kept[:3], dt * grow, *kept[3:]

        return jax.lax.fori_loop(0, CHUNK, step, state)

    return jax.vmap(one)(start, y, *state)
