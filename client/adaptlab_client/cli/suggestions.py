"""Completion of arguments in a shell: names and ids from the server.

On any error, nothing is suggested and nothing is printed, so as not to disturb the typed line.
Only names without special characters are suggested, because the shell evaluates them.
"""

import re
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from adaptlab_client.client import Client

SECONDS = 2.0
MOST = 50
Suggestion = tuple[str, str]
Suggest = Callable[[typer.Context, str], list[Suggestion]]
_HARMLESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@+-]*")
_NOT_HARMLESS = re.compile(r"[^A-Za-z0-9._/@+ -]")


def suggest(fetch: "Callable[[Client], Iterable[Suggestion]]") -> Suggest:
    """Return a function for `autocompletion=`, with values from `fetch`."""

    def suggested(context: typer.Context, incomplete: str) -> list[Suggestion]:
        try:
            with _client(context) as client:
                return _beginning_with(incomplete, islice(fetch(client), MOST))
        except Exception:  # noqa: BLE001 - see the module's docstring
            return []

    return suggested


def _client(context: typer.Context) -> "Client":
    from adaptlab_client.client import Client  # loads httpx, needed for completion only
    from adaptlab_client.transport.connection import Retries

    options = context.find_root().params
    retries = Retries(attempts=1)
    return Client(
        options.get("url"), project=options.get("project"), timeout=SECONDS, retries=retries
    )


def _beginning_with(incomplete: str, suggestions: Iterable[Suggestion]) -> list[Suggestion]:
    return [
        (value, _NOT_HARMLESS.sub(" ", about))
        for value, about in suggestions
        if value.startswith(incomplete) and _HARMLESS.fullmatch(value)
    ]


def _jobs(client: "Client") -> Iterable[Suggestion]:
    for job in client.jobs.summaries(page_size=MOST):
        parts = (job.state, job.kind, job.method, job.task, job.name)
        yield str(job.id), " ".join(part for part in parts if part)


def _studies(client: "Client") -> Iterable[Suggestion]:
    return ((study.name, study.state) for study in client.studies.list(page_size=MOST))


jobs = suggest(_jobs)
studies = suggest(_studies)
base_models = suggest(
    lambda client: ((model.name, model.state) for model in client.base_models.list())
)
datasets = suggest(
    lambda client: ((dataset.name, dataset.source) for dataset in client.datasets.list())
)
model_folders = suggest(
    lambda client: (
        (folder.name, folder.family or folder.kind) for folder in client.model_folders.list()
    )
)
methods = suggest(lambda client: ((method.name, method.title) for method in client.methods.list()))
tasks = suggest(lambda client: ((task.name, task.title) for task in client.tasks.list()))
families = suggest(
    lambda client: ((family.name, family.title) for family in client.families.list())
)
recipes = suggest(lambda client: ((recipe.name, "") for recipe in client.recipes.list()))
projects = suggest(
    lambda client: ((project.name, project.role or "") for project in client.projects.list())
)
uploads = suggest(
    lambda client: ((str(upload.id), upload.state) for upload in client.uploads.list())
)
