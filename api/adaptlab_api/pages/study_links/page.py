"""Values of both pages: the links to a study, and what a link shows of it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from adaptlab_answers.comparisons import ComparisonProgress
from adaptlab_api.pages.attention.small_map import small_map
from adaptlab_api.pages.comparisons.tables import TableView
from adaptlab_api.pages.comparisons.tables import shown_tables as tables_of
from adaptlab_api.pages.results.page import FIGURES, numbers_in
from adaptlab_api.pages.studies.page import shown_tables
from adaptlab_api.requests.dependencies import Units, valid
from adaptlab_services.comparisons.comparison_inputs import DEFAULT_LEVEL, DEFAULT_MARGIN
from adaptlab_services.comparisons.comparison_runs import ComparisonRuns
from adaptlab_services.comparisons.comparisons import StudyQuestion
from adaptlab_services.errors import Absent
from adaptlab_services.results import result_queries
from adaptlab_services.results.result_queries import Question
from adaptlab_services.results.varying_fields import varying_fields
from adaptlab_services.studies import studies, study_links
from adaptlab_services.studies.study_links import DEFAULT_DAYS, MOST_DAYS, NewStudyLink

MOST_ROWS = 200
"""Jobs on the page; the file has all."""
COMPUTING_POLL = 2
FIELDS = {"/name": "For", "/expires_in_days": "Days"}
OF_THE_TEAM = frozenset({"id", "project", "owner", "finished_at"})
"""Columns that a visitor does not see; nor labels, which are notes of the team."""
_NEW = TypeAdapter(NewStudyLink)


@dataclass(frozen=True, slots=True)
class LinkForm:
    """The fields of the form, as typed."""

    name: str = ""
    days: str = str(DEFAULT_DAYS)
    forever: bool = False

    @classmethod
    def read(cls, fields: Mapping[str, Sequence[str]]) -> "LinkForm":
        """Return the fields of a form."""
        name, days = (next(iter(fields.get(one, ())), "").strip() for one in ("name", "days"))
        return cls(name, days, "forever" in fields)

    def asked(self) -> NewStudyLink:
        """Return the new link; raises `InvalidSpec`, or `Refused` for NUL."""
        is_number = self.days.isascii() and self.days.isdigit() and len(self.days) < 6
        days = int(self.days) if is_number else self.days
        document = {"name": self.name, "expires_in_days": None if self.forever else days}
        return valid(_NEW, json.dumps(document).encode())


def links_page(session: Session, study: str, form: LinkForm | None = None) -> dict[str, object]:
    """Return the values of the list; raises as `study_links.listed`."""
    return {
        "study": studies.get(session, study),
        "links": study_links.listed(session, study).data,
        "form": form or LinkForm(),
        "most_days": MOST_DAYS,
        "made": None,
        "faults": (),
    }


def linked_page(
    units: Units, runs: ComparisonRuns, study_id: str, folder: str, first_table: int = 0
) -> dict[str, object]:
    """Return what a visitor sees: verdicts, pairs and results, without ids.

    `folder` is the address of all results and maps. Raises `Absent` if there is no such table.
    """
    with units() as session:
        study = studies.get(session, study_id)
        question = results_question(session, study_id)
        rows = result_queries.rows(session, question, MOST_ROWS, None)
    answer = runs.answer(units, StudyQuestion(study_id, view=study))
    progress = answer if isinstance(answer, ComparisonProgress) else None
    stored = None if isinstance(answer, ComparisonProgress) else answer
    numbers = shown_tables(stored, first_table) if stored else range(0)
    tables = tables_of(units, stored, numbers) if stored else ()
    return {
        "study": study,
        "progress": progress,
        "tables": tuple(_without_ids(table, folder) for table in tables),
        "shown": numbers,
        "all_tables": stored.inputs.tables if stored else (),
        "is_answered": False,
        "more_seeds": {},
        "margin": DEFAULT_MARGIN,
        "level": DEFAULT_LEVEL,
        "columns": rows.columns,
        "data": rows.data,
        "numbers": numbers_in(rows),
        "has_more": rows.next_page_token is not None,
        "file": f"{folder}/results.csv",
        "poll": COMPUTING_POLL if progress else None,
    }


def results_question(session: Session, study_id: str) -> Question:
    """Return the query of a study's adaptations, as a visitor sees them."""
    expression = f"study = {study_id} AND kind = adapt"
    varying = varying_fields(session, Question("results", expression))
    names = (
        name
        for name in ("method", *FIGURES, *varying, "task", "base_model")
        if name not in OF_THE_TEAM and not name.startswith("labels.")
    )
    return Question("results", expression, "", tuple(names))


def linked_map(
    units: Units, runs: ComparisonRuns, study_id: str, place: tuple[int, int, int]
) -> str | None:
    """Return the drawing of a map by table, budget and its own number.

    The result is None if its bytes were collected. Raises `Absent` if there is no such map, or not
    yet.
    """
    number, budget, own = place
    with units() as session:
        study = studies.get(session, study_id)
    answer = runs.answer(units, StudyQuestion(study_id, view=study))
    stored = None if isinstance(answer, ComparisonProgress) else answer
    tables = ()
    if stored is not None and number < len(stored.inputs.tables):
        tables = tables_of(units, stored, range(number, number + 1))
    budgets = (one for table in tables for one in table.budgets[budget : budget + 1])
    shown = next((one for budget in budgets for one in budget.maps[own : own + 1]), None)
    if shown is None:
        raise Absent("map", own)
    with units() as session:
        source = "adapted" if shown.line else "base"
        return small_map(session, shown.job, source, shown.changed_by)


def _without_ids(table: TableView, folder: str) -> TableView:
    """Return a table whose maps have addresses that name no job."""
    budgets = (
        replace(
            budget,
            attention=(),
            maps=tuple(
                replace(one, picture=f"{folder}/maps/{table.number}-{place}-{own}.svg", page=None)
                for own, one in enumerate(budget.maps)
            ),
        )
        for place, budget in enumerate(table.budgets)
    )
    return replace(table, budgets=tuple(budgets))
