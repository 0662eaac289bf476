r"""Products of derivatives by one tensor over samples and read-outs, in float64, from whichever factors are kept.

$$\sum_{\mu}\frac{dz_{r;\alpha}}{d\theta_\mu}\frac{dz_{r';\alpha'}}{d\theta_\mu}
  =\sum_{tt'}(x_{\alpha t}\cdot x_{\alpha't'})(d_{r;\alpha t}\cdot d_{r';\alpha't'}),$$

by the right-hand side where there are few places $t$, by the left-hand side, some entries at a time, where there
are many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from scalewise.torch._tangent_rows import Formed, Outer, Part
from scalewise.training.spi import Ntk

CACHE = 2**22  # bytes of float64 at a time: more are written to memory and read again
FORMED = 2**25  # of derivatives that are formed for a product


def products(one: Part, other: Part, *, mean: bool, room: int) -> Ntk:
    """The sum over entries of one tensor.

    Args:
        one: Derivatives of some rows.
        other: Of others, or the same object.
        mean: Whether to sum over equal read-outs.
        room: Bytes that numbers in float64 may take.
    """
    same = one is other
    if isinstance(one, Outer) and isinstance(other, Outer):
        one = _reached(one)
        other = one if same else _reached(other)
        words = None if one.x.is_floating_point() else torch.cat([one.x.unique(), other.x.unique()])
        words = None if words is None else words.unique()
        wide = one.x.shape[-1] if words is None else len(words)
        if _few_places(one, other, wide, mean):
            return _by_places(one, other, mean, room)
        pieces = _entries([one] if same else [one, other], words, min(room, FORMED), mean)
    else:
        assert isinstance(one, Formed)
        assert isinstance(other, Formed)
        pieces = iter([[_rows(part.g, mean) for part in ([one] if same else [one, other])]])
    total = sum(_gram(piece[0], piece[-1]) for piece in pieces)
    (b, k), (b2, k2) = (_sizes(part, mean) for part in (one, other))
    return np.asarray(total).reshape(b, k, b2, k2).transpose(0, 2, 1, 3)


def _reached(part: Outer) -> Outer:
    """Without places that no read-out depends on: where the last position is read, the last layers have one."""
    there = part.d.abs().amax((0, 1, 3)) > 0
    if bool(there.all()):
        return part
    there[0] |= ~there.any()
    return Outer(part.x[:, there], part.d[:, :, there])


def _sizes(part: Part, mean: bool) -> tuple[int, int]:
    legs = part.g if isinstance(part, Formed) else part.d
    return len(legs), 1 if mean else legs.shape[1]


def _few_places(one: Outer, other: Outer, wide: int, mean: bool) -> bool:
    """True if products over pairs of places take fewer operations than the derivatives do."""
    (b, k, t, o), (b2, k2, t2, _) = one.d.shape, other.d.shape
    reads = one.x.shape[-1] if one.x.is_floating_point() else 1
    pairs = b * t * b2 * t2 * (reads + (k if mean else k * k2) * o)
    rows = b * b2 * (k if mean else k * k2)
    return pairs < (rows + (b * k * t + b2 * k2 * t2)) * o * wide


def _gram(one: torch.Tensor, other: torch.Tensor) -> np.ndarray:
    """Rows times rows, added up in float64; of a matrix with itself on the host, half of it."""
    several = max(1, CACHE // (8 * max(len(one), len(other))))
    total = np.zeros((len(one), len(other)))
    for a, b in zip(one.split(several, dim=1), other.split(several, dim=1), strict=True):
        left = _double(a)
        right = left if one is other else _double(b)
        if left.device.type != "cpu":
            total += (left @ right.T).numpy(force=True)
        else:
            x = left.numpy()
            total += x @ (x if one is other else right.numpy()).T
    return total


def _rows(g: torch.Tensor, mean: bool) -> torch.Tensor:
    return g.flatten(1) if mean else g.flatten(0, 1)


def _double(values: torch.Tensor) -> torch.Tensor:
    """Wherever there is float64."""
    return (values.cpu() if values.device.type == "mps" else values).double()


def _entries(
    parts: Sequence[Outer], words: torch.Tensor | None, room: int, mean: bool
) -> Iterator[list[torch.Tensor]]:
    """Derivatives from their factors: some outputs of the layer at a time, or by some words."""
    rows = max(len(part.d) * part.d.shape[1] for part in parts)
    if words is not None:
        for some in words.split(max(1, room // (8 * rows * parts[0].d.shape[3]))):
            there = [(part.x[..., None] == some).to(part.d.dtype) for part in parts]
            both = zip(parts, there, strict=True)
            yield [_rows(torch.einsum("bkto,btv->bkvo", p.d, x).flatten(2), mean) for p, x in both]
        return
    several = max(1, room // (8 * rows * parts[0].x.shape[-1]))
    for cut in zip(*(part.d.split(several, dim=3) for part in parts), strict=True):
        both = zip(parts, cut, strict=True)
        yield [_rows(torch.einsum("bkto,bti->bkoi", d, p.x).flatten(2), mean) for p, d in both]


def _by_places(one: Outer, other: Outer, mean: bool, room: int) -> Ntk:
    """Pairs of places, some samples at a time."""
    d2 = _double(other.d)
    b2, k2, t2, o = d2.shape
    x2 = other.x if not other.x.is_floating_point() else _double(other.x).flatten(0, 1)
    _, k, t, _ = one.d.shape
    several = max(1, room // (16 * b2 * t2 * t * (2 if mean else k * k2 + 1)))
    back = (d2.transpose(1, 2) if mean else d2).reshape(-1, k2 * o if mean else o)
    found = []
    for x, part in zip(one.x.split(several), one.d.split(several), strict=True):
        d, b = _double(part), len(part)
        if x.is_floating_point():
            alike = (_double(x).flatten(0, 1) @ x2.T).view(b, t, b2, t2)
        else:
            alike = (x[:, :, None, None] == x2).to(d.dtype)
        left = (d.transpose(1, 2) if mean else d).reshape(-1, back.shape[1])
        both = left @ back.T
        if mean:
            total = (both.view(b, t, b2, t2) * alike).sum((1, 3))[..., None, None]
        elif t == t2 == 1:
            total = (both.view(b, k, b2, k2) * alike).transpose(1, 2)
        else:
            total = torch.einsum("aktbls,atbs->abkl", both.view(b, k, t, b2, k2, t2), alike)
        found.append(total)
    return torch.cat(found).numpy(force=True)
