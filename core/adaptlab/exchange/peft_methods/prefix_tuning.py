"""Prefix-tuning of keys and values in PEFT's form."""

from collections.abc import Mapping

import numpy as np

from adaptlab.errors import BadAdapter, NoPeftForm
from adaptlab.exchange.modules import ConfiguredModel
from adaptlab.exchange.peft_members import ADAPTER_CONFIG
from adaptlab.exchange.peft_positions import PROMPT, PromptMembers, learned_rows, moved_positions
from adaptlab.exchange.plugins import (
    PEFT_FORMS,
    PEFT_TYPES,
    AttachedAdapter,
    BaseTensors,
    Numbers,
    PeftForm,
)
from adaptlab.methods.prefix_tuning import PrefixTuning


@PEFT_FORMS.register("prefix_tuning")
def to_peft(
    method: PrefixTuning, model: ConfiguredModel, tensors: Mapping[str, Numbers], base: BaseTensors
) -> PeftForm:
    """Return the keys and values [P, layers · 2 · K].

    Keys come before values in every layer.

    Raises:
        NoPeftForm: the prefix is at the input of attention.
    """
    if method.side == "input":
        raise NoPeftForm(
            "A prefix with `side: input` has no PEFT form, because PEFT learns keys and values "
            "directly. The nearest method is prefix_tuning with `side: key_value`."
        )
    assert isinstance(method.length, int)
    shape = model.shape
    positions = moved_positions(model, method.length, base)
    width = shape.key_value_width
    return PeftForm(
        {
            "peft_type": "PREFIX_TUNING",
            "num_virtual_tokens": method.length,
            "num_layers": shape.layers,
            "num_attention_heads": width // _head_size(model),
            "token_dim": width,
            "encoder_hidden_size": width,
            "num_transformer_submodules": 1,
            "prefix_projection": False,
            **positions.config,
        },
        {
            PROMPT: np.concatenate([tensors[n] for n in method.prefix(shape)], 1),
            **positions.tensors,
        },
    )


@PEFT_TYPES.register("PREFIX_TUNING")
def from_peft(
    config: Mapping[str, object],
    model: ConfiguredModel,
    tensors: Mapping[str, Numbers],
    base: BaseTensors,
) -> AttachedAdapter:
    """Return the keys and values of every layer.

    Raises:
        BadAdapter: their shapes are not those of the model.
    """
    members, width = PromptMembers.read(config), model.shape.key_value_width
    heads = width // _head_size(model)
    if members.num_attention_heads not in (None, heads):
        raise BadAdapter(
            f"{ADAPTER_CONFIG} has num_attention_heads {members.num_attention_heads}, and keys of "
            f"this base model have {heads}. Use the base model that the adapter was trained on."
        )
    rows = learned_rows(members, model, tensors, base, 2 * model.shape.layers * width)
    method = PrefixTuning(length=len(rows), side="key_value")
    parts = np.split(rows, 2 * model.shape.layers, 1)
    return AttachedAdapter(method, dict(zip(method.prefix(model.shape), parts, strict=True)))


def _head_size(model: ConfiguredModel) -> int:
    """Return the features of one head; all heads together enter W_O."""
    return model.shape.sites["blocks.0.attn.o"].inputs // model.shape.heads
