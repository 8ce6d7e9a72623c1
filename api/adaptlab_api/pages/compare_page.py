"""The page that holds any jobs against each other, without a study."""

from collections.abc import Sequence
from urllib.parse import urlencode
from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab_api.pages.comparison_view import table_views
from adaptlab_services import comparisons
from adaptlab_services.comparison_views import JobComparison
from adaptlab_services.comparisons import MOST_JOBS

COMPARE_POLL = 5


def compared(session: Session, job_ids: Sequence[UUID]) -> JobComparison:
    """The comparison of jobs, each once; raises `InvalidSpec` for more than there may be."""
    chosen = tuple(dict.fromkeys(job_ids))
    if len(chosen) > MOST_JOBS:
        detail = f"{len(chosen)} jobs are too many to compare; name at most {MOST_JOBS}."
        raise InvalidSpec(Problem("/query/job", "too_many_jobs", detail))
    return comparisons.of_jobs(session, chosen)


def compare_page(session: Session, job_ids: Sequence[UUID]) -> dict[str, object]:
    """Everything that the template shows; raises `NotFound` and `InvalidSpec`."""
    found = compared(session, job_ids)
    tables = table_views(found)
    return {
        "tables": tables,
        "charts": f"/compare/charts?{urlencode([('job', str(one)) for one in job_ids])}&",
        "level": found.level,
        "margin": found.margin,
        "jobs": len(set(job_ids)),
        "poll": COMPARE_POLL if any(table.to_come for table in tables) else None,
    }
