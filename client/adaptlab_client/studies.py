"""Studies: create, look, wait, extend, clone, cancel, and list what they run."""

import math
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter

from adaptlab.study import StudyChanges, StudyExtension, StudySpec
from adaptlab_client.answers import Answer, Document, Job
from adaptlab_client.comparison_answers import StudyComparison
from adaptlab_client.comparisons import Comparisons
from adaptlab_client.connection import Connection, Query, Request, path_of
from adaptlab_client.errors import PASSING, WaitTimedOut
from adaptlab_client.jobs import PATIENCE, document_of
from adaptlab_client.paging import entries
from adaptlab_client.recipe_answers import RecipeReport
from adaptlab_client.study_answers import Study, StudyPreview

A = TypeVar("A", bound=Answer)
StudyBody = Mapping[str, object] | StudySpec | StudyExtension | StudyChanges
PROGRESS_POLL = 2.0


class Studies:
    """The studies of one server; a study is named by its id or by its name."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, spec: StudyBody, *, idempotency_key: str | None = None) -> Study:
        """Make a study and its jobs; a key used again with the same spec returns the first study.

        Without `idempotency_key` a fresh one makes the retries of this one call safe. Raises
        `InvalidRequest` with a pointer to every fault, and `Conflict` for a taken name.
        """
        return self._post((), spec, Study, key=idempotency_key or str(uuid.uuid4()))

    def preview(self, spec: StudyBody) -> StudyPreview:
        """What `create` would make: jobs, cells, what fits nowhere, passes and time."""
        return self._post((), spec, StudyPreview, validate_only=True)

    def get(self, study: str) -> Study:
        """One study as it is now, cell by cell; raises `NotFound`."""
        return self._connection.ask(Request("GET", path_of("studies", study)), Study)

    def list(self, *, job: str | None = None, page_size: int = 100) -> Iterator[Study]:
        """All studies without their cells, the newest first; with `job` those it belongs to."""
        query: Query = {"job": job, "page_size": page_size}
        return entries(self._connection, path_of("studies"), Study, query)

    def jobs(
        self,
        study: str,
        *,
        filter: str | None = None,  # noqa: A002 - the interface's own word
        page_size: int = 100,
    ) -> Iterator[Job]:
        """The jobs of a study, those that make its base models included, the newest first."""
        query: Query = {"filter": filter, "page_size": page_size}
        return entries(self._connection, path_of("studies", study, "jobs"), Job, query)

    def cancel(self, study: str) -> Study:
        """Cancel, with the jobs that no other study wants; one cancelled already stays as it is."""
        return self._connection.ask(Request("POST", path_of("studies", study, "cancel")), Study)

    def extend(self, study: str, extension: StudyBody | None = None) -> Study:
        """Add seeds, methods, budgets, tasks or base models; run again what has failed.

        `{"seeds": 5}` means five in all, so that the same call again changes nothing.
        """
        return self._post((study, "extend"), extension or {}, Study)

    def preview_extension(self, study: str, extension: StudyBody) -> StudyPreview:
        """What `extend` would make."""
        return self._post((study, "extend"), extension, StudyPreview, validate_only=True)

    def clone(self, study: str, changes: StudyBody, *, idempotency_key: str | None = None) -> Study:
        """Make a study like another one, with another name and the other members given."""
        key = idempotency_key or str(uuid.uuid4())
        return self._post((study, "clone"), changes, Study, key=key)

    def comparison(
        self, study: str, *, level: float | None = None, margin: float | None = None
    ) -> StudyComparison:
        """Scores, verdicts and diagnoses as far as there are scores; read the warnings first."""
        return Comparisons(self._connection).study(study, level=level, margin=margin)

    def report(self, study: str) -> RecipeReport:
        """The paper's tables and claims beside what a recipe's study has measured so far.

        Raises `NotFound`, also for a study that was not made from a recipe.
        """
        request = Request("GET", path_of("studies", study, "report"))
        return self._connection.ask(request, RecipeReport)

    def wait(
        self,
        study: str,
        *,
        timeout: float | None = None,
        on_progress: Callable[[Study], None] | None = None,
    ) -> Study:
        """Wait until all jobs have ended, however they end, and return the study.

        `on_progress` gets the study every two seconds. Outages of up to five minutes are waited
        through. Raises `WaitTimedOut` after `timeout` seconds.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        heard = time.monotonic()
        while True:
            try:
                found = self.get(study)
                heard = time.monotonic()
                if on_progress:
                    on_progress(found)
                if found.terminal:
                    return found
            except PASSING:
                if time.monotonic() > min(heard + PATIENCE, deadline):
                    raise
            if time.monotonic() >= deadline:
                raise WaitTimedOut([study], timeout or 0.0)
            time.sleep(max(0.0, min(PROGRESS_POLL, deadline - time.monotonic())))

    def _post(
        self,
        path: tuple[str, ...],
        body: StudyBody,
        answer: type[A],
        *,
        key: str | None = None,
        validate_only: bool = False,
    ) -> A:
        request = Request(
            "POST",
            path_of("studies", *path),
            query={"validate_only": "true"} if validate_only else None,
            body=_document(body),
            headers={"Idempotency-Key": key} if key else {},
        )
        return self._connection.ask(request, answer)


def _document(body: StudyBody) -> Document:
    if isinstance(body, BaseModel):
        given = body.model_dump(mode="json", exclude_unset=True)
        return TypeAdapter(Document).validate_python(given)
    return document_of(body)
