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

OF_ITEMS = 0.2
"""The share of the allowed error that is for the choice of test items; the rest is for seeds."""
MOST_PROJECTED = 1024
"""Seeds beyond which no projection is made."""
LARGEST_EVIDENCE = 1e9

Kind = Literal["exceeds", "above", "below"]
LogEvidence = Callable[[float], float]
"""The log evidence if there were as many times the seeds, all scoring as those that were run."""


class Statement(Value):
    """`first` exceeds `second` by more than `by`, or scores above or below `by`.

    It is about the means over all seeds and items.
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

    statement: Statement
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

    An answer is wrong only if the evidence for one of some false statements reaches the threshold.
    For `best`, these are that one of the others exceeds the best method; for `order`, one for each
    ordered pair; otherwise one for each method that is compared with the reference.
    """
    false = methods * (methods - 1) if question.decide == "order" else methods - 1
    error = (1 - question.confidence) / tables / max(1, false)
    return Rule(threshold=1 / ((1 - OF_ITEMS) * error), item_tail=OF_ITEMS * error)


class Evidence:
    """The evidence on the methods of one table, computed when it is asked for.

    Args:
        scores: the scores of the methods that have any, by label.
        rule: the errors that are allowed.
    """

    def __init__(self, scores: Mapping[str, Scores], rule: Rule) -> None:
        self.scores = scores
        self.rule = rule
        self._counting = Remembered()
        self._orders: dict[tuple[str, str], Order] = {}
        self._levels: dict[str, Level] = {}

    def mean(self, label: str) -> float:
        """Return a method's mean accuracy over its seeds."""
        return self._level(label).bets.mean

    def exceeds(self, first: str, second: str, by: float = 0.0) -> Standing:
        """Return the standing of: `first` exceeds `second` by more than `by`."""
        pair = self._order(first, second)
        statement = Statement(kind="exceeds", first=first, second=second, by=by)
        return self._standing(statement, pair.first.seeds, lambda times: pair.evidence(by, times))

    def above(self, label: str, score: float) -> Standing:
        """Return the standing of: the method scores above `score`."""
        one = self._level(label)
        statement = Statement(kind="above", first=label, by=score)
        return self._standing(statement, one.bets.seeds, lambda times: one.above(score, times))

    def below(self, label: str, score: float) -> Standing:
        """Return the standing of: the method scores below `score`."""
        one = self._level(label)
        statement = Statement(kind="below", first=label, by=score)
        return self._standing(statement, one.bets.seeds, lambda times: one.below(score, times))

    def _standing(self, statement: Statement, seeds: int, log: LogEvidence) -> Standing:
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
    """Return the least number of seeds at which the evidence should reach `target`."""
    if log(MOST_PROJECTED / seeds) < target:
        return None
    low, high = seeds, MOST_PROJECTED  # the evidence at `high` reaches it, and that at `low` not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if log(middle / seeds) >= target else (middle, high)
    return high
