"""No regular expression is shown: every pattern has words for it."""

from collections.abc import Iterator
from typing import Annotated

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from adaptlab.validation import validation_problems
from adaptlab_api.app import create_app
from adaptlab_services.settings import Settings


def patterns(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(found := node.get("pattern"), str):
            yield found
        for child in node.values():
            yield from patterns(child)
    if isinstance(node, list):
        for child in node:
            yield from patterns(child)


def test_every_pattern_has_words(settings: Settings) -> None:
    found = set(patterns(create_app(settings).openapi()))
    assert len(found) > 3
    for pattern in found:
        adapter: TypeAdapter[str] = TypeAdapter(Annotated[str, Field(pattern=pattern)])
        with pytest.raises(ValidationError) as caught:
            adapter.validate_python("\n")
        (problem,) = validation_problems(caught.value.errors(), "\n")
        assert pattern not in problem.detail, f"core/adaptlab/wording.py has no words for {pattern}"
