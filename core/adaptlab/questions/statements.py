"""Statements about methods, and the evidence for them at one look."""

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from pydantic import Field

from adaptlab.statistics.anytime import Level, Order, level, order
from adaptlab.statistics.counts import Remembered
from adaptlab.statistics.scores import Scores
from adaptlab.studies.study import QuestionSpec
from adaptlab.values import Value

OF_ITEMS = 0.1
"""The share of the allowed error that is for the choice of test items; the rest is for seeds."""
MOST_PROJECTED = 1024
"""Seeds beyond which no projection is made."""
LARGEST_EVIDENCE = 1e9

Kind = Literal["exceeds", "above", "below"]
LogEvidence = Callable[[float], float]
"""The log evidence if there were as many times the seeds, all scoring as those that were run."""


class SeedStatement(Value):
    """A claim about typical seeds, on all items.

    A seed of `first` exceeds one of `second` by more than `by` more often than not, or a typical
    seed scores above or below `by`.
    """

    kind: Kind
    first: str
    second: str | None = None
    by: float = 0.0


class Standing(Value):
    """A statement with its evidence.

    It is shown once `evidence` reaches `threshold`. `seeds` are those that count, and `needs` the
    seeds in all at which it would be shown if further ones scored alike; None if more than
    `MOST_PROJECTED`.
    """

    statement: SeedStatement
    evidence: Annotated[float, Field(ge=0)]
    threshold: float
    seeds: int
    needs: int | None

    @property
    def shown(self) -> bool:
        """True if the evidence has reached the threshold."""
        return self.evidence >= self.threshold


class Rule(Value):
    """The error that each statement of a table is allowed.

    `threshold` is the evidence that shows one, and `item_tail` the error because of the choice of
    items.
    """

    threshold: float
    item_tail: float


def rule_of(question: QuestionSpec, methods: int, tables: int) -> Rule:
    """Return the rule of a table with this number of methods.

    The error is divided by the number of statements that can be false at once, so that with the
    confidence of the question none of them is ever shown. `best` loses the best method only if
    another falsely exceeds it, or is falsely within the margin of it. `order` compares each ordered
    pair: of two equal methods, neither exceeds the other. The other questions compare each method
    with the reference, in both directions; `works` compares it with chance as well. Statements that
    differ by the margin alone do not count twice: the evidence for the stronger one is smaller, so
    the weakest false one bounds them all.
    """
    others = methods - 1
    both_ways = {"best": 2 * others, "order": methods * others, "works": 4 * others}
    statements = both_ways.get(str(question.decide), 2 * others)
    error = (1 - question.confidence) / tables / max(1, statements)
    return Rule(threshold=1 / ((1 - OF_ITEMS) * error), item_tail=OF_ITEMS * error)


class QuestionEvidence:
    """The evidence on the methods of one table, computed when it is asked for.

    Args:
        scores: the scores of the methods that have any, by label.
        rule: the errors that are allowed.
    """

    def __init__(self, scores: Mapping[str, Scores], rule: Rule) -> None:
        # Counts are remembered by method and seeds; two labels can be of one method.
        self.scores = {
            label: one.model_copy(update={"method": label}) for label, one in scores.items()
        }
        self.rule = rule
        self._counting = Remembered()
        self._orders: dict[tuple[str, str], Order] = {}
        self._levels: dict[str, Level] = {}

    def mean(self, label: str) -> float:
        """Return a method's mean accuracy over its seeds."""
        return self._level(label).mean

    def exceeds(self, first: str, second: str, by: float = 0.0) -> Standing:
        """Return the standing of: `first` exceeds `second` by more than `by`."""
        pair = self._order(first, second)
        statement = SeedStatement(kind="exceeds", first=first, second=second, by=by)
        return self._standing(statement, pair.seeds, lambda times: pair.evidence(by, times))

    def above(self, label: str, score: float) -> Standing:
        """Return the standing of: the method scores above `score`."""
        one = self._level(label)
        statement = SeedStatement(kind="above", first=label, by=score)
        return self._standing(statement, one.seeds, lambda times: one.above(score, times))

    def below(self, label: str, score: float) -> Standing:
        """Return the standing of: the method scores below `score`."""
        one = self._level(label)
        statement = SeedStatement(kind="below", first=label, by=score)
        return self._standing(statement, one.seeds, lambda times: one.below(score, times))

    def _standing(self, statement: SeedStatement, seeds: int, log: LogEvidence) -> Standing:
        target, now = math.log(self.rule.threshold), log(1.0)
        return Standing(
            statement=statement,
            evidence=math.exp(min(now, math.log(LARGEST_EVIDENCE))),
            threshold=self.rule.threshold,
            seeds=seeds,
            needs=seeds if now >= target else _projected(log, seeds, target),
        )

    def _order(self, first: str, second: str) -> Order:
        pair = (first, second)
        if pair not in self._orders:
            tail = self.rule.item_tail
            self._orders[pair] = order(
                self.scores[first], self.scores[second], tail, self._counting
            )
        return self._orders[pair]

    def _level(self, label: str) -> Level:
        if label not in self._levels:
            tail = self.rule.item_tail
            self._levels[label] = level(self.scores[label], tail, self._counting)
        return self._levels[label]


def _projected(log: LogEvidence, seeds: int, target: float) -> int | None:
    """Return the fewest seeds at which evidence should reach `target`."""
    if log(MOST_PROJECTED / seeds) < target:
        return None
    low, high = seeds, MOST_PROJECTED  # the evidence at `high` reaches it, and that at `low` not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if log(middle / seeds) >= target else (middle, high)
    return high
