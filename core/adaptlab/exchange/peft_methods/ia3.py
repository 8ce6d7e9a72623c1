"""IA3 in PEFT's form."""

from collections.abc import Mapping

import numpy as np

from adaptlab.errors import BadAdapter
from adaptlab.exchange.modules import ConfiguredModel
from adaptlab.exchange.peft_members import (
    ADAPTER_WEIGHTS,
    TARGETS_ADVICE,
    TargetedMembers,
    refuse_saved_modules,
)
from adaptlab.exchange.peft_tensors import MODULES, adapted_modules
from adaptlab.exchange.plugins import (
    PEFT_FORMS,
    PEFT_TYPES,
    AttachedAdapter,
    BaseTensors,
    Numbers,
    PeftForm,
)
from adaptlab.methods.ia3 import IA3

VECTOR = "ia3_l"
INPUTS_OF = ".mlp.down"


@PEFT_FORMS.register("ia3")
def to_peft(
    method: IA3, model: ConfiguredModel, tensors: Mapping[str, Numbers], base: BaseTensors
) -> PeftForm:
    """Return the scales by module.

    Sites of a fused module that are not scaled have ones.
    """
    scales = {name.removesuffix(".scale"): scale for name, scale in tensors.items()}
    written: dict[str, Numbers] = {}
    adapted, of_inputs = model.with_sites(scales.keys()), set[str]()
    for module in adapted:
        key = f"{MODULES}{module.name}.{VECTOR}"
        (first, *_) = module.parts
        if first.site.name.endswith(INPUTS_OF):
            of_inputs.add(module.name)
            written[key] = scales[first.site.name].reshape(1, -1)
            continue
        written[key] = np.ones((module.outputs, 1), np.float32)
        for part in module.parts:
            if part.site.name in scales:
                written[key][part.rows, 0] = scales[part.site.name]
    return PeftForm(
        {
            "peft_type": "IA3",
            "target_modules": [*model.patterns(module.name for module in adapted)],
            "feedforward_modules": [*model.patterns(of_inputs)],
            "fan_in_fan_out": any(module.transposed for module in adapted),
        },
        written,
    )


class IA3Members(TargetedMembers):
    """The members of IA3 that are read."""

    ignored = frozenset({"fan_in_fan_out", "init_ia3_weights", "feedforward_modules"})
    advice = TARGETS_ADVICE


@PEFT_TYPES.register("IA3")
def from_peft(
    config: Mapping[str, object],
    model: ConfiguredModel,
    tensors: Mapping[str, Numbers],
    base: BaseTensors,
) -> AttachedAdapter:
    """Return the scales by site; those without a scale in PEFT have ones.

    Raises:
        BadAdapter: the adapter scales anything else than keys, values and inputs of `mlp.down`.
    """
    members, method = IA3Members.read(config), IA3()
    refuse_saved_modules(members)
    scales = {n: np.ones(t.shape, np.float32) for n, t in method.tensors(model.shape).items()}
    for adapted in adapted_modules(model, tensors, [VECTOR], members.targets()):
        module = adapted.module
        (first, *_) = module.parts
        of_inputs, of_outputs = (1, first.site.inputs), (module.outputs, 1)
        if f"{first.site.name}.scale" in scales and first.site.name.endswith(INPUTS_OF):
            scales[f"{first.site.name}.scale"] = adapted.tensor(VECTOR, of_inputs).reshape(-1)
            continue
        vector = adapted.tensor(VECTOR, of_outputs, of_inputs)
        for part in module.parts:
            name = f"{part.site.name}.scale"
            if vector.shape == of_outputs and name in scales:
                scales[name] = vector[part.rows, 0]
            elif vector.shape != of_outputs or not (vector[part.rows] == 1).all():
                raise BadAdapter(
                    f"{ADAPTER_WEIGHTS} scales {module.name}. IA3 of adaptlab scales the outputs "
                    "of keys and values and the inputs of the MLP's second matrix. Train the "
                    "adapter at these modules only."
                )
    return AttachedAdapter(method, scales)
