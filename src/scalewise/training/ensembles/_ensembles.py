r"""The ensembles that are drawn at one set of widths: pilots, trained networks, networks that nobody trains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from scalewise.nets.spi import (
    LARGEST_BATCH,
    LOST,
    Kind,
    MeanSums,
    NetworkEnsemble,
    filled,
    first_activation,
    network_keys,
    on_host,
    precision,
    refuse_overflow,
)
from scalewise.networks import Network
from scalewise.tasks import Task
from scalewise.training._algorithm import Algorithm
from scalewise.training.ensembles._reading import NetworkReading, upper
from scalewise.training.ensembles._start import (
    Start,
    draw,
    look,
    moved_along,
    ntks,
    outputs_of,
    pulled,
    rates_of,
)
from scalewise.training.ensembles._ways import Curriculum, plan, response

Control = Literal["linear", "free"] | None
PILOTS = 200
MORE = 10  # networks that are not trained, for each one that is
TOGETHER = 64  # networks trained at once on a processor: all wait for the slowest
STREAM = 4  # of random numbers; `nets` has those below


@dataclass(frozen=True)
class Pilot:
    r"""Readings of some networks that take no part in the ensemble, taken before it is drawn.

    Args:
        metric: Mean $\widehat G$ of the outputs.
        ntk: Mean $\widehat H$ of one output.
        h: Its eigenvalues on the training samples.
        scale: A typical initial error of an output.
    """

    metric: Float[np.ndarray, "sample sample"]
    ntk: Float[np.ndarray, "sample sample"]
    h: Float[np.ndarray, " direction"]
    scale: float


def pilot(net: Network, task: Task, *, seed: int, dtype: str) -> Pilot:
    """Draw the pilots of one set of widths."""
    x, outputs = task.all_inputs.astype(dtype), net.output_dim
    indices = np.arange(filled(PILOTS), dtype=np.uint32)
    with precision(dtype):
        parameters, _ = draw(net, network_keys(seed, _stream(net, 0), indices), dtype)
        start = look(net, parameters, x, task.targets.T, ntk=True)
    assert start.ntk is not None
    metric, ntk = (
        np.einsum("kiaib->ab", m[:PILOTS].reshape(-1, outputs, len(x), outputs, len(x)))
        / (outputs * PILOTS)
        for m in (start.spread, start.ntk)
    )
    if not (np.isfinite(metric).all() and np.isfinite(ntk).all()):
        refuse_overflow(first_activation(net), dtype)
    count = len(task.inputs)
    h = np.linalg.eigvalsh(ntk[:count, :count])
    first = np.mean(np.diag(metric)[:count]) + np.mean(task.targets**2)
    return Pilot(metric, ntk, np.maximum(h, 0.0), float(np.sqrt(first)))


def _stream(net: Network, kind: int) -> tuple[int, ...]:
    return (STREAM, kind, *net.widths[1:-1])


def trained_ensembles(
    net: Network,
    task: Task,
    algorithm: Algorithm,
    known: Pilot,
    *,
    control: Control,
    dtype: str,
    changes: bool,
) -> tuple[NetworkReading, list[tuple[NetworkEnsemble, int]]]:
    """Ensembles of one set of widths, each with its number of networks for one that is asked for.

    Args:
        net: The network.
        task: The task.
        algorithm: One that descends, its rate resolved.
        known: From pilots of these widths.
        control: The control variate.
        dtype: Of the networks.
        changes: Whether the change of the NTK is wanted.
    """
    curriculum = plan(net, task, algorithm, known.h, scale=known.scale, dtype=dtype)
    count = len(task.inputs)
    R = _mean_response(curriculum, known, count)
    reading = NetworkReading(task, R, (R @ task.targets).T)
    group = _Networks(net, task, algorithm, curriculum, reading, control, dtype, changes)
    parts = [*reading.names, "spread", *["ntk_change"][: int(changes)]]
    told = [*parts, LOST, "off"]
    samples = len(task.all_inputs)
    joint = samples * net.output_dim
    size = 8 * len(rates_of(net, dtype)) * np.dtype(dtype).itemsize + 8 * 12 * joint**2
    most = TOGETHER if on_host() else LARGEST_BATCH
    sums: dict[str, Kind] = dict.fromkeys(parts, MeanSums)
    kept: dict[str, Kind] = dict.fromkeys(told, MeanSums)
    name = f"trained-{'-'.join(map(str, net.widths[1:-1]))}"
    sigma = first_activation(net)
    trained = NetworkEnsemble(
        name, group.trained, kept, sigma, _stream(net, 1), bytes_per_network=size, most=most
    )
    found = [(trained, 1)]
    if control == "linear":
        name = f"un{name}"
        found.append(
            (NetworkEnsemble(name, group.untrained, sums, sigma, _stream(net, 2), size), MORE)
        )
    return reading, found


def _mean_response(
    curriculum: Curriculum, known: Pilot, count: int
) -> Float[np.ndarray, "sample train"]:
    """R of the mean NTK; directions that it does not have are left alone."""
    h, U = np.linalg.eigh(known.ntk[:count, :count])
    h = np.where(h > 1e-9 * h[-1], h, 0.0)
    gain = curriculum.gain(h)
    return known.ntk[:, :count] @ (U * np.where(np.isfinite(gain), gain, 0.0)) @ U.T


@dataclass(frozen=True)
class _Networks:
    """Networks of one shape, and what is done to them."""

    net: Network
    task: Task
    algorithm: Algorithm
    curriculum: Curriculum
    reading: NetworkReading
    control: Control
    dtype: str
    changes: bool

    def trained(self, keys: np.ndarray) -> dict[str, np.ndarray]:
        """Networks that are trained, less what the control knows of them."""
        start = self._started(keys, ntk=self.control == "linear" or self.changes)
        after, failed, off = self.curriculum.train(start)
        x = self.task.all_inputs.astype(self.dtype)
        found = self.reading.of(outputs_of(self.net, after, x) + start.offset)
        if self.control == "linear":
            known = self.reading.of(self._linear(start)[0])
            known |= {"ntk_change": self._led(start)} if self.changes else {}
        elif self.control == "free":
            zeta, spread = self._free(start)
            known = self.reading.free(zeta, zeta, spread)
        else:
            known = {}
        if self.changes:
            found["ntk_change"] = self._changed(start, after)
        found = _with_spread({name: a - known.get(name, 0.0) for name, a in found.items()})
        return found | {LOST: failed.astype(float), "off": off[:, None]}

    def untrained(self, keys: np.ndarray) -> dict[str, np.ndarray]:
        """Readings of the linear control on networks that nobody trains, less those of the free one."""
        start = self._started(keys, ntk=True)
        linear, mean = self._linear(start)
        zeta, spread = self._free(start)
        found = self.reading.of(linear)
        known = self.reading.free(linear - mean, zeta, spread, mean)
        if self.changes:
            found["ntk_change"] = self._led(start)
        return _with_spread({name: a - known.get(name, 0.0) for name, a in found.items()})

    def _started(self, keys: np.ndarray, *, ntk: bool) -> Start:
        net, x, y = self.net, self.task.all_inputs.astype(self.dtype), self.task.targets.T
        if self.algorithm.starts_with == "kernel":
            return look(net, draw(net, keys, self.dtype)[0], x, y, ntk=ntk)
        extra = len(rates_of(net, self.dtype)) + y.size
        parameters, more = draw(net, keys, self.dtype, extra=extra)
        start = look(net, parameters, x, y, ntk=True)
        assert start.ntk is not None
        function = moved_along(net, parameters, more[:, : -y.size], x)
        noise = np.asarray(more[:, -y.size :], np.float64).reshape(-1, *y.shape)
        offset = function - start.outputs
        goals = y + np.sqrt(self.curriculum.noise_variance) * noise - offset[:, :, : y.shape[1]]
        return start._replace(outputs=function, spread=start.ntk, offset=offset, goals=goals)

    def _wrong(self, start: Start) -> Float[np.ndarray, "network output train"]:
        """The initial error, less what is not random in it: outputs minus noise of the targets."""
        y = self.task.targets.T
        return (
            start.outputs[:, :, : y.shape[1]] + y - start.goals - start.offset[:, :, : y.shape[1]]
        )

    def _linear(self, start: Start) -> tuple[np.ndarray, np.ndarray]:
        """The outputs of the network with its NTK fixed, and what is left of them without its initial outputs."""
        assert start.ntk is not None
        train, respond = self._taught(start), self._response(start)
        shape, across = start.outputs.shape, start.ntk[:, :, train]

        def answer(v: np.ndarray) -> np.ndarray:
            return np.einsum("kxj,kj->kx", across, respond(v)).reshape(shape)

        y = self.task.targets.T.ravel()
        mean = answer(np.broadcast_to(y, (shape[0], y.size)))
        return mean + start.outputs - answer(self._wrong(start).reshape(shape[0], -1)), mean

    def _led(self, start: Start) -> np.ndarray:
        """How the NTK changes if parameters go where it would lead them if it stayed as it is."""
        assert start.ntk is not None
        y, x = self.task.targets.T, self.task.inputs.astype(self.dtype)
        e = self._wrong(start) - y
        v = self._response(start)(e.reshape(len(e), -1)).reshape(e.shape)
        return self._changed(start, pulled(self.net, start.parameters, v, x))

    def _changed(self, start: Start, after: Any) -> np.ndarray:
        """The NTK with other parameters, less what it was, (network, entry)."""
        assert start.ntk is not None
        change = ntks(self.net, after, self.task.all_inputs.astype(self.dtype)) - start.ntk
        return change.reshape(len(change), -1)

    def _response(self, start: Start) -> Callable[[np.ndarray], np.ndarray]:
        assert start.ntk is not None
        train = self._taught(start)
        return response(self.curriculum, start.ntk[:, train[:, None], train])

    def _taught(self, start: Start) -> np.ndarray:
        """Joint indices of the training samples."""
        _, outputs, samples = start.outputs.shape
        return (np.arange(outputs)[:, None] * samples + np.arange(len(self.task.inputs))).ravel()

    def _free(self, start: Start) -> tuple[np.ndarray, np.ndarray]:
        """ζ with its covariance given the hidden layers."""
        R, outputs = self.reading.R, start.outputs.shape[1]
        samples, count = R.shape
        zeta = start.outputs - self._wrong(start) @ R.T
        P = np.eye(samples)
        P[:, :count] -= R
        each = start.spread.reshape(-1, outputs, samples, outputs, samples)
        own = np.einsum("ax,kixjy,by->kiajb", P, each, P, optimize=True)
        own = own + self.curriculum.noise_variance * np.einsum(
            "ij,ab->iajb", np.eye(outputs), R @ R.T
        )
        return zeta, own.reshape(start.spread.shape)


def _with_spread(found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """And the products of what is averaged for the means: how far these are off together."""
    u = found["output"]
    return found | {"spread": upper(u[:, :, None] * u[:, None, :])}
