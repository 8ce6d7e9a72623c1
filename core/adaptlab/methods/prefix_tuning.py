"""Prefix-tuning: learned positions in the attention of every layer."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.plugins.learned_positions import LearnedPositions
from adaptlab.plugins.method import METHODS, Method
from adaptlab.plugins.shapes import Initialiser, ModelShape, TensorShape
from adaptlab.values import Value

MLP = "reparameterisation"


class Reparameterisation(Value):
    """A two-layer tanh network that generates the prefix during training."""

    hidden: int = Field(ge=1, le=65_536)


@METHODS.register("prefix_tuning")
class PrefixTuning(LearnedPositions):
    """Learn a prefix for every layer's attention.

    With `side: input` the prefix rows pass through the layer's own norm, W_K and W_V, as in the
    paper. With `side: key_value` keys and values are learned directly. Positions of the content do
    not change.

    With `reparameterisation` the prefix of all layers is W₂ tanh(W₁ e + b₁) + b₂ for learned rows e
    of the model's width. All of these are trained and count against the budget. Only the prefix is
    stored.

    Rows and keys start at random. Unlike a soft prompt, they cannot start as tokens of the
    vocabulary. The representation of a token in each layer would need a pass of the base model
    before the first step.
    """

    title: ClassVar[str] = "Prefix-tuning"
    summary: ClassVar[str] = "Every layer attends to learned positions before the content."
    formula: ClassVar[str] = "tᵢ = αᵢ W_V s + (1 - αᵢ) tᵢ(base), relative attention unchanged"
    reference: ClassVar[str] = "Li, Liang (ACL 2021); Petrov, Torr, Bibi (ICLR 2024), equation 7"
    is_prefix: ClassVar[bool] = True

    name: Literal["prefix_tuning"] = "prefix_tuning"
    side: Literal["input", "key_value"] = "input"
    reparameterisation: Reparameterisation | None = None

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        if self.reparameterisation is None:
            return self.prefix(shape)
        return self._network(shape, self.reparameterisation.hidden)

    def kept(self) -> Method:
        return self.model_copy(update={"reparameterisation": None})

    def prefix(self, shape: ModelShape) -> dict[str, TensorShape]:
        """Return the stored prefix, in the order of the network's outputs."""
        assert isinstance(self.length, int)
        start = Initialiser("normal", self.initial_scale)
        if self.side == "input":
            sites = shape.layer_sites("attention_input")
            return {site.name: TensorShape((self.length, site.inputs), start) for site in sites}
        sites = shape.layer_sites("attention_keys_values")
        return {
            f"{site.name}.{part}": TensorShape((self.length, site.outputs), start)
            for site in sites
            for part in ("keys", "values")
        }

    def _network(self, shape: ModelShape, hidden: int) -> dict[str, TensorShape]:
        assert isinstance(self.length, int)
        outputs = sum(tensor.shape[1] for tensor in self.prefix(shape).values())
        uniform, zeros = Initialiser("kaiming_uniform"), Initialiser("zeros")
        rows = Initialiser("normal", self.initial_scale)
        return {
            f"{MLP}.embedding": TensorShape((self.length, shape.width), rows),
            f"{MLP}.down.weight": TensorShape((hidden, shape.width), uniform),
            f"{MLP}.down.bias": TensorShape((hidden,), zeros, decays=False),
            f"{MLP}.up.weight": TensorShape((outputs, hidden), uniform),
            f"{MLP}.up.bias": TensorShape((outputs,), zeros, decays=False),
        }
