"""Templates of prompts: text with the names of fields in braces."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

LONGEST_TEMPLATE = 10_000
"""Limit in characters."""
LONGEST_WORD = 100
"""Likewise of the template of a label word."""

_PIECES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]|[^{}]+")


class BadTemplate(ValueError):
    """A template with a brace that does not enclose the name of a field."""

    def __init__(self, column: int, detail: str) -> None:
        super().__init__(detail)
        self.column = column


@dataclass(frozen=True, slots=True)
class TemplatePiece:
    """Literal text, or the name of a field."""

    text: str
    is_field: bool


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt, with the span of characters that each field fills."""

    text: str
    spans: Mapping[str, slice]


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template; `{{` and `}}` are braces of the text."""

    pieces: tuple[TemplatePiece, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields, in order, without repetition."""
        return tuple(dict.fromkeys(piece.text for piece in self.pieces if piece.is_field))

    @property
    def fixed(self) -> str | None:
        """The text without any record, None if there is a field."""
        return None if self.fields else self.rendered({}).text

    def rendered(self, values: Mapping[str, str]) -> Rendered:
        """Return the prompt.

        The span of a repeated field is that of its last place.
        """
        text, spans = "", dict[str, slice]()
        for piece in self.pieces:
            added = values[piece.text] if piece.is_field else piece.text
            if piece.is_field:
                spans[piece.text] = slice(len(text), len(text) + len(added))
            text += added
        return Rendered(text, spans)


def literal(text: str) -> str:
    """Return the template of a text, with its braces written twice."""
    return text.replace("{", "{{").replace("}", "}}")


@lru_cache(maxsize=256)  # a pure function; every record needs the same few
def parsed(template: str) -> Template:
    """Return the parts of a template.

    Raises:
        BadTemplate: a brace is alone, or encloses something other than a plain name.
    """
    pieces: list[TemplatePiece] = []
    for match in _PIECES.finditer(template):
        text, column = match[0], match.start() + 1
        if text in ("{{", "}}"):
            pieces.append(TemplatePiece(text[0], is_field=False))
        elif text in ("{", "}"):
            detail = (
                f"The {text!r} at character {column} has no partner. Write {text * 2!r} for it."
            )
            raise BadTemplate(column, detail)
        elif match[1] is None:
            pieces.append(TemplatePiece(text, is_field=False))
        elif not match[1].strip():
            detail = f"The braces at character {column} are empty. Put the name of a field there."
            raise BadTemplate(column, detail)
        else:
            pieces.append(TemplatePiece(match[1], is_field=True))
    return Template(tuple(pieces))
