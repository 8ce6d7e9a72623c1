"""Titles of jobs."""

from adaptlab_answers.jobs import JobSummary
from adaptlab_api.pages.rendering.formats import method_title, words

MAKING_TITLES = {"pretrain": "Pretraining", "import": "Import of"}


def job_title(job: JobSummary) -> str:
    """What a job is, in words."""
    if job.kind in MAKING_TITLES:
        return f"{MAKING_TITLES[job.kind]} {job.name}"
    if job.kind == "theory":
        return theory_title(job)
    return f"{method_title(job.method)} on {words(job.task)}"


def theory_title(job: JobSummary) -> str:
    """Which theory checks a job makes, and of what."""
    names = ", ".join(job.checks)
    of = f" of {job.base_model}" if job.base_model else ""
    return f"Theory checks{of}: {names}"


def short_title(job: JobSummary) -> str:
    """The same beside a column that names the task."""
    return method_title(job.method) if job.kind == "adapt" else job_title(job)
