"""Prefix-tuning: learned positions in the attention of every layer."""

from typing import ClassVar, Literal

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.learned_positions import LearnedPositions
from adaptlab.plugins.method import METHODS, Method, MethodGroup
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

    With `initialisation: vocabulary` the prefix starts with the activations of tokens in every
    layer, so that at first it computes the same as a soft prompt of these tokens. A generated
    prefix cannot.
    """

    title: ClassVar[str] = "Prefix-tuning"
    group: ClassVar[MethodGroup] = "prompts"
    place: ClassVar[int] = 0
    summary: ClassVar[str] = "Every layer attends to learned positions before the content."
    formula: ClassVar[str] = "tᵢ = αᵢ W_V s + (1 - αᵢ) tᵢ(base), relative attention unchanged"
    reference: ClassVar[str] = "Li, Liang (ACL 2021); Petrov, Torr, Bibi (ICLR 2024), equation 7"
    is_prefix: ClassVar[bool] = True
    nearest_in_peft: ClassVar[str] = "prefix_tuning with `side: key_value`"

    name: Literal["prefix_tuning"] = "prefix_tuning"
    side: Literal["input", "key_value"] = "input"
    """prefix rows as inputs of each layer, or keys and values directly"""
    reparameterisation: Reparameterisation | None = None
    """network that generates the prefix during training, as JSON"""

    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        if self.reparameterisation is None:
            return self.prefix(shape)
        return self._network(shape, self.reparameterisation.hidden)

    def kept(self) -> Method:
        return self.model_copy(update={"reparameterisation": None})

    def prefix(self, shape: ModelShape) -> dict[str, TensorShape]:
        """Return the stored prefix, in the order of the network's outputs."""
        assert isinstance(self.length, int)
        if self.side == "input":
            widths = {site.name: site.inputs for site in shape.layer_sites("attention_input")}
        else:
            sites = shape.layer_sites("attention_keys_values")
            parts = ("keys", "values")
            widths = {f"{site.name}.{part}": site.outputs for site in sites for part in parts}
        return {
            name: TensorShape((self.length, width), self.layer_start(shape, name))
            for name, width in widths.items()
        }

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        """Return the problems of the method on a model.

        A generated prefix that starts as tokens is one of them.
        """
        problems = super().problems(shape)
        if self.initialisation == "normal" or self.reparameterisation is None:
            return problems
        generated = Problem(
            pointer="/method/initialisation",
            code="generated_rows",
            detail=(
                "A prefix that a reparameterisation generates cannot start as tokens. Leave "
                "`reparameterisation` out or use `initialisation: normal`."
            ),
            allowed=("normal",),
        )
        return (*problems, generated)

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
