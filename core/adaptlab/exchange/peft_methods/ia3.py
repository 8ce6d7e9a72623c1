"""IA3 in PEFT's form."""

from collections.abc import Mapping

from adaptlab.exchange.modules import PublishedModel
from adaptlab.exchange.plugins import PEFT_FORMS, BaseTensors, Numbers, PeftForm
from adaptlab.methods.ia3 import IA3


@PEFT_FORMS.register("ia3")
def to_peft(
    method: IA3, model: PublishedModel, tensors: Mapping[str, Numbers], base: BaseTensors
) -> PeftForm:
    """Return the scales by module; sites of a fused module that are not scaled have ones."""
    import numpy as np

    scales = {name.removesuffix(".scale"): scale for name, scale in tensors.items()}
    written: dict[str, Numbers] = {}
    adapted, of_inputs = model.with_sites(scales.keys()), set[str]()
    for module in adapted:
        key = f"base_model.model.{module.name}.ia3_l"
        (first, *_) = module.parts
        if first.site.name.endswith(".mlp.down"):
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
