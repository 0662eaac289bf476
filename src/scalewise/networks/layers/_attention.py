"""Attention: each position averages over others, by weights that depend on both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from scalewise._checked import Count, Must, NotNegative, Positive, checked
from scalewise._readable import readable
from scalewise.activations import activation
from scalewise.activations.spi import ActivationLike
from scalewise.networks._builder import Builder, Layer
from scalewise.networks._field import Field
from scalewise.networks._laws import LawLike
from scalewise.networks._nodes import Normalise
from scalewise.networks._sites import Matrix
from scalewise.networks.layers._dense import own_of
from scalewise.networks.layers._entrywise import LayerLike
from scalewise.networks.layers._norm import LayerNorm, RMSNorm


@checked
@dataclass(frozen=True)
@readable
class Attention(Layer):
    r"""Attention of several heads over all positions that a sample has, with the random layer behind it.

    $$o_h(s)=\sum_t\operatorname{softmax}_t\Big(\frac{q_h(s)\cdot k_h(t)}{d^\alpha}\Big)v_h(t),\qquad
      q,k,v=\text{Dense}(x),\qquad y=\text{Dense}(o).$$
    Two limits of infinite width have a Gaussian process. Say which by saying what stays:

    - ``size=d``: heads of $d$ channels, whose number grows, as in practice. Any $\alpha$; averages over a head have
      no formula, so `predict` draws heads, and states the error.
    - ``heads=H``: $H$ heads that grow, with $\alpha=1$. With ``tied=True``, $W_Q=W_K$, logits are kernels of $q$;
      with free keys they are 0, and every position sees the mean of all.

    Heads that grow with $\alpha=1/2$ have random logits at any width, and no Gaussian limit; they are refused.

    Args:
        size: $d$, the channels of a head; its number is the width over it.
        heads: The number of heads; their size is the width over it.
        power: $\alpha$, ``0.5`` or ``1``; by default 1/2 with `size` and 1 with `heads`.
        tied: Whether queries and keys have the same weights; with `heads` only.
        causal: Whether a position sees only itself and those before it.
        queries: Layers that the field passes before queries are made of it, such as ``[Take(0)]`` for one token.
        memory: Likewise before keys and values: what is seen. With either, attention is across two fields.
        function: ``"softmax"``, or an activation that acts on every logit.
        qk_norm: `RMSNorm` or `LayerNorm` of every query and every key over the channels of its head, before the
            logits; none for ``None``.
        rotary: The base of rotary embeddings, such as 10000: channels $i$ and $i+d/2$ of every query and key are
            turned by the angle $p\,b^{-2i/d}$ at position $p$; none for ``None``. For heads of a `size`.
        alibi: How many slopes $m_j=2^{-8j/J}$ there are: $-m_j|s-t|$ is added to the logits of head $j$, and so on
            in turn if there are more heads than slopes; none for ``None``. For heads of a `size`.
        group: $g$, how many heads after one another have the same key and value (grouped queries). Their outputs
            are not independent, but weights behind them are: at infinite width nothing depends on $g$, and at
            order 1/n groups fluctuate in place of heads. For heads of a `size`.
        C_b: Bias variance of the four random layers; that of the network for ``None``, like the others.
        C_W: Rescaled weight variance.
        lambda_b: Learning-rate factor of the biases.
        lambda_W: Learning-rate factor of the weights.
        law: Of the weights, by name or a `WeightLaw`.

    Raises:
        ValueError: If not exactly one of `size` and `heads` is given, or that limit does not exist.

    Source: Hron et al., arXiv:2006.10540, in PDLT's parametrisation; heads of finite size derived. Norms of queries
        and keys: Dehghani et al., arXiv:2302.05442; slopes: Press et al., arXiv:2108.12409; groups: Ainslie et
        al., arXiv:2305.13245.

    Example:
        >>> import scalewise as sw
        >>> net = sw.Network(
        ...     sw.Dense(), sw.Skip(sw.Attention(size=4)), sw.GlobalAvgPool(), sw.Dense(1),
        ...     input_shape=(6, 3), width=16,
        ... )
        >>> net.depth
        6
    """

    size: Count | None = None
    heads: Count | None = None
    power: Annotated[float, Must("0.5 or 1", lambda power: power in (0.5, 1), float)] | None = None
    tied: bool = False
    causal: bool = False
    queries: Sequence[LayerLike] = ()
    memory: Sequence[LayerLike] = ()
    function: Literal["softmax"] | ActivationLike = "softmax"
    qk_norm: LayerNorm | RMSNorm | None = None
    rotary: Positive | None = None
    alibi: Count | None = None
    group: Count = 1
    C_b: NotNegative | None = None
    C_W: Positive | None = None
    lambda_b: NotNegative | None = None
    lambda_W: NotNegative | None = None
    law: LawLike | None = None

    def __post_init__(self) -> None:
        for name in ("queries", "memory"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.tied and (self.queries or self.memory):
            raise ValueError(
                "`Attention` with `tied=True` compares positions of one field. Leave out `queries` and `memory`."
            )
        if (self.size is None) == (self.heads is None):
            raise ValueError(
                "`Attention` needs one of `size`, the channels of a head, whose number grows with the width, and "
                "`heads`, their number, whose size grows; such as Attention(size=8)."
            )
        if self.heads is not None and self.power == 0.5:
            raise ValueError(
                "`Attention` with `power=0.5` and `heads` has random logits at any width, and no Gaussian limit. "
                "Give the `size` of a head, so that their number grows with the width, or use `power=1`."
            )
        if self.size is not None and self.tied:
            raise ValueError(
                "`Attention` with `tied=True` is known of heads that grow with the width. Give `heads`, their "
                "number, in place of `size`."
            )

        norm = self.qk_norm
        if norm is not None and (not norm.eps or getattr(norm, "positions", False)):
            raise ValueError(
                "`qk_norm` is of the channels of one position, where there may be no signal. Give it an eps above "
                "0, and no `positions`, as in Attention(size=8, qk_norm=RMSNorm())."
            )
        if self.rotary is not None and (self.size is None or self.size % 2):
            raise ValueError(
                "`rotary` turns pairs of the channels of heads whose size stays. Give an even `size`, as in "
                "Attention(size=8, rotary=10000)."
            )
        if self.size is None and (self.alibi is not None or self.group > 1):
            raise ValueError(
                "`alibi` and `group` are of heads whose number grows. Give their `size` in place of `heads`, as in "
                "Attention(size=8, group=2)."
            )
        if self.alibi is not None and (self.queries or self.memory):
            raise ValueError(
                "`alibi` is a distance between positions of one field. Leave out `queries` and `memory`."
            )
        if norm is not None and self.size == 1:
            raise ValueError(
                "`qk_norm` leaves a sign of heads of one channel. Give heads a larger `size`."
            )

    def at(self, C_b: float, C_W: float) -> Layer:
        """Refused: attention has no critical initialisation that is known."""
        raise ValueError(
            "Attention averages over positions that differ, so it has no critical initialisation. Put a norm "
            "before it and choose C_b and C_W yourself."
        )

    def into(self, build: Builder, of: Field) -> Field:
        """Random layers for queries, keys and values, what they make, and a random layer behind it."""
        own = own_of(self, build.usual)
        if not of.positions or of.flat:
            raise ValueError(
                f"{build.name} looks at positions, and there are none. Give the network an `input_shape` of "
                "positions and then channels, such as (8, 8, 3), and put Attention before Flatten."
            )
        asking, seen = (build.run(layers, of) for layers in (self.queries, self.memory))
        queries = build.draw(asking, own=own)
        channels = queries.channels // self.group
        if self.group > 1 and queries.channels % ((self.size or 1) * self.group):
            raise ValueError(
                f"{build.name} has {queries.channels} channels, which do not divide into {self.group} heads of "
                f"{self.size} for each key. Choose a width that is a multiple of {(self.size or 1) * self.group}."
            )
        keys = queries if self.tied else build.draw(seen, channels, own=own)
        values = build.draw(seen, channels, own=own)
        size = self.size or max(1, values.channels // (self.heads or 1))
        if self.heads and values.channels % self.heads:
            raise ValueError(
                f"{build.name} has {values.channels} channels, which do not divide into {self.heads} heads. Choose "
                "a width that is a multiple of their number."
            )
        power = self.power or (0.5 if self.size else 1.0)
        sigma = None if self.function == "softmax" else activation(self.function)
        given = self.qk_norm
        norm = given and Normalise((), float(given.eps), isinstance(given, LayerNorm))
        turns = None
        if self.rotary is not None:
            sides = (math.prod(f.positions) for f in (queries, keys))
            of_queries, of_keys = (_turns(places, size, self.rotary) for places in sides)
            turns = of_queries, of_keys
        if norm is not None and self.heads:  # heads that grow have norms that do not fluctuate
            both = [queries] if self.tied else [queries, keys]
            both = [build.norm(f, norm.eps, centred=norm.centred, groups=self.heads) for f in both]
            queries, keys, norm = both[0], both[-1], None
        fields = queries, keys, values
        made = build.attend(
            fields,
            size,
            power,
            sigma,
            grows=self.size is None,
            causal=self.causal,
            norm=norm,
            turns=turns,
            group=self.group,
            bias=_slopes(math.prod(queries.positions), self.alibi),
        )
        return build.draw(made, own=own)


def _slopes(places: int, count: int | None) -> tuple[Matrix, ...]:
    """ALiBi's matrices, one for each slope."""
    apart = np.abs(np.subtract.outer(np.arange(places), np.arange(places)))
    return tuple(
        Matrix.of(-(2.0 ** (-8 * j / (count or 1))) * apart) for j in range(1, 1 + (count or 0))
    )


def _turns(places: int, size: int, base: float) -> Matrix:
    """Matrices of a rotary embedding at every position, row by row."""
    angle = np.arange(places)[:, None] * base ** (-2 * np.arange(size // 2) / size)
    cos, sin = (np.einsum("pi,ij->pij", f(angle), np.eye(size // 2)) for f in (np.cos, np.sin))
    return Matrix.of(np.block([[cos, -sin], [sin, cos]]).reshape(places, -1))
