"""Builders of this paper's claims, wordings and tests."""

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
    """Return a claim in the wording of ICLR and, if given, of arXiv v1."""
    earlier = {} if arxiv_v1 is None else {"arxiv_v1": arxiv_v1}
    return Claim(
        id=name,
        wordings={**earlier, "iclr": wording(text, *tests)},
        in_paper=in_paper,
        given=tuple(given),
        controls=tuple(controls),
    )


def wording(text: str, *tests: PlainTest) -> Wording:
    """Return a text with its tests, which all have to hold."""
    return Wording(text=text, test=tests[0] if len(tests) == 1 else AllOf(tests=tests))


def never(text: str, row: str, value: float, *, trials: int) -> Wording:
    """Return a text that one trial refutes, of `trials` per seed."""
    return wording(text, EveryTrialAtMost(row=row, value=value, trials=trials))


def no_new_task(
    row: str, column: str, *, trials: int, base: str, controls: Sequence[PlainTest]
) -> Claim:
    """Return the claim that a prefix fails on a new task."""
    return claim(
        "new-task-fails",
        "A prefix may not be able to teach a task that is said to need a new attention pattern.",
        at_most(row, column, 0.05),
        arxiv_v1=never(
            "A prefix cannot teach a task that is said to need a new attention pattern.",
            row,
            0.05,
            trials=trials,
        ),
        given=[at_most(base, column, 0.05)],
        controls=controls,
    )


def at_least(row: str, column: str, value: float) -> ScoreAtLeast:
    """Return the test that the row's mean score is at least `value`."""
    return ScoreAtLeast(row=row, column=column, value=value)


def at_most(row: str, column: str, value: float) -> ScoreAtMost:
    """Return the test that the row's mean score is at most `value`."""
    return ScoreAtMost(row=row, column=column, value=value)


def above(row: str, other: str, column: str, by: float) -> ScoreAbove:
    """Return the test that the row scores more than `by` above the other."""
    return ScoreAbove(row=row, column=column, other=other, by=by)


def learned_at_equal_size(row: str, other: str, column: str) -> tuple[PlainTest, ...]:
    """Return the controls that a row no larger learns the task."""
    return (at_least(row, column, 0.8), NoLarger(row=row, other=other))


def holds(check: str, report: str | None = None) -> CheckHolds:
    """Return the test that a theory check holds, or one of its reports."""
    return CheckHolds(check=check, report=report)
