"""Prefix-Tuning+: a low-rank map of queries, added to what they gather."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine.methods.ntk_attention import by_position, features
from adaptlab.engine.models.attachments import Attachments, AttentionRead, QueryHook
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.engine.tensors import Float
from adaptlab.methods.prefix_tuning_plus import PrefixTuningPlus
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("prefix_tuning_plus")
def attach(
    method: PrefixTuningPlus, shape: ModelShape, tensors: Mapping[str, Tensor]
) -> Attachments:
    """Add the weighted rows to every layer's attention output."""
    names = [site.name for site in shape.layer_sites("attention_queries")]
    hooks = {n: _added(tensors[f"{n}.keys"], tensors[f"{n}.values"]) for n in names}
    return Attachments(queries=hooks)


def _added(keys: Float[Tensor, "R H S D"], values: Float[Tensor, "R H S D"]) -> QueryHook:
    def added(read: AttentionRead) -> tuple[Tensor, None]:
        weights = features(read.queries) @ keys.transpose(-1, -2).unsqueeze(1)  # R, B, H, Q, S
        return read.gathered + by_position(weights @ values.unsqueeze(1)), None

    return added
