r"""Types of differentials, generated term by term.

One step of gradient descent changes an observable by the generator
$\sum_{\mu\nu}\frac{df}{d\theta_\nu}\lambda_{\mu\nu}\frac{d}{d\theta_\mu}$: a new factor $f$ is joined to one
factor of what was there. From the NTK, two factors joined by $\lambda$, it grows trees, and a type of
differential is a tree without labels. With one hidden layer each join is made either by a parameter of the
first layer or by a weight of the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from scalewise._checked import Count, checked


@dataclass(frozen=True)
class DifferentialType:
    r"""One type of differential of order $k$.

    Source: Yaida (A1)-(A4).
    """

    # A labelled representative: factor $v=1,\dots,k$ is joined to factor ``parents[v - 1]`` $<v$.
    parents: tuple[int, ...]
    # In how many ways the generator, applied $k-1$ times to $\widehat H_{i_0i_1}$, makes a
    # differential of this type.
    multiplicity: int

    @property
    def k(self) -> int:
        """The number of contractions."""
        return len(self.parents)

    @property
    def orders(self) -> tuple[int, ...]:
        """How often each factor is differentiated, in falling order."""
        return tuple(sorted(_degrees(self.parents), reverse=True))


@checked
def differential_types(k: Count) -> tuple[DifferentialType, ...]:
    r"""All types of differentials with $k$ contractions, type I first.

    They are the trees of $k+1$ nodes: 1, 1, 2, 3, 6, 11, 23 for $k=1,\dots,7$. For $k=3$ these are
    $dd_I$ and $dd_{II}$.

    Args:
        k: Number of contractions, at least 1.

    Returns:
        The types; their multiplicities add up to $k!$.

    Source: Yaida (A1)-(A4); that the types are trees is ours.

    Example:
        >>> from scalewise.theory.exact._differential_types import differential_types
        >>> [(t.parents, t.multiplicity) for t in differential_types(3)]
        [((0, 0, 0), 2), ((0, 0, 1), 4)]
    """
    found = {_shape(own): (own, count) for own, count in _generate(k)}
    types = [DifferentialType(own, count) for own, count in found.values()]
    return tuple(sorted(types, key=lambda t: (tuple(-d for d in t.orders), t.parents)))


@lru_cache(maxsize=32)
def _generate(k: int) -> tuple[tuple[tuple[int, ...], int], ...]:
    """One representative of each shape with how often it arises: the generator, applied once more."""
    if k == 1:
        return (((0,), 1),)
    found: dict[object, tuple[tuple[int, ...], int]] = {}
    for before, count in _generate(k - 1):
        for node in range(k):
            own = (*before, node)
            shape = _shape(own)
            kept, so_far = found.get(shape, (own, 0))
            found[shape] = (min(kept, own), so_far + count)
    return tuple(found.values())


@dataclass(frozen=True)
class DifferentialTerm:
    r"""One product that a differential of a one-hidden-layer network consists of.

    $$\Big(\frac{\lambda_W}{n_1}\Big)^u\prod_\text{read}\delta_{i_ai_b}\sum_j\prod_{v\in\text{weighted}}
    W_{i_vj}\prod_v\sigma^{(d_v)}(z_{j;\delta_v})\prod_\text{hidden}H^{(1)}_{\delta_a\delta_b}$$

    Source: Yaida (A18): $2u+v=k+1$ with $v$ the number of weights left.
    """

    orders: tuple[int, ...]  # $d_v$ of each factor
    weighted: tuple[bool, ...]  # whether factor $v$ still has its last-layer weight
    # Pairs of factors joined by a parameter of the first layer.
    hidden: tuple[tuple[int, int], ...]
    read: tuple[tuple[int, int], ...]  # pairs joined by a weight of the last layer, $u$ of them


def terms(parents: Sequence[int]) -> tuple[DifferentialTerm, ...]:
    r"""Terms of a differential of a one-hidden-layer network, without the bias of the output.

    The generator splits into $\sum_jW_{ij}\sigma'(z_j)[\dots\frac d{dz_j}]$ and
    $\frac{\lambda_W}{n_1}\sum_j\sigma(z_j)\frac d{dW_{ij}}$: either raises a derivative and leaves a weight
    more, or takes the weight of the factor that it meets. The part $\lambda_b\frac d{db}$ meets a bias
    nowhere but in the NTK. All signs and coefficients are $+1$.

    Source: Yaida (A9), (A13), (A18), (A19).
    """
    check_parents(parents)
    grown = [DifferentialTerm((0,), (True,), (), ())]
    for new, parent in enumerate(parents, 1):
        step = []
        for term in grown:
            edge = (parent, new)
            raised = (d + (v == parent) for v, d in enumerate(term.orders))
            step.append(
                replace(
                    term,
                    orders=(*raised, 1),
                    weighted=(*term.weighted, True),
                    hidden=(*term.hidden, edge),
                )
            )
            if term.weighted[parent]:
                left = tuple(w and v != parent for v, w in enumerate(term.weighted))
                step.append(
                    replace(
                        term,
                        orders=(*term.orders, 0),
                        weighted=(*left, False),
                        read=(*term.read, edge),
                    )
                )
        grown = step
    return tuple(grown)


def check_parents(parents: Sequence[int]) -> tuple[int, ...]:
    """The tree as a tuple, refused if it is not one."""
    if not parents or any(not 0 <= p <= v for v, p in enumerate(parents)):
        raise ValueError(
            "`parents` must join each factor to an earlier one: parents[v - 1] is the factor that "
            f"factor v is joined to, from 0 to v - 1; got {tuple(parents)}."
        )
    return tuple(parents)


def _degrees(parents: Sequence[int]) -> list[int]:
    degrees = [0] * (len(parents) + 1)
    for v, p in enumerate(parents, 1):
        degrees[v] += 1
        degrees[p] += 1
    return degrees


def _shape(parents: Sequence[int]) -> object:
    """The tree without its labels: the greatest of its forms rooted at any node."""
    neighbours: list[list[int]] = [[] for _ in range(len(parents) + 1)]
    for v, p in enumerate(parents, 1):
        neighbours[v].append(p)
        neighbours[p].append(v)

    def rooted(v: int, above: int) -> tuple:
        return tuple(sorted((rooted(w, v) for w in neighbours[v] if w != above), reverse=True))

    return max(rooted(v, -1) for v in range(len(neighbours)))
