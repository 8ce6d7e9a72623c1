"""Small random models of every architecture that the library computes."""

from collections.abc import Callable
from typing import Any

import transformers
from transformers import PreTrainedModel

SIZES: dict[str, Any] = {
    "vocab_size": 41,
    "hidden_size": 24,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "attn_implementation": "eager",
    "pad_token_id": 0,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
WINDOW = 5
MASK = 40


def architecture(name: str, config: str, **changes: Any) -> Callable[[], PreTrainedModel]:
    """Return a maker of a random model."""
    known: Any = transformers
    sizes = {key: value for key, value in {**SIZES, **changes}.items() if value is not None}
    return lambda: getattr(known, name)(getattr(known, config)(**sizes))


def encoder(name: str, config: str, **changes: Any) -> Callable[[], PreTrainedModel]:
    """Return a maker of a random encoder, with the last token as its mask."""
    return architecture(name, config, num_key_value_heads=None, mask_token_id=MASK, **changes)


MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "qwen3": architecture("Qwen3ForCausalLM", "Qwen3Config", head_dim=8),
    "qwen3-tied": architecture("Qwen3ForCausalLM", "Qwen3Config", tie_word_embeddings=True),
    "gemma2": architecture("Gemma2ForCausalLM", "Gemma2Config", head_dim=8, sliding_window=WINDOW),
    "gemma3": architecture(
        "Gemma3ForCausalLM", "Gemma3TextConfig", head_dim=8, sliding_window=WINDOW
    ),
    "mixtral": architecture(
        "MixtralForCausalLM",
        "MixtralConfig",
        num_local_experts=3,
        num_experts_per_tok=2,
        experts_implementation="eager",
    ),
    "mixtral-window": architecture(
        "MixtralForCausalLM",
        "MixtralConfig",
        num_local_experts=2,
        num_experts_per_tok=1,
        experts_implementation="eager",
        sliding_window=WINDOW,
    ),
    "phi3": architecture("Phi3ForCausalLM", "Phi3Config"),
    "gpt-neox": architecture("GPTNeoXForCausalLM", "GPTNeoXConfig", num_key_value_heads=None),
    "opt": architecture(
        "OPTForCausalLM",
        "OPTConfig",
        ffn_dim=20,
        word_embed_proj_dim=24,
        intermediate_size=None,
        num_key_value_heads=None,
    ),
    "bert": encoder("BertForMaskedLM", "BertConfig"),
    "roberta": encoder("RobertaForMaskedLM", "RobertaConfig", pad_token_id=1),
    "distilbert": encoder(
        "DistilBertForMaskedLM",
        "DistilBertConfig",
        dim=24,
        n_layers=2,
        n_heads=4,
        hidden_dim=20,
        hidden_size=None,
        num_hidden_layers=None,
        num_attention_heads=None,
        intermediate_size=None,
    ),
    "modernbert": encoder(
        "ModernBertForMaskedLM",
        "ModernBertConfig",
        num_hidden_layers=3,
        local_attention=WINDOW,
        cls_token_id=0,
        sep_token_id=0,
    ),
    "olmo2": architecture("Olmo2ForCausalLM", "Olmo2Config"),
    "smollm3": architecture("SmolLM3ForCausalLM", "SmolLM3Config"),
}

HEADLESS: dict[str, Callable[[], PreTrainedModel]] = {
    "bert-alone": encoder("BertModel", "BertConfig"),
    "roberta-alone": encoder("RobertaModel", "RobertaConfig", pad_token_id=1),
    "distilbert-alone": encoder(
        "DistilBertModel",
        "DistilBertConfig",
        dim=24,
        n_layers=2,
        n_heads=4,
        hidden_dim=20,
        hidden_size=None,
        num_hidden_layers=None,
        num_attention_heads=None,
        intermediate_size=None,
    ),
    "modernbert-alone": encoder(
        "ModernBertModel",
        "ModernBertConfig",
        num_hidden_layers=3,
        local_attention=WINDOW,
        cls_token_id=0,
        sep_token_id=0,
    ),
}
"""Encoders without a head."""
