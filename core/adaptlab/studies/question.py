"""The question that a study answers, if it plans its own runs."""

from typing import Annotated, Literal

from pydantic import Field

from adaptlab.values import Value

Decide = Literal["best", "order", "works"]
DECISIONS: tuple[Decide, ...] = ("best", "order", "works")
DEFAULT_SEEDS = 30
LARGEST_SEEDS = 64
DEFAULT_JOBS = 200
ALONE = "frozen"
"""The method that is the base model alone."""
LONGEST_HOURS = 24 * 365.0
MOST_TIMES_LONGER = 64


class WithinMarginOf(Value):
    """Which methods score at most the margin less than one of them."""

    within_margin_of: Annotated[str, Field(min_length=1, max_length=120)]


class QuestionLimits(Value):
    """Where a study stops, answered or not.

    `jobs` counts the passes that it runs, `seeds` those of one method that count as evidence.
    `hours` run from the creation of the study; a pass that runs then still ends. Where the loss of
    a chosen rate still falls at the end of the training, all methods are trained for twice as
    long, and again, up to `times_longer` times the steps of the study.
    """

    jobs: int = Field(default=DEFAULT_JOBS, ge=1, le=10_000)
    seeds: int = Field(default=DEFAULT_SEEDS, ge=3, le=LARGEST_SEEDS)
    hours: Annotated[float, Field(gt=0, le=LONGEST_HOURS)] | None = None
    times_longer: int = Field(default=1, ge=1, le=MOST_TIMES_LONGER)


class QuestionTerms(Value):
    """A question that a study answers, running only what the answer needs.

    `best` finds the method whose seeds usually beat those of every other, or one that no other
    usually exceeds by `margin`. `order` finds the order of all methods, except of pairs that
    differ by less than `margin`. `works` finds which methods exceed the base model alone (the
    method `frozen`) and chance by more than `margin`. `{within_margin_of: NAME}` finds which
    methods score at most `margin` less than the method labelled NAME. At most a share 1 -
    `confidence` of all studies has a false answer, at whatever moment one looks or stops.
    """

    decide: Decide | WithinMarginOf = "best"
    margin: float = Field(default=0.01, ge=0, lt=1)
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    at_most: QuestionLimits = QuestionLimits()
