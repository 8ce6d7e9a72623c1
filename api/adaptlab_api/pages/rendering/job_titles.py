"""Titles of jobs."""

from adaptlab.specs.task_labels import records_label
from adaptlab_answers.jobs import JobSummary, JobView
from adaptlab_api.pages.rendering.formats import method_title, task_title

MAKING_TITLES = {"pretrain": "Pretraining", "import": "Import of"}


def job_title(job: JobSummary) -> str:
    """Return the title of a job."""
    if job.kind in MAKING_TITLES:
        return f"{MAKING_TITLES[job.kind]} {job.name}"
    if job.kind == "theory":
        return theory_title(job)
    return f"{method_title(job.method)} on {task_title(_task_label(job))}"


def _task_label(job: JobSummary) -> str | None:
    """Return the label of a job's task.

    It has the dataset if the job comes with its specs.
    """
    task = job.resolved_spec.task if isinstance(job, JobView) else None
    return job.task if task is None else records_label(task) or job.task


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
