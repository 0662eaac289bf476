r"""A training at infinite width step by step, as neurons near a kink live through it.

The outputs are $z(t)=z(0)+\Theta\,a(t)$ with dual coefficients $a=-g\,\varepsilon(0)$, one for each training
sample, where $\varepsilon=z-y$ and $g$ is the gain of the algorithm. Descent moves them by
$v\leftarrow mv-\eta(\varepsilon+\rho a)$, $a\leftarrow a+v$, the flow by $\dot a=-\varepsilon-\rho a$, and whatever
is driven by the same errors is driven by

$$F_k=(a_{k+1}-a_k)-m(a_k-a_{k-1})-\ell_ka_k,$$

$\ell_k=-\eta\rho$ of a step of descent and $e^{-\rho\Delta t}-1$ of a time of the flow. Steps of descent are kept
one by one as long as they are large beside what is left to move; later ones are taken together, as a flow.

Source: derived.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from scalewise.training._algorithm import Algorithm, settled
from scalewise.training._motions import ByDescent, ByFlow, ByNewton
from scalewise.training.width._course import OutOfRoom

_OVER = 1e-5  # share of the way that may be left where a training counts as over
_FINE, _GROWTH = 0.04, 1.04  # first time of a flow, over the largest eigenvalue; how its times grow
_ONE_BY_ONE = 300  # steps of descent; those behind move little each
_TOGETHER = 1.02  # how the numbers of steps grow that are taken together
_MOST = 4000  # steps that must be taken one by one


@dataclass(frozen=True, eq=False)
class KinkCourse:
    r"""A training as steps between nodes, at which neurons near a kink are looked at.

    Args:
        gain: $g$ at every node.
        lost: $\ell_k$ of every step between them.
        spent: $\eta$, or the time, of every step.
        swept: Whether a step is a stretch of a flow.
        momentum: $m$.
        ridge: $\rho$.
        h: Eigenvalues of the NTK of the training samples, above 0.
        marks: The node of every time that is asked for.
        over: Whether training is over there.
    """

    gain: Float[np.ndarray, "node direction"]
    lost: Float[np.ndarray, " step"]
    spent: Float[np.ndarray, " step"]
    swept: np.ndarray
    momentum: float
    ridge: float
    h: Float[np.ndarray, " direction"]
    marks: tuple[int, ...]
    over: tuple[bool, ...]

    @property
    def steps(self) -> int:
        """Their number."""
        return len(self.lost)

    def force(self, a: Float[np.ndarray, "node ..."], k: int) -> np.ndarray:
        """$F_k$ of dual coefficients at the nodes."""
        before = a[k] - a[k - 1] if k else np.zeros_like(a[0])
        return a[k + 1] - a[k] - self.momentum * before - self.lost[k] * a[k]

    def answered(
        self, P: Float[np.ndarray, "node draw direction"]
    ) -> list[Float[np.ndarray, "draw direction"]]:
        r"""How dual coefficients answer, at every mark, to outputs that move by $P$ besides.

        $\delta z=\Theta\,\delta a+P$ is unlearned as any error is; where training is over,
        $\delta a=-P/(h+\rho)$ whatever came before.

        Args:
            P: On the training samples, in eigendirections; known at the marks alone if all are over.
        """
        x, last = self.h + self.ridge, max(self.marks)
        found = {k: -P[k] / x for k, over in zip(self.marks, self.over, strict=True) if over}
        if all(self.over):
            return [found[k] for k in self.marks]
        a, v = np.zeros_like(P[0]), np.zeros_like(P[0])
        for k in range(last + 1):
            found.setdefault(k, a)
            if k == last:
                break
            if self.swept[k]:
                spent = x * self.spent[k]
                once = -np.expm1(-spent) / spent
                rising = (1 - once) / spent
                a = a * np.exp(-spent) - self.spent[k] * (once * P[k] + rising * (P[k + 1] - P[k]))
            else:
                v = self.momentum * v + self.lost[k] * a - self.spent[k] * (self.h * a + P[k])
                a = a + v
        return [found[k] for k in self.marks]


def course_of(
    algorithm: Algorithm,
    h: Float[np.ndarray, " direction"],
    times: Sequence[float | None],
    *,
    targets: int,
) -> KinkCourse:
    """The training by which errors in directions `h` are removed.

    Args:
        algorithm: A heavy ball, or a flow.
        h: Eigenvalues above 0.
        times: In the algorithm's own units; ``None`` for its own time.
        targets: As many numbers as a mean loss is divided by.

    Raises:
        OutOfRoom: If there are too many steps that must be taken one by one.
    """
    motion = settled(algorithm, h, targets=targets).motion(h, targets=targets)
    assert not isinstance(motion, ByNewton), "it is no heavy ball"
    own = float(algorithm.stops()[0])
    ends = np.array([own if t is None else float(t) for t in times]) / algorithm.unit(targets)
    if isinstance(motion, ByFlow):
        last = -math.log(_OVER) / float((h + algorithm.ridge).min())
        nodes = _times(np.minimum(ends, last), 1 / float((h + algorithm.ridge).max()))
        spent = np.diff(nodes)
        lost = np.expm1(-algorithm.ridge * spent)
        swept, momentum = np.ones(spent.size, dtype=bool), 0.0
    else:
        last, nodes = _steps(algorithm, motion, h, ends, targets)
        many = np.diff(nodes)
        each = np.array([motion.rate(step) for step in range(many.size)])
        swept, momentum = many > 1, motion.momentum
        spent, lost = each * many, (1 - each * algorithm.ridge) ** many - 1
    return KinkCourse(
        gain=algorithm.filter(h, nodes * algorithm.unit(targets), targets=targets).gain,
        lost=lost,
        spent=spent,
        swept=swept,
        momentum=momentum,
        ridge=algorithm.ridge,
        h=h,
        marks=tuple(int(np.searchsorted(nodes, min(end, last))) for end in ends),
        over=tuple(bool(end >= last) for end in ends),
    )


def _times(ends: np.ndarray, unit: float) -> np.ndarray:
    """From 0, ever further apart."""
    first, last = _FINE * unit, float(ends.max())
    count = max(math.ceil(math.log1p(last * (_GROWTH - 1) / first) / math.log(_GROWTH)), 0)
    grown = first * (_GROWTH ** np.arange(count) - 1) / (_GROWTH - 1)
    return np.unique(np.concatenate([[0.0], grown[grown < last], ends]))


def _steps(
    algorithm: Algorithm, motion: ByDescent, h: np.ndarray, ends: np.ndarray, targets: int
) -> tuple[float, np.ndarray]:
    """The number of steps at which training is over, and those at the nodes."""
    schedule = len(motion.rates) > 1
    one_by_one = schedule or motion.momentum > 0
    last = math.inf if schedule else _gone(algorithm, h, targets)
    most = float(np.minimum(ends, last).max())
    if one_by_one and most > _MOST:
        raise OutOfRoom(
            f"{most:.0f} steps with momentum or a schedule must be taken one by one, and at most {_MOST} are; take "
            "fewer, or leave out the momentum"
        )
    kept = (
        most
        if one_by_one
        else min(most, max(_ONE_BY_ONE, _alternating(motion.rates[0], h, algorithm.ridge)))
    )
    nodes = [float(k) for k in range(int(kept) + 1)]
    while nodes[-1] < most:
        nodes.append(min(float(math.ceil(nodes[-1] * _TOGETHER)), most))
    return last, np.unique(np.concatenate([nodes, np.minimum(ends, last)]))


def _gone(algorithm: Algorithm, h: np.ndarray, targets: int) -> float:
    """Steps until training is over."""
    x, k = h + algorithm.ridge, 1.0
    while True:
        gain = algorithm.filter(h, np.array([k, k + 1]), targets=targets).gain
        if np.abs(1 - x * gain).max() < _OVER:
            return k
        k = float(math.ceil(1.1 * k))


def _alternating(rate: float, h: np.ndarray, ridge: float) -> float:
    """Steps until errors that change their sign at every step are gone: none of them may be taken together."""
    left = rate * (float(h.max()) + ridge) - 1
    return math.log(_OVER) / math.log(left) if left > 0 else 0.0
