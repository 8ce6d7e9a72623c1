"""Accuracies of the best constant answer to questions of digits.

An answer that ignores the question is right where the digits happen to fit. With few digits that
is far more often than guessing: always answering 2 gets 5.8 % of the histograms of six digits.
"""

import math
from collections.abc import Iterable, Iterator

from adaptlab.plugins.task import QuestionLaw

FEW = 5
"""Questions with more distinct digits are rejected half of the time if `few_distinct`."""
LONGEST = 30
"""Digits of a question up to which all numbers of occurrences are compared."""


def share_of_sorted(law: QuestionLaw) -> float:
    """Return the share of questions that have the most common sorted digits.

    Those are as evenly distributed as possible among some number of distinct digits.
    """
    return _share(law, ((one, _arrangements(law.length, one)) for one in _distinct(law)))


def share_of_counts(law: QuestionLaw) -> float:
    """Return the share of questions with the most common digit counts.

    They are compared digit by digit. It is 0 for long questions, which have too many of them.
    """
    if law.length > LONGEST:
        return 0.0
    return _share(law, ((len(sizes), _labelled(law, sizes)) for sizes in _partitions(law.length)))


def _labelled(law: QuestionLaw, sizes: tuple[int, ...]) -> int:
    """Return the questions with one answer, whose counts are `sizes`."""
    questions = math.perm(law.alphabet, len(sizes))
    for size in set(sizes):
        groups = sizes.count(size)
        ways = math.factorial(size * groups)
        questions *= ways // (math.factorial(size) ** groups * math.factorial(groups))
    return questions


def _partitions(total: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    """Yield the ways to write a number as a sum, largest summand first."""
    if not total:
        yield ()
    for first in range(min(total, largest or total), 0, -1):
        for rest in _partitions(total - first, first):
            yield (first, *rest)


def _share(law: QuestionLaw, answers: Iterable[tuple[int, int]]) -> float:
    """Return the largest share of questions with one answer.

    `answers` are numbers of distinct digits, and of questions with that answer.
    """
    if law.listed is not None:
        return 0.0
    counts = zip(_distinct(law), _every(law), strict=True)
    whole = sum(_weight(law, distinct) * count for distinct, count in counts)
    return max(_weight(law, distinct) * count for distinct, count in answers) / whole


def _distinct(law: QuestionLaw) -> range:
    return range(1, min(law.length, law.alphabet) + 1)


def _weight(law: QuestionLaw, distinct: int) -> int:
    """Return twice the chance that an attempt is accepted."""
    return 1 if law.few_distinct and distinct > FEW else 2


def _every(law: QuestionLaw) -> Iterator[int]:
    """Yield the numbers of questions with exactly 1, 2, 3 … distinct digits."""
    for distinct in _distinct(law):
        onto = sum(
            (-1) ** (distinct - used) * math.comb(distinct, used) * used**law.length
            for used in range(distinct + 1)
        )
        yield math.comb(law.alphabet, distinct) * onto


def _arrangements(length: int, distinct: int) -> int:
    """Return the orders of digits that are as evenly distributed as possible."""
    often, more = divmod(length, distinct)
    orders = math.factorial(length)
    return orders // (
        math.factorial(often + 1) ** more * math.factorial(often) ** (distinct - more)
    )
