"""IA3: learned scales of keys, values and the MLP's hidden features."""

from typing import ClassVar, Literal

from adaptlab.plugins.method import METHODS, AttentionClaim, Method
from adaptlab.plugins.shapes import Initialiser, ModelShape, TensorShape


@METHODS.register("ia3")
class IA3(Method):
    """Scale features of keys, values and the input of the MLP's second matrix."""

    title: ClassVar[str] = "IA3"
    place: ClassVar[int] = 2
    summary: ClassVar[str] = "Keys, values and the MLP's hidden features are rescaled."
    formula: ClassVar[str] = "k = l_k ⊙ W_K x, v = l_v ⊙ W_V x, y = W₂ (l_ff ⊙ h)"
    reference: ClassVar[str] = "Liu et al. (NeurIPS 2022)"
    first_layer_attention: ClassVar[AttentionClaim] = "can_change"
    default_learning_rate: ClassVar[float] = 1e-2
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-3, 1e-1)

    name: Literal["ia3"] = "ia3"

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        scales: dict[str, TensorShape] = {}
        for site in shape.linear_sites:
            if site.name.endswith((".attn.k", ".attn.v")):
                scales[f"{site.name}.scale"] = _ones(site.outputs)
            if site.name.endswith(".mlp.down"):
                scales[f"{site.name}.scale"] = _ones(site.inputs)
        return scales

    def extra_flops_per_token(self, shape: ModelShape) -> int:
        return sum(tensor.size for tensor in self.tensors(shape).values())


def _ones(size: int) -> TensorShape:
    return TensorShape((size,), Initialiser("ones"))
