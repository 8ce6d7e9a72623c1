"""Scores and claims of a report as text."""

from adaptlab.reproductions.claim_verdicts import Decision
from adaptlab.reproductions.recipe import PublishedScore
from adaptlab.reproductions.recipe_report import ReportCell
from adaptlab.statistics.intervals import Interval
from adaptlab_answers.recipes import StudyReport

NOTHING = "–"
MOST_DECIMALS = 4


def percent(share: float) -> str:
    """Return a share in per cent, such as 91.3, 99.96 or 0.03.

    Only exact values are written as 0 or 100; others near them have up to four decimals.
    """
    for decimals in range(1, MOST_DECIMALS + 1):
        text = rounded(share, decimals)
        if text not in ("0", "100") or share in (0.0, 1.0):
            return text
    return "< 0.0001" if share < 0.5 else "> 99.9999"


def rounded(share: float, decimals: int = 1) -> str:
    """Return a share in per cent, with more decimals below 1 and above 99."""
    value = 100 * share
    places = max(decimals, 1 if 1 <= value <= 99 else 2)
    return f"{round(value, places):.{places}f}".rstrip("0").rstrip(".")


def paper(score: PublishedScore | None) -> str:
    """Return a published score as `91 ± 5`: mean and SD in per cent."""
    if score is None:
        return NOTHING
    mean = f"{round(100 * score.mean, MOST_DECIMALS):g}"
    return mean if score.spread is None else f"{mean} ± {round(100 * score.spread, 4):g}"


def limits(measured: Interval) -> str:
    """Return the limits of an interval in per cent."""
    return f"[{rounded(measured.low)}, {rounded(measured.high)}]"


def mean(cell: ReportCell) -> str:
    """Return the measured mean in per cent, or the reason why there is none.

    If seeds are missing, their number is added.
    """
    if cell.measured is None:
        return "not run" if cell.state == "absent" else "no score"
    seeds = f" ({len(cell.seeds)} seeds)" if cell.state == "partly_measured" else ""
    return percent(cell.measured.mean) + seeds


def interval(cell: ReportCell) -> str:
    """Return the interval of the measured mean, empty without one."""
    return "" if cell.measured is None else limits(cell.measured)


def beside(cell: ReportCell) -> str:
    """Return published and measured score: `91 ± 5 | 99.96 [99.9, 100]`."""
    return f"{paper(cell.published)} | {mean(cell)} {interval(cell)}".rstrip()


def met(control: Decision) -> str:
    """Return "met" or "not met" for a control."""
    return "met" if control.finding == "holds" else "not met"


def measured_seeds(report: StudyReport) -> tuple[int, ...]:
    """Return the seeds that are measured in any cell."""
    cells = [cell for table in report.tables for row in table.rows for cell in row.cells]
    return tuple(sorted({score.seed for cell in cells for score in cell.seeds}))
