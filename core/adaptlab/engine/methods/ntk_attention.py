"""NTK-attention: learned sums in numerator and denominator of attention."""

from collections.abc import Mapping

from torch import Tensor
from torch.nn import functional

from adaptlab.engine.models.attachments import Attachments, AttentionRead, QueryHook
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.engine.tensors import Float
from adaptlab.methods.ntk_attention import NtkAttention
from adaptlab.plugins.shapes import ModelShape


@ENGINE_METHODS.register("ntk_attention")
def attach(method: NtkAttention, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Attachments:
    """Add the sums to every layer's attention."""
    names = [site.name for site in shape.layer_sites("attention_queries")]
    hooks = {n: _summed(tensors[f"{n}.values"], tensors[f"{n}.keys"]) for n in names}
    return Attachments(queries=hooks)


def features(queries: Float[Tensor, "R B H Q D"]) -> Float[Tensor, "R B H Q D"]:
    """Return elu(q / D^¼) + 1 of queries that are divided by √D."""
    return functional.elu(queries * queries.shape[-1] ** 0.25) + 1


def by_position(x: Float[Tensor, "R B H Q D"]) -> Float[Tensor, "R B Q HD"]:
    """Return the features of all heads side by side."""
    return x.transpose(2, 3).flatten(-2)


def _summed(values: Float[Tensor, "R H D D"], keys: Float[Tensor, "R H D"]) -> QueryHook:
    def summed(read: AttentionRead) -> tuple[Tensor, Tensor]:
        of_queries = features(read.queries)
        below = of_queries @ functional.softplus(keys)[:, None, :, :, None]  # R, B, H, Q, 1
        share = (below.log() - read.log_sums.unsqueeze(-1)).sigmoid()
        added = (of_queries @ values.unsqueeze(1)) * (share / below)
        kept = (1 - share).transpose(2, 3)  # R, B, Q, H, 1
        own = read.gathered.unflatten(-1, (*kept.shape[-2:-1], -1)) * kept
        return own.flatten(-2) + by_position(added), share.squeeze(-1)

    return summed
