"""The list of recipes, one recipe, and the report on a study's page."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from adaptlab.reproductions.claim_verdicts import ClaimVerdict
from adaptlab.reproductions.recipe_report import EffortRow, ReportTable
from adaptlab_answers.recipes import StudyReport
from adaptlab_answers.studies import StudyView
from adaptlab_api.pages.rendering.examples import recipe_by_command, recipe_by_request
from adaptlab_services.errors import StateConflict
from adaptlab_services.recipes import recipes

MARKS = {
    "holds": "succeeded",
    "fails": "failed",
    "reversed": "failed",
    "undecided": "incomplete",
    "not_measured": "waiting",
}
"""The state whose mark and colour a finding uses."""


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A claim in one wording, with the mark and the words of its verdict."""

    verdict: ClaimVerdict
    mark: str
    words: str
    wording: str

    @property
    def met(self) -> int:
        """The number of controls that are met."""
        return sum(control.finding == "holds" for control in self.verdict.controls)


@dataclass(frozen=True, slots=True)
class TableRows:
    """A table with the rows of the paper or preset; `left_out` has the others."""

    table: ReportTable
    rows: tuple[EffortRow, ...]
    left_out: tuple[str, ...]


def recipe_list() -> dict[str, object]:
    """Return the values of the list."""
    return {"recipes": [recipes.get(summary.name) for summary in recipes.listed().data]}


def recipe_page(name: str, server: str) -> dict[str, object]:
    """Return the values of one recipe; raise `Absent`."""
    recipe = recipes.get(name)
    quickest = recipe.presets[0].preset
    return {
        "recipe": recipe,
        "statements": tuple(recipe.statements()),
        "command": recipe_by_command(recipe.name, quickest),
        "request": recipe_by_request(server, recipe.name, quickest),
    }


def report_of(session: Session, study: StudyView) -> dict[str, object] | None:
    """Return the report on a study, or None without an installed recipe."""
    if study.recipe is None:
        return None
    try:
        report = recipes.report(session, str(study.id))
    except StateConflict:
        return None
    return {
        "said": report,
        "tables": tuple(_shown(table) for table in report.tables),
        "claims": _claims(report),
    }


def _shown(table: ReportTable) -> TableRows:
    rows = tuple(row for row in table.rows if not row.is_empty)
    left_out = tuple(row.label for row in table.rows if row.is_empty)
    return TableRows(table, rows, left_out)


def _claims(report: StudyReport) -> tuple[ClaimRow, ...]:
    return tuple(
        ClaimRow(
            verdict,
            MARKS[verdict.finding],
            report.words_of(verdict),
            report.version_of(verdict),
        )
        for verdict in report.claims
    )
