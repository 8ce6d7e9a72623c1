"""Anchor re-weighting: factors on the attention to label words."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.methods.anchor_reweighting import AnchorReweighting
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("anchor_reweighting")
def attach(
    method: AnchorReweighting, shape: ModelShape, tensors: Mapping[str, Tensor]
) -> Attachments:
    """Attach the scales of every layer; the labels come with the items."""
    return Attachments(
        label_scales={
            site.name: tensors[method.scales_at(site)]
            for site in shape.layer_sites("attention_mix")
        }
    )
