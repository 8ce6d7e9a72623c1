"""Claims of this paper in short: a text in one wording or two, and the tests it needs."""

from collections.abc import Sequence

from adaptlab.reproductions.claim import (
    AllOf,
    CheckHolds,
    Claim,
    EveryTrialAtMost,
    NoLarger,
    PlainTest,
    ScoreAbove,
    ScoreAtLeast,
    ScoreAtMost,
    Wording,
)


def claim(
    name: str,
    text: str,
    *tests: PlainTest,
    arxiv_v1: Wording | None = None,
    in_paper: bool = True,
    given: Sequence[PlainTest] = (),
    controls: Sequence[PlainTest] = (),
) -> Claim:
    """A claim in the wording of ICLR and, where it differs, in that of the first version."""
    return Claim(
        id=name,
        iclr=wording(text, *tests),
        arxiv_v1=arxiv_v1,
        in_paper=in_paper,
        given=tuple(given),
        controls=tuple(controls),
    )


def wording(text: str, *tests: PlainTest) -> Wording:
    """A text with its tests, all of which it needs."""
    return Wording(text=text, test=tests[0] if len(tests) == 1 else AllOf(tests=tests))


def never(text: str, row: str, value: float, *, trials: int) -> Wording:
    """A text that any one of the row's trials refutes, of which every seed has so many."""
    return wording(text, EveryTrialAtMost(row=row, value=value, trials=trials))


def no_new_task(
    row: str, column: str, *, trials: int, base: str, controls: Sequence[PlainTest]
) -> Claim:
    """A prefix fails on a task that its base model lacks, and that the controls have learned."""
    return claim(
        "new-task-fails",
        "A prefix may not be able to teach a task that is said to need a new pattern of attention.",
        at_most(row, column, 0.05),
        arxiv_v1=never(
            "A prefix cannot teach a task that is said to need a new pattern of attention.",
            row,
            0.05,
            trials=trials,
        ),
        given=[at_most(base, column, 0.05)],
        controls=controls,
    )


def at_least(row: str, column: str, value: float) -> ScoreAtLeast:
    """The row's mean score is so high."""
    return ScoreAtLeast(row=row, column=column, value=value)


def at_most(row: str, column: str, value: float) -> ScoreAtMost:
    """The row's mean score is so low."""
    return ScoreAtMost(row=row, column=column, value=value)


def above(row: str, other: str, column: str, by: float) -> ScoreAbove:
    """The row scores so much more than the other."""
    return ScoreAbove(row=row, column=column, other=other, by=by)


def learned_at_equal_size(row: str, other: str, column: str) -> tuple[PlainTest, ...]:
    """Controls: a row that is no larger than another learns what the other is said to fail at."""
    return (at_least(row, column, 0.8), NoLarger(row=row, other=other))


def holds(check: str, report: str | None = None) -> CheckHolds:
    """A theory check of the study holds, or only its reports of that name."""
    return CheckHolds(check=check, report=report)
