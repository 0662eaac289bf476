"""Models of transformers of later kinds: latents, many experts, states in place of attention, two towers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import transformers
from torch import nn
from zoo_entry import Entry, of_itself
from zoo_text import HEAD, WORDS, decoder, like_llama

__all__ = ["MODELS"]

_WIDER = (128, 256, 512)  # where 32 tokens are many beside narrower networks


def _heads(width: int) -> int:
    return width // HEAD


_ROUTED = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": lambda n: n}
_SHARED = {
    "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1, "first_k_dense_replace": 1,
    "n_group": 1, "topk_group": 1, "moe_intermediate_size": lambda n: n,
}  # fmt: skip
_LATENT = {
    "num_key_value_heads": _heads, "q_lora_rank": HEAD, "kv_lora_rank": 8, "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 12, "v_head_dim": HEAD,
}  # fmt: skip
_DELTA = {
    "linear_num_value_heads": _heads, "linear_num_key_heads": _heads, "linear_key_head_dim": HEAD,
    "linear_value_head_dim": HEAD, "layer_types": ["linear_attention", "full_attention"],
}  # fmt: skip
_STATE = {
    "mamba_n_heads": lambda n: n // 8, "mamba_d_head": HEAD, "mamba_n_groups": 1, "mamba_d_state": 8,
    "mamba_chunk_size": 8,
}  # fmt: skip


def _towers(
    model: str, config: str, more: Callable[[int], Mapping[str, int]]
) -> Callable[[int], nn.Module]:
    def build(width: int) -> nn.Module:
        both = {
            "hidden_size": width, "intermediate_size": 2 * width, "num_hidden_layers": 2,
            "num_attention_heads": width // HEAD,
        }  # fmt: skip
        text = both | {"vocab_size": WORDS, "max_position_embeddings": 32, "pad_token_id": 0,
                       "bos_token_id": 1, "eos_token_id": 2}  # fmt: skip
        vision = both | {"image_size": 16, "patch_size": 8}
        chosen = getattr(transformers, config)(
            text_config=text, vision_config=vision, **more(width)
        )
        return getattr(transformers, model)(chosen)

    return build


def _pairs() -> dict[str, Any]:
    """Texts and pictures; every text ends."""
    numbers = torch.Generator().manual_seed(1)
    words = torch.randint(3, WORDS, (4, 8), generator=numbers)
    words[:, -1] = 2
    pictures = torch.randn(4, 3, 16, 16, generator=numbers)
    return {"input_ids": words, "pixel_values": pictures, "attention_mask": torch.ones_like(words)}


def _matched(model: Any, batch: Mapping[str, Any]) -> Any:
    return model(**batch, return_loss=True).loss


def _two_towers(
    name: str, prefix: str, more: Callable[[int], Mapping[str, int]], *, everyday: bool = False
) -> Entry:
    build = _towers(f"{prefix}Model", f"{prefix}Config", more)
    return Entry(
        name, "transformers", build, _pairs, _matched, everyday, inputs=lambda batch: batch
    )


def _nemotron(width: int) -> nn.Module:
    """A layer of a state and one of attention, under names of its own."""
    more = {
        "mamba_num_heads": width // 8, "mamba_head_dim": HEAD, "n_groups": 1, "ssm_state_size": 8,
        "chunk_size": 8, "hybrid_override_pattern": "M*", "head_dim": HEAD,
    }  # fmt: skip
    return transformers.NemotronHForCausalLM(
        transformers.NemotronHConfig(**(decoder(width) | more))
    )


def _llama_4(width: int) -> nn.Module:
    more = {
        "head_dim": HEAD, "num_local_experts": 4, "num_experts_per_tok": 1, "intermediate_size_mlp": 2 * width,
        "attention_chunk_size": 8,
    }  # fmt: skip
    return transformers.Llama4ForCausalLM(transformers.Llama4TextConfig(**(decoder(width) | more)))


def _words() -> dict[str, torch.Tensor]:
    return like_llama("", "Llama").batch()


MODELS = (
    like_llama("DeepSeek-V3", "DeepseekV3", everyday=True, **_LATENT, **_SHARED),
    like_llama("MiniCPM 3, latents of keys", "MiniCPM3", widths=_WIDER, **_LATENT),
    like_llama("GLM-4, mixture of experts", "Glm4Moe", head_dim=HEAD, **_SHARED),
    like_llama("gpt-oss", "GptOss", everyday=True, head_dim=HEAD, num_local_experts=4,
               num_experts_per_tok=2, layer_types=["full_attention"] * 2),
    like_llama("OLMoE", "Olmoe", num_experts=4, num_experts_per_tok=2),
    Entry("Llama 4", "transformers", _llama_4, _words, of_itself),
    like_llama("Qwen3-Next, gated delta and experts", "Qwen3Next", head_dim=HEAD, **_DELTA, **_ROUTED,
               shared_expert_intermediate_size=lambda n: n),
    like_llama("OLMo, gated delta", "OlmoHybrid", **(_DELTA | {"num_key_value_heads": _heads})),
    like_llama("Kimi Linear", "KimiLinear", **(_LATENT | {"q_lora_rank": None}),
               num_experts=4, num_experts_per_token=2, num_shared_experts=1, linear_num_heads=_heads,
               linear_head_dim=HEAD, layer_types=["linear_attention", "full_attention"],
               moe_intermediate_size=lambda n: n),
    like_llama("MiniMax, attention without a softmax", "MiniMax", head_dim=HEAD, num_local_experts=4,
               num_experts_per_tok=2, block_size=8, layer_types=["linear_attention", "full_attention"]),
    like_llama("RWKV", "Rwkv", attention_hidden_size=lambda n: n),
    like_llama("Bamba, Mamba-2 and attention", "Bamba", **_STATE, attn_layer_indices=[1]),
    like_llama("Granite, Mamba-2 and experts", "GraniteMoeHybrid", **_STATE, num_local_experts=4,
               num_experts_per_tok=2, layer_types=["mamba", "attention"],
               shared_intermediate_size=lambda n: n),
    like_llama("Falcon-H1", "FalconH1", widths=_WIDER, head_dim=HEAD, mamba_d_ssm=lambda n: 2 * n, **_STATE),
    Entry("Nemotron-H", "transformers", _nemotron, _words, of_itself),
    like_llama("Jamba", "Jamba", widths=_WIDER, num_experts=4, num_experts_per_tok=2, mamba_d_state=8,
               mamba_dt_rank=8, attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2,
               expert_layer_offset=1),
    _two_towers("CLIP", "CLIP", lambda n: {"projection_dim": n}, everyday=True),
    _two_towers("SigLIP", "Siglip", lambda n: {}),
)  # fmt: skip
