"""How the scores and the claims of a report are written, on a terminal and in Markdown."""

from adaptlab.reproductions.claim import version_words
from adaptlab.reproductions.claims import ClaimVerdict, Decision
from adaptlab.reproductions.recipe import PublishedScore
from adaptlab.reproductions.recipe_report import ReportCell
from adaptlab.statistics.intervals import Interval
from adaptlab_answers.recipes import StudyReport

NOTHING = "–"
FINDINGS = {
    "reproduced": "reproduced",
    "not_reproduced": "not reproduced",
    "undecided": "undecided at this effort",
    "not_measured": "not measured",
}
MOST_DECIMALS = 4


def percent(share: float) -> str:
    """A share in per cent: 91.3, 99.96, 0.03; only what is exactly all or nothing is written so.

    Next to all or nothing it has as many decimals as tell it apart, up to four.
    """
    for decimals in range(1, MOST_DECIMALS + 1):
        text = rounded(share, decimals)
        if text not in ("0", "100") or share in (0.0, 1.0):
            return text
    return "< 0.0001" if share < 0.5 else "> 99.9999"


def rounded(share: float, decimals: int = 1) -> str:
    """A share in per cent; below 1 and above 99 it has a second decimal at least."""
    value = 100 * share
    places = max(decimals, 1 if 1 <= value <= 99 else 2)
    return f"{round(value, places):.{places}f}".rstrip("0").rstrip(".")


def paper(score: PublishedScore | None) -> str:
    """As papers print it: `91 ± 5` is a mean and a standard deviation over seeds, in per cent."""
    if score is None:
        return NOTHING
    mean = f"{round(100 * score.mean, MOST_DECIMALS):g}"
    return mean if score.spread is None else f"{mean} ± {round(100 * score.spread, 4):g}"


def limits(measured: Interval) -> str:
    """The ends of an interval in per cent."""
    return f"[{rounded(measured.low)}, {rounded(measured.high)}]"


def mean(cell: ReportCell) -> str:
    """The measured mean in per cent, or why there is none; with the seeds if some are missing."""
    if cell.measured is None:
        return "not run" if cell.state == "absent" else "no score"
    seeds = f" ({len(cell.seeds)} seeds)" if cell.state == "partly_measured" else ""
    return percent(cell.measured.mean) + seeds


def interval(cell: ReportCell) -> str:
    """The interval of the measured mean, nothing without one."""
    return "" if cell.measured is None else limits(cell.measured)


def beside(cell: ReportCell) -> str:
    """The paper's score and the measured one: `91 ± 5 | 99.96 [99.9, 100]`."""
    return f"{paper(cell.published)} | {mean(cell)} {interval(cell)}".rstrip()


def finding(verdict: ClaimVerdict) -> str:
    """What is found of a claim, in words."""
    return FINDINGS.get(verdict.finding, verdict.finding.replace("_", " "))


def met(control: Decision) -> str:
    """Whether a control is met, in a word or two."""
    return "met" if control.finding == "reproduced" else "not met"


def wording(report: StudyReport, verdict: ClaimVerdict) -> str:
    """Which version of the paper claims it so."""
    versions = [one for one in report.claims if one.claim == verdict.claim]
    return version_words(verdict.wording, alone=len(versions) == 1, in_paper=verdict.in_paper)


def measured_seeds(report: StudyReport) -> tuple[int, ...]:
    """The seeds of the cells that are measured."""
    cells = [cell for table in report.tables for row in table.rows for cell in row.cells]
    return tuple(sorted({one.seed for cell in cells for one in cell.seeds}))
