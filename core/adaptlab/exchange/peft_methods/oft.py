"""OFT in PEFT's form."""

from collections.abc import Mapping
from math import isqrt
from typing import Literal

from adaptlab.errors import NoPeftForm
from adaptlab.exchange.modules import ConfiguredModel
from adaptlab.exchange.peft_members import TARGETS_ADVICE, TargetedMembers
from adaptlab.exchange.plugins import (
    PEFT_FORMS,
    PEFT_TYPES,
    AttachedAdapter,
    BaseTensors,
    Numbers,
    PeftForm,
)
from adaptlab.exchange.site_forms import SiteForm
from adaptlab.methods.oft import Oft

SKEW = "oft_R.weight"
FORM = SiteForm("OFT", {SKEW: "skew"}, turns_conv1d=False)
_EXACT = "PEFT's default is a series that turns the other way; train with the exact form."


@PEFT_FORMS.register("oft")
def to_peft(
    method: Oft, model: ConfiguredModel, tensors: Mapping[str, Numbers], base: BaseTensors
) -> PeftForm:
    """Return the skew-symmetric matrices by module.

    Raises:
        NoPeftForm: a module is fused, or a block does not divide its inputs.
    """
    assert isinstance(method.block, int)
    for site in method.chosen_sites(model.shape):
        if site.inputs % method.block:
            raise NoPeftForm(
                f"OFT in PEFT needs a block that divides the {site.inputs} inputs of {site.name}, "
                f"and this one has {method.block} features."
            )
    config = {
        "oft_block_size": method.block,
        "r": 0,
        "bias": "none",
        "module_dropout": 0.0,
        "use_cayley_neumann": False,
        "coft": False,
        "block_share": False,
    }
    return FORM.written(method, model, tensors, config)


class OftMembers(TargetedMembers):
    """The members of OFT that are read."""

    ignored = frozenset({
        "r", "oft_block_size", "module_dropout", "fan_in_fan_out", "init_weights", "eps",
        "num_cayley_neumann_terms",
    })  # fmt: skip
    advice = TARGETS_ADVICE | {"use_cayley_neumann": _EXACT}

    bias: Literal["none"] = "none"
    use_cayley_neumann: Literal[False]


@PEFT_TYPES.register("OFT")
def from_peft(
    config: Mapping[str, object],
    model: ConfiguredModel,
    tensors: Mapping[str, Numbers],
    base: BaseTensors,
) -> AttachedAdapter:
    """Return the skew-symmetric matrices by site.

    Raises:
        BadAdapter: the rotations are those of the series, or of unequal blocks.
    """
    found = FORM.read(OftMembers.read(config), model, tensors)
    angles = found.sized(SKEW, lambda skew: skew.shape[-1])
    method = Oft(block=(1 + isqrt(1 + 8 * angles)) // 2, sites=found.sites)
    return AttachedAdapter(method, found.tensors(method, model))
