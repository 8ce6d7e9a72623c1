"""Buckets of values, from which splits are made.

Equal and nearly equal values are in the same bucket, so they never stand on both sides of a split.
"""

import hashlib
import unicodedata

from adaptlab.records.conversations import without_answer

BUCKETS = 1000


class _Kept(dict[int, int]):
    """Code points of letters, digits and marks; of others, a space.

    `str.translate` with it is twice to three times as fast as a loop over the signs.
    """

    def __missing__(self, code: int) -> int:
        sign = chr(code)
        is_kept = sign.isalnum() or unicodedata.category(sign).startswith("M")
        kept = code if is_kept else ord(" ")
        if len(self) < _MOST_KEPT:
            self[code] = kept
        return kept


_MOST_KEPT = 2**16
"""Limit of the code points that are remembered, some 5 MB."""

_KEPT = _Kept()
_KEPT_ASCII = bytes(code if chr(code).isalnum() else ord(" ") for code in range(128)) + bytes(128)


def normalised(value: str) -> str:
    """Return a text without case and punctuation, words apart by one space.

    Letters, digits and marks remain. Texts that differ in case, spaces, punctuation or Unicode's
    compatible forms alone become equal.
    If nothing would remain, it is the text without spaces at its ends.
    """
    if value.isascii():  # the same, in half of the time
        words = value.lower().encode().translate(_KEPT_ASCII).split()
        return b" ".join(words).decode() or value.strip()
    folded = unicodedata.normalize("NFKC", value).casefold()
    return " ".join(folded.translate(_KEPT).split()) or value.strip()


def bucket_of(value: str) -> int:
    """Return the bucket of a value, from 0 to 999.

    It follows from the SHA-256 of the normalised form, of a conversation without its answer.
    """
    digest = hashlib.sha256(normalised(without_answer(value)).encode()).digest()
    return int.from_bytes(digest[:8]) % BUCKETS
