"""Small random models of `transformers`, as the engine reads them.

The models are saved as folders, which the engine reads. The library computes norms, rotary
positions and softmax in float32 whatever the model's dtype is; the engine's `Float64` makes it mean
float64 wherever it says float32, so that it can serve as a reference to 1e-10. Its own tests of
itself are in float32.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from adaptlab.engine.measuring.layer_recorder import LayerRecorder
from adaptlab.engine.models.attachments import NOTHING_ATTACHED, Attachments
from adaptlab.engine.models.huggingface import PublishedModel, load_folder
from adaptlab.engine.models.library_model import Float64
from adaptlab.engine.plugins import ENGINE_FAMILIES, ENGINE_METHODS
from adaptlab.plugins.method import Method

LLAMA_3 = {
    "rope_type": "llama3",
    "rope_theta": 5000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def gpt2(**changes: Any) -> PreTrainedModel:
    """A GPT-2 of two layers."""
    sizes = {"vocab_size": 37, "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 19}
    return GPT2LMHeadModel(_eager(GPT2Config, sizes, changes))


def llama(**changes: Any) -> PreTrainedModel:
    """A Llama of two layers, with two heads of queries for each of keys."""
    return LlamaForCausalLM(_eager(LlamaConfig, _SIZES, changes))


def mistral(**changes: Any) -> PreTrainedModel:
    """A Mistral of two layers."""
    return MistralForCausalLM(_eager(MistralConfig, _SIZES, changes))


def qwen2(**changes: Any) -> PreTrainedModel:
    """A Qwen2 of two layers."""
    return Qwen2ForCausalLM(_eager(Qwen2Config, _SIZES, changes))


_SIZES = {
    "vocab_size": 41,
    "hidden_size": 24,
    "intermediate_size": 20,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}

MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "gpt2": gpt2,
    "gpt2-untied": lambda: gpt2(
        tie_word_embeddings=False, n_head=1, n_inner=20, layer_norm_epsilon=1e-3
    ),
    "gpt2-odd": lambda: gpt2(vocab_size=103, n_embd=15, n_layer=3, n_head=5),
    "llama-grouped": llama,
    "llama-each-its-own": lambda: llama(num_key_value_heads=4, num_hidden_layers=3),
    "llama-one-for-all-tied": lambda: llama(
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=10,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
    ),
    "llama-biased": lambda: llama(attention_bias=True, mlp_bias=True, rms_norm_eps=1e-2),
    "llama-3": lambda: llama(head_dim=16, rope_parameters=LLAMA_3),
    "llama-linear": lambda: llama(
        rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}
    ),
    "mistral": lambda: mistral(sliding_window=None, hidden_size=18, num_attention_heads=3,
                               num_key_value_heads=3),
    "mistral-window": lambda: mistral(sliding_window=11),
    "qwen2": lambda: qwen2(tie_word_embeddings=True),
    "qwen2-untied": qwen2,
}  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """A model of `transformers` and the engine's reading of it.

    The engine reads the folder that the model was saved to. `theirs` is Any, because the library
    finds the parts of its models at run time.
    """

    theirs: Any
    ours: PublishedModel
    double: bool

    def tokens(self, samples: int = 3, length: int = 11) -> Tensor:
        """Random tokens [B, T]."""
        generator = torch.Generator().manual_seed(2)
        vocabulary = self.ours.family.shape().vocabulary
        return torch.randint(vocabulary, (samples, length), generator=generator)

    def logits(
        self, attachments: Attachments = NOTHING_ATTACHED, recorder: LayerRecorder | None = None
    ) -> Tensor:
        """The engine's logits [B, T, V] for the tokens."""
        forward = ENGINE_FAMILIES.get(self.ours.family.name)
        weights = {name: tensor.unsqueeze(0) for name, tensor in self.ours.tensors.items()}
        tokens = self.tokens().unsqueeze(0)
        return forward(
            self.ours.family, weights, tokens, attachments, slice(None), recorder
        ).squeeze(0)

    def expected(self, **options: Any) -> Any:
        """The output of the library for the tokens, at our positions."""
        options = {**self.positions(), **options}
        return their_output(self.theirs, self.tokens(), double=self.double, **options)

    def positions(self) -> dict[str, Tensor]:
        """Our positions, as the library's encoders are given them.

        By itself, RoBERTa gives no position to tokens with the id of padding.
        """
        family = self.ours.family
        if not family.attends_to_all() or "positions.weight" not in family.shape().tensors:
            return {}
        first = 2 if type(self.theirs).__name__.startswith("Roberta") else 0
        length = self.tokens().shape[1]
        return {"position_ids": torch.arange(first, first + length).unsqueeze(0)}

    def adapted(self, method: Method, tensors: Mapping[str, Tensor]) -> Tensor:
        """The engine's logits [B, T, V] with a method's tensors [...] attached."""
        attach = ENGINE_METHODS.get(method.name)
        stacked = {name: tensor.unsqueeze(0) for name, tensor in tensors.items()}
        return self.logits(attach(method, self.ours.family.shape(), stacked))

    def classified(self, method: Method, tensors: Mapping[str, Tensor], classes: int) -> Tensor:
        """The engine's logits [B, K] of a method with a head, at the last token."""
        shape = self.ours.family.shape_with_classes(classes)
        stacked = {name: tensor.unsqueeze(0) for name, tensor in tensors.items()}
        head = {name: stacked.pop(name) for name in shape.class_head}
        attached = ENGINE_METHODS.get(method.name)(method, shape, stacked)
        tokens = self.tokens()
        count, length = tokens.shape
        rows = torch.full((1, count, 1), length - 1)
        read = torch.full((1, count), length)
        weights = {**attached.weights, **head}
        whole = replace(attached, weights=weights, answer_rows=rows, read=read, has_classes=True)
        return self.logits(whole)[:, 0]


def pair(make: Callable[[], PreTrainedModel], folder: Path, *, double: bool) -> Pair:
    """A random model, saved to a folder and read from it."""
    theirs = randomised(make, double=double)
    theirs.save_pretrained(folder)
    dtype = torch.float64 if double else torch.float32
    return Pair(theirs, load_folder(folder, dtype), double)


def randomised(make: Callable[[], PreTrainedModel], *, double: bool) -> PreTrainedModel:
    """Return a model with larger weights than it starts with.

    All of them then matter, and the model is ready to be used.
    """
    generator = torch.Generator().manual_seed(3)
    with Float64() if double else torch.no_grad():
        model = make().eval().requires_grad_(False)
        for parameter in model.parameters():
            values = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(0.3 * values)
        return model.double() if double else model


def their_output(model: Any, tokens: Tensor | None, *, double: bool, **options: Any) -> Any:
    """Return the logits of a model of `transformers` or `peft`."""
    with torch.no_grad():
        if not double:
            return model(tokens, **options)
        with Float64():
            return model(tokens, **options)


def _eager(config: Any, sizes: dict[str, Any], changes: dict[str, Any]) -> Any:
    """A configuration whose model gives its attention patterns away."""
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    return config(**{**sizes, **ends, **changes}, attn_implementation="eager")
