"""Builders of this paper's claims, wordings and tests."""

from collections.abc import Sequence

from adaptlab.recipes.claim_builders import at_floor, at_least, wording
from adaptlab.reproductions.claim import (
    ClaimRole,
    EveryTrialAtMost,
    NoLarger,
    PaperClaim,
    PlainTest,
    Wording,
)


def claim(
    name: str,
    text: str,
    *tests: PlainTest,
    arxiv_v1: Wording | None = None,
    role: ClaimRole = "paper",
    given: Sequence[PlainTest] = (),
    controls: Sequence[PlainTest] = (),
) -> PaperClaim:
    """Return a claim in the wording of ICLR and, if given, of arXiv v1."""
    earlier = {} if arxiv_v1 is None else {"arxiv_v1": arxiv_v1}
    return PaperClaim(
        id=name,
        wordings={**earlier, "iclr": wording(text, *tests)},
        role=role,
        given=tuple(given),
        controls=tuple(controls),
    )


def never(text: str, row: str, value: float, *, trials: int, above_floor: bool = False) -> Wording:
    """Return a text that one trial refutes, of `trials` per seed."""
    test = EveryTrialAtMost(row=row, value=value, trials=trials, above_floor=above_floor)
    return wording(text, test)


def no_new_task(
    row: str,
    column: str,
    *,
    trials: int,
    base: str,
    controls: Sequence[PlainTest],
    role: ClaimRole = "paper",
) -> PaperClaim:
    """Return the claim that a prefix fails on a new task."""
    test = at_floor(row, column)
    return claim(
        "new-task-fails",
        "A prefix may not be able to teach a task that is said to need a new attention pattern.",
        test,
        arxiv_v1=never(
            "A prefix cannot teach a task that is said to need a new attention pattern.",
            row,
            test.value,
            trials=trials,
            above_floor=True,
        ),
        role=role,
        given=[at_floor(base, column)],
        controls=controls,
    )


def learned_at_equal_size(row: str, other: str, column: str) -> tuple[PlainTest, ...]:
    """Return the controls that a row no larger learns the task."""
    return (at_least(row, column, 0.8), NoLarger(row=row, other=other))
