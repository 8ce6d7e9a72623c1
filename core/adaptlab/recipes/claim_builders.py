"""Builders of claims and tests, for the recipes of any paper."""

from collections.abc import Sequence

from adaptlab.reproductions.claim import (
    AllOf,
    CheckAbove,
    CheckHolds,
    ClaimRole,
    DriftsLess,
    PaperClaim,
    PlainTest,
    Preset,
    RetainsMore,
    ScoreAbove,
    ScoreAtLeast,
    ScoreAtMost,
    VersionName,
    Wording,
)


def claim(
    version: VersionName,
    name: str,
    text: str,
    *tests: PlainTest,
    role: ClaimRole = "paper",
    given: Sequence[PlainTest] = (),
    controls: Sequence[PlainTest] = (),
    on_texts: Sequence[PlainTest] | None = None,
    presets: Sequence[Preset] | None = None,
) -> PaperClaim:
    """Return a claim with one wording, that of a version of the paper.

    `on_texts` are its premises in the preset `text`, if they are others.
    """
    return PaperClaim(
        id=name,
        wordings={version: wording(text, *tests)},
        role=role,
        given=tuple(given),
        controls=tuple(controls),
        given_in={} if on_texts is None else {"text": tuple(on_texts)},
        presets=None if presets is None else tuple(presets),
    )


def wording(text: str, *tests: PlainTest) -> Wording:
    """Return a text with its tests, which all have to hold."""
    return Wording(text=text, test=tests[0] if len(tests) == 1 else AllOf(tests=tests))


def at_least(row: str, column: str, value: float) -> ScoreAtLeast:
    """Return the test that the row's mean score is at least `value`."""
    return ScoreAtLeast(row=row, column=column, value=value)


def at_most(row: str, column: str, value: float) -> ScoreAtMost:
    """Return the test that the row's mean score is at most `value`."""
    return ScoreAtMost(row=row, column=column, value=value)


def at_floor(row: str, column: str, within: float = 0.02) -> ScoreAtMost:
    """Return the test that the row is at most `within` above the floor."""
    return ScoreAtMost(row=row, column=column, value=within, above_floor=True)


def above(row: str, other: str, column: str, by: float) -> ScoreAbove:
    """Return the test that the row scores more than `by` above the other."""
    return ScoreAbove(row=row, column=column, other=other, by=by)


def retains_more(row: str, other: str, column: str, by: float) -> RetainsMore:
    """Return the test that the row retains more of the old task, by `by`."""
    return RetainsMore(row=row, column=column, other=other, by=by)


def drifts_less(row: str, other: str, column: str, by: float) -> DriftsLess:
    """Return the test that the row drifts less on the text, by `by` nats."""
    return DriftsLess(row=row, column=column, other=other, by=by)


def holds(check: str, report: str | None = None) -> CheckHolds:
    """Return the test that a theory check holds, or one of its reports."""
    return CheckHolds(check=check, report=report)


def check_above(row: str, other: str, check: str, detail: str, by: float) -> CheckAbove:
    """Return the test that a check's figure is larger for the row."""
    return CheckAbove(row=row, other=other, check=check, detail=detail, by=by)
