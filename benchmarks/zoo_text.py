"""Language models of transformers and adapters of peft: two layers of each, by their own configurations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import transformers
from torch import nn
from zoo_entry import Entry, of_itself

__all__ = ["HEAD", "MODELS", "WORDS", "decoder", "like_llama"]

WORDS, _LENGTH, HEAD = 96, 16, 16


def _tokens() -> torch.Tensor:
    return torch.randint(1, WORDS, (2, _LENGTH), generator=torch.Generator().manual_seed(1))


def _next_words() -> dict[str, torch.Tensor]:
    return {"input_ids": _tokens(), "labels": _tokens()}


def _classes() -> dict[str, torch.Tensor]:
    return {"input_ids": _tokens(), "labels": torch.tensor([0, 1])}


def _of(model: str, config: str, settings: Callable[[int], Mapping[str, Any]]) -> Any:
    def build(width: int) -> nn.Module:
        chosen = getattr(transformers, config)(**settings(width))
        return getattr(transformers, model)(chosen)

    return build


def decoder(width: int) -> dict[str, Any]:
    """What configurations of the kind of Llama have in common: more heads at a larger width, none larger."""
    return {
        "vocab_size": WORDS, "hidden_size": width, "intermediate_size": 2 * width, "num_hidden_layers": 2,
        "num_attention_heads": width // HEAD, "num_key_value_heads": width // (2 * HEAD),
        "max_position_embeddings": 4 * _LENGTH, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip


def _encoder(width: int) -> dict[str, Any]:
    """What configurations of the kind of BERT have in common."""
    found = decoder(width) | {"intermediate_size": 4 * width}
    return {
        k: v
        for k, v in found.items()
        if k not in ("num_key_value_heads", "bos_token_id", "eos_token_id")
    }


def like_llama(
    name: str,
    prefix: str,
    *,
    everyday: bool = False,
    widths: tuple[int, ...] = (64, 128, 256),
    **more: Any,
) -> Entry:
    """A decoder whose configuration is `decoder` and a few settings; those that are functions take the width."""

    def settings(width: int) -> dict[str, Any]:
        return decoder(width) | {k: v(width) if callable(v) else v for k, v in more.items()}

    build = _of(f"{prefix}ForCausalLM", f"{prefix}Config", settings)
    return Entry(name, "transformers", build, _next_words, of_itself, everyday, widths=widths)


def _masked(name: str, prefix: str, *, everyday: bool = False, **more: Any) -> Entry:
    def settings(width: int) -> dict[str, Any]:
        return _encoder(width) | {k: v(width) if callable(v) else v for k, v in more.items()}

    build = _of(f"{prefix}ForMaskedLM", f"{prefix}Config", settings)
    return Entry(name, "transformers", build, _next_words, of_itself, everyday)


def _gpt2(width: int) -> dict[str, Any]:
    return {
        "vocab_size": WORDS, "n_positions": _LENGTH, "n_embd": width, "n_layer": 2, "n_head": width // HEAD,
        "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip


def _t5(width: int) -> dict[str, Any]:
    return {
        "vocab_size": WORDS, "d_model": width, "d_kv": HEAD, "d_ff": 2 * width, "num_layers": 2,
        "num_heads": width // HEAD, "decoder_start_token_id": 0,
    }  # fmt: skip


def _bart(width: int) -> dict[str, Any]:
    heads, ff = width // HEAD, 2 * width
    return {
        "vocab_size": WORDS, "d_model": width, "max_position_embeddings": 4 * _LENGTH, "encoder_layers": 2,
        "decoder_layers": 2, "encoder_attention_heads": heads, "decoder_attention_heads": heads,
        "encoder_ffn_dim": ff, "decoder_ffn_dim": ff,
    }  # fmt: skip


def _state_space(width: int) -> dict[str, Any]:
    return {"vocab_size": WORDS, "hidden_size": width, "num_hidden_layers": 2, "state_size": 8}


def _mamba2(width: int) -> dict[str, Any]:
    return _state_space(width) | {
        "num_heads": width // 8,
        "head_dim": 16,
        "n_groups": 1,
        "chunk_size": 8,
    }


def _adapted(width: int, **settings: Any) -> nn.Module:
    import peft

    # What is frozen keeps its initialisation: only the adapters are trained.
    model = _of("LlamaForCausalLM", "LlamaConfig", decoder)(width)
    return peft.get_peft_model(model, peft.LoraConfig(r=4, task_type="CAUSAL_LM", **settings))


def _lora(width: int) -> nn.Module:
    return _adapted(width, target_modules=["q_proj", "v_proj"])


def _lora_everywhere(width: int) -> nn.Module:
    return _adapted(width, target_modules="all-linear", modules_to_save=["lm_head"])


def _dora(width: int) -> nn.Module:
    return _adapted(width, target_modules=["q_proj", "v_proj"], use_dora=True)


_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": lambda n: n}

MODELS = (
    like_llama("Llama", "Llama", everyday=True),
    like_llama("Mistral", "Mistral", everyday=True),
    like_llama("Qwen2", "Qwen2"),
    like_llama("Qwen3", "Qwen3", everyday=True, head_dim=HEAD),
    like_llama("Qwen3, mixture of experts", "Qwen3Moe", head_dim=HEAD, **_EXPERTS),
    like_llama("Gemma 2", "Gemma2", head_dim=HEAD, query_pre_attn_scalar=HEAD),
    Entry(
        "Gemma 3", "transformers",
        _of("Gemma3ForCausalLM", "Gemma3TextConfig",
            lambda n: decoder(n) | {"head_dim": HEAD, "query_pre_attn_scalar": HEAD}),
        _next_words, of_itself, True,
    ),
    like_llama("Mixtral", "Mixtral", everyday=True, num_local_experts=4),
    like_llama("Phi-3", "Phi3"),
    like_llama("OLMo 2", "Olmo2"),
    like_llama("GPT-NeoX", "GPTNeoX"),
    like_llama("Falcon-Mamba", "FalconMamba", state_size=8),
    Entry("GPT-2", "transformers", _of("GPT2LMHeadModel", "GPT2Config", _gpt2), _next_words, of_itself, True),
    Entry("T5", "transformers", _of("T5ForConditionalGeneration", "T5Config", _t5), _next_words, of_itself, True),
    Entry("BART", "transformers", _of("BartForConditionalGeneration", "BartConfig", _bart), _next_words, of_itself),
    Entry("Mamba", "transformers", _of("MambaForCausalLM", "MambaConfig", _state_space), _next_words, of_itself,
          True),
    Entry("Mamba 2", "transformers", _of("Mamba2ForCausalLM", "Mamba2Config", _mamba2), _next_words, of_itself),
    _masked("BERT", "Bert", everyday=True),
    _masked("RoBERTa", "Roberta"),
    _masked("ModernBERT", "ModernBert", global_attn_every_n_layers=1),
    _masked("ELECTRA", "Electra", embedding_size=lambda n: n),
    _masked("ALBERT", "Albert", embedding_size=32),
    Entry(
        "BERT, classifier", "transformers", _of("BertForSequenceClassification", "BertConfig", _encoder),
        _classes, of_itself,
    ),
    Entry("Llama with LoRA", "peft", _lora, _next_words, of_itself),
    Entry("Llama with LoRA in every layer", "peft", _lora_everywhere, _next_words, of_itself),
    Entry("Llama with DoRA", "peft", _dora, _next_words, of_itself),
)  # fmt: skip
