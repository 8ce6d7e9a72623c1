"""The experiments' decoder: a small GPT with learned positions and an untied head."""

from typing import ClassVar, Literal, Self

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.family import FAMILIES, Family
from adaptlab.shapes import Initialiser, ModelShape, Site, TensorShape
from adaptlab.values import AUTO, Auto

_ZEROS, _ONES = Initialiser("zeros"), Initialiser("ones")


@FAMILIES.register("minigpt")
class MiniGPT(Family):
    """A pre-norm causal decoder: attention and a four-fold tanh-GELU MLP in every block.

    `attention_norm` off drops the layer norm before attention, as in the paper's table 2.
    """

    title: ClassVar[str] = "miniGPT"
    summary: ClassVar[str] = "GPT-2-shaped decoder of any size, trained here from scratch."
    reference: ClassVar[str] = "Radford et al. (2019); Petrov, Torr, Bibi (ICLR 2024), section 5"
    default_learning_rate: ClassVar[float] = 3e-3
    default_weight_decay: ClassVar[float] = 0.1

    name: Literal["minigpt"] = "minigpt"
    layers: int = Field(default=1, ge=1, le=48)
    heads: int = Field(default=1, ge=1, le=64)
    width: int = Field(default=96, ge=1, le=4096)
    attention_norm: bool = True
    vocabulary: int | Auto = AUTO
    context: int | Auto = AUTO

    def resolved(self, vocabulary: int, context: int) -> Self:
        return self.model_copy(
            update={
                "vocabulary": vocabulary if self.vocabulary == AUTO else self.vocabulary,
                "context": context if self.context == AUTO else self.context,
            }
        )

    def problems(self) -> tuple[Problem, ...]:
        if self.width % self.heads == 0:
            return ()
        divisors = tuple(h for h in range(1, self.width + 1) if self.width % h == 0)
        return (
            Problem(
                pointer="/family/heads",
                code="not_a_divisor",
                detail=f"{self.heads} heads do not divide the width {self.width}.",
                allowed=divisors,
                nearest=tuple(sorted(divisors, key=lambda h: abs(h - self.heads))[:2]),
            ),
        )

    def shape(self) -> ModelShape:
        assert isinstance(self.vocabulary, int)
        assert isinstance(self.context, int)
        sites: dict[str, Site] = {"embed": Site("embed", "embedding", self.vocabulary, self.width)}
        tensors = {
            "embed.weight": self._matrix(self.vocabulary, self.width, decays=False),
            "positions.weight": self._matrix(self.context, self.width, decays=False),
        }
        for layer in range(self.layers):
            sites |= self._block_sites(layer)
            tensors |= self._block_tensors(layer)
        sites["unembed"] = Site("unembed", "linear", self.width, self.vocabulary)
        tensors |= self._norm("final_norm")
        tensors["unembed.weight"] = self._matrix(self.vocabulary, self.width)
        return ModelShape(
            family=self.name,
            width=self.width,
            layers=self.layers,
            heads=self.heads,
            key_value_width=self.width,
            context=self.context,
            vocabulary=self.vocabulary,
            sites=sites,
            tensors=tensors,
        )

    def _block_sites(self, layer: int) -> dict[str, Site]:
        block, width, hidden = f"blocks.{layer}", self.width, 4 * self.width
        sites = [
            Site(f"{block}.attn.input", "attention_input", width, width, layer),
            Site(f"{block}.attn.kv", "attention_keys_values", width, width, layer),
            *(Site(f"{block}.attn.{part}", "linear", width, width, layer) for part in "qkvo"),
            Site(f"{block}.attn.mix", "attention_mix", width, width, layer),
            Site(f"{block}.attn", "sublayer", width, width, layer),
            Site(f"{block}.mlp.up", "linear", width, hidden, layer),
            Site(f"{block}.mlp.down", "linear", hidden, width, layer),
            Site(f"{block}.mlp", "sublayer", width, width, layer),
        ]
        return {site.name: site for site in sites}

    def _block_tensors(self, layer: int) -> dict[str, TensorShape]:
        block, width, hidden = f"blocks.{layer}", self.width, 4 * self.width
        residual = 0.02 / (2 * self.layers) ** 0.5
        tensors = self._norm(f"{block}.attn.norm") if self.attention_norm else {}
        for part in "qkv":
            tensors |= self._linear(f"{block}.attn.{part}", width, width, 0.02)
        tensors |= self._linear(f"{block}.attn.o", width, width, residual)
        tensors |= self._norm(f"{block}.mlp.norm")
        tensors |= self._linear(f"{block}.mlp.up", hidden, width, 0.02)
        tensors |= self._linear(f"{block}.mlp.down", width, hidden, residual)
        return tensors

    @staticmethod
    def _matrix(rows: int, columns: int, std: float = 0.02, *, decays: bool = True) -> TensorShape:
        return TensorShape((rows, columns), Initialiser("normal", std), decays)

    def _linear(self, name: str, outputs: int, inputs: int, std: float) -> dict[str, TensorShape]:
        return {
            f"{name}.weight": self._matrix(outputs, inputs, std),
            f"{name}.bias": TensorShape((outputs,), _ZEROS, decays=False, role="bias"),
        }

    def _norm(self, name: str) -> dict[str, TensorShape]:
        return {
            f"{name}.weight": TensorShape((self.width,), _ONES, decays=False, role="norm_scale"),
            f"{name}.bias": TensorShape((self.width,), _ZEROS, decays=False, role="norm_shift"),
        }
