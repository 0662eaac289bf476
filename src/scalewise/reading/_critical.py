r"""An initialisation that keeps sizes through every layer, branch and read-out of a model that was read.

With $m$ the mean square of what a random layer reads, $C_W=(t-C_b)/m$ gives it the size $t$: 1 behind inputs,
tokens, norms and activations, $1/B$ where it ends one of the $B$ branches of a stream, so that all of them together
add what the stream began with, and $1/4$ where it reads out. Behind an activation that no norm follows, sizes must
be kept through any depth, and gradients with them: there it is the critical $C_W$ of the activation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from scalewise._readable import Rows, readable
from scalewise.activations import Activation
from scalewise.critical import criticality
from scalewise.networks import Network
from scalewise.reading._steps import BuildStep, DrawnLayer, Traced

_SAME = 1e-3  # of a factor
_READOUT = 0.25  # half of the size of a signal
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(80)


@dataclass(frozen=True)
class Proposal:
    """Another variance of one random layer.

    Args:
        parameter: Whose entries are drawn.
        place: The module.
        C_W: As the factory draws it.
        proposed: As it should be.
        reason: Why, a few words.
    """

    parameter: str
    place: str
    C_W: float
    proposed: float
    reason: str

    @property
    def factor(self) -> float:
        """The factor of the standard deviation."""
        return math.sqrt(self.proposed / self.C_W)


@dataclass(frozen=True)
@readable
class CriticalInit:
    """An initialisation that keeps the size of signals, beside the one that a factory draws.

    Args:
        network: The model as it was read.
        proposals: For every random layer its variance as it is drawn, and as it should be.
    """

    network: Network
    proposals: tuple[Proposal, ...]

    @property
    def constants(self) -> dict[str, dict[str, float]]:
        """Factors of standard deviations by parameter, for ``plan(..., constants=...)``, but for those of 1."""
        factors = factors_of(self.proposals)
        return {name: {"std": f} for name, f in factors.items() if abs(f - 1) > _SAME}

    @property
    def drawn_so(self) -> Network:
        """The network whose layers have these variances: for `predict`."""
        return with_variances(self.network, self.proposals)

    def _told(self) -> list[str | Rows]:
        head = ("parameter", "module", "C_W", "critical", "std times", "why")
        cells = [
            (p.parameter, p.place, f"{p.C_W:.4g}", f"{p.proposed:.4g}", f"{p.factor:.3g}", p.reason)
            for p in self.proposals
        ]
        return ["An initialisation that keeps the size of signals:", Rows(head, cells)]


def proposals(net: Network, x: np.ndarray) -> tuple[Proposal, ...]:
    """Parameters to draw otherwise.

    Args:
        net: A model that was read.
        x: Some of its inputs.

    Raises:
        ValueError: If the network was not read from a model.
    """
    (layer,) = net.layers
    if not isinstance(layer, Traced):
        raise ValueError(
            "This network was not read from a model. Use `at_criticality` of the network."
        )
    steps = layer.steps
    targets = _targets(steps)
    normed = _normed(steps)
    sizes: list[float] = []
    found: dict[str, Proposal] = {}
    for k, step in enumerate(steps):
        below = [1.0 if j < 0 else sizes[j] for j in step.of]
        if step.verb != "draw":
            sizes.append(_size(step, below, x))
            continue
        drawn: DrawnLayer = step.given[0]
        own, target = drawn.own, targets[k]
        known = found.get(drawn.name)
        if (
            known is not None or own.C_W == 0 or own.lambda_W == 0
        ):  # again, begins as 0, or fixed numbers
            C_W = own.C_W if known is None else known.proposed
        else:
            C_W, reason = _proposed(steps, step, target, below[0], normed[k], own.C_b)
            found[drawn.name] = Proposal(
                drawn.name.split(" (")[0], step.place, own.C_W, C_W, reason
            )
        sizes.append(own.C_b + C_W * below[0])
    return tuple(found.values())


def _proposed(
    steps: tuple[BuildStep, ...],
    step: BuildStep,
    target: float,
    size: float,
    normed: bool,
    C_b: float,
) -> tuple[float, str]:
    """The variance that is proposed for a random layer, and the reason."""
    below = steps[step.of[0]] if step.of[0] >= 0 else None
    if target == 1 and not normed and below is not None and below.verb == "apply":
        record = criticality(below.given[0])
        if record.C_W and record.C_b == 0:
            return record.C_W, f"critical for {below.given[0].name}"
    wanted = max(target - C_b, 0.1 * target) / max(size, 1e-300)
    if target == 1:
        return wanted, "keeps the size"
    if target == _READOUT:
        return wanted, "reads out at half the size"
    return wanted, f"one of {round(1 / target)} branches"


def _size(step: BuildStep, below: list[float], x: np.ndarray) -> float:
    """The mean square of what a step without weights makes."""
    given = step.given
    match step.verb:
        case "read":
            return float(np.mean(np.square(given[0](x, np, *given[1]))))
        case "apply":
            return _square(given[0], below[0])
        case "add":
            return sum(f**2 * m for f, m in zip(given, below, strict=True))
        case "multiply":
            return math.prod(below)
        case "norm":
            return 1.0
        case "stack" | "join":
            return float(np.mean(below))
        case "attend":
            return below[2]
        case _:
            return below[0]


def _square(sigma: Activation, size: float) -> float:
    """The mean square of an activation of normal numbers."""
    values = np.square(sigma(math.sqrt(size) * _NODES))
    return float(values @ _WEIGHTS / _WEIGHTS.sum())


def _ancestors(steps: tuple[BuildStep, ...]) -> list[frozenset[int]]:
    found: list[frozenset[int]] = []
    for k, step in enumerate(steps):
        below = frozenset().union(*(found[j] for j in step.of if j >= 0))
        found.append(below | {k})
    return found


def _normed(steps: tuple[BuildStep, ...]) -> list[bool]:
    """True of steps whose inputs have a size that a norm has set, at some layer before."""
    found: list[bool] = []
    for step in steps:
        own = [found[j] for j in step.of if j >= 0]
        found.append(step.verb == "norm" or (any(own) and step.verb != "read"))
    return found


def _targets(steps: tuple[BuildStep, ...]) -> dict[int, float]:
    """The size of every random layer."""
    above = _ancestors(steps)
    found = {k: 1.0 for k, step in enumerate(steps) if step.verb == "draw"}
    trunks, branches = {}, {}
    for k, step in enumerate(steps):
        if step.verb != "add" or len(step.of) < 2:
            continue
        below = [j for j in step.of if any(j in above[i] and i != j for i in step.of)]
        if below:
            trunks[k] = below[0]
            branches[k] = [j for j in step.of if j not in below]
    streams = _streams(steps, trunks)
    for k, ends in branches.items():
        for end in ends:
            for draw in _last_draws(steps, end):
                found[draw] = 1 / streams[k]
    last = len(steps) - 1
    ends = _last_draws(steps, last)
    if len(ends) == 1 and isinstance(steps[ends[0]].given[0].channels, int):
        found[ends[0]] = _READOUT
    return found


def _streams(steps: tuple[BuildStep, ...], trunks: dict[int, int]) -> dict[int, int]:
    """Numbers of branches in the stream of every sum."""
    first: dict[int, int] = {}
    for k in sorted(trunks):
        before = trunks[k]
        while (
            steps[before].verb in ("spread", "add")
            and before not in trunks
            and len(steps[before].of) == 1
        ):
            before = steps[before].of[0]
        first[k] = first.get(before, k)
    counts: dict[int, int] = {}
    for start in first.values():
        counts[start] = counts.get(start, 0) + 1
    return {k: counts[start] for k, start in first.items()}


def _last_draws(steps: tuple[BuildStep, ...], end: int) -> list[int]:
    """The random layers that make a field, if nothing but sums and maps of positions follows them."""
    step = steps[end]
    if step.verb == "draw":
        return [end]
    if step.verb in ("add", "spread", "stack"):
        return [draw for j in step.of if j >= 0 for draw in _last_draws(steps, j)]
    return []


def with_variances(net: Network, found: tuple[Proposal, ...]) -> Network:
    """The network drawn as proposed."""
    (layer,) = net.layers
    assert isinstance(layer, Traced)
    factors = factors_of(found)
    steps = []
    for step in layer.steps:
        given = step.given
        if step.verb == "draw":
            drawn: DrawnLayer = given[0]
            factor = factors.get(drawn.name.split(" (")[0], 1.0)
            own = replace(drawn.own, C_W=drawn.own.C_W * factor**2)
            given = (replace(drawn, own=own),)
        steps.append(replace(step, given=given))
    made = replace(layer, steps=tuple(steps))
    return Network(made, input_shape=net.input_shape, width=net.width)


def factors_of(found: tuple[Proposal, ...]) -> dict[str, float]:
    """By parameter the factor of the standard deviation; of one with several layers their geometric mean."""
    logs: dict[str, list[float]] = {}
    for own in found:
        logs.setdefault(own.parameter, []).append(math.log(own.factor))
    return {name: math.exp(sum(some) / len(some)) for name, some in logs.items()}
