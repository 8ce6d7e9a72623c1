"""Buckets of values, from which splits are made.

Equal and nearly equal values are in the same bucket, so they never stand on both sides of a split.
"""

import hashlib
import unicodedata

BUCKETS = 1000


def normalised(value: str) -> str:
    """Return the letters, digits and marks of a text in one form, words apart by one space.

    Texts that differ in case, spaces, punctuation or Unicode's compatible forms alone become equal.
    If nothing would remain, it is the text without spaces at its ends.
    """
    folded = unicodedata.normalize("NFKC", value).casefold()
    kept = "".join(sign if sign.isalnum() or _is_mark(sign) else " " for sign in folded)
    return " ".join(kept.split()) or value.strip()


def bucket_of(value: str) -> int:
    """Return the bucket of a value, 0 to 999, by the SHA-256 of its normalised form."""
    digest = hashlib.sha256(normalised(value).encode()).digest()
    return int.from_bytes(digest[:8]) % BUCKETS


def _is_mark(sign: str) -> bool:
    return unicodedata.category(sign).startswith("M")
