"""LLaMA-Adapter in PEFT's form, which calls it adaption prompts."""

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from adaptlab.errors import BadAdapter, NoPeftForm
from adaptlab.exchange.modules import ConfiguredModel
from adaptlab.exchange.peft_members import ADAPTER_WEIGHTS, PeftMembers, refuse_saved_modules
from adaptlab.exchange.peft_tensors import LONGEST_NAME, MODULES, check_shape
from adaptlab.exchange.plugins import (
    PEFT_FORMS,
    PEFT_TYPES,
    AttachedAdapter,
    BaseTensors,
    Numbers,
    PeftForm,
)
from adaptlab.methods.llama_adapter import LlamaAdapter
from adaptlab.plugins.learned_positions import LONGEST
from adaptlab.wording import shortened

ROWS, GATE, ATTENTION = "adaption_prompt", "adaption_gate", "self_attn"


@PEFT_FORMS.register("llama_adapter")
def to_peft(
    method: LlamaAdapter, model: ConfiguredModel, tensors: Mapping[str, Numbers], base: BaseTensors
) -> PeftForm:
    """Return rows and gates by attention module.

    Raises:
        NoPeftForm: PEFT's form computes something else on this model.
    """
    if (reason := _differs(model)) is not None:
        raise NoPeftForm(f"LLaMA-Adapter in PEFT {reason}. Use prefix_tuning, or lora.")
    written: dict[str, Numbers] = {}
    for site, module in _modules(method, model):
        written[f"{module}.{ROWS}"] = tensors[f"{site}.rows"][None]
        written[f"{module}.{GATE}"] = tensors[f"{site}.gate"]
    return PeftForm(
        {
            "peft_type": "ADAPTION_PROMPT",
            "target_modules": ATTENTION,
            "adapter_len": method.length,
            "adapter_layers": len(method.adapted(model.shape)),
        },
        written,
    )


class AdaptionPromptMembers(PeftMembers):
    """The members of adaption prompts that are read."""

    target_modules: Literal["self_attn"] = "self_attn"
    adapter_len: int = Field(ge=1, le=LONGEST)
    adapter_layers: int = Field(ge=1)


@PEFT_TYPES.register("ADAPTION_PROMPT")
def from_peft(
    config: Mapping[str, object],
    model: ConfiguredModel,
    tensors: Mapping[str, Numbers],
    base: BaseTensors,
) -> AttachedAdapter:
    """Return rows and gates of the upper layers.

    Raises:
        BadAdapter: they are not those of such an adapter of this model.
    """
    members = AdaptionPromptMembers.read(config)
    refuse_saved_modules(members)
    if (reason := _differs(model)) is not None:
        raise BadAdapter(f"LLaMA-Adapter in PEFT {reason}. Import another adapter.")
    count, layers = members.adapter_layers, model.shape.layers
    if count > layers:
        raise BadAdapter(
            f"The adapter has {count} layers, and this base model has {layers}. Use the base model "
            "that the adapter was trained on."
        )
    method = LlamaAdapter(length=members.adapter_len, layers=None if count == layers else count)
    found: dict[str, Numbers] = {}
    shapes = {ROWS: (1, members.adapter_len, model.shape.width), GATE: (1,)}
    expected: set[str] = set()
    for site, module in _modules(method, model):
        for kind, part in ((ROWS, "rows"), (GATE, "gate")):
            name = f"{module}.{kind}"
            if name not in tensors:
                raise BadAdapter(f"{ADAPTER_WEIGHTS} lacks {name}. Save the adapter again.")
            check_shape(name, tensors[name], shapes[kind])
            expected.add(name)
            found[f"{site}.{part}"] = tensors[name][0] if kind == ROWS else tensors[name]
    if others := tensors.keys() - expected:
        raise BadAdapter(
            f"{ADAPTER_WEIGHTS} has the tensor {shortened(min(others), LONGEST_NAME)}, for which "
            "adaptlab has no form. Train the adapter without it."
        )
    return AttachedAdapter(method, found)


def _modules(method: LlamaAdapter, model: ConfiguredModel) -> Iterator[tuple[str, str]]:
    """Yield the sites of adapted layers, with PEFT's attention modules."""
    for site in method.adapted(model.shape):
        keys = model.module_of(f"{site.name.removesuffix('queries')}k.weight")
        yield site.name, f"{MODULES}{keys.rpartition('.')[0]}"


def _differs(model: ConfiguredModel) -> str | None:
    """Return why PEFT's form does not fit a model, None if it does."""
    shape = model.shape
    if model.family.name != "llama":
        return "reads Llama and Mistral as here; of GPT-2 it adds behind W_O instead of before it"
    if "blocks.0.attn.k.bias" in shape.tensors or "blocks.0.attn.o.bias" in shape.tensors:
        return "adds the bias of W_O twice, or does not know models with biases of keys"
    if shape.sites["blocks.0.attn.o"].inputs != shape.width:
        return "needs heads that together are as wide as the model"
    return None
