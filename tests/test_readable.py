"""Property: every public noun is short at a prompt and a table in a notebook, whatever it holds."""

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import scalewise as sw
from made_up_results import ensemble, theory
from scalewise._readable import Rows, readable
from scalewise.limits import SGD, Lazy
from scalewise.limits import Architecture as Wide
from scalewise.networks import ResidualMLP
from scalewise.plan.proof import check_losses
from scalewise.plan.proof._drift import GridSize
from scalewise.scaling import mup, ntk
from scalewise.training import Bayes, GradientDescent
from torch_models import batch, mlp, planned

LONGEST = 1500


def public() -> Iterator[type]:
    """Dataclasses and named tuples that a room outside of the experiments exports."""
    for module in pkgutil.walk_packages(sw.__path__, "scalewise."):
        parts = module.name.split(".")[1:]
        private = any(part.startswith(("_", "spi")) for part in parts)
        if parts[0] == "experiments" or private:
            continue
        for name, found in vars(importlib.import_module(module.name)).items():
            if not inspect.isclass(found) or not found.__module__.startswith("scalewise"):
                continue
            noun = dataclasses.is_dataclass(found) or hasattr(found, "_fields")
            if noun and not name.startswith("_"):
                yield found


def test_every_public_noun_is_readable() -> None:
    found = set(public())
    assert len(found) > 100
    not_so = [c.__qualname__ for c in found if "_repr_html_" not in vars(c)]
    assert not not_so, f"decorate with @readable, below @dataclass: {not_so}"
    dumped = [c.__qualname__ for c in found if "__create_fn__" in c.__repr__.__qualname__]
    assert not dumped, f"@readable must stand below @dataclass: {dumped}"


def nouns() -> dict[str, object]:
    x = np.eye(2)
    net = sw.MLP(5, 64, "linear", input_dim=2, output_dim=1)
    task = sw.Task(
        np.eye(3), [1.0, -1.0, 1.0], test_inputs=-np.eye(3), test_targets=[1.0, -1.0, 1.0]
    )
    plan = planned(mlp, strategy=mup(), optimizer="adamw")
    check = plan.verify(batch(), loss, widths=[16, 32, 64], seeds=2, progress=False)
    optimizer = torch.optim.SGD, {"lr": 0.1}
    audit = sw.torch.audit(mlp, optimizer, loss, batch(), widths=[16, 32, 64], seeds=2)
    losses = np.random.default_rng(0).normal(size=(2, 3, 2))
    return {
        "Comparison": sw.compare(theory(), ensemble(theory())),
        "Criticality": sw.criticality("gelu"),
        "Activation": sw.activation("tanh"),
        "MLP": net,
        "ResidualMLP": ResidualMLP(4, 64, "relu", gamma=0.6, input_dim=2, output_dim=1),
        "Task": task,
        "Strategy": mup(depth=4),
        "Classification": sw.scaling.classify(ntk(depth=3)),
        "Plan": plan,
        "Transfer": plan.transfer(lr=1e-3),
        "Check": check,
        "Audit": audit,
        "Signals": sw.torch.signals(mlp, batch()[0], width=16),
        "TransferCheck": check_losses(
            "lr", [0.5, 1.0, 2.0], [GridSize(f"{n}", {"width": n}) for n in (32, 64)], losses
        ),
        "Architecture": Wide(mup(depth=3), "tanh"),
        "where": (SGD(0.1), Lazy(256)),
        "GradientDescent": GradientDescent(0.1, 5),
        "Bayes": Bayes(0.1),
        "flow": sw.theory.flow.kernel_flow(net, x),
        "design": sw.design(task, 1000, depths=(2,), activations=("tanh",), refine=1),
    }


def loss(model: torch.nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return (model(batch[0]) - batch[1]).square().mean()


def within(value: object) -> Iterator[object]:
    """A noun and all nouns in it."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if hasattr(value, "_repr_html_") and type(value).__module__.startswith("scalewise"):
        yield value
    if dataclasses.is_dataclass(value):
        value = [getattr(value, f.name) for f in dataclasses.fields(value)]
    if isinstance(value, list | tuple):
        for one in value:
            yield from within(one)


def problems(noun: object) -> list[str]:
    text, page = repr(noun), noun._repr_html_()
    found = [f"{len(text)} characters"] if len(text) > LONGEST else []
    found += [bad for bad in ("Fraction(", " at 0x", "mappingproxy") if bad in text + page]
    tree = ElementTree.fromstring(page)
    if not tree.findall("table"):
        found.append("no table")
    for table in tree.findall("table"):
        if len({len(row) for row in table.iter("tr")}) != 1:
            found.append("rows of different lengths")
    return [f"{type(noun).__name__}: {one}: {text[:200]}" for one in found]


def test_nouns_are_short_and_their_tables_well_formed() -> None:
    every = list(within(nouns()))
    assert len({type(noun) for noun in every}) > 30
    wrong = [said for noun in every for said in problems(noun)]
    assert not wrong, "\n".join(wrong[:20])


def test_the_verdict_is_what_a_result_says_first() -> None:
    told = repr(sw.compare(theory(), ensemble(theory())))
    assert told.startswith("Theory and ensemble")


@settings(max_examples=30)
@given(
    depth=st.integers(1, 6),
    width=st.integers(1, 300) | st.lists(st.integers(1, 300), min_size=5, max_size=5),
    sigma=st.sampled_from(["tanh", "relu", "leaky_relu(0.1)", "gelu"]),
    C_b=st.floats(0, 4),
    C_W=st.floats(0.1, 9) | st.lists(st.floats(0.1, 9), min_size=6, max_size=6),
)
def test_a_network_is_shown_as_the_call_that_makes_it(depth, width, sigma, C_b, C_W) -> None:
    if isinstance(width, list):
        width = width[: depth - 1]
    if isinstance(C_W, list):
        C_W = [round(c, 2) for c in C_W[:depth]]
    net = sw.MLP(depth, width, sigma, input_dim=3, output_dim=2, C_b=C_b, C_W=C_W)
    assert eval(repr(net), {"MLP": sw.MLP}) == net
    skip = ResidualMLP(depth, 7, sigma, gamma=0.5, input_dim=3, output_dim=2, C_b=C_b)
    assert eval(repr(skip), vars(sw.networks)) == skip


@pytest.mark.parametrize("fraction", [Fraction(1, 3), {"a": (Fraction(1, 3),)}])
def test_no_value_makes_a_noun_long(fraction) -> None:
    @dataclasses.dataclass(frozen=True)
    @readable
    class Held:
        a: object
        b: object
        c: object = 1

    values = [
        ("<b>&" * 4000, "two\nlines", len, int, object(), (), None),
        (np.zeros((200, 300)), np.float64(2.5), theory(), fraction, sw.criticality("gelu")),
        (list(range(5000)), dict.fromkeys(range(50), "x" * 99)),
    ]
    for one in [one for some in values for one in some]:
        held = Held(one, Held(one, one, one))
        assert problems(held) == []
        assert problems(Held(held, [held] * 50)) == []
    assert repr(Held(1, Held(2, 3), 1)) == "Held(a=1, b=Held(a=2, b=3))"


def test_a_long_text_says_how_much_is_left_out() -> None:
    @dataclasses.dataclass(frozen=True)
    @readable
    class Long:
        lines: int

        def _told(self) -> list[str | Rows]:
            return [
                "<first> & last",
                Rows(("n", "twice"), [(f"{i}", f"{2 * i}") for i in range(self.lines)]),
            ]

    text = repr(Long(1000))
    assert len(text) <= LONGEST
    shown = text.count("\n")
    assert text.endswith(f"(print it for the other {1003 - shown} lines)")
    assert len(str(Long(1000)).split("\n")) == 1003
    rows = ElementTree.fromstring(Long(1000)._repr_html_()).iter("tr")
    assert sum(1 for _ in rows) == 1001
    assert repr(Long(2)) == "<first> & last\nn  twice\n--------\n0  0\n1  2"


def test_named_tuples_are_readable_too() -> None:
    @readable
    class Pair(NamedTuple):
        first: np.ndarray
        second: float

    pair = Pair(np.zeros((30, 30)), 0.5)
    assert repr(pair) == "Pair(first=<array 30 x 30>, second=0.5)"
    assert problems(pair) == []
