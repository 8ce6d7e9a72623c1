"""Lengths of texts in tokens of a model's own tokeniser."""

from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from adaptlab.errors import BadModelFolder
from adaptlab.families.transformers import is_encoder
from adaptlab.text.tokeniser import FILE, loaded
from adaptlab.weights.folder_files import PlainFolder
from adaptlab.weights.huggingface import read_description

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_VALUES_AT_ONCE = 1000
_BYTES_AT_ONCE = 2**22


class BadTokenizer(ValueError):
    """A file that is not a `tokenizer.json`."""


class TokenCounter:
    """Counts the tokens of texts.

    Tokens that a tokeniser adds at the ends of a text are not counted. Truncation and padding
    that the file asks for are switched off.
    """

    def __init__(self, path: Path) -> None:
        self._tokenizer = _tokenizer(path / FILE if path.is_dir() else path)
        self.is_of_encoder = path.is_dir() and _has_encoder(path)

    def tokens(self, text: str) -> tuple[int, ...]:
        """Return the tokens of one text."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text."""
        encodings = self._tokenizer.encode_batch_fast([*texts], add_special_tokens=False)
        return [len(encoding) for encoding in encodings]

    def column(self) -> "TokenLengths":
        """Return a place to add the values of one field."""
        return TokenLengths(self)


class TokenLengths:
    """Lengths in tokens of values, which are counted in batches."""

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._lengths = array("L")
        self._waiting: list[str] = []
        self._size = 0

    def add(self, value: str) -> None:
        """Add a value."""
        self._waiting.append(value)
        self._size += len(value)
        if len(self._waiting) >= _VALUES_AT_ONCE or self._size >= _BYTES_AT_ONCE:
            self._count()

    def lengths(self) -> Sequence[int]:
        """Return the lengths of all values."""
        self._count()
        return self._lengths

    def _count(self) -> None:
        if self._waiting:
            self._lengths.extend(self._counter.lengths(self._waiting))
        self._waiting, self._size = [], 0


def _has_encoder(folder: Path) -> bool:
    """Return True if the model in a folder is an encoder."""
    try:
        return is_encoder(read_description(PlainFolder(folder)).architecture)
    except BadModelFolder:  # no model, or one that cannot be imported
        return False


def _tokenizer(file: Path) -> "Tokenizer":
    try:
        return loaded(file.read_bytes())
    except BadModelFolder as error:
        reason = error.__cause__
        raise BadTokenizer(
            f"{file} is not the tokenizer.json of a model ({reason}). Give that file, or its "
            "folder."
        ) from error
