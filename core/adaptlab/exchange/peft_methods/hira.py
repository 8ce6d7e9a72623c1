"""HiRA in PEFT's form."""

from collections.abc import Mapping

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
from adaptlab.methods.hira import Hira

FORM = SiteForm("HIRA", {"hira_A": "a", "hira_B": "b"}, turns_conv1d=True)


@PEFT_FORMS.register("hira")
def to_peft(
    method: Hira, model: ConfiguredModel, tensors: Mapping[str, Numbers], base: BaseTensors
) -> PeftForm:
    """Return A and B by module; raises `NoPeftForm` for fused modules."""
    return FORM.written(method, model, tensors, {"r": method.rank, "hira_dropout": 0.0})


class HiraMembers(TargetedMembers):
    """The members of HiRA that are read."""

    ignored = frozenset({"r", "fan_in_fan_out", "hira_dropout", "init_weights"})
    advice = TARGETS_ADVICE


@PEFT_TYPES.register("HIRA")
def from_peft(
    config: Mapping[str, object],
    model: ConfiguredModel,
    tensors: Mapping[str, Numbers],
    base: BaseTensors,
) -> AttachedAdapter:
    """Return A and B by site; raises `BadAdapter` for unequal ranks."""
    found = FORM.read(HiraMembers.read(config), model, tensors)
    method = Hira(rank=found.sized("hira_A", len), sites=found.sites)
    return AttachedAdapter(method, found.tensors(method, model))
