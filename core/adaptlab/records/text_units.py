"""Units in which the length of a text is counted."""

import re
from collections.abc import Callable, Mapping
from typing import Literal

TextUnit = Literal["bytes", "words"]


def words(text: str) -> int:
    """Return the parts of a text between spaces, as lm-eval counts words."""
    return len(re.split(r"\s+", text))


TEXT_UNITS: Mapping[TextUnit, Callable[[str], int]] = {
    "bytes": lambda text: len(text.encode()),
    "words": words,
}
"""How many units a text has."""
