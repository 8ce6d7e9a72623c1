"""Attention bias: each head's output is pulled towards a learned vector."""

from collections.abc import Mapping

import torch
from torch import Tensor

from adaptlab.engine.models.attachments import Attachments, MixHook
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.attention_bias import AttentionBias
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("attention_bias")
def attach(method: AttentionBias, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Mix a learned vector into the attention output, before W_O."""
    return Attachments(
        mixes={
            site.name: _pull(tensors[f"{site.name}.shift"], tensors[f"{site.name}.strength"])
            for site in shape.layer_sites("attention_mix")
        }
    )


def _pull(shift: Tensor, strength: Tensor) -> MixHook:
    def pulled(gathered: Tensor, rows: slice | Tensor) -> Tensor:
        heads, context = strength.shape[1:]
        if isinstance(rows, Tensor):
            replicate = torch.arange(len(strength), device=rows.device)[:, None, None]
            share = strength.transpose(1, 2)[replicate, rows].sigmoid()  # R, B, Q, H
        else:
            start, stop, step = rows.indices(context)
            if rows == slice(None):
                stop = gathered.shape[2]
            share = strength[:, :, start:stop:step].sigmoid().transpose(1, 2).unsqueeze(1)
        per_head = share.unsqueeze(-1)  # R, B or 1, Q, H, 1
        split = gathered.unflatten(-1, (heads, -1))  # R, B, Q, H, D
        target = shift.unflatten(-1, (heads, -1))[:, None, None]  # R, 1, 1, H, D
        return (split + per_head * (target - split)).flatten(-2)

    return pulled
