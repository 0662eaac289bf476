"""The kinds that are trained at two widths: a model as a plan wants it, as people write it, and what it learns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent.parent / "tests" / "torch")]

import test_autoencoders  # noqa: E402
import test_computed  # noqa: E402
import test_loss_parameters  # noqa: E402
import test_parts  # noqa: E402
import test_retrieval  # noqa: E402
import test_spheres  # noqa: E402
import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import scalewise as sw  # noqa: E402
import todays_models  # noqa: E402
from scalewise.torch import TorchPlan  # noqa: E402

__all__ = ["KINDS", "Kind"]

Build = Callable[..., nn.Module]
_ONE_RATE = "as it is, at one rate"


@dataclass(frozen=True)
class Kind:
    """A kind of model, and its task.

    Args:
        build: The model as the plan wants it, as a function of its sizes.
        loss: A function of (model, batch).
        batch: A batch of a stream of random numbers; the same at each step where a task has few samples.
        base: Sizes at which the rate is chosen.
        wide: Sizes to which it is carried.
        plain: The model as people write it; ``None`` if that is the same.
        changed: How plain differs.
        start: Power of 2 of the rate with which the search begins.
        steps: Of the optimizer.
        optimizer: Its name: ``"adamw"`` or ``"adamh"``.
    """

    build: Build
    loss: Callable[[Any, Any], Tensor]
    batch: Callable[[torch.Generator], Any]
    base: Mapping[str, int] = field(default_factory=lambda: {"width": 32})
    wide: Mapping[str, int] = field(default_factory=lambda: {"width": 256})
    plain: Build | None = None
    changed: str = _ONE_RATE
    start: int = -6
    steps: int = 200
    optimizer: str = "adamw"

    @cached_property
    def _plan(self) -> TorchPlan:
        inputs = self.batch(torch.Generator().manual_seed(0))
        if isinstance(inputs, tuple):
            inputs, test_loss_parameters.LABELS = inputs
        if isinstance(inputs, Tensor) and inputs.dtype is torch.long and inputs.ndim == 2:
            inputs = inputs[:, :-1]
        return sw.torch.plan(
            self.build, base=dict(self.base), target=dict(self.wide), strategy="mup", optimizer=self.optimizer,
            inputs=inputs,
        )  # fmt: skip

    def plan(self) -> TorchPlan:
        """The plan from the base to the wide network."""
        return self._plan

    def optimizers(
        self, arm: str, plan: TorchPlan, model: nn.Module, sizes: dict[str, int], lr: float
    ) -> list[Any]:
        """A model's optimizers; planned, it is initialised too."""
        here = plan.at(**sizes)
        if arm == "planned":
            here.init_(model)
        if self.optimizer == "adamh":
            return _on_spheres(arm, here, model, lr)
        if arm == "plain":
            return [torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)]
        groups: Any = here.param_groups(model, lr=lr, weight_decay=0.0)
        return [torch.optim.AdamW(groups)]


def _on_spheres(arm: str, plan: TorchPlan, model: nn.Module, lr: float) -> list[Any]:
    """AdamH for matrices but the readout, and AdamW for the rest at a quarter of its rate."""
    if arm == "planned":
        return list(test_spheres.script(lr)(plan, model))
    first = [p for n, p in model.named_parameters() if p.ndim == 2 and n != "6.weight"]
    rest = [p for p in model.parameters() if all(p is not q for q in first)]
    spheres: Any = [{"params": [p]} for p in first]
    return [
        test_spheres.AdamH(spheres, lr=lr),
        torch.optim.AdamW(rest, lr=lr / 4, weight_decay=0.0),
    ]


def _sentences(generator: torch.Generator) -> Tensor:
    return todays_models.data(16, 16, generator)


def _of_words(build: Build, **more: Any) -> Kind:
    settings: dict[str, Any] = {
        "base": {"width": 64}, "wide": {"width": 256}, "steps": 40, "start": -6,
    }  # fmt: skip
    return Kind(build, todays_models.loss, _sentences, **(settings | more))


def _numbers(inputs: int) -> Callable[[torch.Generator], tuple[Tensor, Tensor]]:
    """Fresh numbers at every step, and one of three classes that two layers tell."""
    fixed = torch.Generator().manual_seed(5)
    one, two = torch.randn(inputs, 8, generator=fixed), torch.randn(8, 3, generator=fixed)

    def batch(generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = torch.randn(64, inputs, generator=generator)
        return x, (torch.tanh(x @ one) @ two).argmax(-1)

    return batch


def _told(model: Any, batch: tuple[Tensor, Tensor]) -> Tensor:
    return functional.cross_entropy(model(batch[0]), batch[1])


def _by_itself(model: Any, batch: tuple[Tensor, Tensor]) -> Tensor:
    """The loss that a model returns, of the labels that its file holds."""
    x, test_loss_parameters.LABELS = batch
    return model(x)


def _curves(generator: torch.Generator) -> Tensor:
    """Twelve numbers that four tell."""
    fixed = torch.Generator().manual_seed(5)
    z = torch.randn(64, 4, generator=generator)
    return torch.tanh(z @ torch.randn(4, 12, generator=fixed) / 2)


def _pairs(generator: torch.Generator) -> Tensor:
    """Numbers, and what a layer makes of each with some noise."""
    fixed = torch.Generator().manual_seed(5)
    x, noise = torch.randn(2, 24, 8, generator=generator)
    return torch.stack([x, torch.tanh(x @ torch.randn(8, 8, generator=fixed)) + noise / 4])


def _linear(power: float) -> Build:
    return lambda width: todays_models.LM(width, todays_models.Linear(width, 4, power))


class _All(nn.Module):
    """Every sample goes to all experts, by a softmax of what a router says."""

    def __init__(self, d: int, count: int) -> None:
        super().__init__()
        self.pick = nn.Linear(d, count, bias=False)
        self.one = nn.Parameter(torch.randn(count, d, d) / d**0.5)
        self.two = nn.Parameter(torch.randn(count, d, d) / d**0.5)

    def forward(self, x: Tensor) -> Tensor:
        shares = self.pick(x).softmax(-1)
        h = functional.silu(torch.einsum("btd,edf->btef", x, self.one))
        return torch.einsum("bte,bted->btd", shares, torch.einsum("btef,efd->bted", h, self.two))


def _with_all(width: int, experts: int) -> nn.Module:
    return todays_models.LM(
        width, todays_models.Linear(width, width // 16, None), _All(width, experts)
    )


def _towers(power: float) -> Build:
    return lambda width: test_retrieval.Towers(width, power)


def _matched(model: Any, both: Tensor) -> Tensor:
    scores = model(both)
    return functional.cross_entropy(scores, torch.arange(len(scores)))


def _again(power: float) -> Build:
    return lambda width: test_autoencoders.OfLayer(width, power)


def _learner(kind: str) -> Kind:
    build = (
        test_loss_parameters.Multiplied if kind == "multiplied" else test_loss_parameters.Learner
    )
    return Kind(lambda width: build(width, kind), _by_itself, _numbers(12))


def _beside(place: str) -> Kind:
    return Kind(lambda width: test_parts.Skips(width, place), _told, _numbers(24))


def _computed(wrap: str, first: float, last: float) -> Build:
    wraps = test_computed.LENGTHS | test_computed.BOUNDED
    return lambda width: test_computed.Net(width, wraps[wrap], first, last)


_FEW = {"width": 64, "experts": 4}
_MANY = {"width": 256, "experts": 8}
_CODE = "without the factor"

KINDS: dict[str, Kind] = {
    "latent attention": _of_words(todays_models.PLANNED["latent"]),
    "latent attention, the latent grows": _of_words(todays_models.PLANNED["latent that grows"]),
    "attention without a softmax": _of_words(todays_models.PLANNED["linear"]),
    "attention without a softmax, heads grow": _of_words(
        _linear(-1.0), plain=_linear(-0.5), changed="over the root of the head's size"
    ),
    "linear attention, normalised": _of_words(todays_models.PLANNED["linear, normalised"]),
    "experts, top 2, one shared": _of_words(todays_models.PLANNED["experts, scattered"]),
    "experts, more of them": _of_words(
        todays_models.with_experts("masked"), base=_FEW, wide=_MANY
    ),
    "experts, a softmax over all of them": _of_words(
        _with_all, base=_FEW, wide={"width": 128, "experts": 16}
    ),
    "experts in a list": _of_words(todays_models.PLANNED["experts, listed"]),
    "Mamba-2": _of_words(todays_models.PLANNED["state space"]),
    "gated delta": _of_words(todays_models.PLANNED["delta"]),
    "gated delta, heads grow": _of_words(todays_models.PLANNED["delta, heads grow"]),
    "tied encoder and decoder": Kind(
        _again(1.0), test_autoencoders.again, _curves, plain=_again(0.0), changed=_CODE
    ),
    "two towers": Kind(
        _towers(1.0), _matched, _pairs, base={"width": 64}, wide={"width": 512},
        plain=_towers(0.5), changed="over the root of the length",
    ),
    "prototypes in the loss, products": _learner("products"),
    "prototypes in the loss, angles": _learner("angles of a layer"),
    "prototypes in the loss, distances": _learner("distances"),
    "learnable multipliers": _learner("multiplied"),
    "inputs again beside the features": _beside("behind"),
    "inputs again before the readout": _beside("readout"),
    "weight_norm": Kind(_computed("rows", 0.0, 0.0), _told, _numbers(12)),
    "spectral_norm": Kind(
        _computed("hook", 0.5, -0.5), _told, _numbers(12), plain=_computed("hook", 0.0, 0.0),
        changed="without the two factors",
    ),
    "AdamH": Kind(test_spheres.build, _told, _numbers(12), optimizer="adamh"),
}  # fmt: skip
