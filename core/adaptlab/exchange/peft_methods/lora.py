"""LoRA, rank-stabilised LoRA and DoRA in PEFT's form."""

from collections import Counter
from collections.abc import Mapping
from itertools import accumulate

import numpy as np

from adaptlab.exchange.modules import ConfiguredModel, Module
from adaptlab.exchange.peft_tensors import MODULES
from adaptlab.exchange.plugins import PEFT_FORMS, BaseTensors, Numbers, PeftForm
from adaptlab.methods.lora import Lora

A, B, MAGNITUDE = "lora_A.weight", "lora_B.weight", "lora_magnitude_vector"


@PEFT_FORMS.register("lora")
def to_peft(
    method: Lora, model: ConfiguredModel, tensors: Mapping[str, Numbers], base: BaseTensors
) -> PeftForm:
    """Return the updates by module.

    The updates of several sites in one fused module are a single update, whose B is block diagonal.
    Its rank is the sum of theirs, and its alpha grows so that the scale stays the same. If their
    scales differ, B is multiplied by the ratio to the first one's.
    """
    sites = {site.name for site in method.chosen_sites(model.shape)}
    written: dict[str, Numbers] = {}
    sizes: dict[str, tuple[int, float]] = {}
    for module in model.with_sites(sites):
        chosen = [part for part in module.parts if part.site.name in sites]
        ranks = [method.rank_at(part.site) for part in chosen]
        scales = [method.scale_at(part.site) for part in chosen]
        key = f"{MODULES}{module.name}"
        b = np.zeros((module.outputs, sum(ranks)), np.float32)
        for part, rank, scale, stop in zip(chosen, ranks, scales, accumulate(ranks), strict=True):
            update = tensors[f"{part.site.name}.b"]
            ratio = np.float32(scale / scales[0])
            b[part.rows, stop - rank : stop] = update if scale == scales[0] else ratio * update
        a = [tensors[f"{part.site.name}.a"] for part in chosen]
        written[f"{key}.{A}"] = np.concatenate(a)
        written[f"{key}.{B}"] = b
        if method.dora:
            written[f"{key}.{MAGNITUDE}"] = _row_norms(module, tensors, base)
        growth = sum(ranks) / ranks[0]
        alpha = method.alpha_at(chosen[0].site)
        alpha *= growth if method.scaling == "standard" else growth**0.5
        sizes[module.name] = sum(ranks), alpha
    (usual_rank, usual_alpha), _ = Counter(sizes.values()).most_common(1)[0]
    adapted = sizes.keys()
    return PeftForm(
        {
            "peft_type": "LORA",
            "r": usual_rank,
            "lora_alpha": usual_alpha,
            "rank_pattern": {**model.exceptions({n: r for n, (r, _) in sizes.items()}, usual_rank)},
            "alpha_pattern": {
                **model.exceptions({n: a for n, (_, a) in sizes.items()}, usual_alpha)
            },
            "target_modules": [*model.patterns(adapted)],
            "fan_in_fan_out": any(model.modules[name].transposed for name in adapted),
            "use_rslora": method.scaling == "rank_stabilised",
            "use_dora": method.dora,
            "lora_dropout": 0.0,
            "bias": "none",
        },
        written,
    )


def _row_norms(module: Module, tensors: Mapping[str, Numbers], base: BaseTensors) -> Numbers:
    """Return the row norms of a module.

    They are the learned ones, and those of the base at sites that are not adapted.
    """
    learned = {part.site.name: f"{part.site.name}.magnitude" for part in module.parts}
    return np.concatenate(
        [
            tensors[name] if name in tensors else np.linalg.norm(base(f"{site}.weight"), axis=1)
            for site, name in learned.items()
        ]
    )
