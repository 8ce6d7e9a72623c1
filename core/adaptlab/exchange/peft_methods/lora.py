"""LoRA, rank-stabilised LoRA and DoRA in PEFT's form."""

from collections.abc import Mapping

from adaptlab.exchange.modules import Module, PublishedModel
from adaptlab.exchange.peft_tensors import MODULES
from adaptlab.exchange.plugins import PEFT_FORMS, BaseTensors, Numbers, PeftForm
from adaptlab.methods.lora import Lora

A, B, MAGNITUDE = "lora_A.weight", "lora_B.weight", "lora_magnitude_vector"


@PEFT_FORMS.register("lora")
def to_peft(
    method: Lora, model: PublishedModel, tensors: Mapping[str, Numbers], base: BaseTensors
) -> PeftForm:
    """Return the updates by module.

    The updates of n sites in one fused module are a single update of rank n · r, whose B is block
    diagonal. Its alpha is n times as large (√n if rank-stabilised), so the scale stays the same.
    """
    import numpy as np

    assert isinstance(method.rank, int)
    rank = method.rank
    sites = {site.name for site in method.chosen_sites(model.shape)}
    written: dict[str, Numbers] = {}
    by_count: dict[int, list[str]] = {}
    for module in model.with_sites(sites):
        chosen = [part for part in module.parts if part.site.name in sites]
        key = f"{MODULES}{module.name}"
        b = np.zeros((module.outputs, rank * len(chosen)), np.float32)
        for index, part in enumerate(chosen):
            columns = slice(index * rank, (index + 1) * rank)
            b[part.rows, columns] = tensors[f"{part.site.name}.b"]
        a = [tensors[f"{part.site.name}.a"] for part in chosen]
        written[f"{key}.{A}"] = np.concatenate(a)
        written[f"{key}.{B}"] = b
        if method.dora:
            written[f"{key}.{MAGNITUDE}"] = _row_norms(module, tensors, base)
        by_count.setdefault(len(chosen), []).append(module.name)
    (usual, usual_names), *others = sorted(by_count.items(), key=lambda item: -len(item[1]))
    exceptions = {name: n for n, names in others for name in model.patterns(names)}
    adapted = [*usual_names, *(name for _, names in others for name in names)]
    return PeftForm(
        {
            "peft_type": "LORA",
            "r": usual * rank,
            "lora_alpha": _alpha(method, usual),
            "rank_pattern": {name: n * rank for name, n in exceptions.items()},
            "alpha_pattern": {name: _alpha(method, n) for name, n in exceptions.items()},
            "target_modules": [*model.patterns(adapted)],
            "fan_in_fan_out": any(model.modules[name].transposed for name in adapted),
            "use_rslora": method.scaling == "rank_stabilised",
            "use_dora": method.dora,
            "lora_dropout": 0.0,
            "bias": "none",
        },
        written,
    )


def _alpha(method: Lora, sites: int) -> float:
    """Return the alpha of a module with updates of several sites."""
    return method.alpha * (sites if method.scaling == "standard" else sites**0.5)


def _row_norms(module: Module, tensors: Mapping[str, Numbers], base: BaseTensors) -> Numbers:
    """Return the row norms of a module.

    They are the learned ones, and those of the base at sites that are not adapted.
    """
    import numpy as np

    learned = {part.site.name: f"{part.site.name}.magnitude" for part in module.parts}
    return np.concatenate(
        [
            tensors[name] if name in tensors else np.linalg.norm(base(f"{site}.weight"), axis=1)
            for site, name in learned.items()
        ]
    )
