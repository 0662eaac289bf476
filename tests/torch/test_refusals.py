"""Error tests: what only the user can decide is asked for, and what cannot be built is said so."""

import math
import random
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import scalewise as sw
from scalewise.plan import PlanError
from scalewise.torch._probe import undisturbed
from torch_models import mlp, planned

SIZES: dict[str, Any] = {"base": {"width": 16}, "target": {"width": 64}}


def refused(match: str, build=mlp, **options: Any) -> None:
    settings = SIZES | {"strategy": sw.scaling.mup()} | options
    with pytest.raises(PlanError, match=match):
        sw.torch.plan(build, **settings)


@pytest.mark.parametrize("bad", [0, -4, math.nan, math.inf, True, "64", None])
def test_sizes_must_be_positive_numbers(bad: Any) -> None:
    refused(
        rf"`target\['width'\]` must be a positive finite number; got {bad!r}", target={"width": bad}
    )
    refused(
        r"`base\['depth'\]` must be a positive finite number",
        base={"width": 16, "depth": bad},
        target={"width": 16, "depth": 3},
    )


def test_sizes_must_be_there() -> None:
    refused(r"`base` has no 'width'; it has 'n'.*width=\"...\"", base={"n": 16}, target={"n": 16})
    refused(r"`target` has no 'depth'", base={"width": 16, "depth": 3})
    refused(
        r"'words' differs between `base` and `target` \(10 and 20\)",
        base={"width": 16, "words": 10},
        target={"width": 64, "words": 20},
    )
    refused(
        r"'vocabulary' differs .*\(10 and 20\), and the factory has no argument of that name",
        base={"width": 16, "vocabulary": 10},
        target={"width": 64, "vocabulary": 20},
    )
    refused(r"'heads' differs .*\(absent and 2\)", target={"width": 64, "heads": 2})


def test_further_arguments_are_passed_on() -> None:
    def build(n: int, *, out: int) -> nn.Module:
        return nn.Sequential(nn.Linear(8, n), nn.Linear(n, out))

    sizes = {"base": {"n": 16, "out": 3}, "target": {"n": 64, "out": 3}}
    plan = sw.torch.plan(build, width="n", strategy=sw.scaling.mup(), **sizes)
    assert plan["1.weight"].shape == (3, 64)
    assert plan.at(n=32)["1.weight"].shape == (3, 32)


def test_the_factory_must_be_one() -> None:
    refused(r"`build` must be a function that returns a new model.*got a Sequential", mlp(16))
    refused(r"`build\(width=16\)` returned int; the factory must return a torch.nn.Module",
            lambda width: 3)  # fmt: skip
    refused(r"`build\(width=16\)` raised TypeError .*must take the names", lambda n: mlp(n))

    def fails(width: int) -> nn.Module:
        raise RuntimeError("no such head")

    refused(r"`build\(width=16\)` raised RuntimeError on the device 'cpu': no such head", fails)


def test_a_factory_that_needs_memory() -> None:
    def build(width: int) -> nn.Module:
        model = mlp(width)
        model[0].weight.sum().item()
        return model

    refused(r"`build\(width=64\)` raised RuntimeError on the device 'meta'.*device=\"cpu\"", build)
    plan = planned(build, device="cpu")
    assert plan.table == planned().table
    assert plan.at(width=32)["0.weight"].shape == (32, 8)


def test_what_does_not_grow_cannot_be_scaled() -> None:
    refused(r"No tensor of the model grows with the width", lambda width: mlp(16))
    refused(r"`0.weight` goes from 16 to 256 .*power 2.00", lambda width: mlp(width**2 // 16))


def test_strategy_and_optimizer() -> None:
    refused(r"`strategy` must be a strategy of scalewise.scaling.*got 'meta'", strategy="meta")
    refused(r"`optimizer` must be one of 'sgd', 'adam', .*; got 'newton'", optimizer="newton")
    refused(
        r"`residual` says how branches go with the depth, and neither .*has a 'depth'", residual=1
    )
    with pytest.raises(ValueError, match=r"`residual` must be a finite number or a fraction"):
        planned(residual="deep")


def test_names_that_fit_nothing() -> None:
    refused(r"`roles` names 'tail', which fits no tensor", roles={"tail": "output"})
    refused(r"`branch_outputs` names 'tail'", branch_outputs=["tail"])
    refused(r"`multiplied` names 'tail', but this model needs no multiplier", multiplied=["tail"])


def test_no_generator_is_disturbed() -> None:
    def build(width: int) -> nn.Module:
        model = mlp(width)
        with torch.no_grad():
            model[2].weight += random.random() + np.random.rand()
        return model

    np.random.seed(1), torch.manual_seed(1)
    plan = planned(build)
    found = np.random.rand(), torch.rand(1)
    np.random.seed(1), torch.manual_seed(1)
    assert found == (np.random.rand(), torch.rand(1))
    # Python's own is drawn from by what checks the types of arguments in these tests.
    state = random.getstate()
    with undisturbed():
        random.random()
    assert random.getstate() == state
    # And a plan does not depend on where they stand.
    torch.manual_seed(2), np.random.seed(2), random.seed(2)
    assert planned(build) == plan


def test_the_default_device_is_the_users() -> None:
    with torch.device("meta"):
        assert planned().table == planned().table
        assert torch.zeros(1).is_meta
    assert planned().std("0.weight") > 0


def test_an_embedding_may_read_out_unseen() -> None:
    """Where the pass is not seen it is asked; where it is, the plan knows."""

    class Encoder(nn.Module):
        def __init__(self, width: int, seen: bool = False):
            super().__init__()
            self.seen = seen
            self.words = nn.Embedding(10, width)
            self.inner = nn.Linear(width, width)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            if not self.seen:
                raise TypeError("other inputs")
            return self.inner(self.words(tokens)) @ self.words.weight.T

    refused(
        "`words.weight`, by their transpose and without a module.*or let a module do it",
        lambda width: Encoder(width, seen=True),
    )
    with pytest.warns(UserWarning, match="could not be run on any input"):
        refused(r"embedding `words.weight` and no readout.*torch.nn.Linear.*roles=", Encoder)
    plan = sw.torch.plan(
        lambda width: Encoder(width, seen=True), strategy=sw.scaling.mup(),
        roles={"words.weight": "input"}, **SIZES,
    )  # fmt: skip
    assert plan["words.weight"].role == "input"


def test_a_loss_of_other_arguments_is_explained() -> None:
    plan = planned(mlp)
    batch = torch.randn(4, 8), torch.randn(4, 10)
    with pytest.raises(
        PlanError, match=r"`loss` is called as loss\(model, batch\) and raised Attr"
    ):
        plan.verify(batch, nn.functional.mse_loss, widths=[16, 32, 64], progress=False)
    # What goes wrong inside is raised as it is, with a note.
    with pytest.raises(RuntimeError) as caught:
        plan.verify(batch, lambda m, b: m(b[1]).sum(), widths=[16, 32, 64], progress=False)
    assert "called as loss(model, batch)" in caught.value.__notes__[0]


@pytest.mark.parametrize("widths", ["64", 64, [64, "128", 256], {64: 1}, [16.0, 32.0, 64.0], None])
def test_widths_of_another_type_get_a_sentence(widths: Any) -> None:
    with pytest.raises(PlanError, match="`widths` must be whole numbers in a list"):
        planned(mlp).verify(None, nn.functional.mse_loss, widths=widths)


def _quantised(model: nn.Module, kind: type[nn.Module]) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(model, {kind}, dtype=torch.qint8)


def test_quantised_modules_are_refused() -> None:
    def part(width: int) -> nn.Module:
        model = mlp(width)
        model[2] = _quantised(nn.Sequential(nn.Linear(width, width)), nn.Linear)[0]
        return model

    def recurrent(width: int) -> nn.Module:
        return nn.Sequential(
            _quantised(nn.Sequential(nn.LSTM(8, width)), nn.LSTM)[0], nn.Linear(width, 3)
        )

    builds = {"0": lambda width: _quantised(mlp(width), nn.Linear), "2": part}
    wrong = []
    for name, build in {**builds, "0 ": recurrent}.items():
        for device in ("meta", "cpu"):
            try:
                planned(build, device=device)
                wrong.append(f"{name} on {device} was planned")
            except PlanError as error:
                if f"holds quantised weights (`{name.strip()}" not in str(error):
                    wrong.append(str(error))
    assert not wrong


def test_complex_parameters_are_planned_and_drawn_like_real_ones() -> None:
    class Bends(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.tanh()

    def build(width: int) -> nn.Module:
        sizes = [(8, width), (width, width), (width, 10)]
        layers = [m for a, b in sizes for m in (nn.Linear(a, b, dtype=torch.cfloat), Bends())]
        return nn.Sequential(*layers[:-1])

    plan, real = planned(build), planned(mlp)
    assert [plan.factors(n) for n in plan.table.names] == [
        real.factors(n) for n in plan.table.names
    ]
    model = plan.init_(build(64))
    # Of the real and the imaginary part each.
    spread = torch.view_as_real(model[2].weight.detach()).std()
    assert float(spread) == pytest.approx(plan.std("2.weight"), rel=0.1)
    assert plan.param_groups(model, lr=0.1)
