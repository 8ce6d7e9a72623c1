"""What the shell offers for an argument when Tab is pressed: names and ids from the server.

Whatever goes wrong, nothing is offered and nothing is said: the line belongs to who is typing.
Only harmless names are offered, because a shell evaluates what it is given.
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


def suggest(found: "Callable[[Client], Iterable[Suggestion]]") -> Suggest:
    """A function for `autocompletion=` that offers what `found` gets from a client."""

    def offered(context: typer.Context, incomplete: str) -> list[Suggestion]:
        try:
            with _client(context) as client:
                return _beginning_with(incomplete, islice(found(client), MOST))
        except Exception:  # noqa: BLE001 - see above
            return []

    return offered


def _client(context: typer.Context) -> "Client":
    from adaptlab_client.client import Client  # httpx, for those who press Tab
    from adaptlab_client.transport.connection import Retries

    given = context.find_root().params
    retries = Retries(attempts=1)
    return Client(given.get("url"), project=given.get("project"), timeout=SECONDS, retries=retries)


def _beginning_with(incomplete: str, found: Iterable[Suggestion]) -> list[Suggestion]:
    return [
        (value, _NOT_HARMLESS.sub(" ", about))
        for value, about in found
        if value.startswith(incomplete) and _HARMLESS.fullmatch(value)
    ]


def _jobs(client: "Client") -> Iterable[Suggestion]:
    for job in client.jobs.summaries(page_size=MOST):
        parts = (job.state, job.kind, job.method, job.task or job.name)
        yield str(job.id), " ".join(part for part in parts if part)


def _studies(client: "Client") -> Iterable[Suggestion]:
    return ((study.name, study.state) for study in client.studies.list(page_size=MOST))


jobs = suggest(_jobs)
studies = suggest(_studies)
base_models = suggest(lambda client: ((one.name, one.state) for one in client.base_models.list()))
datasets = suggest(lambda client: ((one.name, one.source) for one in client.datasets.list()))
methods = suggest(lambda client: ((one.name, one.title) for one in client.methods.list()))
tasks = suggest(lambda client: ((one.name, one.title) for one in client.tasks.list()))
families = suggest(lambda client: ((one.name, one.title) for one in client.families.list()))
recipes = suggest(lambda client: ((one.name, "") for one in client.recipes.list()))
projects = suggest(lambda client: ((one.name, one.role or "") for one in client.projects.list()))
uploads = suggest(lambda client: ((str(one.id), one.state) for one in client.uploads.list()))
