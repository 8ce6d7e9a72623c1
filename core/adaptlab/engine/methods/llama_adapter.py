"""LLaMA-Adapter: what queries read of learned rows, times a gate."""

from collections.abc import Mapping

from torch import Tensor

from adaptlab.engine.kernels import grouped
from adaptlab.engine.methods.ntk_attention import by_position
from adaptlab.engine.models.attachments import Attachments, AttentionRead, QueryHook
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.engine.tensors import Float
from adaptlab.methods.llama_adapter import LlamaAdapter
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("llama_adapter")
def attach(method: LlamaAdapter, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Add the gated reading to the upper layers."""
    return Attachments(queries={s.name: _gated(s.name, tensors) for s in method.adapted(shape)})


def _gated(name: str, tensors: Mapping[str, Tensor]) -> QueryHook:
    rows, gate = tensors[f"{name}.rows"], tensors[f"{name}.gate"]

    def projected(part: str, like: Float[Tensor, "R B H Q D"]) -> Float[Tensor, "R 1 H P D"]:
        weight, bias = tensors[f"{name}.{part}.weight"], tensors.get(f"{name}.{part}.bias")
        heads, size = like.shape[2], like.shape[-1]
        split = grouped.linear(rows, weight, bias).unflatten(-1, (-1, size)).transpose(1, 2)
        return split.repeat_interleave(heads // split.shape[1], 1).unsqueeze(1)

    def gated(read: AttentionRead) -> tuple[Tensor, None]:
        keys, values = (projected(part, read.queries) for part in "kv")
        weights = (read.queries @ keys.transpose(-1, -2)).softmax(-1)  # R, B, H, Q, P
        return read.gathered + gate.view(-1, 1, 1, 1) * by_position(weights @ values), None

    return gated
