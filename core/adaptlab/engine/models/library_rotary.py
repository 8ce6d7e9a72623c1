"""Rotary positions whose frequencies follow from the length of an item.

The library takes the longest position of a batch as the length, padding included, and remembers the
longest of earlier batches. Here every row of a batch has the frequencies that it has alone.
"""

import inspect
from typing import Any

import torch
from torch import Tensor

from adaptlab.engine.tensors import Int

LONGROPE, DYNAMIC = "longrope", "dynamic"


def depends_on_length(module: Any) -> bool:
    """Return True if a module of the library has such frequencies."""
    if not hasattr(module, "original_max_seq_len"):
        return False
    kinds = module.rope_type
    every = kinds.values() if isinstance(kinds, dict) else (kinds,)
    return any(kind in (LONGROPE, DYNAMIC) for kind in every)


def is_same_until(module: Any, position: int) -> bool:
    """Return True if frequencies are those of short items up to a position."""
    if not depends_on_length(module):
        return True
    kinds = module.rope_type
    rope = module.config.rope_parameters
    by_layer = kinds if isinstance(kinds, dict) else {None: kinds}
    return all(
        kind != LONGROPE
        or (rope if layer is None else rope[layer])["original_max_position_embeddings"] >= position
        for layer, kind in by_layer.items()
    )


@torch.no_grad()
def turns(
    module: Any,
    x: Tensor,
    position_ids: Int[Tensor, "B T"],
    ends: Int[Tensor, "N"],
    layer_type: str | None,
) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines [N or 1, T, D] of positions.

    `ends` are the positions that each row reads. `dynamic` frequencies stay those of the context,
    since content is never longer.
    """
    kind = module.rope_type if layer_type is None else module.rope_type[layer_type]
    prefix = "" if layer_type is None else f"{layer_type}_"
    short = getattr(module, f"{prefix}original_inv_freq")
    plain = _turned(module, x, position_ids, short, layer_type)
    if kind != LONGROPE:
        return plain
    rope = module.config.rope_parameters
    most = (rope if layer_type is None else rope[layer_type])["original_max_position_embeddings"]
    every = position_ids.expand(len(ends), -1)
    last = every.gather(1, (ends - 1).clamp_min(0).unsqueeze(1))  # N, 1
    is_long = (last >= most).unsqueeze(-1)
    longer = _turned(module, x, position_ids, _long(module, most, x.device, layer_type), layer_type)
    cosines, sines = (torch.where(is_long, b, a) for a, b in zip(plain, longer, strict=True))
    return cosines, sines


def _long(module: Any, most: int, device: torch.device, layer_type: str | None) -> Tensor:
    """Return the frequencies of items that are longer than `most`.

    They stay with the module, since a recorded pass on a GPU cannot make them.
    """
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    name = "long_inv_freq" if layer_type is None else f"{layer_type}_long_inv_freq"
    stored: Tensor | None = getattr(module, name, None)
    if stored is None or stored.device != device:
        kind: Any = ROPE_INIT_FUNCTIONS[LONGROPE]
        stored, _ = kind(module.config, device, seq_len=most + 1, layer_type=layer_type)
        setattr(module, name, stored)
    assert stored is not None
    return stored


def _turned(
    module: Any, x: Tensor, position_ids: Tensor, frequencies: Tensor, layer_type: str | None
) -> tuple[Tensor, Tensor]:
    """Return what the library computes of positions with these frequencies."""
    name = "inv_freq" if layer_type is None else f"{layer_type}_inv_freq"
    setattr(module, name, frequencies.to(x.device))
    plain = inspect.unwrap(type(module).forward)  # without the choice by batch
    named = {} if layer_type is None else {"layer_type": layer_type}
    return plain(module, x, position_ids, **named)
