"""What a model family declares, torch-free: its switches, sites and tensors."""

from abc import ABC, abstractmethod
from typing import Annotated, ClassVar, Self

from adaptlab.errors import Problem
from adaptlab.plugins.registry import ByName, Registry
from adaptlab.plugins.shapes import ModelShape
from adaptlab.values import PluginName, Value


class Family(Value, ABC):
    """A family of base models as it can be asked for; the fields are its switches."""

    title: ClassVar[str]
    summary: ClassVar[str]
    reference: ClassVar[str]
    default_learning_rate: ClassVar[float]
    default_weight_decay: ClassVar[float]

    name: PluginName

    @abstractmethod
    def resolved(self, vocabulary: int, context: int) -> Self:
        """The configuration with every `auto` filled in for a task of these needs."""

    @abstractmethod
    def shape(self) -> ModelShape:
        """Dimensions, sites and tensors of a resolved configuration."""

    def problems(self) -> tuple[Problem, ...]:
        """Faults of the configuration, with pointers below `/family`."""
        return ()

    def fills_in(self) -> bool:
        """Whether answer tokens are hidden at the input, because every position sees them all.

        The model then reads the mask, whose id is the vocabulary's size, in their place and
        answers all positions at once.
        """
        return False

    def positions_before_content(self) -> int:
        """Visible positions of the model's own that are before the content."""
        return 0


FAMILIES: Registry[type[Family]] = Registry("family", "adaptlab.families")

AnyFamily = Annotated[Family, ByName(FAMILIES)]
"""A field of a value that holds any registered one; it is read by name."""
