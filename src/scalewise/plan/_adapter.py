"""The protocol of adapters: what a framework does for a plan, and for the networks of one measurement."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from scalewise.plan._sizes import MeasuredNetwork, ModulePlaces
from scalewise.plan._table import Plan


@runtime_checkable
class Adapter(Protocol):
    """A plan together with the models of one framework: all that a measurement asks of it."""

    table: Plan

    @abstractmethod
    def at(self, **sizes: Any) -> Any:
        """This plan with another target."""
        ...

    @abstractmethod
    def with_constants(self, constants: Any) -> Any:
        """This plan with other constants of the base."""
        ...

    @abstractmethod
    def drawn(self, seed: int) -> Any:
        """The factory's model at the target, drawn by a seed and not yet initialised as planned."""
        ...

    @abstractmethod
    def _factory(self) -> Callable[..., Any]:
        """Function that builds the model; raises `PlanError` if the plan was loaded without."""
        ...

    @abstractmethod
    def _prepared(self, model: Any) -> Any:
        """A drawn model, initialised, and scaled where it does not scale itself: ready to be trained."""
        ...

    @abstractmethod
    def _by_theory(self) -> Any:
        """This plan drawn by the theory, without other constants; ``None`` where the model is not read."""
        ...

    @abstractmethod
    def _undisturbed(self) -> AbstractContextManager[None]:
        """The process's random numbers start the same inside and go on afterwards as if nothing had been drawn."""
        ...

    @abstractmethod
    def _bench(self, batch: Any, loss: Callable[[Any, Any], Any], setup: Any) -> Bench:
        """Networks on one batch and with one loss, set up by a function of the user's or as planned."""
        ...


@runtime_checkable
class Bench(Protocol):
    """The networks of one measurement, on one batch and with one loss; `plan` is an `Adapter`."""

    @property
    def searches(self) -> bool:
        """True if the learning rate is ours to choose."""
        ...

    def scene(self, plan: Any, seed: int) -> Scene:
        """The scene of one network; raises `PlanError` where its loss cannot be used."""
        ...

    def network(self, plan: Any, scene: Scene, seed: int, lr: float) -> MeasuredNetwork:
        """A network, ready to train: an independent draw for each seed; one that was looked at is taken."""
        ...

    def everywhere(self, plan: Any, scene: Scene, seed: int) -> Scene:
        """The scene with every place where something can be seen, and no tensors."""
        ...


@dataclass(frozen=True)
class Scene:
    """Facts that one network shows and that hold for all that differ from it in size alone.

    Args:
        names: The trainable tensors; a tied one by the name it has where it looks up.
        readouts: The tensors that read out; a tied one by the name it has there.
        places: Where all these act.
        zero_readout: Whether the readout starts at zero.
        precision: Rounding unit of the parameters.
        raised: Whether parameters and batches of half precision are raised to single: powers are those of
            the model, and rounding has none.
        whole: What stands for the model as a whole where no tensor reads out.
    """

    names: tuple[str, ...]
    readouts: tuple[str, ...]
    places: ModulePlaces
    zero_readout: bool
    precision: float
    raised: bool = True
    whole: str = "the model"
