"""What a model family declares, torch-free: its switches, sites and tensors."""

from abc import ABC, abstractmethod
from typing import ClassVar, Self

from adaptlab.errors import Problem
from adaptlab.registry import Registry
from adaptlab.shapes import ModelShape
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


FAMILIES: Registry[type[Family]] = Registry("family", "adaptlab.families")
