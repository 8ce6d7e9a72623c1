"""Studies: create, look, wait, extend, clone, cancel, and list what they run."""

import hashlib
import json
import math
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from adaptlab.studies.study import StudyChanges, StudyExtension, StudySpec
from adaptlab_answers.jobs import JobView
from adaptlab_answers.recipes import StudyReport
from adaptlab_answers.studies import StudyPreview, StudySummary, StudyView
from adaptlab_client.display.comparison_tables import StudyComparison
from adaptlab_client.errors import PASSING, Conflict, NotFound, WaitTimedOut
from adaptlab_client.resources.bundles import save_bundle
from adaptlab_client.resources.comparisons import Comparisons
from adaptlab_client.resources.documents import Document
from adaptlab_client.resources.jobs import PATIENCE, document_of
from adaptlab_client.resources.study_run import StudyRun
from adaptlab_client.transport.connection import Connection, Identity, Query, Request, path_of
from adaptlab_client.transport.paging import entries

A = TypeVar("A", bound=BaseModel)
StudyBody = Mapping[str, object] | StudySpec | StudyExtension | StudyChanges
PROGRESS_POLL = 2.0


class Studies:
    """The studies of one server; a study is named by its id or by its name."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, spec: StudyBody, *, idempotency_key: str | None = None) -> StudyView:
        """Make a study and its jobs; a key used again with the same spec returns the first study.

        Without `idempotency_key` a fresh one makes the retries of this one call safe. Raises
        `InvalidRequest` with a pointer to every fault, and `Conflict` for a taken name.
        """
        return self._post((), spec, StudyView, key=idempotency_key or str(uuid.uuid4()))

    def run(self, spec: StudyBody, *, idempotency_key: str | None = None) -> StudyRun:
        """Create a study, or find the one that the same spec has made, to wait for and compare.

        Without `idempotency_key` it follows from the spec, so that a script or notebook that runs
        again goes on with what it began. Raises `InvalidRequest`, and `Conflict` for a name that
        another study has.
        """
        document = _document(spec)
        key = idempotency_key or f"run-{_digest(document)}"
        try:
            return StudyRun(self, self.create(spec, idempotency_key=key))
        except Conflict:
            # Keys are kept for a week, and names for ever.
            there = self._asked_before(document)
            if there is None:
                raise
            return StudyRun(self, there)

    def preview(self, spec: StudyBody) -> StudyPreview:
        """What `create` would make: jobs, cells, what fits nowhere, passes and time."""
        return self._post((), spec, StudyPreview, validate_only=True)

    def get(self, study: Identity) -> StudyView:
        """One study as it is now, cell by cell; raises `NotFound`."""
        return self._connection.ask(Request("GET", path_of("studies", study)), StudyView)

    def list(self, *, job: Identity | None = None, page_size: int = 100) -> Iterator[StudySummary]:
        """All studies without their cells, the newest first; with `job` those it belongs to."""
        query: Query = {"job": job, "page_size": page_size}
        return entries(self._connection, path_of("studies"), StudySummary, query)

    def jobs(
        self,
        study: Identity,
        *,
        filter: str | None = None,  # noqa: A002 - the interface's own word
        page_size: int = 100,
    ) -> Iterator[JobView]:
        """The jobs of a study, those that make its base models included, the newest first."""
        query: Query = {"filter": filter, "page_size": page_size}
        return entries(self._connection, path_of("studies", study, "jobs"), JobView, query)

    def cancel(self, study: Identity) -> StudyView:
        """Cancel, with the jobs that no other study wants; one cancelled already stays as it is."""
        return self._connection.ask(Request("POST", path_of("studies", study, "cancel")), StudyView)

    def extend(self, study: Identity, extension: StudyBody | None = None) -> StudyView:
        """Add seeds, methods, budgets, tasks or base models; run again what has failed.

        `{"seeds": 5}` means five in all, so that the same call again changes nothing.
        """
        return self._post((study, "extend"), extension or {}, StudyView)

    def preview_extension(self, study: Identity, extension: StudyBody) -> StudyPreview:
        """What `extend` would make."""
        return self._post((study, "extend"), extension, StudyPreview, validate_only=True)

    def preview_clone(self, study: Identity, changes: StudyBody) -> StudyPreview:
        """What `clone` would make."""
        return self._post((study, "clone"), changes, StudyPreview, validate_only=True)

    def clone(
        self, study: Identity, changes: StudyBody, *, idempotency_key: str | None = None
    ) -> StudyView:
        """Make a study like another one, with another name and the other members given."""
        key = idempotency_key or str(uuid.uuid4())
        return self._post((study, "clone"), changes, StudyView, key=key)

    def comparison(
        self, study: Identity, *, level: float | None = None, margin: float | None = None
    ) -> StudyComparison:
        """Scores, verdicts and diagnoses as far as there are scores; read the warnings first."""
        return Comparisons(self._connection).study(study, level=level, margin=margin)

    def bundle(
        self,
        study: Identity,
        target: str | Path,
        *,
        level: float | None = None,
        margin: float | None = None,
    ) -> Path:
        """Save the decision of a study that has ended, with all that it rests on, as one file.

        `adaptlab.bundle.checking.check_bundle` checks it without a server. Raises `Conflict` while
        the study runs, and `DigestMismatch`.
        """
        query: Query = {"level": level, "margin": margin}
        return save_bundle(self._connection, study, Path(target), query)

    def report(self, study: Identity) -> StudyReport:
        """The paper's tables and claims beside what a recipe's study has measured so far.

        Raises `NotFound`, also for a study that was not made from a recipe.
        """
        request = Request("GET", path_of("studies", study, "report"))
        return self._connection.ask(request, StudyReport)

    def wait(
        self,
        study: Identity,
        *,
        timeout: float | None = None,
        on_progress: Callable[[StudyView], None] | None = None,
    ) -> StudyView:
        """Wait until all jobs have ended, however they end, and return the study.

        `on_progress` gets the study every two seconds. Outages of up to five minutes are waited
        through. Raises `WaitTimedOut` after `timeout` seconds.
        """
        return next(self.as_ended([study], timeout=timeout, on_progress=on_progress))

    def as_ended(
        self,
        studies: Sequence[Identity],
        *,
        timeout: float | None = None,
        on_progress: Callable[[StudyView], None] | None = None,
    ) -> Iterator[StudyView]:
        """The studies in the order in which they end; raises `WaitTimedOut` for those that don't.

        What is said of `wait` holds here.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        heard = dict.fromkeys(studies, time.monotonic())
        while True:
            for study in list(heard):
                found = self._heard_of(study, min(heard[study] + PATIENCE, deadline))
                if found is None:
                    continue
                heard[study] = time.monotonic()
                if on_progress:
                    on_progress(found)
                if found.terminal:
                    del heard[study]
                    yield found
            if not heard:
                return
            if time.monotonic() >= deadline:
                raise WaitTimedOut([*map(str, heard)], timeout or 0.0)
            time.sleep(max(0.0, min(PROGRESS_POLL, deadline - time.monotonic())))

    def _heard_of(self, study: Identity, until: float) -> StudyView | None:
        """The study, or None in an outage, which is put up with until then."""
        try:
            return self.get(study)
        except PASSING:
            if time.monotonic() > until:
                raise
            return None

    def _asked_before(self, document: Document) -> StudyView | None:
        """The study of that name if its spec is the same."""
        try:
            there = self.get(str(document.get("name")))
            same = StudySpec.model_validate(there.spec) == StudySpec.model_validate(document)
        except (NotFound, ValidationError):
            return None
        return there if same else None

    def _post(
        self,
        path: tuple[Identity, ...],
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


def _digest(document: Document) -> str:
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _document(body: StudyBody) -> Document:
    if isinstance(body, BaseModel):
        given = body.model_dump(mode="json", exclude_unset=True)
        return TypeAdapter(Document).validate_python(given)
    return document_of(body)
