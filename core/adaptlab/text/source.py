"""Where the items of a text task come from."""

from dataclasses import dataclass
from pathlib import Path

from adaptlab.text.tokeniser import Tokeniser


@dataclass(frozen=True, slots=True)
class TextSource:
    """The content of a dataset of records, and the base model's tokeniser."""

    content: Path
    digest: str
    tokeniser: Tokeniser
