"""Tensors of the last layer in estimates that belong together, of any network: whole arrays or single units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scalewise._extras import require
from scalewise.networks import Network
from scalewise.observables import Observable, of_letter
from scalewise.selection import told_together
from scalewise.theory.order._tensors import ALIKE, Tensors
from scalewise.theory.order._way import Make
from scalewise.theory.order._whole import whole_runs


def runs_of(
    net: Network,
    x: np.ndarray,
    letters: Sequence[str],
    make: Make = ALIKE,
    together: int | None = None,
) -> list[list[Tensors]]:
    """By run the tensors of every estimate, for `scalewise.gaussian.with_shakes`.

    Args:
        net: The network, of which something tells them, see `untold`.
        x: Checked inputs.
        letters: Which tensors.
        make: The expectations of an activation at a kernel, where they are whole arrays.
        together: Labels of a population up to which these are of all of them; a dozen if ``None``.
    """
    if as_arrays(net, len(x), letters):
        return whole_runs(net, x, letters, make, together)
    require("jax", for_="Order 1/n of layers of every kind", extra="nets")
    # A room that few enter, and that needs JAX.
    from scalewise.theory.order._responses import unit_runs

    return unit_runs(net, x, letters)


def as_arrays(net: Network, samples: int, letters: Sequence[str]) -> bool:
    """True if whole arrays tell these tensors of so many samples.

    Args:
        net: The network.
        samples: How many inputs there are.
        letters: Which tensors.
    """
    return told_together(net, samples, _rows(letters)).by == "whole"


def untold(net: Network, samples: int, letters: Sequence[str]) -> str:
    """Why nothing tells these tensors of so many samples, a clause; empty if something does.

    Args:
        net: The network.
        samples: How many inputs there are.
        letters: Which tensors.
    """
    told = told_together(net, samples, _rows(letters))
    return "" if told.by else told.reason or told.units


def _rows(letters: Sequence[str]) -> list[Observable]:
    return [of_letter(letter) for letter in letters]
