"""Soft prompts in PEFT's form, which calls them prompt tuning."""

from collections.abc import Mapping

from adaptlab.exchange.modules import ConfiguredModel
from adaptlab.exchange.peft_positions import PROMPT, PromptMembers, learned_rows, moved_positions
from adaptlab.exchange.plugins import (
    PEFT_FORMS,
    PEFT_TYPES,
    AttachedAdapter,
    BaseTensors,
    Numbers,
    PeftForm,
)
from adaptlab.methods.soft_prompt import SoftPrompt

TENSOR = "embed.prompt"


@PEFT_FORMS.register("soft_prompt")
def to_peft(
    method: SoftPrompt, model: ConfiguredModel, tensors: Mapping[str, Numbers], base: BaseTensors
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
        {PROMPT: tensors[TENSOR], **positions.tensors},
    )


@PEFT_TYPES.register("PROMPT_TUNING")
def from_peft(
    config: Mapping[str, object],
    model: ConfiguredModel,
    tensors: Mapping[str, Numbers],
    base: BaseTensors,
) -> AttachedAdapter:
    """Return the virtual tokens.

    Raises:
        BadAdapter: they are not as wide as the model's embeddings.
    """
    rows = learned_rows(PromptMembers.read(config), model, tensors, base, model.shape.width)
    return AttachedAdapter(SoftPrompt(length=len(rows)), {TENSOR: rows})
