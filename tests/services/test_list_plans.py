"""The tables of a list are few enough for the planner to reorder them."""

from adaptlab_db.session import LIMITS
from adaptlab_services.jobs.views import job_rows

CHOSEN = 1  # the page's jobs, joined last
VISIBILITY = 1  # the jobs to which attempts belong


def test_all_tables_of_a_list_of_jobs_are_reordered_together() -> None:
    """Beyond the limit, all jobs are joined before a page is chosen."""
    tables = 1 + str(job_rows()).count(" JOIN ") + CHOSEN + VISIBILITY
    assert 8 < tables <= int(LIMITS["join_collapse_limit"])
