"""Reading of answers from a server that may be newer than this program."""

from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import SchemaValidator

from adaptlab.open_schemas import opened_for_reading

A = TypeVar("A", bound=BaseModel)


def read(answer: type[A], content: bytes | str) -> A:
    """Return the answer in the JSON; raises `ValidationError` if it is none.

    Members, words and kinds that are unknown to this version are kept, so `model_dump` and
    `model_dump_json` write them again.
    """
    try:
        return answer.model_validate_json(content, extra="allow")
    except ValidationError:
        return _opened(answer).validate_json(content, extra="allow")


@cache
def _opened(answer: type[BaseModel]) -> Any:  # a validator that returns an instance of `answer`
    """Return the validator that accepts unknown words and kinds."""
    return SchemaValidator(opened_for_reading(answer.__pydantic_core_schema__))
