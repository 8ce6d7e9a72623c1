"""Answers read from the JSON of a server that may be newer than this program."""

from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import SchemaValidator

from adaptlab.openness import opened_for_reading

A = TypeVar("A", bound=BaseModel)


def read(answer: type[A], content: bytes | str) -> A:
    """Return the answer in the JSON; raises `ValidationError` for what is no such answer.

    Members, words and kinds that this version does not know are kept, and written again by
    `model_dump` and `model_dump_json`.
    """
    try:
        return answer.model_validate_json(content, extra="allow")
    except ValidationError:
        return _opened(answer).validate_json(content, extra="allow")


@cache
def _opened(answer: type[BaseModel]) -> Any:  # a validator that returns an instance of `answer`
    """The validator for answers with words and kinds that are not known; seldom needed."""
    return SchemaValidator(opened_for_reading(answer.__pydantic_core_schema__))
