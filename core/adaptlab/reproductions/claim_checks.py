"""Findings on claims about theory checks of a study."""

from collections.abc import Iterator

import numpy as np

from adaptlab.figures import counted, percent
from adaptlab.reproductions.claim import CheckAbove, CheckHolds
from adaptlab.reproductions.claim_findings import (
    LEVEL,
    Decision,
    decision,
    few_seeds,
    interval_name,
    is_shown,
    level_of,
    not_measured,
    unmeasured_seeds,
    unseen_seeds,
)
from adaptlab.reproductions.recipe import Recipe
from adaptlab.reproductions.recipe_results import (
    MeasuredCheck,
    Missing,
    RecipeMeasurements,
    RecipeRow,
    because,
    row_of,
    stands_for,
)
from adaptlab.runs.theory_report import Check
from adaptlab.statistics.samples import Sample, shifted
from adaptlab.statistics.typical import typical_limits

OPPOSITE = "opposite"
"""A detail of a report: the value beyond which the opposite of its claim is shown."""


def decide_check(test: CheckHolds, recipe: Recipe, measured: RecipeMeasurements) -> Decision:
    """Return the finding on the reports of a theory check."""
    checks = [one for one in measured.checks if _is_meant(test, recipe, one)]
    reports = [
        report
        for one in checks
        for report in one.reports
        if test.report is None or report.name == test.report
    ]
    if not reports:
        reasons = [reason for one in checks for reason in one.missing]
        return not_measured(f"check {test.report or test.check} has no report{because(reasons)}")
    unclear = [report for report in reports if _is_unclear(report)]
    failed = [one for one in reports if one.verdict == "fails" and one not in unclear]
    shown = (*failed, *unclear, *reports)[0]
    seeds = [one.seeds for one in checks if one.seeds is not None]
    over = f", on {counted(min(seeds), 'replicate')}" if seeds else ""
    text = (
        f"check {test.check}: {_held(len(reports), len(failed), len(unclear))}{over}; "
        f"{shown.name} measured {_estimate(shown):.3g}{_interval_of(shown)}, claimed: "
        f"{shown.bound} {shown.tolerance:.3g}"
    )
    doubts = list(few_seeds(min(seeds)) if seeds else ())
    if failed and not all(map(_has_interval, failed)):
        doubts = []  # a counterexample refutes without any statistics
    if not failed:
        doubts += [reason for one in checks for reason in one.missing]
    return decision(
        text,
        holds=not failed and not unclear,
        fails=bool(failed),
        doubts=doubts,
        is_reversed=all(map(_is_opposite, failed)),
    )


def _is_unclear(report: Check) -> bool:
    """Return True if the report has an interval that contains its tolerance."""
    low, high = report.details.get("low"), report.details.get("high")
    if not isinstance(low, float) or not isinstance(high, float):
        return False
    return low <= report.tolerance < high


def _has_interval(report: Check) -> bool:
    return {"low", "high"} <= report.details.keys()


def _is_opposite(report: Check) -> bool:
    """Return True if the report's interval is beyond the detail `OPPOSITE`."""
    limit = report.details.get(OPPOSITE)
    end = report.details.get("high" if report.bound == "at least" else "low")
    if not isinstance(limit, float) or not isinstance(end, float):
        return False
    return end < limit if report.bound == "at least" else end > limit


def _estimate(report: Check) -> float:
    """Return the measured value, or the difference of which it is a limit."""
    difference = report.details.get("difference")
    return difference if isinstance(difference, float) else report.measured


def _interval_of(report: Check) -> str:
    if not _has_interval(report):
        return ""
    return " ({} interval {:.3g} to {:.3g})".format(
        percent(LEVEL, 0), report.details["low"], report.details["high"]
    )


def _held(reports: int, failed: int, unclear: int) -> str:
    if reports == 1:
        return f"its report {'fails' if failed else 'is undecided' if unclear else 'holds'}"
    undecided = f", {unclear} {'is' if unclear == 1 else 'are'} undecided" if unclear else ""
    held = reports - failed - unclear
    return f"{held} of its {reports} reports {'holds' if held == 1 else 'hold'}{undecided}"


def _is_meant(test: CheckHolds, recipe: Recipe, one: MeasuredCheck) -> bool:
    if test.check not in (one.check, one.label):
        return False
    return test.of is None or (one.of is not None and stands_for(recipe, test.of, one.of))


def decide_check_order(test: CheckAbove, recipe: Recipe, measured: RecipeMeasurements) -> Decision:
    """Return the finding of a claimed order of two rows in a check's figure.

    It has one value per seed and no items, so it is about the measured matrices.
    """
    places = [_figures(test, label, recipe, measured) for label in (test.row, test.other)]
    for place in places:
        if isinstance(place, Missing):
            return not_measured(place.text)
    (row, first), (other, second) = (one for one in places if not isinstance(one, Missing))
    level = level_of(row, other)
    ours, theirs = _sample(first), _sample(second)
    ahead = shifted(ours, -test.by)
    shared = sorted(first.keys() & second.keys())
    apart = np.array([first[seed] - second[seed] for seed in shared])
    low, high = typical_limits(apart, 0.0, 1, level)
    text = (
        f"check {test.check} has {ours.mean:.3g} for {test.row} and {theirs.mean:.3g} for "
        f"{test.other}, a difference of {apart.mean():.3g} ({interval_name(level)} "
        f"{low:.3g} to {high:.3g} for a typical seed; {counted(len(shared), 'seed')}; "
        f"{unseen_seeds(len(shared))}); claimed: more than {test.by:.3g}"
    )
    return decision(
        text,
        holds=is_shown(ahead, theirs, level),
        fails=is_shown(theirs, ahead, level),
        doubts=[
            *few_seeds(len(shared)),
            *unmeasured_seeds(row, tuple(first)),
            *unmeasured_seeds(other, tuple(second)),
        ],
        is_reversed=is_shown(theirs, ours, level),
    )


def _figures(
    test: CheckAbove, label: str, recipe: Recipe, measured: RecipeMeasurements
) -> tuple[RecipeRow, dict[int, float]] | Missing:
    """Return a row with the check's figure by seed."""
    row, selector = row_of(recipe, measured, label), recipe.row(label).of
    if isinstance(row, Missing):
        return row
    checks = [
        one
        for one in measured.checks
        if test.check in (one.check, one.label)
        and one.of is not None
        and stands_for(recipe, selector, one.of)
    ]
    values = dict(pair for one in checks for report in one.reports for pair in _pairs(test, report))
    if values:
        return row, values
    why = because([reason for one in checks for reason in one.missing])
    return Missing(f"check {test.check} has no report on {label}{why}")


def _pairs(test: CheckAbove, report: Check) -> Iterator[tuple[int, float]]:
    """Yield the seeds of a report with their values."""
    seeds, values = report.details.get("seeds"), report.details.get(test.detail)
    if isinstance(seeds, tuple) and isinstance(values, tuple):
        yield from ((int(s), float(v)) for s, v in zip(seeds, values, strict=True))


def _sample(values: dict[int, float]) -> Sample:
    return Sample(np.array([values[seed] for seed in sorted(values)]), np.zeros(0), 0.0, 1)
