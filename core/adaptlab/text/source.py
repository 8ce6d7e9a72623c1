"""Where the items of a text task come from."""

from dataclasses import dataclass
from pathlib import Path

from adaptlab.text.chat import PLAIN_TEMPLATE, ChatTemplate
from adaptlab.text.tokeniser import Tokeniser


@dataclass(frozen=True, slots=True)
class TextSource:
    """The content of a dataset of records, and how the base model reads it.

    `chat` is the template of conversations. `mask` is the token that the model replaces by an
    answer, None if it continues the text.
    """

    content: Path
    digest: str
    tokeniser: Tokeniser
    chat: ChatTemplate = PLAIN_TEMPLATE
    mask: int | None = None
