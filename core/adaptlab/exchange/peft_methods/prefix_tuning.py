"""Prefix-tuning of keys and values in PEFT's form."""

from collections.abc import Mapping

from adaptlab.errors import NoPeftForm
from adaptlab.exchange.modules import PublishedModel
from adaptlab.exchange.peft_positions import moved_positions
from adaptlab.exchange.plugins import PEFT_FORMS, BaseTensors, Numbers, PeftForm
from adaptlab.methods.prefix_tuning import PrefixTuning


@PEFT_FORMS.register("prefix_tuning")
def to_peft(
    method: PrefixTuning, model: PublishedModel, tensors: Mapping[str, Numbers], base: BaseTensors
) -> PeftForm:
    """Return the keys and values [P, layers · 2 · K], keys before values in every layer.

    Raises:
        NoPeftForm: the prefix is at the input of attention.
    """
    import numpy as np

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
            "prompt_embeddings": np.concatenate([tensors[n] for n in method.prefix(shape)], 1),
            **positions.tensors,
        },
    )


def _head_size(model: PublishedModel) -> int:
    """Return the features of one head; all heads together enter W_O."""
    return model.shape.sites["blocks.0.attn.o"].inputs // model.shape.heads
