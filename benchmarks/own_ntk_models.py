"""Models whose own NTK `own_ntk.py` asks for, with samples; and three other ways to it.

The first two are those of PyTorch's tutorial on neural tangent kernels (torch.func), to the letter but for
Jacobians of two equal sets of samples, which are computed once here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, jacrev, jvp, vjp, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel


@dataclass(frozen=True)
class Row:
    """One NTK.

    Args:
        asked: What it is.
        make: The model.
        inputs: Some samples, from their number.
        samples: How many.
        few: How many of them the way by pairs gets; its time is scaled by the number of pairs.
        outputs: As of `tangents`.
        others: Names of the ways beside ours.
    """

    asked: str
    make: Callable[[], nn.Module]
    inputs: Callable[[int], torch.Tensor]
    samples: int
    few: int
    outputs: Any = "all"
    others: tuple[str, ...] = ("contraction", "products", "autograd")


def perceptron() -> nn.Module:
    """Three layers of 512."""
    layers = nn.Linear(64, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 10)
    return nn.Sequential(*layers)


def convolutions() -> nn.Module:
    """Four of 32 channels, pooled."""
    layers = [m for c in (3, 32, 32, 32) for m in (nn.Conv2d(c, 32, 3, padding=1), nn.ReLU())]
    return nn.Sequential(*layers, nn.AvgPool2d(4), nn.Flatten(), nn.Linear(32 * 16, 10))


class Last(nn.Module):
    """A model of transformers, read out at the last position."""

    def __init__(self, model: nn.Module, width: int) -> None:
        super().__init__()
        self.model, self.head = model, nn.Linear(width, 1)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """From words."""
        return self.head(self.model(words, use_cache=False).last_hidden_state[:, -1])


def gpt2_block() -> nn.Module:
    """The embedding of 1000 words and one block of GPT-2 small."""
    from transformers import GPT2Config, GPT2Model

    own: dict[str, Any] = {"n_layer": 1, "n_embd": 768, "n_head": 12, "vocab_size": 1000}
    return Last(GPT2Model(GPT2Config(**own, bos_token_id=0, eos_token_id=0)), 768)


class Logits(nn.Module):
    """A classifier of transformers."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """From images."""
        return self.model(images).logits


def vit_tiny() -> nn.Module:
    """ViT-Tiny with patches of 16 x 16."""
    from transformers import ViTConfig, ViTForImageClassification

    own: dict[str, Any] = {
        "num_labels": 10,
        "hidden_size": 192,
        "num_hidden_layers": 12,
        "num_attention_heads": 3,
    }
    return Logits(ViTForImageClassification(ViTConfig(**own, intermediate_size=768)))


def images(size: int) -> Callable[[int], torch.Tensor]:
    """Of normal numbers."""
    return lambda samples: torch.randn(samples, 3, size, size)


def words(samples: int) -> torch.Tensor:
    """Texts of 64 words."""
    return torch.randint(1000, (samples, 64))


KEEP: dict[str, Any] = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
ONE = np.eye(10)[:1]
ROWS = {
    "perceptron": Row(
        "3 layers of 512, all pairs of 10 outputs", perceptron, lambda n: torch.randn(n, 64), 64, 16
    ),
    "convolutions": Row(
        "4 convolutions of 32 channels on 16 x 16, all pairs of 10 outputs", convolutions, images(16), 64, 8
    ),
    "gpt2": Row("a block of GPT-2 small, 64 words, one output", gpt2_block, words, 100, 4),
    "vit-32": Row("ViT-Tiny, one output", vit_tiny, images(224), 32, 3, ONE),
    "vit-100": Row("ViT-Tiny, one output", vit_tiny, images(224), 100, 0, ONE, ("contraction",)),
}  # fmt: skip


def ours(model: nn.Module, x: torch.Tensor, outputs: Any) -> np.ndarray:
    """`scalewise.torch.tangents`."""
    from scalewise.torch import tangents

    return tangents(model, x, outputs=outputs)[1]


def _single(model: nn.Module, outputs: Any) -> tuple[Any, Any]:
    """A function of parameters and one sample, and the parameters."""
    R = None if isinstance(outputs, str) else torch.tensor(outputs, dtype=torch.float32)

    def outputs_of(params: Any, x: torch.Tensor) -> torch.Tensor:
        z = functional_call(model, params, (x.unsqueeze(0),)).squeeze(0)
        return z if R is None else R @ z

    return outputs_of, {k: v.detach() for k, v in model.named_parameters()}


def contraction(model: nn.Module, x: torch.Tensor, outputs: Any) -> np.ndarray:
    """Jacobians of all samples, contracted."""
    f, params = _single(model, outputs)
    jac = [j.flatten(2) for j in vmap(jacrev(f), (None, 0))(params, x).values()]
    return torch.stack([torch.einsum("Naf,Mbf->NMab", j, j) for j in jac]).sum(0).numpy()


def products(model: nn.Module, x: torch.Tensor, outputs: Any) -> np.ndarray:
    """Products of the NTK with vectors, pair by pair."""
    f, params = _single(model, outputs)

    def ntk(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
        both: Any = vjp(lambda p: f(p, x1), params)
        z, back = both

        def column(v: torch.Tensor) -> torch.Tensor:
            return jvp(lambda p: f(p, x2), (params,), back(v))[1]

        return vmap(column)(torch.eye(len(z)))

    with sdpa_kernel(SDPBackend.MATH):  # the fast kernels have no forward mode
        return vmap(vmap(ntk, (None, 0)), (0, None))(x, x).numpy()


def autograd(model: nn.Module, x: torch.Tensor, outputs: Any) -> np.ndarray:
    """Gradients of one output of one sample at a time, all kept, and multiplied in float64."""
    R, rows, k = None if isinstance(outputs, str) else torch.tensor(outputs).float(), [], 0
    for sample in x.split(1):
        z = model(sample)[0]
        z, k = (z if R is None else R @ z), len(z) if R is None else len(R)
        for entry in z:
            g = torch.autograd.grad(entry, [*model.parameters()], **KEEP)
            rows.append(torch.cat([part.ravel().double() for part in g]).numpy())
    J = np.stack(rows)
    return (J @ J.T).reshape(len(x), k, len(x), k).transpose(0, 2, 1, 3)


WAYS = {"ours": ours, "contraction": contraction, "products": products, "autograd": autograd}
