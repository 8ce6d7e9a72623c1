"""Tokens of one tokeniser as those of another, by their text."""

from adaptlab.text.encoding import begun
from adaptlab.text.tokeniser import REPLACED, Tokeniser


class NotText(ValueError):
    """Tokens that another tokeniser cannot write; the message says which."""


def mapped(tokens: tuple[int, ...], own: Tokeniser, other: Tokeniser) -> tuple[int, ...]:
    """Return the tokens of `other` with the same text.

    There can be more or fewer of them. Two texts are the same if they differ only in spaces and
    case, which some tokenisers do not keep.

    Raises:
        NotText: a token has no text, or `other` cannot write it.
    """
    if own.digest == other.digest:
        return tokens
    for token in tokens:
        if not own.text((token,)):
            raise NotText(f"{own.word(token)!r} (token {token}) has no text")
    text = own.text(tokens)
    if REPLACED in text:
        raise NotText(f"the tokens {' '.join(map(own.word, tokens))!r} are not whole characters")
    written = other.tokens(text).ids[begun(other) :]
    if not written or _essence(other.text(written)) != _essence(text):
        raise NotText(f"its tokeniser cannot write {text!r}")
    return written


def _essence(text: str) -> str:
    """Return a text without spaces and case."""
    return "".join(text.split()).casefold()
