"""Folders that `peft.PeftModel.from_pretrained` loads.

An adaptation becomes one folder for each replicate: `adapter_config.json` and
`adapter_model.safetensors`, all in float32. A folder with a trained head also has a `README.md`.
Nothing here needs torch or PEFT.
"""

import json
from collections.abc import Mapping, Sequence

import numpy as np

from adaptlab.errors import BadCheckpoint, NoPeftForm
from adaptlab.exchange.modules import ConfiguredModel
from adaptlab.exchange.peft_heads import library_head, readme, with_head
from adaptlab.exchange.peft_members import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from adaptlab.exchange.plugins import PEFT_FORMS, BaseTensors, Numbers
from adaptlab.plugins.family import FAMILIES, Family
from adaptlab.plugins.method import Method
from adaptlab.weights.huggingface import PublishedFamily

README = "README.md"


def peft_folder(
    family: Family,
    method: Method,
    checkpoint: bytes,
    base_tensors: BaseTensors,
    base_name: str | None = None,
    labels: Sequence[str] = (),
) -> dict[str, bytes]:
    """Return the files of a PEFT folder by name.

    Args:
        family: the base model's resolved family.
        method: the resolved method that was trained.
        checkpoint: the safetensors file of one replicate.
        base_tensors: called for the few tensors of the base model that some forms contain.
        base_name: the name or path of the base model for users of the folder.
        labels: the classes of a head that was trained with the method, none without one.

    Raises:
        NoPeftForm: the method or the family does not exist in PEFT.
        BadCheckpoint: the file is not a checkpoint of the method.
    """
    head = library_head(family) if labels else None
    model, stored = published_model(family, len(labels) or None), method.kept()
    if method.name not in PEFT_FORMS.names():
        raise NoPeftForm(
            f"{method.name} has no PEFT form. The nearest method that has one is "
            f"{method.nearest_in_peft}."
        )
    tensors = _tensors(checkpoint, stored, model)
    trained = {name: tensors.pop(name) for name in model.shape.class_head}
    form = PEFT_FORMS.get(method.name)(stored, model, tensors, base_tensors)
    form = with_head(form, head, trained) if head else form
    config = {
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base_name,
        "inference_mode": True,
        **form.config,
    }
    return {
        ADAPTER_CONFIG: json.dumps(config, indent=2, sort_keys=True).encode() + b"\n",
        ADAPTER_WEIGHTS: _safetensors(form.tensors),
        **({README: readme(head, labels)} if head else {}),
    }


def published_model(family: Family, classes: int | None = None) -> ConfiguredModel:
    """Return a base model with the modules that PEFT adapts.

    Raises:
        NoPeftForm: PEFT has no adapters of models of this family.
    """
    if not isinstance(family, PublishedFamily):
        raise NoPeftForm(
            f"PEFT adapts models of transformers, and a {family.name} is none. Adapt a base model "
            f"of one of these families: {', '.join(_published_families())}."
        )
    if family.predicts_in_place() and classes is None:
        raise NoPeftForm(
            "PEFT has no task type for models that fill masks in, so their adapters cannot be "
            "exported or imported. Adapt a causal model, train a head (`score: head`), or download "
            "the checkpoint as it is."
        )
    return ConfiguredModel(family, classes)


def _published_families() -> tuple[str, ...]:
    names = FAMILIES.names()
    return tuple(name for name in names if issubclass(FAMILIES.get(name), PublishedFamily))


def _tensors(content: bytes, method: Method, model: ConfiguredModel) -> dict[str, Numbers]:
    """Return the stored tensors, which must be exactly those of the method."""
    from safetensors import SafetensorError  # which the API needs only here, as numpy
    from safetensors.numpy import load

    expected = {name: tensor.shape for name, tensor in method.trained(model.shape).items()}
    try:
        tensors = load(content)
    except (SafetensorError, KeyError) as error:
        raise BadCheckpoint(f"The checkpoint is not safetensors: {error}.") from error
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    if shapes != expected:
        differing = {name for name, _ in shapes.items() ^ expected.items()}
        raise BadCheckpoint(
            f"The checkpoint does not have the tensors of {method.name}. Missing, additional or of "
            f"another shape: {', '.join(sorted(differing)[:8])}."
        )
    return tensors


def _safetensors(tensors: Mapping[str, Numbers]) -> bytes:
    from safetensors.numpy import save

    whole = {n: np.ascontiguousarray(t, np.float32) for n, t in sorted(tensors.items())}
    return save(whole, {"format": "pt"})
