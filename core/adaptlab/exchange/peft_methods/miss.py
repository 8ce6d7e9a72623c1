"""MiSS in PEFT's form."""

from collections.abc import Mapping
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
from adaptlab.methods.miss import Miss

BLOCK = "miss_block"
FORM = SiteForm("MISS", {BLOCK: "block"}, turns_conv1d=False)


@PEFT_FORMS.register("miss")
def to_peft(
    method: Miss, model: ConfiguredModel, tensors: Mapping[str, Numbers], base: BaseTensors
) -> PeftForm:
    """Return the block by module.

    Raises:
        NoPeftForm: a module is fused, or `bat` has a rank that does not divide a matrix.
    """
    assert isinstance(method.rank, int)
    for site in method.chosen_sites(model.shape) if method.bat else ():
        if site.inputs % method.rank or site.outputs % method.rank:
            raise NoPeftForm(
                f"MiSS with bat in PEFT needs a rank that divides both sides of {site.name}, "
                f"{site.outputs} × {site.inputs}, and this one is {method.rank}."
            )
    kind = "bat" if method.bat else True
    config = {"r": method.rank, "miss_dropout": 0.0, "bias": "none", "init_weights": kind}
    return FORM.written(method, model, tensors, config)


class MissMembers(TargetedMembers):
    """The members of MiSS that are read."""

    ignored = frozenset({"r", "miss_dropout", "mini_r"})
    advice = TARGETS_ADVICE

    bias: Literal["none"] = "none"
    init_weights: bool | Literal["bat"] = True


@PEFT_TYPES.register("MISS")
def from_peft(
    config: Mapping[str, object],
    model: ConfiguredModel,
    tensors: Mapping[str, Numbers],
    base: BaseTensors,
) -> AttachedAdapter:
    """Return the block by site; raises `BadAdapter` for unequal ranks."""
    members = MissMembers.read(config)
    found, bat = FORM.read(members, model, tensors), members.init_weights == "bat"
    rank = found.sized(BLOCK, lambda block: block.shape[-1] if bat else len(block))
    method = Miss(rank=rank, bat=bat, sites=found.sites)
    return AttachedAdapter(method, found.tensors(method, model))
