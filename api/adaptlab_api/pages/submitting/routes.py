"""Routes of the forms that submit a job or a study.

The gate checks that a form was sent from this server, as for every change with a cookie.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import quote
from uuid import UUID

from fastapi import APIRouter, BackgroundTasks, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy.orm import Session

from adaptlab.errors import AdaptlabError, InvalidSpec
from adaptlab.reproductions.claim import Preset
from adaptlab.reproductions.recipe_study import RecipeRequest
from adaptlab.studies.study_drafts import DraftBase, NoDraft
from adaptlab.values import Value
from adaptlab_api.answers.problems import status_of
from adaptlab_api.answers.state import Resources
from adaptlab_api.limits.auditing import noted, unaudited
from adaptlab_api.pages.rendering.forms import form_fields
from adaptlab_api.pages.rendering.parameters import server_address
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.pages.submitting.answers import (
    REFUSALS,
    JobAnswer,
    StudyAnswer,
    in_project,
    job_answer,
    job_spec,
    problems_of,
    projects_to_submit_to,
    study_answer,
    study_spec,
)
from adaptlab_api.pages.submitting.draft import Draft, draft_of, draft_typed
from adaptlab_api.pages.submitting.job_form import (
    KINDS,
    Around,
    around,
    first_document,
    job_sections,
)
from adaptlab_api.pages.submitting.of_hub import missing_of_hub
from adaptlab_api.pages.submitting.page import draft_values
from adaptlab_api.pages.submitting.spec_document import Document
from adaptlab_api.pages.submitting.spec_form import typed
from adaptlab_api.pages.submitting.study_form import (
    first_study_document,
    new_name,
    study_sections,
)
from adaptlab_api.requests.dependencies import (
    AccessDep,
    PrincipalDep,
    ResourcesDep,
    SessionDep,
    SubmitterDep,
)
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import lacks_to_submit, needs
from adaptlab_api.requests.study_request import study_rules
from adaptlab_services import short_ids
from adaptlab_services.errors import Absent
from adaptlab_services.jobs import jobs
from adaptlab_services.models import datasets, task_files
from adaptlab_services.people import projects
from adaptlab_services.people.access import Access
from adaptlab_services.people.tokens import Principal
from adaptlab_services.recipes import recipes
from adaptlab_services.studies import dataset_studies, studies

MOST_FIELDS = 400
NEW_JOB, NEW_STUDY = "/jobs/new", "/studies/new"
NO_SUCH = (
    "The job, study, recipe or dataset to start from does not exist here. Its name may be mistyped."
)
CANNOT_SUBMIT = "You cannot submit here"


async def spec_form_fields(request: Request) -> Mapping[str, Sequence[str]]:
    """Return the fields of a form with a spec; raises `Refused`."""
    return await form_fields(request, MOST_FIELDS)


FieldsDep = Annotated[Mapping[str, Sequence[str]], Depends(spec_form_fields)]
FromDep = Annotated[str, Query(alias="from", max_length=63)]
NameDep = Annotated[str, Query(max_length=120)]
MinutesDep = Annotated[float | None, Query(ge=1, le=10_000)]


@dataclass(frozen=True, slots=True)
class Asking:
    """A request for a form: everything that its page needs."""

    request: Request
    session: Session
    principal: Principal
    rights: Access
    opened: Resources
    projects: tuple[str, ...]

    @property
    def lacks(self) -> str | None:
        """The permission that the caller lacks to submit, in words, or None."""
        return lacks_to_submit(self.request)

    @property
    def project(self) -> str:
        """The project of a new form: the usual one, or else the first."""
        if len(self.projects) < 2:
            return next(iter(self.projects), "")
        ids = {projects.id_of(self.session, self.rights, name): name for name in self.projects}
        return ids.get(self.rights.project_id or 0, self.projects[0])

    def shown(self, here: str) -> dict[str, object]:
        """Return the values of every page with a form."""
        return {
            "principal": self.principal,
            "here": here,
            "projects": self.projects if len(self.projects) > 1 else (),
        }

    def form(self, here: str, new: str, kind: str | None = None) -> dict[str, object]:
        """Return the values of a form's page; `address` reopens it after a POST."""
        again = f"{new}?kind={kind}" if kind else new
        address = again if self.request.method == "POST" else None
        return {**self.shown(here), "new": new, "address": address}


def asking(
    request: Request,
    session: SessionDep,
    principal: PrincipalDep,
    rights: AccessDep,
    opened: ResourcesDep,
) -> Asking:
    """Return the request for a form; a FastAPI dependency."""
    names = projects_to_submit_to(session, rights)
    return Asking(request, session, principal, rights, opened, names)


AskingDep = Annotated[Asking, Depends(asking)]


def _missing(
    typed_in: Callable[[Asking, Mapping[str, Sequence[str]]], Draft],
    spec_of: Callable[[Draft], Value],
) -> Callable[..., Awaitable[AdaptlabError | None]]:
    """Return a dependency that waits for what a form names on the hub.

    It comes before those with a unit of work, which would be open while the request waits.
    """

    async def missing(
        request: Request,
        principal: PrincipalDep,
        rights: AccessDep,
        opened: ResourcesDep,
        fields: FieldsDep,
    ) -> AdaptlabError | None:
        def draft(session: Session) -> Draft:
            return typed_in(asking(request, session, principal, rights, opened), fields)

        return await missing_of_hub(request, draft, spec_of)

    return missing


def routers(renderer: Renderer) -> tuple[APIRouter, ...]:
    """Return the routers of this wing."""
    return (new_job_routes(renderer), new_study_routes(renderer))


def new_job_routes(renderer: Renderer) -> APIRouter:
    """Return the routes of the form of a job."""
    router = closed_router(NEW_JOB)

    @router.get("")
    @needs("reader")
    def new_job_page(
        asked: AskingDep,
        kind: NameDep = "",
        like: FromDep = "",
        base_model: NameDep = "",
        method: NameDep = "",
        dataset: NameDep = "",
        folder: NameDep = "",
    ) -> Response:
        if asked.lacks:
            return _closed(renderer, asked)
        if folder:
            return _job_page(renderer, asked, _job_of_folder(asked, kind, folder))
        try:
            if dataset:
                draft = _job_of_dataset(asked, kind, dataset, base_model, method)
            else:
                draft = _opened_job(asked, kind, like, base_model, method)
        except Absent:
            return renderer.fault(404, "There is no such job", NO_SUCH, asked.shown("/"))
        return _job_page(renderer, asked, draft)

    @router.post("/preview")
    @needs("reader")
    @unaudited
    def preview_new_job(asked: AskingDep, fields: FieldsDep) -> Response:
        # 200 also with errors: a preview is a question.
        return _job_page(renderer, asked, _typed_job(asked, fields))

    @router.post("")
    @needs("submitter")
    def submit_job(
        missing: Annotated[AdaptlabError | None, Depends(_missing(_typed_job, job_spec))],
        asked: AskingDep,
        _: SubmitterDep,
        fields: FieldsDep,
        background: BackgroundTasks,
    ) -> Response:
        draft, opened = _typed_job(asked, fields), asked.opened
        if missing is not None:
            return _job_page(renderer, asked, draft, missing)
        try:
            with _changing(asked, draft):
                spec = job_spec(draft)
                created = jobs.create(
                    asked.session,
                    asked.principal,
                    task_files.with_fetched(asked.session, spec),
                    idempotency_key=draft.key,
                    roots=opened.model_roots,
                    most_queued=opened.settings.max_queued_jobs,
                    asked=spec,
                )
        except REFUSALS as refusal:
            return _job_page(renderer, asked, draft, refusal)
        return _redirected(asked, background, created.queues, f"/jobs/{created.job.id}")

    return router


def new_study_routes(renderer: Renderer) -> APIRouter:
    """Return the routes of the form of a study."""
    router = closed_router(NEW_STUDY)

    @router.get("")
    @needs("reader")
    def new_study_page(
        asked: AskingDep,
        like: FromDep = "",
        recipe: NameDep = "",
        preset: Preset = "quick",
        dataset: NameDep = "",
        minutes: MinutesDep = None,
    ) -> Response:
        if asked.lacks:
            return _closed(renderer, asked)
        fitting = Fitting(dataset, minutes)
        try:
            if dataset:
                draft, fitting = _study_of_dataset(asked, dataset, minutes)
            else:
                draft = _opened_study(asked, like, recipe, preset)
        except (Absent, InvalidSpec):
            shown = asked.shown("/studies")
            return renderer.fault(404, "There is no such study", NO_SUCH, shown)
        hidden = _named_new(asked.session)
        return _study_page(renderer, asked, draft, hidden=hidden, fitting=fitting)

    @router.post("/preview")
    @needs("reader")
    @unaudited
    def preview_new_study(asked: AskingDep, fields: FieldsDep) -> Response:
        return _study_page(renderer, asked, _typed_study(asked, fields))

    @router.post("")
    @needs("submitter")
    def submit_study(
        missing: Annotated[AdaptlabError | None, Depends(_missing(_typed_study, study_spec))],
        asked: AskingDep,
        _: SubmitterDep,
        fields: FieldsDep,
        background: BackgroundTasks,
    ) -> Response:
        draft, rules = _typed_study(asked, fields), study_rules(asked.opened)
        if missing is not None:
            return _study_page(renderer, asked, draft, missing)
        try:
            with _changing(asked, draft):
                spec = study_spec(draft)
                named = task_files.with_fetched(asked.session, spec)
                who, key = asked.principal, draft.key
                created = studies.create(
                    asked.session, who, named, rules, idempotency_key=key, asked=spec
                )
        except REFUSALS as refusal:
            return _study_page(renderer, asked, draft, refusal)
        place = f"/studies/{quote(created.study.name, safe='')}"
        return _redirected(asked, background, created.queues, place)

    return router


@contextmanager
def _changing(asked: Asking, draft: Draft) -> Generator[None]:
    """Make a change in the draft's project; roll it back if it is refused."""
    # The page about a refusal commits, so what was written before it is rolled back here.
    with asked.session.begin_nested(), in_project(asked.session, asked.rights, draft.project):
        yield


def _redirected(
    asked: Asking, background: BackgroundTasks, queues: Iterable[str], place: str
) -> Response:
    """Redirect to the new resource; ring its queues after the commit."""
    background.add_task(asked.opened.bell.ring, queues)
    return noted(asked.session, asked.request, RedirectResponse(place, 303))


def _opened_job(asked: Asking, kind: str, like: str, base_model: str, method: str) -> Draft:
    """Return a new form, or that of an existing job; raise `Absent`."""
    project = asked.project
    if not like:
        offered = _around(asked, project)
        document = first_document(offered, kind if kind in KINDS else "", base_model, method)
        return _job_draft(document, offered, project)
    job = jobs.get(asked.session, short_ids.job_id(asked.session, like))
    project = job.project if job.project in asked.projects else project
    document = {"kind": job.kind, **job.spec}
    return _job_draft(document, _around(asked, project), project)


def _job_of_folder(asked: Asking, kind: str, folder: str) -> Draft:
    """Return a new form that imports a folder.

    It evaluates the adapter in it if the kind is `adapt`. A model is named after the folder's last
    part.
    """
    offered = _around(asked, asked.project)
    document: Document = {"kind": "import", "name": folder.split("/")[-1], "folder": folder}
    if kind == "adapt":
        plain = first_document(offered, kind, "", "")
        kept = ("kind", "base_model", "task")  # an adapter has no settings of training
        document = {name: plain[name] for name in kept if name in plain} | {"adapter": folder}
    return _job_draft(document, offered, asked.project)


def _job_of_dataset(asked: Asking, kind: str, dataset: str, base_model: str, method: str) -> Draft:
    """Return a new form with the task that fits a dataset; raise `Absent`."""
    project, task = _task_of(asked, dataset)
    offered = _around(asked, project)
    kind = kind if kind in KINDS else ""
    document = first_document(offered, kind, base_model, method, task)
    chosen = document.get("base_model")
    for one in (view for view in offered.bases if view.name == chosen):
        base = DraftBase.of(one.name, one.parameters, one.family, one.task)
        document["task"] = datasets.fitting_task(asked.session, dataset, base) or task
    return _job_draft(document, offered, project)


def _task_of(asked: Asking, dataset: str) -> tuple[str, Document]:
    """Return the project of a dataset and the task that fits it.

    If none does, the task is one of texts with the dataset only, for the user to fill in.
    """
    own = datasets.get(asked.session, dataset).project
    project = own if own in asked.projects else asked.project
    unknown: Document = {"name": "text_classification", "dataset": dataset}
    return project, datasets.fitting_task(asked.session, dataset) or unknown


def _job_draft(document: Document, offered: Around, project: str) -> Draft:
    spec = kind_of(document)
    return draft_of(spec, document, lambda s, chosen: job_sections(s, chosen, offered), project)


def kind_of(document: Document) -> str:
    """Return the kind of job of a document; the first kind if it has none."""
    kind = document.get("kind")
    return kind if isinstance(kind, str) and kind in KINDS else next(iter(KINDS))


def _typed_job(asked: Asking, fields: Mapping[str, Sequence[str]]) -> Draft:
    kind = typed(fields, "kind")
    offered = _around(asked, typed(fields, "project"))
    return draft_typed(
        kind if kind in KINDS else next(iter(KINDS)),
        fields,
        lambda spec, chosen: job_sections(spec, chosen, offered),
        offered.made,
        kind_of,
    )


def _opened_study(asked: Asking, like: str, recipe: str, preset: Preset) -> Draft:
    """Return a new form, or that of a study or a recipe.

    Raises:
        NotFound: if there is no such study or recipe.
        InvalidSpec: if the recipe cannot be a study here.
    """
    project = asked.project
    if recipe:
        request = RecipeRequest(recipe=recipe, preset=preset)
        with in_project(asked.session, asked.rights, project):
            spec = recipes.requested(asked.session, request).spec
        document: Document = spec.model_dump(mode="json", exclude_unset=True)
    elif like:
        study = studies.get(asked.session, like)
        project = study.project if study.project in asked.projects else project
        document = {**study.spec, "name": f"{study.name[:60]}-2"}
    else:
        document = first_study_document(_around(asked, project), datetime.now(UTC))
    return _study_draft(document, _around(asked, project), project)


def _study_draft(document: Document, offered: Around, project: str) -> Draft:
    return draft_of(
        "study", document, lambda s, chosen: study_sections(s, chosen, offered), project
    )


@dataclass(frozen=True, slots=True)
class Fitting:
    """A dataset's study fitted into minutes.

    `refused` says why none fits. Without `minutes` it is the usual study.
    """

    dataset: str
    minutes: float | None
    refused: str = ""


def _study_of_dataset(asked: Asking, dataset: str, minutes: float | None) -> tuple[Draft, Fitting]:
    """Return the form of a dataset's study that fits the minutes.

    Raises:
        NotFound: if there is no such dataset.
    """
    project, task = _task_of(asked, dataset)
    offered, now = _around(asked, project), datetime.now(UTC)
    ready = sorted(offered.bases, key=lambda base: not base.ready)
    fitting = Fitting(dataset, minutes)
    with in_project(asked.session, asked.rights, project):
        draft = dataset_studies.proposed(asked.session, dataset, ready, new_name(dataset, now))
        if draft is None:
            document = first_study_document(offered, now, task)
            return _study_draft(document, offered, project), Fitting("", None)
        if minutes is not None:
            rules = study_rules(asked.opened)
            try:
                draft = dataset_studies.that_fits(asked.session, draft, minutes, rules)
            except NoDraft as error:
                fitting = replace(fitting, refused=str(error))
    return _study_draft(draft.document(), offered, project), fitting


def _typed_study(asked: Asking, fields: Mapping[str, Sequence[str]]) -> Draft:
    offered = _around(asked, typed(fields, "project"))
    return draft_typed(
        "study",
        fields,
        lambda spec, chosen: study_sections(spec, chosen, offered),
        offered.made,
        lambda _: "study",
    )


def _around(asked: Asking, project: str) -> Around:
    """Return the choices of a project; none if it is unknown or ambiguous."""
    try:
        with in_project(asked.session, asked.rights, project):
            return around(asked.session)
    except REFUSALS:
        return Around((), (), {})


def _job_page(
    renderer: Renderer, asked: Asking, draft: Draft, refusal: AdaptlabError | None = None
) -> Response:
    roots = asked.opened.model_roots
    if refusal is None:
        preview = job_answer(asked.session, asked.rights, draft, roots)
    else:
        preview = JobAnswer(problems=problems_of(refusal))
    values = draft_values(
        draft, preview.problems, server_address(asked.request), "/v1/jobs", "jobs.submit"
    )
    texts = {"what": "job", "submits": "Submit job", "kinds": KINDS}
    shown = {**asked.form("/", NEW_JOB, draft.spec), **values, **texts, "answer": preview}
    return renderer.page("job-new.html", shown, status_of(refusal) if refusal else 200)


def _study_page(
    renderer: Renderer,
    asked: Asking,
    draft: Draft,
    refusal: AdaptlabError | None = None,
    hidden: UUID | None = None,
    fitting: Fitting | None = None,
) -> Response:
    if refusal is None:
        preview = study_answer(asked.session, asked.rights, draft, study_rules(asked.opened))
    else:
        preview = StudyAnswer(problems=problems_of(refusal))
    values = draft_values(
        draft, preview.problems, server_address(asked.request), "/v1/studies", "studies.create"
    )
    texts = {"what": "study", "submits": "Create study", "named_new": hidden, "fitting": fitting}
    shown = {**asked.form("/studies", NEW_STUDY), **values, **texts, "answer": preview}
    return renderer.page("study-new.html", shown, status_of(refusal) if refusal else 200)


def _named_new(session: Session) -> UUID | None:
    """Return the study named `new`, whose page this form hides."""
    try:
        return studies.get(session, "new").id
    except Absent:
        return None


def _closed(renderer: Renderer, asked: Asking) -> Response:
    shown: dict[str, object] = {"principal": asked.principal}
    # 200: the reader may see the page, which explains why there is no form.
    return renderer.fault(200, CANNOT_SUBMIT, asked.lacks or "", shown)
