"""The goals of a question: what remains to be settled."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from adaptlab.questions.statements import QuestionEvidence, Standing
from adaptlab.studies.question import ALONE, WithinMarginOf
from adaptlab.studies.study import QuestionSpec


@dataclass(frozen=True, slots=True)
class Goal:
    """Something to settle about one or two methods, in one of several ways.

    A way is a set of statements that must all be shown.
    """

    methods: tuple[str, ...]
    ways: tuple[tuple[Standing, ...], ...]

    @property
    def way(self) -> tuple[Standing, ...] | None:
        """The first way of which all statements are shown, if any."""
        return next((way for way in self.ways if all(one.shown for one in way)), None)

    @property
    def seeds(self) -> int:
        """The seeds that count now."""
        return min(one.seeds for way in self.ways for one in way)

    @property
    def needs(self) -> int | None:
        """The seeds in all at which it should be settled, None beyond projection."""
        return min((seeds for way in self.ways if (seeds := _needs(way)) is not None), default=None)

    @property
    def nearest(self) -> Standing:
        """The slowest statement of the way that needs the fewest seeds."""
        way = min(self.ways, key=lambda way: _needs(way) or math.inf)
        return max(way, key=lambda one: math.inf if one.needs is None else one.needs)


@dataclass(frozen=True, slots=True)
class Goals:
    """The goals of one table at one look.

    `left` are the methods that the answer still depends on. `out` maps each method that is not to
    the statement that ruled it out.
    """

    goals: tuple[Goal, ...]
    left: tuple[str, ...]
    out: dict[str, Standing]

    @property
    def open(self) -> tuple[Goal, ...]:
        """The goals that are not settled."""
        return tuple(goal for goal in self.goals if goal.way is None)


def goals_of(
    question: QuestionSpec, evidence: QuestionEvidence, labels: Sequence[str], chance: float
) -> Goals:
    """Return the goals among methods that have scores."""
    if question.decide == "best":
        return _best(evidence, labels, question.margin)
    if question.decide == "order":
        pairs = tuple(
            _order(evidence, first, second, question.margin)
            for first, second in combinations(labels, 2)
        )
        return _among(pairs)
    reference = reference_of(question)
    if reference is None or reference not in labels:
        return Goals((), tuple(labels), {})
    others = [label for label in labels if label != reference]
    if question.decide == "works":
        goals = tuple(_works(evidence, one, question.margin, chance) for one in others)
    else:
        goals = tuple(_within(evidence, one, reference, question.margin) for one in others)
    return _among(goals)


def reference_of(question: QuestionSpec) -> str | None:
    """Return the method with which the others are compared, if there is one."""
    if isinstance(question.decide, WithinMarginOf):
        return question.decide.within_margin_of
    return ALONE if question.decide == "works" else None


def _best(evidence: QuestionEvidence, labels: Sequence[str], margin: float) -> Goals:
    out: dict[str, Standing] = {}
    by_mean = sorted(labels, key=evidence.mean, reverse=True)
    for label in labels:
        better = (evidence.exceeds(other, label) for other in by_mean if other != label)
        if (shown := next((one for one in better if one.shown), None)) is not None:
            out[label] = shown
    left = [label for label in by_mean if label not in out] or by_mean[:1]
    for leader in left:
        enough = [evidence.exceeds(leader, other, -margin) for other in left if other != leader]
        if margin and enough and all(one.shown for one in enough):
            goals = [Goal((leader, str(one.statement.second)), ((one,),)) for one in enough]
            return Goals(tuple(goals), (leader,), out)
    leader = left[0]
    goals = [
        Goal((leader, other), tuple((one,) for one in _either(evidence, leader, other, margin)))
        for other in left[1:]
    ]
    return Goals(tuple(goals), tuple(left), out)


def _among(goals: tuple[Goal, ...]) -> Goals:
    """Return goals that rule out no method; those of open ones are left."""
    left = dict.fromkeys(label for goal in goals if goal.way is None for label in goal.methods)
    return Goals(goals, tuple(left), {})


def _either(evidence: QuestionEvidence, leader: str, other: str, margin: float) -> list[Standing]:
    ways = [evidence.exceeds(leader, other), evidence.exceeds(other, leader)]
    return [*ways, evidence.exceeds(leader, other, -margin)] if margin else ways


def _order(evidence: QuestionEvidence, first: str, second: str, margin: float) -> Goal:
    ways: list[tuple[Standing, ...]] = [
        (evidence.exceeds(first, second),),
        (evidence.exceeds(second, first),),
    ]
    if margin:
        both = (evidence.exceeds(first, second, -margin), evidence.exceeds(second, first, -margin))
        ways.append(both)
    return Goal((first, second), tuple(ways))


def _within(evidence: QuestionEvidence, one: str, reference: str, margin: float) -> Goal:
    within = evidence.exceeds(one, reference, -margin)
    return Goal((one, reference), ((within,), (evidence.exceeds(reference, one, margin),)))


def _works(evidence: QuestionEvidence, one: str, margin: float, chance: float) -> Goal:
    works = (evidence.exceeds(one, ALONE, margin), evidence.above(one, chance + margin))
    no_gain = evidence.exceeds(ALONE, one, -margin)
    return Goal((one, ALONE), (works, (no_gain,), (evidence.below(one, chance + margin),)))


def _needs(way: Sequence[Standing]) -> int | None:
    needs = [one.needs for one in way]
    known = [seeds for seeds in needs if seeds is not None]
    return max(known) if len(known) == len(needs) else None
