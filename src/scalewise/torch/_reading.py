"""`network`: reading a module as a network, and proof that it computes the same."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor, nn

from scalewise._checked import Count, Must, checked
from scalewise.networks import Network
from scalewise.networks._weights import Parameters, by_node, fields, shapes_of
from scalewise.plan._errors import PlanError
from scalewise.plan._forward import Inputs, given
from scalewise.reading._fields import NotSeparableError, UnreadError
from scalewise.reading._reader import Law
from scalewise.reading._steps import Step, Traced
from scalewise.reading._written import Writer, parameters, scaled
from scalewise.torch._drawn import drawn, told_by_entries
from scalewise.torch._network import traced

_SAME = 1e-8  # between outputs of the model and of the network with its weights, over their size


@dataclass(frozen=True)
class _Read:
    """A model at one width, as it was read."""

    writer: Writer
    steps: tuple[Step, ...]
    shape: tuple[int, ...]
    x: np.ndarray
    output: Tensor
    entries: np.ndarray
    values: dict[str, np.ndarray]


def _read(model: nn.Module, laws: Mapping[str, Law], inputs: Inputs, samples: bool) -> _Read:
    for flat in (False, True):
        try:
            read, entries, output, _ = traced(
                model, laws, inputs.args, inputs.kwargs, flat=flat, samples=samples
            )
            known, own = read.settled(entries)
            writer = Writer(read)
            last = writer.write(known.number)
            if last != len(writer.steps) - 1:
                writer.steps.append(Step("add", (last,), (1.0,), ""))
            break
        except NotSeparableError:
            if flat:
                raise UnreadError(
                    "The model moves positions in a way that is not known, otherwise for each sample perhaps."
                ) from None
    else:
        raise AssertionError
    tensors = [
        v for v in torch.utils._pytree.tree_leaves((inputs.args, dict(inputs.kwargs)))
        if isinstance(v, Tensor) and v.ndim and v.dtype != torch.bool and (v.dtype.is_floating_point or samples)
    ]  # fmt: skip
    rows = [t.double().numpy() if samples else t.double().numpy()[None] for t in tensors]
    x = rows[0] if len(rows) == 1 else np.concatenate([r.reshape(len(r), -1) for r in rows], axis=1)
    if x.ndim == 1:
        x = x[:, None]
    values = {n: p.detach().double().numpy() for n, p in model.named_parameters(remove_duplicate=False)}
    return _Read(writer, tuple(writer.steps), x.shape[1:], x, output, own, values)


def network_of(build: Any, inputs: Any, width: int, *, samples: bool = True) -> tuple[Network, float]:
    """The network, and the largest difference between its outputs and the model's, over their size."""
    made = given(inputs)
    assert made is not None
    model, laws = drawn(lambda: build(width))
    one = _read(model, laws, made, samples)
    steps = one.steps
    wide, laws = drawn(lambda: build(2 * width))
    two = _read(wide, laws, made, samples)
    steps = scaled(one.steps, two.steps, width, Fraction(2))
    net = Network(
        Traced(steps, tuple(one.writer.read.notes)), input_shape=one.shape, width=width
    )
    return net, _difference(net, one)


def _difference(net: Network, one: _Read) -> float:
    program = net.program
    names = []
    for step in one.steps:
        if step.verb == "draw" and step.given[0].name not in names:
            names.append(step.given[0].name)
    weights, biases = parameters(one.writer, one.values, names)
    shapes = shapes_of(program)
    shaped = [w.reshape(s[0]) for w, s in zip(weights, shapes.values(), strict=True)]
    given = by_node(program, Parameters(tuple(shaped), tuple(biases)))
    found, _ = fields(program, given, one.x)
    known = one.writer.read.fields.decoded(one.entries)
    own = found[-1].reshape(-1)
    start = one.entries.min()
    values = own[(one.entries - start).ravel()].reshape(one.entries.shape)
    del known
    theirs = one.output.detach().double().numpy()
    return float(np.abs(values - theirs).max() / np.abs(theirs).max())


__all__ = ["Annotated", "Count", "Must", "PlanError", "checked", "inspect", "math"]
