"""LLaMA-Adapter: gated learned positions with a softmax of their own."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.learned_positions import ContextPositions
from adaptlab.plugins.method import METHODS, LearningRates, MethodGroup
from adaptlab.plugins.shapes import Initialiser, ModelShape, Site, TensorShape


@METHODS.register("llama_adapter")
class LlamaAdapter(ContextPositions):
    """Add g · softmax(q·(W_K P)ᵀ/√D) W_V P to what each head gathers.

    P are `length` learned rows for each of the upper `layers`, which W_K and W_V of the base read
    without norm and rotation; the gate g of a layer starts at 0, so an untrained model is the base.

    The softmax over P is apart from that over the content, so the attention pattern of its own
    layer does not change at all. The addition is a mixture of the vectors W_V P, times g, chosen by
    the position's query.
    """

    title: ClassVar[str] = "LLaMA-Adapter"
    group: ClassVar[MethodGroup] = "prompts"
    place: ClassVar[int] = 6
    summary: ClassVar[str] = "Upper layers add what they read of learned positions, times a gate."
    formula: ClassVar[str] = "t ← t + g · softmax(q·(W_K P)ᵀ/√D) W_V P"
    reference: ClassVar[str] = "Zhang et al. (ICLR 2024); one gate per layer, as in PEFT"
    default_learning_rate: ClassVar[float] = 0.1
    learning_rate_range: ClassVar[tuple[float, float]] = (1e-2, 3.0)
    large_base_rates: ClassVar[LearningRates | None] = LearningRates(5e-3, (5e-4, 1.0))

    name: Literal["llama_adapter"] = "llama_adapter"
    layers: int | None = Field(default=None, ge=1, le=10_000)
    """upper layers with learned positions; none: all"""

    def adapted(self, shape: ModelShape) -> tuple[Site, ...]:
        """Return the sites of the upper layers, in layer order."""
        sites = shape.layer_sites("attention_queries")
        return sites if self.layers is None else sites[-self.layers :]

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        assert isinstance(self.length, int)
        tensors: dict[str, TensorShape] = {}
        for site in self.adapted(shape):
            rows = TensorShape((self.length, shape.width), Initialiser("normal"))
            tensors[f"{site.name}.rows"] = rows
            tensors[f"{site.name}.gate"] = TensorShape((1,), Initialiser("zeros"), decays=False)
        return tensors

    def companions(self, shape: ModelShape) -> dict[str, TensorShape]:
        """Return the base's W_K and W_V, with biases where it has them."""
        found: dict[str, TensorShape] = {}
        for site in self.adapted(shape):
            for part in ("k.weight", "k.bias", "v.weight", "v.bias"):
                source = f"{site.name.removesuffix('queries')}{part}"
                if source in shape.tensors:
                    start = Initialiser("base", source=source)
                    found[f"{site.name}.{part}"] = TensorShape(shape.tensors[source].shape, start)
        return found

    def extra_context_tokens(self) -> int:
        """Return 0: the rows take no attention from other positions."""
        return 0

    def extra_flops_per_token(self, shape: ModelShape) -> int:
        assert isinstance(self.length, int)
        return 4 * self.length * shape.width * len(self.adapted(shape))

    def reads_weights(self) -> bool:
        return True

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        """Return a wrong length, too many layers, or fused projections."""
        problems, sites = super().problems(shape), shape.layer_sites("attention_queries")
        if self.layers is not None and self.layers > len(sites):
            detail = f"The model has {len(sites)} layers with attention, not {self.layers}."
            nearest = (len(sites),)
            problem = Problem("/method/layers", "too_many_layers", detail, nearest=nearest)
            problems = (*problems, problem)
        keys = (f"{site.name.removesuffix('queries')}k.weight" for site in sites)
        if any(key not in shape.tensors for key in keys):
            detail = (
                f"This {shape.family} has queries, keys and values in one matrix, and this method "
                "reads W_K and W_V. Use prefix_tuning."
            )
            problems = (*problems, Problem("/method/name", "fused_projections", detail))
        return problems
