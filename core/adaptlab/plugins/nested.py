"""Plug-ins inside the configuration of another plug-in."""

import json
from typing import LiteralString, TypeVar, cast

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from adaptlab.errors import Problem, UnknownName
from adaptlab.plugins.registry import Named, Registry
from adaptlab.values import Value

P = TypeVar("P", bound=Value)


def nested(registry: Registry[type[P]], value: object) -> P:
    """Return the plug-in of a name or configuration.

    Raises:
        ValidationError: the name is missing or not registered, or the configuration is invalid.
    """
    choice = cast("dict[str, object]", {"name": value} if isinstance(value, str) else value)
    name = Named.model_validate(choice).name
    try:
        plug_in = registry.get(name)
    except UnknownName as error:
        raise _fault(error.problems[0], choice) from error
    return plug_in.model_validate_json(json.dumps(choice), strict=True)


def _fault(problem: Problem, choice: dict[str, object]) -> ValidationError:
    """Return the registry's error as pydantic's, which adds the place."""
    facts = {
        "detail": problem.detail.removesuffix("."),
        "expected": ", ".join(str(name) for name in problem.allowed),
    }
    code = cast("LiteralString", problem.code)  # not from a user, as pydantic requires
    fault = PydanticCustomError(code, "{detail}", facts)
    where = InitErrorDetails(type=fault, loc=("name",), input=choice)
    return ValidationError.from_exception_data("part", [where])
