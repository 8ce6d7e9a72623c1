"""Which split a question belongs to, for ever: torch-free, as the engine says it on tensors."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

Split = Literal["train", "validation", "test"]

SIXTEENTHS: dict[Split, range] = {
    "test": range(4),
    "validation": range(4, 5),
    "train": range(5, 16),
}
"""The values of a question's hash that make it one of a split."""

EVERY_SPLIT: tuple[Split, ...] = ("train", "validation", "test")
MANY = 4096
"""Of so many questions every split has about its share; of fewer they are counted."""
LEAST_SHARE = 1 / 64
"""An item of a split with less is not found in as many attempts as the engine makes at one."""
_WORD = 2**64 - 1


def split_hash(question: Sequence[int]) -> int:
    """The stable hash of a question modulo 16; `adaptlab.engine.digits.split_of` of a tensor."""
    value = 0
    for digit in question:
        value = _mixed(value ^ digit)
    return value & 15


def first_of_splits(questions: Iterable[Sequence[int]]) -> dict[Split, int]:
    """How many of these questions, from the first on, it takes until each split has one.

    A split that has none of them is left out.
    """
    split_of: dict[int, Split] = {
        value: split for split, part in SIXTEENTHS.items() for value in part
    }
    found: dict[Split, int] = {}
    for count, question in enumerate(questions, start=1):
        found.setdefault(split_of[split_hash(question)], count)
        if len(found) == len(SIXTEENTHS):
            break
    return found


@lru_cache(maxsize=64)
def scarce_splits(length: int, alphabet: int) -> tuple[Split, ...]:
    """The splits that have no items, or next to none, of all questions of so many digits."""
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
    """The smallest length from which on none of these splits is scarce."""
    length = 1
    while alphabet**length <= MANY:
        length += 1
    while length > 1 and not set(scarce_splits(length - 1, alphabet)) & set(splits):
        length -= 1
    return length


def _mixed(value: int) -> int:
    """SplitMix64's finaliser; see `adaptlab.engine.counter.mixed`."""
    value = (value + 0x9E3779B97F4A7C15) & _WORD
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _WORD
    return value ^ (value >> 31)
