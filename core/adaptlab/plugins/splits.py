"""Assignment of questions to splits, equal to the engine's on tensors."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache

from adaptlab.text.splitting import EVERY_SPLIT, Split

SIXTEENTHS: dict[Split, range] = {
    "test": range(4),
    "validation": range(4, 5),
    "train": range(5, 16),
}
"""The values of a question's hash that assign it to a split."""

MANY = 4096
"""Above this number of questions every split has about its share; up to it they are counted."""
LEAST_SHARE = 1 / 64
"""With a smaller share the engine would exhaust its attempts to draw an item of the split."""
_WORD = 2**64 - 1


def split_hash(question: Sequence[int]) -> int:
    """Return the stable hash of a question, modulo 16.

    `adaptlab.engine.items.digits.split_of` computes the same for tensors.
    """
    return question_hash(question) & 15


def question_hash(question: Sequence[int]) -> int:
    """Return the stable hash of a question, from 0 to 2^64 − 1.

    `adaptlab.engine.items.digits.hash_of` computes the same for tensors, as signed numbers.
    """
    value = 0
    for digit in question:
        value = _mixed(value ^ digit)
    return value


def first_of_splits(questions: Iterable[Sequence[int]]) -> dict[Split, int]:
    """Return the number of questions until each split has one.

    A split without any of these questions is left out.
    """
    split_of: dict[int, Split] = {
        value: split for split, part in SIXTEENTHS.items() for value in part
    }
    counts: dict[Split, int] = {}
    for count, question in enumerate(questions, start=1):
        counts.setdefault(split_of[split_hash(question)], count)
        if len(counts) == len(SIXTEENTHS):
            break
    return counts


@lru_cache(maxsize=64)
def scarce_splits(length: int, alphabet: int) -> tuple[Split, ...]:
    """Return the splits with almost none of all questions of `length` digits."""
    if alphabet**length > MANY:
        return ()
    values = [0]
    for _ in range(length):
        values = [_mixed(value ^ digit) for value in values for digit in range(alphabet)]
    counts = Counter(value & 15 for value in values)
    shares = {
        split: sum(counts[sixteenth] for sixteenth in part) / len(values)
        for split, part in SIXTEENTHS.items()
    }
    return tuple(split for split in EVERY_SPLIT if shares[split] < LEAST_SHARE)


def enough_length(alphabet: int, splits: Sequence[Split]) -> int:
    """Return the smallest length from which none of these splits is scarce."""
    length = 1
    while alphabet**length <= MANY:
        length += 1
    while length > 1 and not set(scarce_splits(length - 1, alphabet)) & set(splits):
        length -= 1
    return length


def _mixed(value: int) -> int:
    """Return SplitMix64's finaliser, as `engine.kernels.counter` has it."""
    value = (value + 0x9E3779B97F4A7C15) & _WORD
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _WORD
    return value ^ (value >> 31)
