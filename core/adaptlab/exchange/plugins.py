"""Registries of conversions between methods and PEFT.

The conversions go in both directions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from adaptlab.exchange.modules import ConfiguredModel
from adaptlab.plugins.method import Method
from adaptlab.plugins.registry import Registry

Numbers: TypeAlias = NDArray[np.floating[Any]]
BaseTensors = Callable[[str], Numbers]
"""From the name of a tensor of the base model to its numbers, in our layout."""


@dataclass(frozen=True, slots=True)
class PeftForm:
    """An adapter as PEFT stores it.

    `config` are the members of `adapter_config.json`, and `tensors` the content of
    `adapter_model.safetensors`.
    """

    config: Mapping[str, JsonValue]
    tensors: Mapping[str, Numbers] = field(repr=False)


# `Any`, because each form takes its method's class, narrower than Method.
ToPeft = Callable[[Any, ConfiguredModel, Mapping[str, Numbers], BaseTensors], PeftForm]
"""From a method, its base model and the stored tensors of one replicate to PEFT's form.

It may raise `NoPeftForm` for some settings of the method.
"""

PEFT_FORMS: Registry[ToPeft] = Registry("PEFT form", "adaptlab.exchange.peft_methods")
"""Only methods that PEFT has too have one."""


@dataclass(frozen=True, slots=True)
class AttachedAdapter:
    """An adapter as the engine attaches it.

    It has a method and the tensors of one replicate.
    """

    method: Method
    tensors: Mapping[str, Numbers] = field(repr=False)


FromPeft = Callable[
    [Mapping[str, object], ConfiguredModel, Mapping[str, Numbers], BaseTensors], AttachedAdapter
]
"""From the members of `adapter_config.json`, the base model and the stored tensors to ours.

It raises `BadAdapter` for everything that the method cannot express exactly.
"""

PEFT_TYPES: Registry[FromPeft] = Registry("PEFT type", "adaptlab.exchange.peft_methods")
"""How adapters are read, by their `peft_type`."""
