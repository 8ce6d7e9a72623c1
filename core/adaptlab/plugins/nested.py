"""Plug-ins inside the configuration of another plug-in: by name, or with knobs beside the name."""

import json
from typing import LiteralString, TypeVar, cast

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from adaptlab.errors import Problem, UnknownName
from adaptlab.plugins.registry import Registry
from adaptlab.values import Value

P = TypeVar("P", bound=Value)


def nested(registry: Registry[type[P]], value: object) -> P:
    """The plug-in that a name or configuration means; faults are in pydantic's form."""
    given = cast("dict[str, object]", value) if isinstance(value, dict) else {"name": value}
    try:
        plug_in = registry.get(str(given.get("name")))
    except UnknownName as error:
        raise _fault(error.problems[0], given) from error
    return plug_in.model_validate_json(json.dumps(given), strict=True)


def _fault(problem: Problem, given: dict[str, object]) -> ValidationError:
    """The registry's complaint in pydantic's form, which knows where in the spec it happened."""
    facts = {
        "detail": problem.detail.removesuffix("."),
        "expected": ", ".join(str(name) for name in problem.allowed),
    }
    code = cast("LiteralString", problem.code)  # pydantic asks for a literal, this one is ours
    fault = PydanticCustomError(code, "{detail}", facts)
    where = InitErrorDetails(type=fault, loc=("name",), input=given)
    return ValidationError.from_exception_data("part", [where])
