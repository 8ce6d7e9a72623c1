"""Titles of jobs."""

from adaptlab_answers.jobs import JobSummary
from adaptlab_api.pages.rendering.formats import method_title, task_title

MAKING_TITLES = {"pretrain": "Pretraining", "import": "Import of"}


def job_title(job: JobSummary) -> str:
    """Return the title of a job."""
    if job.kind in MAKING_TITLES:
        return f"{MAKING_TITLES[job.kind]} {job.name}"
    if job.kind == "theory":
        return theory_title(job)
    return f"{method_title(job.method)} on {task_title(job.task_label)}"


def theory_title(job: JobSummary) -> str:
    """Return the title of a job of theory checks."""
    names = ", ".join(job.checks)
    of = f" of {job.base_model}" if job.base_model else ""
    return f"Theory checks{of}: {names}"


def short_title(job: JobSummary) -> str:
    """Return the title of a job for a table with a column of tasks."""
    return method_title(job.method) if job.kind == "adapt" else job_title(job)


def given_name(job: JobSummary) -> str | None:
    """Return the name that users gave a job; titles have that of a base model."""
    return None if job.kind in MAKING_TITLES else job.name
