"""Folders of base models trained here, which `transformers` loads.

Imported models have a folder already. Nothing here needs torch or transformers.
"""

import json
from collections.abc import Mapping

import numpy as np

from adaptlab.errors import NoLibraryForm
from adaptlab.exchange.plugins import BaseTensors, Numbers
from adaptlab.plugins.family import FAMILIES, Family
from adaptlab.weights.huggingface import CONFIG, SINGLE, PublishedFamily


def base_folder(family: Family, tensors: BaseTensors) -> dict[str, bytes]:
    """Return `config.json` and `model.safetensors` of a base model, by name.

    Args:
        family: the base model's resolved family.
        tensors: called for each of its tensors.

    Raises:
        NoLibraryForm: `transformers` has no such model.
    """
    if not isinstance(family, PublishedFamily):
        published = [n for n in FAMILIES.names() if issubclass(FAMILIES.get(n), PublishedFamily)]
        raise NoLibraryForm(
            f"transformers has no model like a {family.name}. Download the checkpoint as it is, or "
            f"pretrain a model of one of these families: {', '.join(published)}."
        )
    config = {**family.published_config(), "dtype": "float32"}
    return {
        CONFIG: json.dumps(config, indent=2, sort_keys=True).encode() + b"\n",
        SINGLE: _safetensors(_published(family, tensors)),
    }


def _published(family: PublishedFamily, tensors: BaseTensors) -> dict[str, Numbers]:
    """Return the tensors as the library names and stores them."""
    places = family.published_tensors()
    parts: dict[str, list[tuple[int, bool, Numbers]]] = {}
    for name in family.shape().tensors:
        place = places[name]
        stored = parts.setdefault(family.stored_name(name, place), [])
        stored.append((place.start, place.transposed, tensors(name)))
    return {name: _whole(found) for name, found in parts.items()}


def _whole(parts: list[tuple[int, bool, Numbers]]) -> Numbers:
    """Return a stored tensor, whose parts lie side by side along its outputs."""
    whole = np.concatenate([part for _, _, part in sorted(parts, key=lambda part: part[0])])
    return whole.T if parts[0][1] else whole


def _safetensors(tensors: Mapping[str, Numbers]) -> bytes:
    from safetensors.numpy import save  # which the API needs only here, as numpy

    whole = {name: np.ascontiguousarray(t, np.float32) for name, t in sorted(tensors.items())}
    return save(whole, {"format": "pt"})
