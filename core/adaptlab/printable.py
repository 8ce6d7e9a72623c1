"""Text without control, line and bidirectional characters.

A text of one user that is shown to others could otherwise begin lines of its own, or be shown in
another order than it is stored.
"""

from typing import Annotated

from pydantic import AfterValidator

SHOWN_INSTEAD = "\N{REPLACEMENT CHARACTER}"
KEPT_IN_TEXT = "\n\t"


def one_line(text: str) -> str:
    """Return the text with a sign in place of each unprintable character."""
    return _without(text, "")


def plain_text(text: str) -> str:
    """Return the same for a text of several lines, which stay."""
    return _without(text, KEPT_IN_TEXT)


def _without(text: str, kept: str) -> str:
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign in kept else SHOWN_INSTEAD for sign in text)


OneLine = Annotated[str, AfterValidator(one_line)]
"""A text of one line that a machine reports; other characters are replaced."""
