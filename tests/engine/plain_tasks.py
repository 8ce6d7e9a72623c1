"""Plain solutions of the tasks, one item at a time.

They share nothing with the engine.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

from adaptlab.plugins.dataset import WordList, content_of

WORD = 2**64
Solution = Callable[[Any, list[int], int], list[int]]


def plain_answer(task: Any, digits: list[int], draw: int) -> list[int]:
    """Return the right answer to one question.

    `draw` is the item's own random number below 2⁶³.
    """
    return SOLUTIONS[task.name](task, digits, draw)


def plain_counted(task: Any, digits: list[int], draw: int) -> int:
    """Return the number of counted tokens of the answer, from its start."""
    if task.name == "mixture":
        return plain_counted(_drawn(task, draw), digits, draw)
    if task.name == "cued":
        return plain_counted(task.task, digits[1:], draw)
    if task.name == "composition":
        return plain_counted(task.then, plain_answer(task.first, digits, draw), draw)
    if task.name == "filter_less_than_first":
        return 1 + sum(digit < digits[0] for digit in digits)
    if task.name == "word_translation":
        return 1 + len(_counterpart(task, digits))
    return len(plain_answer(task, digits, draw))


def plain_draw(split: str, seed: int, index: int) -> int:
    """Return the draw of an item, apart from its question."""
    return plain_bits(plain_stream(f"draw/{split}"), seed, index)


def plain_stream(name: str) -> int:
    """The first 62 bits of the SHA-256 of a name."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:16], 16) // 4


def plain_bits(*counters: int) -> int:
    """Return the counters, mixed by SplitMix64's finaliser.

    They are mixed one after the other. The result is the upper 63 bits.
    """
    value = 0
    for counter in counters:
        value = ((value ^ counter) + 0x9E3779B97F4A7C15) % WORD
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % WORD
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB % WORD
        value ^= value >> 31
    return value >> 1


def plain_share(weights: list[float], draw: int) -> int:
    """Return the index of the weight that a number below 2⁶³ selects."""
    position = draw / 2**63 * sum(weights)
    for index, weight in enumerate(weights):
        position -= weight
        if position < 0:
            return index
    return len(weights) - 1


def _histogram(task: Any, digits: list[int], draw: int) -> list[int]:
    counts = Counter(digits)
    return [counts[digit] for digit in digits]


def _filter(task: Any, digits: list[int], draw: int) -> list[int]:
    kept = [digit for digit in digits if digit < digits[0]]
    return kept + [task.alphabet] * (len(digits) - len(kept))


def _lookup(task: Any, digits: list[int], draw: int) -> list[int]:
    start = plain_stream("lookup")
    places = range(task.answer_length)
    return [
        (plain_bits(start, task.map_seed, *digits, place) >> 20) % task.alphabet for place in places
    ]


def _episode(task: Any, tokens: list[int], draw: int) -> list[int]:
    """The label that a demonstration with words of the query's class has."""
    labels: dict[int, int] = {}
    for place in range(0, len(tokens) - task.phrase - 1, task.phrase + 3):
        labels[tokens[place] // task.words] = tokens[place + task.phrase + 1]
    if task.labels == "permuted":
        different = sorted({*tokens} & {*range(task.first_label, task.separator)})
        return [different[(draw >> 20) % len(different)]]
    return [labels[tokens[-2] // task.words]]


def _mixture(task: Any, digits: list[int], draw: int) -> list[int]:
    return plain_answer(_drawn(task, draw), digits, draw)


def _drawn(task: Any, draw: int) -> Any:
    return task.tasks[plain_share(list(task.weights or [1.0] * len(task.tasks)), draw)]


def _counterpart(task: Any, digits: list[int]) -> str:
    """The word that answers a spelt one, by the lines of the list's content."""
    letters = [task.dataset.characters[digit : digit + 1] for digit in digits[:-1]]
    assert digits[-1] == len(task.dataset.characters)
    found = _lines(task.word_list())["".join(letters)][task.target.split("_")[0]]
    return found[::-1] if task.target == "german_reversed" else found


@cache
def _lines(words: WordList) -> dict[str, dict[str, str]]:
    """Return the lines of a list's content by their English word.

    No two lines share that word.
    """
    lines = [json.loads(line) for line in content_of(words.triples).splitlines()]
    found = {line["english"]: line for line in lines}
    assert len(found) == len(lines)
    return found


def _spelt(task: Any, word: str) -> list[int]:
    spelt = [task.dataset.characters.index(letter) for letter in word]
    return spelt + [len(task.dataset.characters) + 1] * (task.longest + 1 - len(word))


SOLUTIONS: dict[str, Solution] = {
    "add": lambda task, digits, draw: [digit + task.k for digit in digits],
    "composition": lambda task, digits, draw: plain_answer(
        task.then, plain_answer(task.first, digits, draw), draw
    ),
    "copy": lambda task, digits, draw: list(digits),
    "cued": lambda task, digits, draw: plain_answer(task.task, digits[1:], draw),
    "double_histogram": _histogram,
    "episodes": _episode,
    "filter_less_than_first": _filter,
    "inverse_binary": lambda task, digits, draw: [task.alphabet - 1 - digit for digit in digits],
    "lookup": _lookup,
    "mixture": _mixture,
    "modulo": lambda task, digits, draw: [d % digits[0] if digits[0] else d for d in digits],
    "reverse": lambda task, digits, draw: digits[::-1],
    "sort_ascending": lambda task, digits, draw: sorted(digits),
    "sort_descending": lambda task, digits, draw: sorted(digits, reverse=True),
    "word_translation": lambda task, digits, draw: _spelt(task, _counterpart(task, digits)),
    "sort_then_add": lambda task, digits, draw: [digit + task.k for digit in sorted(digits)],
}
