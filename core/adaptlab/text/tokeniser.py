"""Tokenisers: that of a published model, and bytes."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from adaptlab.errors import BadModelFolder

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FILE = "tokenizer.json"
BYTES = 256
BYTES_VOCABULARY = BYTES + 1
"""All bytes, and a token that ends an answer."""
ASCII = 128
"""Bytes below it are characters."""
END_SHOWN = "[end]"
REPLACED = "\N{REPLACEMENT CHARACTER}"
"""What the library writes for a token that is a part of a character."""


@dataclass(frozen=True, slots=True)
class TokenisedText:
    """A text as tokens, with the characters that each stands for.

    `starts` are the places of first characters, `ends` those behind the last. A token that stands
    for no character, such as one that begins every text, starts and ends where the token before it
    ends.
    """

    ids: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]


class Tokeniser(Protocol):
    """A converter from text to tokens."""

    @property
    def digest(self) -> str:
        """The SHA-256 of its file, or another name that no other has."""
        ...

    @property
    def vocabulary(self) -> int:
        """A number that every token is below."""
        ...

    @property
    def end(self) -> int | None:
        """The token that ends a text; None if the model has none."""
        ...

    @property
    def begin(self) -> int | None:
        """The token named as the one that begins texts, written or not."""
        ...

    def tokens(self, text: str) -> TokenisedText:
        """Return the tokens of a text, with those that begin every text."""
        ...

    def whole(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a text, with those that begin and end every text."""
        ...

    def marked(self, text: str) -> TokenisedText:
        """Return the tokens of a text in which special tokens are written out.

        None is added at its ends.
        """
        ...

    def is_special(self, token: int) -> bool:
        """Return True if a token marks a place and stands for no text."""
        ...

    def text(self, ids: tuple[int, ...]) -> str:
        """Return the text of tokens; what is not text is left out or replaced."""
        ...

    def word(self, token: int) -> str:
        """Return one token as text that is never empty, special ones included."""
        ...


@dataclass(frozen=True)
class ByteTokeniser:
    """The bytes of a text in UTF-8; token 256 ends an answer."""

    digest: str = "bytes"
    vocabulary: int = BYTES_VOCABULARY
    end: int | None = BYTES
    begin: int | None = None

    def tokens(self, text: str) -> TokenisedText:
        """Return one token per byte; those of a character end together."""
        ids: list[int] = []
        places: list[int] = []
        for place, sign in enumerate(text):
            encoded = sign.encode()
            ids.extend(encoded)
            places.extend([place] * len(encoded))
        return TokenisedText(tuple(ids), tuple(places), tuple(place + 1 for place in places))

    def whole(self, text: str) -> tuple[int, ...]:
        """Return one token per byte."""
        return tuple(text.encode())

    def marked(self, text: str) -> TokenisedText:
        """Return one token per byte; no text has special ones."""
        return self.tokens(text)

    def is_special(self, token: int) -> bool:
        """Return True for the token that ends an answer."""
        return token == self.end

    def text(self, ids: tuple[int, ...]) -> str:
        """Return the text of bytes; broken characters become U+FFFD."""
        return bytes(token for token in ids if token < BYTES).decode(errors="replace")

    def word(self, token: int) -> str:
        """Return a character, or a byte that is none in hexadecimal."""
        if token == self.end:
            return END_SHOWN
        return chr(token) if token < ASCII else f"0x{token:02X}"


@dataclass(frozen=True)
class PublishedTokeniser:
    """A model's own `tokenizer.json`, read by the library `tokenizers`.

    What the file says about truncation and padding is not used.
    """

    digest: str
    end: int | None
    _tokenizer: "Tokenizer" = field(compare=False, repr=False)
    begin: int | None = field(default=None, compare=False)

    @property
    def vocabulary(self) -> int:
        """The number behind the largest token, added ones included.

        Numbers can have gaps.
        """
        return self._end_of_numbers

    @cached_property
    def _end_of_numbers(self) -> int:
        return max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    def tokens(self, text: str) -> TokenisedText:
        """Return the tokens of a text, without those that end every text."""
        encoding = self._tokenizer.encode(text)
        count = len(encoding.ids)
        while count and encoding.special_tokens_mask[count - 1]:
            count -= 1
        return _with_places(encoding.ids[:count], encoding.offsets[:count])

    def whole(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a text, with those that begin and end every text."""
        return tuple(self._tokenizer.encode(text).ids)

    def marked(self, text: str) -> TokenisedText:
        """Return the tokens of a text, special ones only where they are written."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return _with_places(encoding.ids, encoding.offsets)

    def is_special(self, token: int) -> bool:
        """Return True if the file lists a token as a special one."""
        return token in self._special

    @cached_property
    def _special(self) -> frozenset[int]:
        added = self._tokenizer.get_added_tokens_decoder()
        return frozenset(token for token, about in added.items() if about.special)

    def number(self, token: str) -> int | None:
        """Return the number of a token by its own text, None if there is none."""
        return self._tokenizer.token_to_id(token)

    def text(self, ids: tuple[int, ...]) -> str:
        """Return the text of tokens without special ones."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=True)

    def word(self, token: int) -> str:
        """Return the text of a token, or its name if it has no text."""
        text = self._tokenizer.decode([token], skip_special_tokens=False)
        if text and REPLACED not in text:
            return text
        return self._tokenizer.id_to_token(token) or str(token)


def _with_places(ids: Sequence[int], offsets: Sequence[tuple[int, int]]) -> TokenisedText:
    """Return tokens, those that stand for no character behind the one before."""
    starts: list[int] = []
    ends: list[int] = []
    last = 0
    for start, end in offsets:
        stands_for_none = start == end
        starts.append(last if stands_for_none else start)
        last = last if stands_for_none else end
        ends.append(last)
    return TokenisedText(tuple(ids), tuple(starts), tuple(ends))


def read_tokeniser(content: bytes, end: int | None) -> PublishedTokeniser:
    """Return the tokeniser of a `tokenizer.json`.

    Raises:
        BadModelFolder: the library cannot read the file.
    """
    return PublishedTokeniser(hashlib.sha256(content).hexdigest(), end, loaded(content))


def loaded(content: bytes) -> "Tokenizer":
    """Return the library's tokeniser without truncation and padding.

    Raises:
        BadModelFolder: the library cannot read the content.
    """
    from tokenizers import Tokenizer  # not needed by jobs without text

    try:
        tokenizer = Tokenizer.from_str(content.decode())
    except Exception as error:  # the library raises nothing narrower
        raise BadModelFolder(
            f"{FILE} cannot be read by the library tokenizers: {error}. Save the tokenizer again "
            "with a current version of transformers."
        ) from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
