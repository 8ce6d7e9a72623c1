"""Declaration of an adaptation method without torch."""

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, Literal, NamedTuple, Self, get_args

from adaptlab.errors import Problem
from adaptlab.plugins.described_fields import DescribedFields
from adaptlab.plugins.family import Family
from adaptlab.plugins.methods_elsewhere import elsewhere
from adaptlab.plugins.registry import ByName, Registry
from adaptlab.plugins.shapes import ModelShape, TensorShape
from adaptlab.plugins.sizing import PARAMETERS, BudgetAxis, largest_within
from adaptlab.plugins.task import Task
from adaptlab.values import AUTO, PluginName

AttentionClaim = Literal["can_change", "cannot_change"]

MethodGroup = Literal["weights", "prompts", "searches", "controls"]
GROUPS: tuple[MethodGroup, ...] = get_args(MethodGroup)
"""What methods change or are for: weights, the input by gradients, tokens by a search, or controls.

Lists of methods are in this order.
"""

BITS_PER_SCALAR = 32
LARGE_BASE = 10_000_000
"""Base models with at least as many parameters need lower learning rates.

Published models were measured from 22 million parameters, and models pretrained here up to 3.
"""


class LearningRates(NamedTuple):
    """The learning rate of one trial, and the limits of those of several."""

    default: float
    limits: tuple[float, float]


class Passes(NamedTuple):
    """Forward and backward passes of a training or search, per replicate."""

    forward: int
    backward: int


def log_spaced(low: float, high: float, count: int) -> tuple[float, ...]:
    """Return `count` values at equal ratios from `low` to `high`.

    A single value is the geometric mean.
    """
    if count == 1:
        return ((low * high) ** 0.5,)
    ratio = (high / low) ** (1 / (count - 1))
    return tuple(low * ratio**index for index in range(count))


class Method(DescribedFields, ABC):
    """An adaptation method; its fields are its hyperparameters.

    The engine allocates exactly the tensors declared here, so the number of parameters that the
    budget solver computes is the number that is trained.
    """

    title: ClassVar[str]
    group: ClassVar[MethodGroup] = "weights"
    place: ClassVar[int] = 99
    """The place in lists of the group, the most used first; by title among equals."""
    phrase: ClassVar[str | None] = None
    """The method within a sentence; None for its title, in lower case unless it is a name."""
    summary: ClassVar[str]
    formula: ClassVar[str]
    reference: ClassVar[str]
    first_layer_attention: ClassVar[AttentionClaim]
    """The effect on relative attention in a layer whose input is unchanged."""
    size_knob: ClassVar[str | None] = None
    """The integer field that the budget solver sets; None for a method of fixed size."""
    first_size: ClassVar[int] = 1
    """The smallest value of the size field."""
    size_rule: ClassVar[str] = "Its size is fixed by the base model."
    """A sentence about the size of a method without a size field."""
    default_learning_rate: ClassVar[float]
    """The learning rate of a single trial if it is `auto`."""
    learning_rate_range: ClassVar[tuple[float, float]]
    """The limits of the log-spaced learning rates of several trials."""
    large_base_rates: ClassVar[LearningRates | None] = None
    """Both on base models of at least `LARGE_BASE` parameters; None if they are the same there."""
    default_weight_decay: ClassVar[float] = 0.0
    is_reference: ClassVar[bool] = False
    """True if other methods are compared with it at every budget of a study."""
    starts_from_base: ClassVar[bool] = True
    """True if the result depends on the base's weights; it always depends on the base's shape."""
    is_attention_control: ClassVar[bool] = False
    """True if it trains everything except the attention pattern of the first layer.

    If it learns a task, the task needs no new attention pattern there.
    """
    restriction: ClassVar[str] = ""
    """Another limit of the method, as a clause for diagnoses of failures with other causes."""
    is_search: ClassVar[bool] = False
    """True if it chooses among tokens instead of following the gradient."""
    trains: ClassVar[bool] = True
    """False if its tensors stay as they are drawn."""
    keeps_best: ClassVar[bool] = False
    """True if replicates end with the weights of their best validation, unless the spec says more.

    The loss of such a method need not fall from step to step.
    """
    moves_content: ClassVar[bool] = False
    """True if content has other positions than in the base alone."""
    carries: ClassVar[bool] = False
    """True if what it finds is tokens or nothing, which other base models can read as well."""
    is_prefix: ClassVar[bool] = False
    """True if it only adds learned rows before the content of every layer's attention."""
    nearest_in_peft: ClassVar[str] = "lora"
    """The nearest configuration that PEFT has; it matters for methods without a PEFT form."""

    name: PluginName

    @classmethod
    def in_sentence(cls) -> str:
        """Return the method within a sentence: "full fine-tuning", "LoRA"."""
        if cls.phrase is not None:
            return cls.phrase
        first = cls.title.partition(" ")[0]
        return (
            cls.title if first[1:] != first[1:].lower() else cls.title[:1].lower() + cls.title[1:]
        )

    @abstractmethod
    def tensors(self, shape: ModelShape) -> dict[str, TensorShape]:
        """Return the method's own trainable tensors, by name.

        The configuration is a resolved one.
        """

    def companions(self, shape: ModelShape) -> dict[str, TensorShape]:
        """Return frozen tensors that follow from the base's weights.

        They are computed once, before training, and are neither trained, counted nor stored.
        """
        return {}

    def trained(self, shape: ModelShape) -> dict[str, TensorShape]:
        """Return everything that a resolved configuration trains, by name.

        These are the method's own tensors, and a head for classes if the task needs one.
        """
        return {**self.tensors(shape), **shape.class_head}

    def kept(self) -> "Method":
        """Return the configuration of the tensors that a checkpoint stores.

        Most methods store what they train. For the others, the method's engine file registers a
        function that computes the stored tensors.
        """
        return self

    def equivalent_on(self, shape: ModelShape) -> "Method":
        """Return the representative of all equivalent configurations on a model.

        Equivalent configurations compute the same function, with as many parameters and the same
        initialisation, so their trials count as trials of one method.
        """
        return self

    def without_size(self) -> "Method":
        """Return the configuration without its size and initialisation."""
        return self if self.size_knob is None else self.model_copy(update={self.size_knob: AUTO})

    @classmethod
    def has_sizes(cls) -> bool:
        """Return True if the method has several sizes on one model."""
        return cls.size_knob is not None or cls.size_rule != Method.size_rule

    def size_is_free(self) -> bool:
        """Return True if a budget must determine the size."""
        return self.size_knob is not None and getattr(self, self.size_knob) == AUTO

    def with_size(self, size: int) -> Self:
        """Return the configuration with its size set."""
        return self if self.size_knob is None else self.model_copy(update={self.size_knob: size})

    def smallest(self) -> Self:
        """Return the configuration with every free size at its smallest."""
        return self.with_size(self.first_size) if self.size_is_free() else self

    def largest_size(self, shape: ModelShape) -> int:
        """Return the largest sensible size on a model."""
        return 1

    def trained_scalars(self, shape: ModelShape) -> int:
        """Return the number of trainable parameters of a resolved configuration."""
        return sum(tensor.size for tensor in self.trained(shape).values())

    def cost(self, shape: ModelShape, axis: BudgetAxis) -> int:
        """Return what a resolved configuration costs on an axis of budgets."""
        if axis == PARAMETERS:
            return self.trained_scalars(shape)
        return self.extra_context_tokens()

    def is_sized_by(self, axis: BudgetAxis) -> bool:
        """Return True if a budget on this axis can determine the size."""
        return axis == PARAMETERS or self.smallest().extra_context_tokens() > 0

    def within(self, shape: ModelShape, budget: int, axis: BudgetAxis = PARAMETERS) -> Self:
        """Return the largest configuration that costs at most `budget`.

        The smallest configuration must be within the budget, and the axis one that sizes it.
        """
        if not self.size_is_free():
            return self
        tried: dict[int, Self] = {}

        def cost(size: int) -> int:
            tried[size] = self.with_size(size)
            return tried[size].cost(shape, axis)

        return tried[largest_within(budget, cost, self.largest_size(shape))]

    def learning_rates(self, trials: int, shape: ModelShape) -> tuple[float, ...]:
        """Return the learning rates of `auto` on a model.

        They are the default, or a log-spaced grid.
        """
        rates = self._rates_on(shape)
        return (rates.default,) if trials == 1 else log_spaced(*rates.limits, trials)

    def _rates_on(self, shape: ModelShape) -> LearningRates:
        if self.large_base_rates is not None and shape.parameters >= LARGE_BASE:
            return self.large_base_rates
        return LearningRates(self.default_learning_rate, self.learning_rate_range)

    def problems(self, shape: ModelShape) -> tuple[Problem, ...]:
        """Return the errors on a model, with pointers below `/method`."""
        return ()

    def starting_texts(self) -> tuple[tuple[str, int], ...]:
        """Return the texts with which learned positions start, and their number.

        The configuration is a resolved one.
        """
        return ()

    def stored_bits(self, shape: ModelShape) -> int:
        """Return the information that a checkpoint stores, in bits."""
        return BITS_PER_SCALAR * self.kept().trained_scalars(shape)

    def for_task(self, task: Task) -> Self:
        """Return the configuration with what follows from the task."""
        return self

    def fitting(self, task: Task, family: Family, needed: int) -> Self:
        """Return the configuration as far as a task has room for it.

        The arguments are those of `task_problems`.
        """
        return self

    def task_problems(self, task: Task, family: Family, needed: int) -> tuple[Problem, ...]:
        """Return the problems of a resolved configuration on a task.

        Args:
            task: the task that is adapted to.
            family: the base model's.
            needed: positions of the task's longest item.
        """
        return ()

    def search_problems(self, task: Task, family: Family) -> tuple[Problem, ...]:
        """Return what a search for tokens lacks on the base model that it runs on.

        Other base models, on which its tokens are only evaluated, are not asked.
        """
        return ()

    def carried_problems(
        self, base: str, here: ModelShape, there: ModelShape, *, is_same_text: bool
    ) -> tuple[Problem, ...]:
        """Return the problems of carrying tokens from a base model to another.

        Args:
            base: the name of the base model on which they are found.
            here: its shape.
            there: the shape of the other base model.
            is_same_text: True if a text has the same tokens on both.
        """
        return ()

    def extra_context_tokens(self) -> int:
        """Return the positions that are added to the attention of every layer."""
        return 0

    def passes(self, steps: int, shape: ModelShape) -> Passes:
        """Return the passes of a resolved configuration in `steps` steps."""
        count = steps if self.trains and self.trained(shape) else 0
        return Passes(count, count)

    def demonstrated(self) -> int | None:
        """Return the number of demonstrations before questions, if any."""
        return None

    def is_chosen_by_item(self) -> bool:
        """Return True if every question has demonstrations of its own."""
        return False

    def reports_tokens(self) -> bool:
        """Return True if a replicate ends with tokens before all of its questions."""
        return self.is_search

    def reads_weights(self) -> bool:
        """Return True if what it adds at a site depends on the site's weights.

        Matrices in four bits are not read.
        """
        return False

    def follows_question(self) -> bool:
        """Return True if learned positions come between a question and its answer."""
        return False

    def extra_flops_per_token(self, shape: ModelShape) -> int:
        """Return the floating-point operations added per content token."""
        return 0


METHODS: Registry[type[Method]] = Registry("method", "adaptlab.methods", elsewhere)

AnyMethod = Annotated[Method, ByName(METHODS)]
"""A field with any registered method, read by name."""


def methods_without_base() -> tuple[str, ...]:
    """Return the methods that do not use the base model's weights."""
    return tuple(name for name in METHODS.names() if not METHODS.get(name).starts_from_base)
