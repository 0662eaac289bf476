"""The models of `own_models.py`: those of the tests, models of transformers, and some that are not read."""

from __future__ import annotations

import logging

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    ViTConfig,
    ViTForImageClassification,
)

from models_to_read import CASES as OWN
from models_to_read import EDGES, HEAD, NODES, POINTS, STEPS, WORDS, Case

try:  # measured where it is installed; it is not among what this package asks for
    from torch_geometric.nn import GCNConv, SAGEConv
except ImportError:
    GCNConv = SAGEConv = None

logging.getLogger("transformers").setLevel(logging.ERROR)
SIZES = {"vocab_size": 31, "max_position_embeddings": 8, "num_hidden_layers": 1}


def _wide(width: int) -> dict:
    return {
        "hidden_size": width,
        "intermediate_size": 2 * width,
        "num_attention_heads": width // HEAD,
    }


def gpt2(width: int) -> nn.Module:
    config = GPT2Config(
        n_embd=width, n_layer=2, n_head=width // HEAD, vocab_size=31, n_positions=8,
        tie_word_embeddings=False, bos_token_id=0, eos_token_id=0, initializer_range=0.5 * width**-0.5,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


def tied(width: int) -> nn.Module:
    return GPT2LMHeadModel(
        GPT2Config(
            n_embd=width,
            n_layer=1,
            n_head=width // HEAD,
            vocab_size=31,
            n_positions=8,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def llama(width: int, **changed) -> nn.Module:
    given = {
        **_wide(width),
        **SIZES,
        "tie_word_embeddings": False,
        "initializer_range": width**-0.5,
        **changed,
    }
    return LlamaForCausalLM(LlamaConfig(**given))


def qwen3(width: int) -> nn.Module:
    given = {
        **_wide(width),
        **SIZES,
        "tie_word_embeddings": False,
        "initializer_range": width**-0.5,
    }
    return Qwen3ForCausalLM(Qwen3Config(**given, head_dim=HEAD, num_key_value_heads=width // HEAD))


def vit(width: int) -> nn.Module:
    sizes = {"image_size": 8, "patch_size": 4, "num_channels": 3, "num_hidden_layers": 1}
    return ViTForImageClassification(
        ViTConfig(**_wide(width), **sizes, initializer_range=width**-0.5)
    )


class Bert(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.bert = BertModel(
            BertConfig(**_wide(width), **SIZES, initializer_range=width**-0.5),
            add_pooling_layer=False,
        )
        self.head = nn.Linear(width, 2)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.bert(words).last_hidden_state[:, 0])


class Mixer(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.a, self.tokens, self.o = nn.Linear(3, n), nn.Linear(4, 4), nn.Linear(n, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.o(self.tokens(self.a(x).transpose(1, 2)).mean(2))


class Distances(nn.Module):
    """ALiBi: logits less a multiple of the distance, another for each head."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.i, self.qkv, self.o = nn.Linear(3, n), nn.Linear(n, 3 * n), nn.Linear(n, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            a.unflatten(-1, (-1, HEAD)).transpose(1, 2) for a in self.qkv(self.i(x)).chunk(3, -1)
        )
        place = torch.arange(x.shape[1])
        slopes = 2.0 ** (-8 * torch.arange(1, q.shape[1] + 1) / q.shape[1])
        bias = -slopes[:, None, None] * (place[:, None] - place).abs().to(x.dtype)
        return self.o(
            F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
            .transpose(1, 2)
            .flatten(2)
            .mean(1)
        )


class OfGraphs(nn.Module):
    """Two layers of torch_geometric."""

    def __init__(self, n: int, kind: type[nn.Module]) -> None:
        super().__init__()
        self.a, self.b = kind(5, n), kind(n, 3)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        return self.b(torch.relu(self.a(x, edges)), edges)


def of_graphs(kind: type[nn.Module] | None) -> Case | None:
    """Nothing if torch_geometric is not installed."""
    return None if kind is None else Case(lambda n: OfGraphs(n, kind), (NODES, EDGES), 0)


def normed(n: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(8, n), nn.Tanh(), weight_norm(nn.Linear(n, n)), nn.Tanh(), nn.Linear(n, 1)
    )


CASES = OWN | {
    "GPT-2 (transformers)": Case(gpt2, WORDS, -1),
    "GPT-2, tied as it comes (transformers)": Case(tied, WORDS, -1),
    "Llama (transformers)": Case(llama, WORDS, -1),
    "Llama, grouped queries (transformers)": Case(
        lambda n: llama(n, num_key_value_heads=n // 16), WORDS, -1
    ),
    "ALiBi": Case(Distances, STEPS),
    "Qwen3 (transformers)": Case(qwen3, WORDS, -1),
    "ViT (transformers)": Case(vit, OWN["vision transformer"].inputs),
    "BERT (transformers)": Case(Bert, WORDS),
    "GCNConv (torch_geometric)": of_graphs(GCNConv),
    "SAGEConv (torch_geometric)": of_graphs(SAGEConv),
}
REFUSED = {
    "MLP-Mixer": Case(Mixer, STEPS),
    "weight_norm": Case(normed, POINTS),
    "Llama, one key for all heads (transformers)": Case(
        lambda n: llama(n, num_key_value_heads=1), WORDS, -1
    ),
}
