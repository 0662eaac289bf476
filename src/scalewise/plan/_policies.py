r"""Batch and duration as data: what a rule asks of steps, gradients, moments and decay as they change.

With $m_B$ the batch and $m_D$ the tokens of the training, target over base, a run takes $m_D/m_B$ times the steps.
A policy says by what power a normalised step is to move entries (`step`) and how large the gradient is by which
it is driven (`gradient`, mostly noise, $m_B^{-1/2}$); the law of an optimizer makes learning rate and epsilon of
these two as it does of the width's. So one row of $m_B^{1/2}$ is the square-root rule for Adam ($h=0$) and the
linear rule for gradient descent ($h=1$), and epsilon follows what it is added to.

Weight decay is a policy of its own: how learning rate times decay, by which a step shrinks weights, goes with
sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import TypeVar

from scalewise._readable import readable
from scalewise.plan._errors import PlanError
from scalewise.plan._powers import Powers

_HALF, _ONE, _SAME = Fraction(1, 2), Fraction(1), Powers()
_Row = TypeVar("_Row")


@dataclass(frozen=True)
@readable
class Policy:
    """Rule by which settings follow batch and duration.

    Args:
        name: Its name.
        covers: The sizes that it has a rule for: ``"batch"``, ``"tokens"``.
        step: Powers by which a step of fixed size is to move entries.
        gradient: Powers of the size of a gradient's entry.
        beta1: Powers of one minus the decay rate of the first moment.
        beta2: The same of the second.
        shrinks: Powers of learning rate times decay, where the source has them.
        half_life: Whether the powers of the moments are those of the logarithm of a decay rate.
        assumes: What it assumes, as a sentence.
        source: Where it stands.
    """

    name: str
    covers: tuple[str, ...]
    step: Powers = _SAME
    gradient: Powers = _SAME
    beta1: Powers = _SAME
    beta2: Powers = _SAME
    shrinks: Powers | None = None
    half_life: bool = False
    assumes: str = ""
    source: str = ""


@dataclass(frozen=True)
@readable
class Decay:
    """Rule by which learning rate times decay follows all sizes.

    Args:
        name: Its name.
        shrinks: Its powers.
        hidden: Further powers for matrices between widths.
        coupled: Whether it is the decay alone that has these powers, whatever the learning rate.
        assumes: What it assumes, as a sentence.
        source: Where it stands.
    """

    name: str
    shrinks: Powers = _SAME
    hidden: Powers = _SAME
    coupled: bool = False
    assumes: str = ""
    source: str = ""


def _policies() -> Mapping[str, Policy]:
    B, per_step = Powers(batch=_ONE), Powers(batch=_ONE, tokens=-_ONE)
    noise = B**-_HALF
    rows = (
        Policy(
            "sde",
            ("batch",),
            step=B**_HALF,
            gradient=noise,
            beta1=B,
            beta2=B,
            assumes="Gradients are mostly noise, and batches stay below the critical one.",
            source="Malladi et al. 2205.10287: one stochastic differential equation for all batches",
        ),
        Policy(
            "sde_beta2",
            ("batch",),
            step=B**_HALF,
            gradient=noise,
            beta1=Powers(),
            beta2=B,
            assumes="As 'sde', but the first moment keeps its decay rate.",
            source="Malladi et al. 2205.10287 for the rest; 2507.07101 keeps beta1",
        ),
        Policy(
            "sdew",
            ("batch",),
            step=Powers(),
            gradient=noise,
            beta1=Powers(),
            beta2=B**_HALF,
            shrinks=B**_HALF,
            assumes="The learning rate stays, and weight decay takes the change of the batch.",
            source="2411.15958, as ArchScale's code has it, which calls the power of 1-beta2 empirical",
        ),
        Policy(
            "completed",
            ("batch", "tokens"),
            step=per_step**_HALF,
            gradient=per_step**-_HALF,
            beta1=per_step,
            beta2=per_step,
            shrinks=per_step,
            assumes="The run is one stochastic process of fixed length: four times the batch at equal steps "
            "changes nothing. A first transfer of it to 1e23 operations diverged.",
            source="Complete(d)P, 2512.22382; the divergence: Marin's Delphi",
        ),
        Policy(
            "delphi",
            ("batch", "tokens"),
            step=Powers(batch=_HALF, tokens=Fraction(-3, 10)),
            beta2=B,
            half_life=True,
            assumes="The second moment forgets after equally many tokens; powers are fits.",
            source="the code of Marin's Delphi, which calls the root of the batch borrowed for Muon",
        ),
        Policy(
            "horizon",
            ("tokens",),
            step=Powers(tokens=Fraction(-8, 25)),
            assumes="A fit of the best learning rate over durations, at any fixed batch.",
            source="Bjorck et al. 2409.19913; HyperP and ArchScale take the same -0.32 for Muon",
        ),
        Policy(
            "root_horizon",
            ("tokens",),
            step=Powers(tokens=-_HALF),
            assumes="The sum of squares of the steps stays.",
            source="the tokens of Complete(d)P, 2512.22382, alone",
        ),
        Policy(
            "fixed_steps",
            ("tokens",),
            assumes="The best settings do not depend on the duration.",
            source="what a script does that scales nothing",
        ),
        Policy(
            "fixed_batch",
            ("batch",),
            assumes="The best settings do not depend on the batch, as one study finds for batches of 32 to 512 at "
            "fixed tokens per parameter.",
            source="a replication of Complete(d)P at 60M to 1B parameters, three seeds",
        ),
    )
    return MappingProxyType({p.name: p for p in rows})


def _decays() -> Mapping[str, Decay]:
    per_step = Powers(batch=_ONE, tokens=-_ONE)
    tokens_per_parameter = Powers(tokens=Fraction(527, 1000), parameters=Fraction(-527, 1000))
    rows = (
        Decay(
            "shrinkage",
            assumes="Each step shrinks weights by the same part, learning rate times decay, at every size.",
            source="maximal updates with independent decay",
        ),
        Decay(
            "timescale",
            per_step,
            assumes="Weights average over the same part of the run: learning rate times decay goes as one over "
            "the steps.",
            source="Wang and Aitchison 2405.13698; Complete(d)P and nanochat follow it",
        ),
        Decay(
            "power_lines",
            per_step * tokens_per_parameter,
            assumes="The part of the run over which weights average falls as (tokens per parameter)^-0.527.",
            source="Power Lines 2505.13738, a fit with AdamW",
        ),
        Decay(
            "steady",
            hidden=Powers(fan_in=-_HALF),
            assumes="Late in training hidden matrices have forgotten how they started, and their largest singular "
            "value goes as (rate/decay)^1/2 n^3/4; vectors are not decayed there.",
            source="Fan et al. 2510.15262, measured with AdamW: decay itself as n^1/2",
        ),
        Decay(
            "inverse_width",
            Powers(width=-_ONE),
            assumes="Tokens grow with the width, as at compute-optimal training.",
            source="Qiu et al. 2512.05620, 3.4: near the best for AdamW, Muon, Shampoo and SOAP",
        ),
        Decay(
            "constant",
            coupled=True,
            assumes="The number that the optimizer is given stays, whatever the learning rate.",
            source="what a script does that does not scale it; with maximal updates hidden matrices of AdamW decay "
            "ever less as they grow",
        ),
    )
    return MappingProxyType({d.name: d for d in rows})


POLICIES, DECAYS = _policies(), _decays()

# Where sources disagree, a sentence for each size; printed with every plan that changes it.
DISAGREE: Mapping[str, str] = MappingProxyType(
    {
        "batch": "Sources disagree on the batch: the learning rate of Adam goes as its root ('sde', 'completed'), "
        "or not at all ('sdew', 'fixed_batch'); for Muon nobody has measured it, and the root is borrowed.",
        "tokens": "Sources disagree on the duration: learning rates fall as its power 1/2 ('completed', "
        "'root_horizon'), .32 ('horizon'), .3 ('delphi') or not at all ('fixed_steps').",
        "decay": "Sources disagree on weight decay: learning rate times decay as n^0 ('shrinkage'), n^-1/2 "
        "('steady'), n^-1 ('inverse_width') or nanochat's n^-2 of the width differ mostly in what the tokens did "
        "meanwhile ('timescale', 'power_lines').",
    }
)


@dataclass(frozen=True)
@readable
class Training:
    """The policies of one plan.

    Args:
        policies: For batch and duration; none where neither changes.
        decay: For weight decay; ``None`` for that of the policies themselves, and the same shrinkage where
            they have none.
    """

    policies: tuple[Policy, ...] = ()
    decay: Decay | None = None

    def _all(self, name: str) -> Powers:
        out = Powers()
        for policy in self.policies:
            out = out * (getattr(policy, name) or Powers())
        return out

    @property
    def step(self) -> Powers:
        """Powers by which steps are to move entries."""
        return self._all("step")

    @property
    def gradient(self) -> Powers:
        """Powers of an entry of the gradient."""
        return self._all("gradient")

    @property
    def betas(self) -> tuple[Powers, Powers]:
        """Powers of one minus the decay rates of both moments."""
        return self._all("beta1"), self._all("beta2")

    @property
    def half_life(self) -> bool:
        """True if the powers of the moments are those of half-lives."""
        return any(p.half_life for p in self.policies)

    @property
    def coupled(self) -> bool:
        """True if decay has powers of its own, whatever the learning rate."""
        return self.decay is not None and self.decay.coupled

    def shrinks(self, hidden: bool) -> Powers:
        """Powers of learning rate times decay, of a `hidden` tensor or another."""
        if self.decay is None:
            return self._all("shrinks")
        return self.decay.shrinks * (self.decay.hidden if hidden else Powers())


def training(policy: Collection[str], decay: str | None, changes: Collection[str]) -> Training:
    """The policies of a plan by their names, or a sentence on what is missing.

    Args:
        policy: Names of policies.
        decay: Name of that of weight decay; ``None`` for the policies' own.
        changes: Which of batch and tokens differ between base and target.

    Raises:
        PlanError: If a name is unknown, a change has no policy or two, or nothing says how weight decay follows it.
    """
    rows = tuple(_known(name, "policy", POLICIES) for name in policy)
    covered = [axis for p in rows for axis in p.covers]
    for axis in sorted({a for a in covered if covered.count(a) > 1}):
        both = ", ".join(repr(p.name) for p in rows if axis in p.covers)
        raise PlanError(f"`policy` has more than one rule for {axis!r}: {both}. Name one of them.")
    missing = [axis for axis in changes if axis not in covered]
    if missing:
        known = (p.name for p in POLICIES.values() if set(missing) & set(p.covers))
        differ = "differs" if len(missing) == 1 else "differ"
        raise PlanError(
            f"{' and '.join(map(repr, missing))} {differ} between `base` and `target`, and no rule for that is "
            f"agreed on: say policy=... with one of {', '.join(map(repr, known))}, or a list of two. "
            + " ".join(DISAGREE[axis] for axis in missing)
        )
    if decay is not None:
        return Training(rows, _known(decay, "decay", DECAYS))
    open_ = [p.name for p in rows if p.shrinks is None and set(p.covers) & set(changes)]
    if open_:
        raise PlanError(
            f"The policy {open_[0]!r} says nothing of weight decay: say decay=... with one of "
            f"{', '.join(map(repr, DECAYS))}. {DISAGREE['decay']}"
        )
    return Training(rows, None)


def _known(name: object, argument: str, rows: Mapping[str, _Row]) -> _Row:
    if not isinstance(name, str) or name not in rows:
        raise PlanError(f"`{argument}` must be one of {', '.join(map(repr, rows))}; got {name!r}.")
    return rows[name]
