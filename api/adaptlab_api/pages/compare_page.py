"""The page that holds any jobs against each other, without a study."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab_api.pages.comparison_view import table_views
from adaptlab_api.pages.filter_bar import FilterFault, fault_of, fields_to_ask
from adaptlab_api.pages.parameters import identity
from adaptlab_services import chosen_jobs, comparisons
from adaptlab_services.comparison_views import JobComparison
from adaptlab_services.comparisons import MOST_JOBS
from adaptlab_services.errors import NotFound

COMPARE_POLL = 5
CANNOT, FAULT = "These jobs cannot be compared", "This filter makes no sense"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The jobs of an address: by their ids, in which case each once, or by a filter."""

    job_ids: tuple[UUID, ...] = ()
    filter: str = ""

    @classmethod
    def read(cls, ids: Sequence[str], filter_text: str) -> "Chosen":
        """From the address; raises `NotFound` for what can be no job."""
        return cls(tuple(dict.fromkeys(map(identity, filter(None, ids)))), filter_text.strip())

    def jobs(self, session: Session) -> tuple[UUID, ...]:
        """All of them; raises `InvalidSpec` for more than there may be."""
        named = chosen_jobs.chosen_by(session, self.filter) if self.filter else ()
        chosen = tuple(dict.fromkeys((*self.job_ids, *named)))
        if len(chosen) > MOST_JOBS:
            detail = f"{len(chosen)} jobs are too many to compare; name at most {MOST_JOBS}."
            raise InvalidSpec(Problem("/query/job", "too_many_jobs", detail))
        return chosen


def compared(session: Session, job_ids: Sequence[UUID]) -> JobComparison:
    """The comparison of jobs; raises `NotFound` and `InvalidSpec`."""
    return comparisons.of_jobs(session, job_ids)


def compare_page(session: Session, chosen: Chosen) -> dict[str, object]:
    """Everything that the template shows; raises `NotFound` and `InvalidSpec`."""
    jobs = chosen.jobs(session)
    found = compared(session, jobs)
    tables = table_views(found)
    address = urlencode([("jobs", ",".join(map(str, jobs)))])
    return {
        **asking(chosen, None),
        "tables": tables,
        "charts": f"/compare/charts?{address}&",
        "level": found.level,
        "margin": found.margin,
        "jobs": len(jobs),
        "poll": COMPARE_POLL if any(table.to_come for table in tables) else None,
    }


def refused(chosen: Chosen, refusal: InvalidSpec | NotFound) -> dict[str, object]:
    """The same page, with what is wrong instead of tables."""
    fault = fault_of(chosen.filter) if chosen.filter else None
    heading = "There is no such job" if isinstance(refusal, NotFound) else CANNOT
    refused: dict[str, object] = {"refusal": f"{refusal}", "heading": FAULT if fault else heading}
    return {**asking(chosen, fault), "tables": (), "jobs": 0, **refused}


def asking(chosen: Chosen, fault: FilterFault | None) -> dict[str, object]:
    """What the form above the tables shows."""
    return {
        "filter": chosen.filter,
        "fault": fault,
        "fields": fields_to_ask(),
        "refusal": None,
        "most": MOST_JOBS,
        "named": chosen.job_ids,
    }
