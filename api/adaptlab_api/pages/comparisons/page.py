"""The page that compares chosen jobs, without a study."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab_answers.comparisons import ComparisonProgress
from adaptlab_api.pages.comparisons.columns import MOST_PAIRS, columns_view
from adaptlab_api.pages.comparisons.tables import shown_tables
from adaptlab_api.pages.rendering.filter_bar import FilterProblem, fault_of, fields_to_ask
from adaptlab_api.requests.dependencies import Units
from adaptlab_services import short_ids
from adaptlab_services.comparisons import chosen_jobs
from adaptlab_services.comparisons.comparison_inputs import DEFAULT_LEVEL, DEFAULT_MARGIN
from adaptlab_services.comparisons.comparison_runs import ComparisonRuns
from adaptlab_services.comparisons.comparisons import MOST_JOBS, JobsQuestion
from adaptlab_services.comparisons.stored_comparison import StoredComparison
from adaptlab_services.errors import Absent

COMPARE_POLL, COMPUTING_POLL = 5, 2
CANNOT, FAULT = "These jobs cannot be compared", "This filter is not valid"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The jobs in an address, by distinct ids or by a filter."""

    job_ids: tuple[str, ...] = ()
    filter: str = ""
    baseline: str = ""

    @classmethod
    def read(cls, ids: Sequence[str], filter_text: str, baseline: str = "") -> "Chosen":
        """Return the jobs in the address."""
        return cls(tuple(dict.fromkeys(filter(None, ids))), filter_text.strip(), baseline)

    def jobs(self, session: Session) -> tuple[UUID, ...]:
        """Return the ids; raises `Absent`, or `InvalidSpec` for too many."""
        named = chosen_jobs.chosen_by(session, self.filter) if self.filter else ()
        listed = (short_ids.job_id(session, text) for text in self.job_ids)
        chosen = tuple(dict.fromkeys((*listed, *named)))
        if len(chosen) > MOST_JOBS:
            detail = f"{len(chosen)} jobs are too many to compare: the limit is {MOST_JOBS}."
            raise InvalidSpec(Problem("/query/job", "too_many_jobs", detail))
        return chosen


def compared(
    units: Units, runs: ComparisonRuns, chosen: Chosen
) -> StoredComparison | ComparisonProgress:
    """Return the comparison or its progress; raises as `Chosen.jobs`."""
    with units() as session:
        jobs = chosen.jobs(session)
    return runs.answer(units, JobsQuestion(jobs))


def compare_page(units: Units, runs: ComparisonRuns, chosen: Chosen) -> dict[str, object]:
    """Return the values of the template; raise `Absent` or `InvalidSpec`."""
    with units() as session:
        jobs = chosen.jobs(session)
        pinned = short_ids.job_id(session, chosen.baseline) if chosen.baseline else None
        columns = columns_view(session, jobs, pinned)
    answer = runs.answer(units, JobsQuestion(jobs))
    progress = answer if isinstance(answer, ComparisonProgress) else None
    tables = () if isinstance(answer, ComparisonProgress) else shown_tables(units, answer)
    address = urlencode([("jobs", ",".join(map(str, jobs)))])
    to_come = any(table.to_come for table in tables)
    return {
        **asking(chosen, None),
        "progress": progress,
        "tables": tables,
        "columns": columns,
        "most_pairs": MOST_PAIRS,
        "charts": f"/compare/charts?{address}&",
        "curves": f"/compare/curves?{address}&",
        "level": DEFAULT_LEVEL,
        "margin": DEFAULT_MARGIN,
        "jobs": len(jobs),
        "poll": COMPUTING_POLL if progress else COMPARE_POLL if to_come else None,
    }


def refused(chosen: Chosen, refusal: InvalidSpec | Absent) -> dict[str, object]:
    """Return the values of the page with an error instead of tables."""
    fault = fault_of(chosen.filter) if chosen.filter else None
    heading = "There is no such job" if isinstance(refusal, Absent) else CANNOT
    refused: dict[str, object] = {"refusal": f"{refusal}", "heading": FAULT if fault else heading}
    return {
        **asking(chosen, fault),
        "progress": None,
        "tables": (),
        "columns": None,
        "jobs": 0,
        **refused,
    }


def asking(chosen: Chosen, fault: FilterProblem | None) -> dict[str, object]:
    """Return the values of the form above the tables."""
    return {
        "filter": chosen.filter,
        "fault": fault,
        "fields": fields_to_ask(),
        "refusal": None,
        "most": MOST_JOBS,
        "named": chosen.job_ids,
        "pinned": chosen.baseline,
    }
