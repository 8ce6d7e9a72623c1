"""LayerNorm tuning in PEFT's form, which has a copy of each norm."""

from collections.abc import Collection, Iterable, Mapping

from adaptlab.errors import BadAdapter
from adaptlab.exchange.modules import ConfiguredModel
from adaptlab.exchange.peft_members import (
    ADAPTER_WEIGHTS,
    TARGETS_ADVICE,
    TargetedMembers,
    refuse_saved_modules,
)
from adaptlab.exchange.peft_tensors import LONGEST_NAME, MODULES, check_shape, check_targeted
from adaptlab.exchange.plugins import (
    PEFT_FORMS,
    PEFT_TYPES,
    AttachedAdapter,
    BaseTensors,
    Numbers,
    PeftForm,
)
from adaptlab.methods.layernorm_tuning import LayerNormTuning
from adaptlab.wording import shortened

COPY = "ln_tuning_layers"


@PEFT_FORMS.register("layernorm_tuning")
def to_peft(
    method: LayerNormTuning,
    model: ConfiguredModel,
    tensors: Mapping[str, Numbers],
    base: BaseTensors,
) -> PeftForm:
    """Return the norms' trained scales and shifts by module."""
    return PeftForm(
        {
            "peft_type": "LN_TUNING",
            "target_modules": [*model.patterns({model.module_of(name) for name in tensors})],
        },
        {_key(model, name): tensor for name, tensor in tensors.items()},
    )


class NormMembers(TargetedMembers):
    """The members of LayerNorm tuning that are read."""

    advice = TARGETS_ADVICE


@PEFT_TYPES.register("LN_TUNING")
def from_peft(
    config: Mapping[str, object],
    model: ConfiguredModel,
    tensors: Mapping[str, Numbers],
    base: BaseTensors,
) -> AttachedAdapter:
    """Return the scales and shifts of all norms.

    Those without a copy in PEFT are the base's.

    Raises:
        BadAdapter: the adapter has copies of other modules.
    """
    members, method = NormMembers.read(config), LayerNormTuning()
    refuse_saved_modules(members)
    declared = method.tensors(model.shape)
    keys = {name: _key(model, name) for name in declared}
    copied = _copied_modules(tensors, keys.values())
    check_targeted(copied, members.targets())
    written: dict[str, Numbers] = {}
    for name, key in keys.items():
        if model.module_of(name) not in copied:
            written[name] = base(name)
        elif key in tensors:
            check_shape(key, tensors[key], declared[name].shape)
            written[name] = tensors[key]
        else:
            raise BadAdapter(f"{ADAPTER_WEIGHTS} lacks {key}. Save the adapter again.")
    return AttachedAdapter(method, written)


def _copied_modules(tensors: Iterable[str], keys: Collection[str]) -> set[str]:
    """Return the norms of which the adapter has a copy.

    Raises:
        BadAdapter: it has other tensors, or none.
    """
    copied: set[str] = set()
    for name in tensors:
        if name not in keys:
            raise BadAdapter(
                f"{ADAPTER_WEIGHTS} has the tensor {shortened(name, LONGEST_NAME)}, which is not "
                "that of a norm of this base model. Use the base model that the adapter was "
                "trained on, and copies of norms only."
            )
        copied.add(name.removeprefix(MODULES).rpartition(f".{COPY}.")[0])
    if not copied:
        raise BadAdapter(f"{ADAPTER_WEIGHTS} has no tensors. Save the adapter again.")
    return copied


def _key(model: ConfiguredModel, tensor: str) -> str:
    """Return PEFT's name of a norm's tensor."""
    kind = model.places[tensor].name.rpartition(".")[2]
    return f"{MODULES}{model.module_of(tensor)}.{COPY}.{kind}"
