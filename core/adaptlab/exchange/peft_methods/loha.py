"""LoHa in PEFT's form."""

from collections.abc import Mapping

from pydantic import Field

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
from adaptlab.methods.loha import Loha

ROWS = "hada_w1_b"
KINDS = {"hada_w1_a": "b1", ROWS: "a1", "hada_w2_a": "b2", "hada_w2_b": "a2"}
FORM = SiteForm("LOHA", KINDS, turns_conv1d=False)


@PEFT_FORMS.register("loha")
def to_peft(
    method: Loha, model: ConfiguredModel, tensors: Mapping[str, Numbers], base: BaseTensors
) -> PeftForm:
    """Return both updates by module; raises `NoPeftForm` for fused modules."""
    config = {
        "r": method.rank,
        "alpha": method.alpha,
        "rank_dropout": 0.0,
        "module_dropout": 0.0,
        "use_effective_conv2d": False,
    }
    return FORM.written(method, model, tensors, config)


class LohaMembers(TargetedMembers):
    """The members of LoHa that are read."""

    ignored = frozenset({
        "r", "init_weights", "rank_dropout", "module_dropout", "use_effective_conv2d",
        "rank_dropout_scale",
    })  # fmt: skip
    advice = TARGETS_ADVICE

    alpha: float = Field(gt=0, le=1e4)


@PEFT_TYPES.register("LOHA")
def from_peft(
    config: Mapping[str, object],
    model: ConfiguredModel,
    tensors: Mapping[str, Numbers],
    base: BaseTensors,
) -> AttachedAdapter:
    """Return both updates by site; raises `BadAdapter` for unequal ranks."""
    members = LohaMembers.read(config)
    found = FORM.read(members, model, tensors)
    method = Loha(rank=found.sized(ROWS, len), alpha=members.alpha, sites=found.sites)
    return AttachedAdapter(method, found.tensors(method, model))
