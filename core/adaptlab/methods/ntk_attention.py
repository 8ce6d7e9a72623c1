"""NTK-attention: a prefix of any length as two sums per head."""

from typing import ClassVar, Literal

from adaptlab.plugins.method import METHODS, AttentionClaim, LearningRates, Method, MethodGroup
from adaptlab.plugins.shapes import Initialiser, ModelShape, TensorShape

FIRST_KEY = -7.0
"""A softplus of 0.0009, so that the sums take little attention at first."""


@METHODS.register("ntk_attention")
class NtkAttention(Method):
    """Replace the sums over the positions of a prefix by learned ones.

    With a prefix, each head gathers (Σ exp(q·k) v + Σ exp(q·p) u) / (Σ exp(q·k) + Σ exp(q·p)). Here
    φ(q)Z takes the place of the second sum above and φ(q)κ of the one below, with
    φ(q) = elu(q / D^¼) + 1 for heads of size D: Z [D, D] and κ [D] stand for any number of
    positions. κ is the softplus of what is learned, so it can only take attention. Attention to the
    content is divided by one factor per position, as with a prefix: relative to one another, it
    does not change. What is mixed in, φ(q)Z / φ(q)κ, depends on the query. Training starts close to
    the base, not exactly there.
    """

    title: ClassVar[str] = "NTK-attention"
    group: ClassVar[MethodGroup] = "prompts"
    place: ClassVar[int] = 4
    summary: ClassVar[str] = "Learned sums stand for a prefix of any length in every head."
    formula: ClassVar[str] = "t = (Σ exp(q·k) v + φ(q)Z) / (Σ exp(q·k) + φ(q)κ)"
    reference: ClassVar[str] = "Liang et al. (2024), NTK-attention"
    first_layer_attention: ClassVar[AttentionClaim] = "cannot_change"
    restriction: ClassVar[str] = (
        "in every layer it can only mix vectors of a learned map of the query into what attention "
        "gathers"
    )
    default_learning_rate: ClassVar[float] = 0.2
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-2, 3.0)
    large_base_rates: ClassVar[LearningRates | None] = LearningRates(1e-2, (3e-4, 1.0))
    nearest_in_peft: ClassVar[str] = "prefix_tuning with `side: key_value`"

    name: Literal["ntk_attention"] = "ntk_attention"

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        tensors: dict[str, TensorShape] = {}
        for site in shape.layer_sites("attention_queries"):
            heads, size = shape.heads, site.inputs // shape.heads
            key = Initialiser("constant", FIRST_KEY)
            tensors[f"{site.name}.values"] = TensorShape((heads, size, size), Initialiser("zeros"))
            tensors[f"{site.name}.keys"] = TensorShape((heads, size), key, decays=False)
        return tensors

    def extra_context_tokens(self) -> int:
        """Return 1: the sums take attention from the content as one position."""
        return 1

    def extra_flops_per_token(self, shape: ModelShape) -> int:
        return sum(2 * tensor.size for tensor in self.tensors(shape).values())
