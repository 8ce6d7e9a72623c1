"""Adapters: small bottleneck networks in every layer."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.method import METHODS, AttentionClaim, Method
from adaptlab.plugins.shapes import Initialiser, ModelShape, Site, TensorShape
from adaptlab.values import AUTO, Auto


@METHODS.register("adapter")
class Adapter(Method):
    """Learn a two-layer bottleneck network after attention, the MLP, or both.

    Serial adapters read the output of the sublayer, parallel ones its input; both add to its
    output. The second matrix starts at zero, so training starts from the base model.
    """

    title: ClassVar[str] = "Bottleneck adapter"
    place: ClassVar[int] = 3
    summary: ClassVar[str] = "A small two-layer network is added to sublayers of every block."
    formula: ClassVar[str] = "y ← y + U gelu(D y + d) + u  (parallel: D x instead of D y)"
    reference: ClassVar[str] = "Houlsby et al. (ICML 2019); He et al. (ICLR 2022)"
    first_layer_attention: ClassVar[AttentionClaim] = "cannot_change"
    size_knob: ClassVar[str | None] = "bottleneck"
    default_learning_rate: ClassVar[float] = 5e-3
    learning_rate_range: ClassVar[tuple[float, float]] = (3e-4, 1.0)

    name: Literal["adapter"] = "adapter"
    bottleneck: int | Auto = Field(default=AUTO)
    """width of the adapter's middle layer; auto: from the budget"""
    placement: Literal["serial", "parallel"] = "serial"
    """after each sublayer in turn, or beside it"""
    after: tuple[Literal["attn", "mlp"], ...] = Field(default=("mlp",), min_length=1, max_length=2)
    """sublayers that an adapter follows: attention, MLP or both"""

    def chosen_sites(self, shape: ModelShape) -> tuple[Site, ...]:
        """Return the sublayers with an adapter."""
        sites = shape.layer_sites("sublayer")
        return tuple(site for site in sites if site.name.split(".")[-1] in self.after)

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        assert isinstance(self.bottleneck, int)
        tensors: dict[str, TensorShape] = {}
        for site in self.chosen_sites(shape):
            name, zeros = f"{site.name}.adapter", Initialiser("zeros")
            uniform = Initialiser("kaiming_uniform")
            tensors[f"{name}.down.weight"] = TensorShape((self.bottleneck, site.inputs), uniform)
            tensors[f"{name}.down.bias"] = TensorShape((self.bottleneck,), zeros, decays=False)
            tensors[f"{name}.up.weight"] = TensorShape((site.outputs, self.bottleneck), zeros)
            tensors[f"{name}.up.bias"] = TensorShape((site.outputs,), zeros, decays=False)
        return tensors

    def largest_size(self, shape: ModelShape) -> int:
        return shape.width

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        return (*self._absent(shape), *self._out_of_range(shape))

    def _absent(self, shape: ModelShape) -> Iterator[Problem]:
        """Yield the problems of sublayers that the model lacks."""
        sites = shape.layer_sites("sublayer")
        sublayers = tuple(dict.fromkeys(site.name.split(".")[-1] for site in sites))
        for index, name in enumerate(self.after):
            if sublayers and name not in sublayers:
                yield Problem(
                    pointer=f"/method/after/{index}",
                    code="no_such_sublayer",
                    detail=f"This {shape.family} has no {name}. Use {' or '.join(sublayers)}.",
                    allowed=sublayers,
                    nearest=sublayers,
                )

    def _out_of_range(self, shape: ModelShape) -> Iterator[Problem]:
        limit = self.largest_size(shape)
        if isinstance(self.bottleneck, int) and not 1 <= self.bottleneck <= limit:
            yield Problem(
                pointer="/method/bottleneck",
                code="bottleneck_out_of_range",
                detail=f"The bottleneck {self.bottleneck} is outside 1 to {limit}, the width.",
                nearest=(min(max(self.bottleneck, 1), limit),),
            )

    def extra_flops_per_token(self, shape: ModelShape) -> int:
        return sum(2 * tensor.size for tensor in self.tensors(shape).values())
