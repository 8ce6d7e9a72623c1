"""What an adaptation method declares, torch-free: its knobs, tensors, sizes and claims."""

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, Literal, Self

from adaptlab.errors import Problem
from adaptlab.plugins.registry import ByName, Registry
from adaptlab.plugins.shapes import ModelShape, TensorShape
from adaptlab.plugins.sizing import largest_within
from adaptlab.values import AUTO, PluginName, Value

AttentionClaim = Literal["can_change", "cannot_change"]


def log_spaced(low: float, high: float, count: int) -> tuple[float, ...]:
    """So many values at equal ratios from `low` to `high`; one alone is their geometric mean."""
    if count == 1:
        return ((low * high) ** 0.5,)
    ratio = (high / low) ** (1 / (count - 1))
    return tuple(low * ratio**index for index in range(count))


class Method(Value, ABC):
    """An adaptation method as it can be asked for; the fields are its knobs.

    The engine allocates exactly the tensors declared here, so that the number the budget solver
    predicts cannot differ from the number that is trained.
    """

    title: ClassVar[str]
    summary: ClassVar[str]
    formula: ClassVar[str]
    reference: ClassVar[str]
    first_layer_attention: ClassVar[AttentionClaim]
    """Whether relative attention over content can change in a layer whose input is unchanged."""
    size_knob: ClassVar[str | None] = None
    """The integer field that the budget solver sets; None for a method of fixed size."""
    size_rule: ClassVar[str] = "Its size is fixed by the base model."
    """What decides its size where no knob does, as a sentence."""
    default_learning_rate: ClassVar[float]
    """What `auto` means for a single trial."""
    learning_rate_range: ClassVar[tuple[float, float]]
    """The ends of the log-spaced range over which several trials are spread."""
    default_weight_decay: ClassVar[float] = 0.0
    is_reference: ClassVar[bool] = False
    """Whether it is what others are measured against, in a study shown at every budget."""
    starts_from_base: ClassVar[bool] = True
    """Whether the base's weights matter to what it becomes; its shape always does."""
    is_attention_control: ClassVar[bool] = False
    """Whether it trains all that it can without changing attention in the first layer.

    Where it learns a task, the task needs no new attention pattern there.
    """
    restriction: ClassVar[str] = ""
    """What it cannot do besides, as a noun phrase; named where it fails for other reasons."""
    is_prefix: ClassVar[bool] = False
    """Whether all that it does is to put learned rows in front of every layer's attention."""

    name: PluginName

    @abstractmethod
    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        """The trainable tensors of a fully resolved configuration, by name."""

    def kept(self) -> "Method":
        """The configuration of what is stored when training is over; most methods keep all.

        Its tensors are those of the checkpoint. The engine makes them with the fold that is
        registered beside the method's other half.
        """
        return self

    def equivalent_on(self, shape: ModelShape) -> "Method":
        """The configuration that stands for all which compute the same function on this model.

        They have as many parameters and start alike, so that their trials are trials of one method.
        """
        return self

    def without_size(self) -> "Method":
        """The configuration with everything open that decides its size or only where it starts."""
        return self if self.size_knob is None else self.model_copy(update={self.size_knob: AUTO})

    @classmethod
    def has_sizes(cls) -> bool:
        """Whether it exists in several sizes on one model."""
        return cls.size_knob is not None or cls.size_rule != Method.size_rule

    def size_is_free(self) -> bool:
        """Whether a budget has to decide a size of this configuration."""
        return self.size_knob is not None and getattr(self, self.size_knob) == AUTO

    def with_size(self, size: int) -> Self:
        """The same configuration with the size knob set."""
        return self if self.size_knob is None else self.model_copy(update={self.size_knob: size})

    def smallest(self) -> Self:
        """The same configuration with every free size at its smallest."""
        return self.with_size(1) if self.size_is_free() else self

    def largest_size(self, shape: ModelShape) -> int:
        """The largest value of the size knob that makes sense on this model."""
        return 1

    def trained_scalars(self, shape: ModelShape) -> int:
        """The number of scalars that a resolved configuration trains on this model."""
        return sum(tensor.size for tensor in self.tensors(shape).values())

    def within(self, shape: ModelShape, budget: int) -> Self:
        """The largest configuration of at most `budget` scalars; the smallest must be within it."""
        if not self.size_is_free():
            return self
        tried: dict[int, Self] = {}

        def trained(size: int) -> int:
            tried[size] = self.with_size(size)
            return tried[size].trained_scalars(shape)

        return tried[largest_within(budget, trained, self.largest_size(shape))]

    def learning_rates(self, trials: int) -> tuple[float, ...]:
        """What `auto` means: the method's own rate for one trial, else a log-spaced grid."""
        if trials == 1:
            return (self.default_learning_rate,)
        return log_spaced(*self.learning_rate_range, trials)

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        """Faults of the configuration on this model, with pointers below `/method`."""
        return ()

    def extra_context_tokens(self) -> int:
        """Positions that the adaptation adds to the attention of every layer."""
        return 0

    def extra_flops_per_token(self, shape: ModelShape) -> int:
        """Floating-point operations that the adaptation adds for one content token."""
        return 0


METHODS: Registry[type[Method]] = Registry("method", "adaptlab.methods")

AnyMethod = Annotated[Method, ByName(METHODS)]
"""A field of a value that holds any registered one; it is read by name."""


def starting_anew() -> tuple[str, ...]:
    """The methods to which the weights of the base model do not matter."""
    return tuple(name for name in METHODS.names() if not METHODS.get(name).starts_from_base)
