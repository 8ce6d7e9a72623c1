"""How a standard task generates answers, and which of them are right.

It is the same for all items of a task, and a part of every record.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError, field_validator

from adaptlab.values import Value

MOST_PATTERN = 512
"""Characters of a regular expression."""
MOST_STOPS = 16
MOST_GENERATED = 4096
PART = 240
"""Characters of one field; those of longer values are not among the facts about records."""
MOST_PARTS = 16
FIELD = "generation"

Text = Annotated[str, StringConstraints(max_length=MOST_PATTERN)]
FilterName = Annotated[str, StringConstraints(min_length=1, max_length=64)]


def _compiled(pattern: str) -> str:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    return pattern


StepName = Literal[
    "regex", "remove_whitespace", "lowercase", "uppercase", "map", "format_span"
]  # fmt: skip
"""Steps of lm-eval from one text to another, without a program of the task."""


class FilterStep(Value):
    """One step from a generated text to an answer.

    Attributes:
        function: the step's name in lm-eval.
        regex_pattern: the regular expression of `regex`.
        group_select: the place of the match that counts; −1 is the last.
        fallback: the answer without a match.
        mapping: the answers of `map` by text; another text becomes `default_value`.
    """

    function: StepName
    regex_pattern: Text = Field(default="", exclude_if=lambda value: not value)
    group_select: Annotated[int, Field(ge=-64, le=64)] = Field(
        default=0, exclude_if=lambda value: not value
    )
    fallback: Text = Field(default="[invalid]", exclude_if=lambda value: value == "[invalid]")

    mapping: Annotated[tuple[tuple[Text, Text], ...], Field(max_length=64)] = Field(
        default=(), exclude_if=lambda value: not value
    )
    default_value: Text = Field(default="", exclude_if=lambda value: not value)

    @field_validator("regex_pattern")
    @classmethod
    def _is_regular(cls, pattern: str) -> str:
        return _compiled(pattern)


class ResponseFilter(Value):
    """The steps from a generated text to an answer, under the harness's name."""

    name: FilterName
    steps: Annotated[tuple[FilterStep, ...], Field(max_length=8)] = ()


class ExactMatch(Value):
    """What is left out of answers and targets before they are compared."""

    regexes_to_ignore: Annotated[tuple[Text, ...], Field(max_length=16)] = ()
    ignore_case: bool = False
    ignore_punctuation: bool = False
    ignore_numbers: bool = False

    @field_validator("regexes_to_ignore")
    @classmethod
    def _are_regular(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(_compiled, patterns))


class Generation(Value):
    """How answers of a task are generated, greedily, and compared.

    Attributes:
        until: the texts that end an answer, in the order in which they are looked for.
        tokens: the most tokens of an answer.
        filters: the ways to read an answer, each with a score of its own.
        match: how what was read is compared with the targets.
    """

    until: Annotated[
        tuple[Annotated[str, StringConstraints(min_length=1, max_length=64)], ...],
        Field(max_length=MOST_STOPS),
    ]
    tokens: Annotated[int, Field(ge=1, le=MOST_GENERATED)]
    filters: Annotated[tuple[ResponseFilter, ...], Field(min_length=1, max_length=8)]
    match: ExactMatch = ExactMatch()

    def cut(self, text: str) -> str:
        """Return an answer without what a stop sequence ends.

        As in lm-eval, each is looked for in what those before it leave.
        """
        for stop in self.until:
            text = text.split(stop)[0]
        return text

    def filter_named(self, name: str) -> ResponseFilter:
        """Return one of the filters; raises `KeyError` for another name."""
        return {one.name: one for one in self.filters}[name]

    def names(self) -> tuple[str, ...]:
        """Return the names of the filters."""
        return tuple(one.name for one in self.filters)

    def fields(self) -> Mapping[str, str]:
        """Return the fields of a record that hold it.

        Raises:
            ValueError: it is too long for them.
        """
        text = self.model_dump_json(exclude_defaults=True)
        parts = [text[start : start + PART] for start in range(0, len(text), PART)]
        if len(parts) > MOST_PARTS:
            raise ValueError(
                f"Stop sequences and filters have {len(text):,} characters together, and "
                f"{MOST_PARTS * PART:,} are the limit."
            )
        return {_field(place): part for place, part in enumerate(parts)}


def generation_of(values: Mapping[str, str | None]) -> Generation | None:
    """Return what the fields of records hold, by name, None if nothing valid.

    A field whose records differ is None.
    """
    parts = [values.get(_field(place)) for place in range(MOST_PARTS)]
    known = [part for part in parts if part is not None]
    if not known or None in parts[: len(known)]:
        return None
    try:
        return Generation.model_validate_json("".join(known))
    except ValidationError:
        return None


def _field(place: int) -> str:
    return f"{FIELD}_{place}" if place else FIELD
