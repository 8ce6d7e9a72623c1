"""Studies: create, list, annotate, delete, wait, extend, clone, compare."""

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
from adaptlab_answers.questions import DecisionView
from adaptlab_answers.recipes import StudyReport
from adaptlab_answers.studies import DeletedStudy, StudyPreview, StudySummary, StudyView
from adaptlab_answers.study_links import CreatedStudyLink, StudyLinkList, StudyLinkView
from adaptlab_client.display.comparison_tables import StudyComparison
from adaptlab_client.errors import PASSING, Conflict, NotFound, WaitTimedOut
from adaptlab_client.resources.bundles import save_bundle
from adaptlab_client.resources.comparisons import Comparisons
from adaptlab_client.resources.documents import Document, annotations_of
from adaptlab_client.resources.jobs import PATIENCE, Archived, document_of
from adaptlab_client.resources.study_run import StudyRun
from adaptlab_client.transport.connection import Connection, Identity, Query, Request, path_of
from adaptlab_client.transport.paging import entries

A = TypeVar("A", bound=BaseModel)
StudyBody = Mapping[str, object] | StudySpec | StudyExtension | StudyChanges
PROGRESS_POLL = 2.0
LINK_DAYS = 30


class Studies:
    """The studies of one server, each addressed by its id or name."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, spec: StudyBody, *, idempotency_key: str | None = None) -> StudyView:
        """Create a study; the same key with the same spec returns the first study.

        The default for `idempotency_key` is a new one, which makes the retries of this call safe.
        Raises `InvalidRequest` with a pointer to every error, and `Conflict` if the name is taken.
        """
        return self._post((), spec, StudyView, key=idempotency_key or str(uuid.uuid4()))

    def run(self, spec: StudyBody, *, idempotency_key: str | None = None) -> StudyRun:
        """Create a study, or return the one created earlier from the same spec.

        The default for `idempotency_key` is derived from the spec, so a script or notebook that is
        run again continues with the same study. Raises `InvalidRequest`, and `Conflict` if another
        study has the name.
        """
        document = _document(spec)
        key = idempotency_key or f"run-{_digest(document)}"
        try:
            return StudyRun(self, self.create(spec, idempotency_key=key))
        except Conflict:
            # The server keeps keys for a week, and names forever.
            study = self._existing(document)
            if study is None:
                raise
            return StudyRun(self, study)

    def preview(self, spec: StudyBody) -> StudyPreview:
        """Return the study that `create` would create; nothing is stored."""
        return self._post((), spec, StudyPreview, validate_only=True)

    def get(self, study: Identity) -> StudyView:
        """Return the current state of a study, with its cells; raises `NotFound`."""
        return self._connection.ask(Request("GET", path_of("studies", study)), StudyView)

    def list(
        self,
        *,
        job: Identity | None = None,
        page_size: int = 100,
        archived: Archived | None = None,
    ) -> Iterator[StudySummary]:
        """Iterate over the studies, or those with `job`, newest first.

        They are listed without their cells. Archived ones are left out unless `archived` is `only`
        or `include`.
        """
        query: Query = {"job": job, "page_size": page_size, "archived": archived}
        return entries(self._connection, path_of("studies"), StudySummary, query)

    def jobs(
        self,
        study: Identity,
        *,
        filter: str | None = None,  # noqa: A002 - the interface's own word
        page_size: int = 100,
    ) -> Iterator[JobView]:
        """Iterate over the jobs of a study, newest first.

        They include the jobs that create its base models.
        """
        query: Query = {"filter": filter, "page_size": page_size}
        return entries(self._connection, path_of("studies", study, "jobs"), JobView, query)

    def decisions(
        self, study: Identity, *, replay: bool = False, page_size: int = 100
    ) -> Iterator[DecisionView]:
        """Iterate over the decisions of a study, the first one first.

        Only a study with a question has any. With `replay`, the server takes each again from what
        it saw, and says if it is the same.
        """
        query: Query = {"replay": "true" if replay else None, "page_size": page_size}
        return entries(
            self._connection, path_of("studies", study, "decisions"), DecisionView, query
        )

    def annotate(
        self,
        study: Identity,
        *,
        name: str | None = None,
        labels: Mapping[str, str | None] | None = None,
        notes: str | None = None,
        archived: bool | None = None,
    ) -> StudyView:
        """Change a study's name, labels and notes, or archive it.

        See `Jobs.annotate`. Raises `Conflict` for a name that another study of the project has.
        """
        body = annotations_of(labels, notes, name=name, archived=archived)
        request = Request("PATCH", path_of("studies", study), body=body)
        return self._connection.ask(request, StudyView)

    def delete(self, study: Identity, *, with_jobs: bool = False) -> DeletedStudy:
        """Delete a study that is not running.

        Only an admin of its project can do this. Its jobs stay; `with_jobs` deletes those that
        were created for a study and that nothing else needs. Raises `Conflict` for a running study.
        """
        query: Query = {"with_jobs": "true"} if with_jobs else {}
        request = Request("DELETE", path_of("studies", study), query=query)
        return self._connection.ask(request, DeletedStudy)

    def share(self, study: Identity, project: str) -> StudyView:
        """Share a study with another project of yours; safe to repeat.

        Its owner, or an admin of its project, can do this. The other project can read it, its jobs
        with their results and its base models.
        """
        request = Request("POST", path_of("studies", study, "shares"), body={"project": project})
        return self._connection.ask(request, StudyView)

    def take_back(self, study: Identity, project: str) -> None:
        """Stop sharing a study with a project."""
        self._connection.send(Request("DELETE", path_of("studies", study, "shares", project)))

    def link(
        self, study: Identity, name: str, *, expires_in_days: int | None = LINK_DAYS
    ) -> CreatedStudyLink:
        """Create a link with which people without an account read a study.

        Its `path` follows the server's address, and is not returned again. With `expires_in_days`
        None it is valid until revoked. Only an admin of the study's project can do this.
        """
        body: Document = {"name": name, "expires_in_days": expires_in_days}
        request = Request("POST", path_of("studies", study, "links"), body=body)
        return self._connection.ask(request, CreatedStudyLink)

    def links(self, study: Identity) -> Sequence[StudyLinkView]:
        """Return the links to a study, newest first."""
        request = Request("GET", path_of("studies", study, "links"))
        return self._connection.ask(request, StudyLinkList).data

    def revoke_link(self, study: Identity, link: int) -> StudyLinkView:
        """Revoke a link to a study; it opens nothing from the next request on."""
        request = Request("DELETE", path_of("studies", study, "links", link))
        return self._connection.ask(request, StudyLinkView)

    def cancel(self, study: Identity) -> StudyView:
        """Cancel a study, and its jobs that belong to no other study.

        Repeated calls change nothing.
        """
        return self._connection.ask(Request("POST", path_of("studies", study, "cancel")), StudyView)

    def extend(self, study: Identity, extension: StudyBody | None = None) -> StudyView:
        """Add seeds, methods, budgets, tasks or base models; re-run failed jobs.

        `{"seeds": 5}` means five in total, so repeated calls change nothing.
        """
        return self._post((study, "extend"), extension or {}, StudyView)

    def preview_extension(self, study: Identity, extension: StudyBody) -> StudyPreview:
        """Return the jobs that `extend` would create; nothing is stored."""
        return self._post((study, "extend"), extension, StudyPreview, validate_only=True)

    def preview_clone(self, study: Identity, changes: StudyBody) -> StudyPreview:
        """Return the study that `clone` would create; nothing is stored."""
        return self._post((study, "clone"), changes, StudyPreview, validate_only=True)

    def clone(
        self, study: Identity, changes: StudyBody, *, idempotency_key: str | None = None
    ) -> StudyView:
        """Create a study like another one, with a new name and other changes."""
        key = idempotency_key or str(uuid.uuid4())
        return self._post((study, "clone"), changes, StudyView, key=key)

    def comparison(
        self, study: Identity, *, level: float | None = None, margin: float | None = None
    ) -> StudyComparison:
        """Return the comparison with the scores so far; read its warnings first."""
        return Comparisons(self._connection).study(study, level=level, margin=margin)

    def bundle(
        self,
        study: Identity,
        target: str | Path,
        *,
        level: float | None = None,
        margin: float | None = None,
    ) -> Path:
        """Save the decision of a finished study and its evidence as one file.

        `adaptlab.bundle.checking.check_bundle` checks it without a server. Raises `Conflict` while
        the study runs, and `DigestMismatch`.
        """
        query: Query = {"level": level, "margin": margin}
        return save_bundle(self._connection, study, Path(target), query)

    def report(self, study: Identity) -> StudyReport:
        """Return the report of a recipe's study, with the scores so far.

        Raises `NotFound`, also for a study that was not created from a recipe.
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
        """Wait until all jobs have ended, and return the study.

        `on_progress` is called with the study every two seconds. Outages of up to five minutes are
        tolerated. Raises `WaitTimedOut` after `timeout` seconds.
        """
        return next(self.as_ended([study], timeout=timeout, on_progress=on_progress))

    def as_ended(
        self,
        studies: Sequence[Identity],
        *,
        timeout: float | None = None,
        on_progress: Callable[[StudyView], None] | None = None,
    ) -> Iterator[StudyView]:
        """Yield the studies in the order in which they end.

        Progress, outages and the time limit are handled as in `wait`.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        last_answers = dict.fromkeys(studies, time.monotonic())
        while True:
            for study in list(last_answers):
                view = self._current(study, min(last_answers[study] + PATIENCE, deadline))
                if view is None:
                    continue
                last_answers[study] = time.monotonic()
                if on_progress:
                    on_progress(view)
                if view.terminal:
                    del last_answers[study]
                    yield view
            if not last_answers:
                return
            if time.monotonic() >= deadline:
                raise WaitTimedOut([*map(str, last_answers)], timeout or 0.0)
            time.sleep(max(0.0, min(PROGRESS_POLL, deadline - time.monotonic())))

    def _current(self, study: Identity, until: float) -> StudyView | None:
        """Return the study, or None in an outage, which is tolerated until then."""
        try:
            return self.get(study)
        except PASSING:
            if time.monotonic() > until:
                raise
            return None

    def _existing(self, document: Document) -> StudyView | None:
        """Return the study with this name if it has the same spec."""
        try:
            study = self.get(str(document.get("name")))
            is_same = StudySpec.model_validate(study.spec) == StudySpec.model_validate(document)
        except (NotFound, ValidationError):
            return None
        return study if is_same else None

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
        members = body.model_dump(mode="json", exclude_unset=True)
        return TypeAdapter(Document).validate_python(members)
    return document_of(body)
