"""`network`: a model of jax as a network."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from scalewise._checked import Count, checked
from scalewise.jax._drawn import drawn, told_by_entries
from scalewise.jax._given import standing_in
from scalewise.jax._look import ModelCall, marked
from scalewise.jax._network import Held, Key, NetworkWalk, Unread, fixed
from scalewise.jax._parts import parted
from scalewise.jax._plan import Apply
from scalewise.jax._trees import class_of, is_nnx_module
from scalewise.networks import Network
from scalewise.networks.spi import Layer
from scalewise.plan import PlanError
from scalewise.plan.spi import Argument, Inputs
from scalewise.plan.spi import given as called_with
from scalewise.reading.spi import (
    GivenLayers,
    MixedSamplesError,
    ModelReader,
    ParameterLaw,
    Pass,
    Plain,
    ReadModel,
    UnreadError,
    in_a_row,
    layers_of,
    network_from,
    read_model,
)


@checked(error=PlanError)
def network(
    build: Any,
    inputs: Any,
    *,
    width: Count | None = None,
    at: int | Sequence[int] | None = None,
    gains: bool = False,
    apply: Apply | None = None,
    layout: Literal["plain", "linen"] = "plain",
    seed: Argument = "seed",
    given: Mapping[str, Any] | None = None,
) -> Network:
    r"""Read a model into a network, by the operations of one call.

    Args:
        build: A function of the width that returns a new model (an NNX module, an Equinox module or a tree of
            arrays), called at `width` and at twice as much; or a model with freshly drawn weights, whose hidden
            layers are then all taken to grow.
        inputs: What the model is called with: an array, a tuple of arguments or a dict of named ones. The first
            axis of every array is that of the samples, unless the model computes something else of some samples
            alone, or takes one sample at a time; then all of it is one sample.
        width: The network's; of a model the channels of its first layer for ``None``.
        at: Of outputs that have positions the one that is kept, such as ``-1`` of a language model: observables of
            order $1/n$ and trainings are those of outputs at one site. All are kept for ``None``.
        gains: Whether parameters that begin as one number (gains and biases of norms) count for what they learn.
        apply: Calls the model, as for `scalewise.jax.plan`: ``lambda model, x: jax.vmap(model)(x)``.
        layout: ``"linen"`` if the tree is what a module of Flax Linen initialises.
        seed: What the factory calls the whole number that it draws by. It is used where the equations of a draw do
            not tell its law.
        given: Layers of ours for modules that are not understood, of NNX, Equinox or Linen: name of the module, as
            its parameters have it, to a layer or several, which take its first argument. Their numbers are not the
            model's, and nothing checks them.

    Returns:
        The network of that width, whose inputs are the model's: of several arrays the numbers of a sample in a row.
        Variances are those with which the factory draws, to $10^{-5}$ of them, where it makes each entry from
        random bits of its own; else, with a note, and of a model those of its entries. Learning rates are 1 for
        every parameter.

    Raises:
        PlanError: If something the model does is not known; with the place. Or if the network with the model's
            weights does not return what the model returns: in double precision, or where its code asks for single
            precision, in that.

    Example:
        >>> import jax, jax.numpy as jnp, scalewise as sw
        >>> def build(width):
        ...     first, last = jax.random.split(jax.random.key(0))
        ...     return {"W": jax.random.normal(first, (8, width)) / 8**0.5,
        ...             "head": jax.random.normal(last, (width, 1)) / width**0.5}
        >>> net = sw.jax.network(build, jnp.ones((2, 8)), width=64,
        ...     apply=lambda params, x: jnp.tanh(x @ params["W"]) @ params["head"])
        >>> net.depth, [round(c, 3) for c in net.C_W]
        (2, [1.0, 1.0])
    """
    made = called_with(inputs)
    if made is None:
        raise PlanError(
            "`inputs` must be what the model is called with, such as an array of a few samples."
        )
    place = None if at is None else (at,) if isinstance(at, int) else tuple(at)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            how = _How(apply, layout, seed, place, gains, layers_of(given))
            return _network(build, made, width, how)
    except (UnreadError, MixedSamplesError) as error:
        raise PlanError(str(error)) from error


@dataclass(frozen=True)
class _How:
    """How a model is called and read; as for `network`."""

    apply: Callable[..., Any] | None
    layout: str
    seed: str
    at: tuple[int, ...] | None
    gains: bool
    layers: Mapping[str, tuple[Layer, ...]]


def _network(build: Any, inputs: Inputs, width: int | None, how: _How) -> Network:
    if not callable(build) or is_nnx_module(build) or class_of(build, "equinox", ("Module",)):
        _, one = _read(build, {}, inputs, how, told_by_entries(build, how.layout))
        first = next(s.given[0].channels for s in one.steps if s.verb == "draw")
        return network_from(one, first if width is None else width, None)
    if width is None:
        raise PlanError("`width` must be given with a factory, such as width=64.")
    sizes, far = ({_argument(build): n} for n in (width, 2 * width))
    model, laws, guessed = drawn(build, sizes, how.layout, how.seed)
    wider, laws_far, _ = drawn(build, far, how.layout, how.seed)
    called, one = _read(model, sizes, inputs, how, laws)
    if guessed:
        one.seen.read.notes[_not_told(guessed)] = None
    wide = _Called(wider, far, inputs, how, double=called.double).read(laws_far, called.samples)
    return network_from(one, width, wide)


def _not_told(names: Sequence[str]) -> str:
    told = [f"`{name}`" for name in names[:3]] + [f"{len(names) - 3} more"] * (len(names) > 3)
    verb = (
        "is not drawn entry by entry; its"
        if len(names) == 1
        else "are not drawn entry by entry; their"
    )
    return f"{', '.join(told)} {verb} entries are taken for independent numbers."


def _read(
    model: Any,
    sizes: Mapping[str, Any],
    inputs: Inputs,
    how: _How,
    laws: Mapping[str, ParameterLaw],
) -> tuple[_Called, ReadModel]:
    """A model as steps: in double precision, or in its own where its code does not bear another."""
    called = _Called(model, sizes, inputs, how)
    try:
        return called, called.read(laws, None)
    except _NotCalledError as error:
        with suppress(_NotCalledError):
            called = _Called(model, sizes, inputs, how, double=False)
            return called, called.read(laws, None)
        raise PlanError(str(error)) from error.__cause__


class _NotCalledError(PlanError):
    """The model could not be called."""


def _argument(build: Callable[..., Any]) -> str:
    """The name of a factory's width: ``width``, or its first argument."""
    names = list(inspect.signature(build).parameters)
    if not names:
        raise PlanError("The factory must take a width: `def build(width)`.")
    return "width" if "width" in names else names[0]


class _Called:
    """A model and what it is called with.

    Args:
        model: The model.
        sizes: What its factory was called with.
        inputs: What it is called with.
        how: How it is called and read.
        double: Whether all its numbers are made double precision; else they are as its code has them.
    """

    def __init__(
        self,
        model: Any,
        sizes: Mapping[str, Any],
        inputs: Inputs,
        how: _How,
        *,
        double: bool = True,
    ) -> None:
        self.how, self.sizes, self.double, self.samples = how, sizes, double, False
        self.call = ModelCall(lambda: model, how.apply, how.layout)
        with jax.enable_x64(double):
            own = _doubled if double else _itself
            parts = parted(model, how.layout)
            self.parts = jax.tree.map(own, (parts.params, parts.others))
            self.join = parts.join
            leaves, self.tree = jax.tree.flatten((inputs.args, dict(inputs.kwargs)))
            self.leaves = [own(jax.device_put(x)) if _is_array(x) else x for x in leaves]
        self.arrays = [k for k, x in enumerate(leaves) if _is_array(x)]

    def read(self, laws: Mapping[str, ParameterLaw], samples: bool | None) -> ReadModel:
        """The model as steps.

        Args:
            laws: How its parameters are drawn.
            samples: Whether the first axis is that of the samples, if that is known. It is of a model that is read
                for its sizes alone, which is not computed.
        """
        arrays = [self.leaves[k] for k in self.arrays]
        with jax.enable_x64(self.double):
            if samples is None:
                output = self._output(arrays)
                samples = self._has_samples(output)
            else:
                output = np.zeros(
                    jax.eval_shape(lambda *given: self._run(given, mark=False)[0], *arrays).shape
                )
            closed = jax.make_jaxpr(lambda *given: self._run(given, mark=True)[0])(*arrays)
        self.samples = samples
        with jax.enable_x64(True):
            return read_model(
                lambda flat: self._pass(
                    closed, ModelReader(laws, flat, self.how.gains), output, samples
                ),
                self.how.at,
            )

    def _run(self, arrays: Sequence[Any], *, mark: bool) -> list[Any]:
        leaves = list(self.leaves)
        for k, value in zip(self.arrays, arrays, strict=True):
            leaves[k] = value
        args, kwargs = jax.tree.unflatten(self.tree, leaves)
        model = self.join(*self.parts)
        if not mark:
            return self.call.outputs(model, args, kwargs, self.sizes)
        model = marked(model, self.how.layout)
        with standing_in(model, list(self.how.layers)):
            return self.call.outputs(model, args, kwargs, self.sizes)

    def _output(self, arrays: Sequence[Any]) -> np.ndarray:
        try:
            return np.asarray(
                jax.jit(lambda *given: self._run(given, mark=False)[0])(*arrays), dtype=float
            )
        except PlanError:
            raise
        except Exception as error:
            raise _NotCalledError(
                f"The model cannot be called with the `inputs` given: {type(error).__name__}: "
                f"{str(error).partition(chr(10))[0].rstrip('.:')}. Give what it is called with: one array, a tuple "
                "of arguments, or a dict of named ones; and with `apply` how it is called."
            ) from error

    def _has_samples(self, whole: np.ndarray) -> bool:
        """True if the first axis is that of the samples: one of them alone gives the same."""
        arrays = [self.leaves[k] for k in self.arrays]
        counts = {x.shape[0] if x.ndim else 0 for x in arrays}
        if len(counts) != 1 or 0 in counts:
            return False
        try:
            alone = self._output([x[:1] for x in arrays])
        except _NotCalledError:
            return False
        near = 1e-6 if self.double else 1e-3
        return alone.shape == (1, *whole.shape[1:]) and np.allclose(
            alone, whole[:1], rtol=near, atol=near
        )

    def _pass(self, closed: Any, read: ModelReader, output: np.ndarray, samples: bool) -> Pass:
        width = next(iter(self.sizes.values()), 1)
        walk = NetworkWalk(read, GivenLayers(self.how.layers, width))
        held, rows, offset = [], [], 0
        for k in self.arrays:
            x = self.leaves[k]
            tokens = jnp.issubdtype(x.dtype, jnp.integer)
            if not x.ndim or not (jnp.issubdtype(x.dtype, jnp.floating) or (tokens and samples)):
                held.append(Held(fixed(x)))
                continue
            held.append(Held(read.enter(x.shape, offset, tokens=tokens, samples=samples)))
            rows.append(np.asarray(x, dtype=float))
            offset += x.size // (len(x) if samples else 1)
        (found,) = walk.run(closed, held)
        if isinstance(found.own, Unread):
            raise found.own.error
        if isinstance(found.own, Plain | Key) or not rows:
            raise UnreadError(
                "What the model returns does not depend on its inputs and parameters. Let it return what it "
                "computes."
            )
        return Pass(read, found.own, output, in_a_row(rows, samples), walk.values)


def _is_array(x: Any) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype")


def _itself(x: Any) -> Any:
    return x


def _doubled(x: Any) -> Any:
    if not _is_array(x):
        return x
    # On the host, where nothing is compiled for it.
    wide = jnp.issubdtype(x.dtype, jnp.floating)
    return jax.device_put(np.asarray(x).astype(np.float64) if wide else x)
