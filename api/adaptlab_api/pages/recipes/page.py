"""The list of recipes, one recipe, and the report on a study's page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from adaptlab.reproductions.claim import version_words
from adaptlab.reproductions.claims import ClaimVerdict
from adaptlab.reproductions.recipe_report import ReportRow, ReportTable
from adaptlab_answers.recipes import RecipeView, StudyReport
from adaptlab_answers.studies import StudyView
from adaptlab_api.pages.rendering.examples import recipe_by_command, recipe_by_request
from adaptlab_services.errors import Conflict
from adaptlab_services.recipes import recipes

FINDINGS = {
    "reproduced": ("succeeded", "reproduced"),
    "not_reproduced": ("failed", "not reproduced"),
    "reversed": ("failed", "reversed"),
    "undecided": ("incomplete", "undecided"),
    "not_measured": ("waiting", "not measured"),
}
"""The state whose mark and colour a finding uses, and its words."""


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
        return sum(control.finding == "reproduced" for control in self.verdict.controls)


@dataclass(frozen=True, slots=True)
class TableRows:
    """A table with the rows of the paper or preset; `left_out` has the others."""

    table: ReportTable
    rows: tuple[ReportRow, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """A claim of a recipe in one wording."""

    claim: str
    wording: str
    text: str


def recipe_list() -> dict[str, object]:
    """Return the values of the list."""
    return {"recipes": [recipes.get(summary.name) for summary in recipes.listed().data]}


def recipe_page(name: str, server: str) -> dict[str, object]:
    """Return the values of one recipe; raise `NotFound`."""
    recipe = recipes.get(name)
    quickest = recipe.presets[0].preset
    return {
        "recipe": recipe,
        "statements": _statements(recipe),
        "command": recipe_by_command(recipe.name, quickest),
        "request": recipe_by_request(server, recipe.name, quickest),
    }


def report_of(session: Session, study: StudyView) -> dict[str, object] | None:
    """Return the report on a study, or None without an installed recipe."""
    if study.recipe is None:
        return None
    try:
        report = recipes.report(session, str(study.id))
    except Conflict:
        return None
    return {
        "said": report,
        "tables": tuple(_shown(table) for table in report.tables),
        "claims": _claims(report),
    }


def _shown(table: ReportTable) -> TableRows:
    rows = tuple(row for row in table.rows if not _is_empty(row))
    left_out = tuple(row.label for row in table.rows if _is_empty(row))
    return TableRows(table, rows, left_out)


def _is_empty(row: ReportRow) -> bool:
    """Return True if neither the paper nor this preset has the row."""
    return all(cell.published is None and cell.state == "absent" for cell in row.cells)


def _claims(report: StudyReport) -> tuple[ClaimRow, ...]:
    names = [verdict.claim for verdict in report.claims]
    return tuple(
        ClaimRow(verdict, *FINDINGS[verdict.finding], _version(verdict, names, report.versions))
        for verdict in report.claims
    )


def _version(verdict: ClaimVerdict, names: Sequence[str], versions: Mapping[str, str]) -> str:
    alone = names.count(verdict.claim) == 1
    return version_words(verdict.wording, versions, alone=alone, in_paper=verdict.in_paper)


def _statements(recipe: RecipeView) -> tuple[Statement, ...]:
    return tuple(
        Statement(
            claim.id,
            version_words(
                version, recipe.versions, alone=len(claim.wordings) == 1, in_paper=claim.in_paper
            ),
            wording.text,
        )
        for claim in recipe.claims
        for version, wording in claim.wordings.items()
    )
