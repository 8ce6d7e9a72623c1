"""Soft prompts in PEFT's form, which calls them prompt tuning."""

from collections.abc import Mapping

from adaptlab.exchange.modules import PublishedModel
from adaptlab.exchange.peft_positions import moved_positions
from adaptlab.exchange.plugins import PEFT_FORMS, BaseTensors, Numbers, PeftForm
from adaptlab.methods.soft_prompt import SoftPrompt


@PEFT_FORMS.register("soft_prompt")
def to_peft(
    method: SoftPrompt, model: PublishedModel, tensors: Mapping[str, Numbers], base: BaseTensors
) -> PeftForm:
    """Return the virtual tokens [P, C]."""
    assert isinstance(method.length, int)
    shape = model.shape
    positions = moved_positions(model, method.length, base)
    return PeftForm(
        {
            "peft_type": "PROMPT_TUNING",
            "num_virtual_tokens": method.length,
            "num_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "token_dim": shape.width,
            "num_transformer_submodules": 1,
            "prompt_tuning_init": "RANDOM",
            **positions.config,
        },
        {"prompt_embeddings": tensors["embed.prompt"], **positions.tensors},
    )
