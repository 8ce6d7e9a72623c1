"""`/v1/studies`: create, list, get, annotate, delete, extend, clone, cancel."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Annotated
from urllib.parse import quote

from fastapi import Path, Query, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from adaptlab.reproductions.recipe_study import RecipeRequest
from adaptlab.specs.annotations import StudyAnnotations
from adaptlab.studies.study import StudyChanges, StudyExtension, StudySpec
from adaptlab_answers.paging import Page
from adaptlab_answers.questions import DecisionView
from adaptlab_answers.studies import DeletedStudy, StudyPreview, StudySummary, StudyView
from adaptlab_answers.study_links import CreatedStudyLink, StudyLinkList, StudyLinkView
from adaptlab_api.answers.answers import NO_STORE, json_answer, tagged_answer
from adaptlab_api.limits.auditing import entry_of
from adaptlab_api.requests.bodies import Body, json_body
from adaptlab_api.requests.changes import ChangeInProgress, ChangesDep
from adaptlab_api.requests.dependencies import (
    ResourcesDep,
    SessionDep,
    SubmitterDep,
    Units,
    units_of,
)
from adaptlab_api.requests.describing import WITH_BODY, Described, created, failures, succeeds
from adaptlab_api.requests.readings import with_files
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.requests.study_request import asked_study, study_rules
from adaptlab_api.routes.jobs import (
    ArchivedToo,
    FilterText,
    JobPage,
    Key,
    OnlyValidate,
    OrderBy,
    PageSize,
    PageToken,
    View,
    listed,
)
from adaptlab_api.routes.results import RowId
from adaptlab_services import short_ids
from adaptlab_services.jobs.lists import NEWEST, JobQuery
from adaptlab_services.models.dataset_sharing import NewShare
from adaptlab_services.models.task_files import TaskFiles
from adaptlab_services.paging import DEFAULT_PAGE_SIZE
from adaptlab_services.recipes import recipe_studies
from adaptlab_services.studies import (
    question_decisions,
    studies,
    study_deletion,
    study_links,
    study_sharing,
)
from adaptlab_services.studies.studies import Changed
from adaptlab_services.studies.study_links import NewStudyLink

Studied = Annotated[
    str,
    Path(max_length=63, description="The name of a study, or its id or a unique part of it."),
]
ProjectName = Annotated[str, Path(max_length=63)]
OfJob = Annotated[
    str | None,
    Query(alias="job", max_length=64, description="Only studies with this job."),
]

WithJobs = Annotated[
    bool,
    Query(
        description="Delete its jobs too, if they were created for a study and nothing else "
        "needs them."
    ),
]
Replay = Annotated[
    bool,
    Query(description="Take each decision again from what it saw, and say if it is the same."),
]
StudyBody = Annotated[
    Body[StudySpec | RecipeRequest],
    json_body(StudySpec | RecipeRequest, StudySpec, RecipeRequest),
]

_NEW_STUDY: Described = {
    **created("study", tagged=True),
    200: {
        "model": StudyPreview | StudyView,
        "description": "A preview, or the earlier answer.",
    },
}

router = api_router("/studies", tag="studies")


@router.post(
    "",
    status_code=201,
    response_model=StudyView,
    responses=_NEW_STUDY | failures(409, *WITH_BODY),
)
@needs("submitter")
async def create_study(
    body: StudyBody,
    request: Request,
    changes: ChangesDep,
    validate_only: OnlyValidate = False,
    idempotency_key: Key = None,
) -> Response:
    """Create a study and its jobs, or with `validate_only` return the plan and create nothing.

    The body is the spec of a study, or names a recipe and one of its presets. A task can name a
    file below a dataset root, which becomes a dataset, or a dataset on the hub, which is fetched
    first. If that takes long, the answer is 503 with `Retry-After`: the same request sent again
    joins the fetch. A preview fetches no dataset.
    """

    def answer(asked: StudySpec | RecipeRequest, files: TaskFiles) -> Response:
        with changes() as change:
            if validate_only:
                return change.answered(json_answer(_planned(change, asked, files, request)))
            new = _made(change, asked, files, request, idempotency_key)
            return change.made(new.study, new, location=new.study.links.self)

    read = partial(asked_study, body.content)
    key = None if validate_only else idempotency_key
    return await with_files(request, read, answer, key, is_preview=validate_only)


def _planned(
    change: ChangeInProgress, asked: StudySpec | RecipeRequest, files: TaskFiles, request: Request
) -> StudyPreview:
    session, rules = change.session, study_rules(change.opened)
    if not isinstance(asked, StudySpec):
        return recipe_studies.preview(session, asked, rules)
    with files.tried(session, change.who, asked, entry_of(request, 201)) as named:
        return studies.preview(session, named, rules)


def _made(
    change: ChangeInProgress,
    asked: StudySpec | RecipeRequest,
    files: TaskFiles,
    request: Request,
    key: str | None,
) -> Changed:
    session, who, rules = change.session, change.who, study_rules(change.opened)
    if not isinstance(asked, StudySpec):
        return recipe_studies.create(session, who, asked, rules, idempotency_key=key)
    named = files.named(session, who, asked, entry_of(request, 201))
    return studies.create(session, who, named, rules, idempotency_key=key, asked=asked)


@router.get("", response_model=Page[StudySummary], responses=failures())
@needs("reader")
def list_studies(
    session: SessionDep,
    job_id: OfJob = None,
    page_size: PageSize = DEFAULT_PAGE_SIZE,
    page_token: PageToken = None,
    archived: ArchivedToo = "exclude",
) -> Response:
    """List studies, newest first."""
    of_job = None if job_id is None else short_ids.job_id(session, job_id)
    page = studies.page(
        session, job_id=of_job, page_size=page_size, page_token=page_token, archived=archived
    )
    return json_answer(page)


@router.get(
    "/{study}",
    response_model=StudyView,
    responses=succeeds(304, "The study has not changed.") | failures(404),
)
@needs("reader")
def get_study(study: Studied, session: SessionDep, request: Request) -> Response:
    """Get one study, with its cells."""
    return tagged_answer(studies.get(session, study), request.headers)


@router.get("/{study}/jobs", response_model=JobPage, responses=failures(404))
@needs("reader")
def list_study_jobs(
    study: Studied,
    session: SessionDep,
    filter_text: FilterText = "",
    order_by: OrderBy = NEWEST,
    page_size: PageSize = DEFAULT_PAGE_SIZE,
    page_token: PageToken = None,
    view: View = "full",
) -> Response:
    """List the jobs of a study, including those that train its base models."""
    study_id = studies.get(session, study).id
    query = JobQuery(filter_text, study_id, order_by, page_size, page_token, "include")
    return json_answer(listed(session, query, view))


@router.get("/{study}/decisions", response_model=Page[DecisionView], responses=failures(404))
@needs("reader")
def list_study_decisions(
    study: Studied,
    session: SessionDep,
    opened: ResourcesDep,
    page_size: PageSize = DEFAULT_PAGE_SIZE,
    page_token: PageToken = None,
    replay: Replay = False,
) -> Response:
    """List the decisions of a study with a question: what each saw, and what it planned and why."""
    page = question_decisions.decisions(
        session,
        study,
        page_size=page_size,
        page_token=page_token,
        replay=replay,
        most_jobs=study_rules(opened).most_jobs,
    )
    return json_answer(page)


@router.patch("/{study}", response_model=StudyView, responses=failures(404, 409, *WITH_BODY))
@needs("submitter")
def annotate_study(
    study: Studied,
    body: Annotated[Body[StudyAnnotations], json_body(StudyAnnotations)],
    session: SessionDep,
) -> Response:
    """Change a study's name, labels and notes, or archive it."""
    return json_answer(studies.annotate(session, study, body.read()))


@router.delete("/{study}", response_model=DeletedStudy, responses=failures(404, 409))
@needs("operator")
def delete_study(study: Studied, changes: ChangesDep, with_jobs: WithJobs = False) -> Response:
    """Delete a study that is not running; its jobs stay unless `with_jobs`.

    Only an admin of its project can do this. The entry in the audit log stays.
    """
    with changes() as change:
        deleted = study_deletion.delete_study(change.session, study, with_jobs=with_jobs)
        return change.answered(json_answer(deleted))


@router.post("/{study}/cancel", response_model=StudyView, responses=failures(404))
@needs("submitter")
def cancel_study(study: Studied, session: SessionDep, who: SubmitterDep) -> Response:
    """Cancel a study and its jobs, except jobs that another study needs."""
    return json_answer(studies.cancel(session, who, study).study)


@router.post(
    "/{study}/extend",
    response_model=StudyView | StudyPreview,
    responses=failures(404, 409, *WITH_BODY),
)
@needs("submitter")
async def extend_study(
    study: Studied,
    body: Annotated[Body[StudyExtension], json_body(StudyExtension)],
    request: Request,
    changes: ChangesDep,
    validate_only: OnlyValidate = False,
) -> Response:
    """Add seeds, methods, budgets, tasks or base models, and re-run failed jobs.

    The same request sent again changes nothing. Tasks can name files and datasets on the hub, as
    those of a new study.
    """
    inside = partial(studies.inside_extended, study=study, is_preview=validate_only)

    def answer(asked: StudyExtension, files: TaskFiles) -> Response:
        with changes() as change:
            session, who, rules = change.session, change.who, study_rules(change.opened)
            entry = entry_of(request, 201)
            with inside(session):
                if validate_only:
                    with files.tried(session, who, asked, entry) as extension:
                        preview = studies.preview_extension(session, study, extension, rules)
                        return change.answered(json_answer(preview))
                extension = files.named(session, who, asked, entry)
                extended = studies.extend(session, who, study, extension, rules)
            return change.made(extended.study, extended)

    units = _units_inside(request, inside)
    return await with_files(request, body.read, answer, None, is_preview=validate_only, units=units)


def _units_inside(
    request: Request, inside: Callable[[Session], AbstractContextManager[None]]
) -> Units:
    """Return what opens the units of work of a request in the project of a study."""

    @contextmanager
    def units() -> Generator[Session]:
        with units_of(request)() as session, inside(session):
            yield session

    return units


@router.post(
    "/{study}/clone",
    status_code=201,
    response_model=StudyView,
    responses=_NEW_STUDY | failures(404, 409, *WITH_BODY),
)
@needs("submitter")
async def clone_study(
    study: Studied,
    body: Annotated[Body[StudyChanges], json_body(StudyChanges)],
    request: Request,
    changes: ChangesDep,
    validate_only: OnlyValidate = False,
    idempotency_key: Key = None,
) -> Response:
    """Create a copy of a study with the given members changed; existing jobs are reused.

    Tasks can name files and datasets on the hub, as those of a new study.
    """
    inside = partial(studies.inside_project_of, study=study)

    def answer(changed: StudyChanges, files: TaskFiles) -> Response:
        with changes() as change:
            session = change.session
            asked = studies.cloned(session, study, changed)
            with inside(session):
                if validate_only:
                    return change.answered(json_answer(_planned(change, asked, files, request)))
                new = _made(change, asked, files, request, idempotency_key)
                return change.made(new.study, new, location=new.study.links.self)

    units = _units_inside(request, inside)
    return await with_files(request, body.read, answer, None, is_preview=validate_only, units=units)


@router.post("/{study}/shares", response_model=StudyView, responses=failures(404, 409, *WITH_BODY))
@needs("submitter")
def share_study(
    study: Studied, body: Annotated[Body[NewShare], json_body(NewShare)], session: SessionDep
) -> Response:
    """Share a study with another project of yours, which can read it; safe to repeat.

    Its owner, or an admin of its project, can do this.
    """
    return json_answer(study_sharing.share(session, study, body.read()))


@router.delete("/{study}/shares/{project}", status_code=204, responses=failures(404))
@needs("submitter")
def take_study_back(study: Studied, project: ProjectName, session: SessionDep) -> Response:
    """Stop sharing a study with a project."""
    study_sharing.take_back(session, study, project)
    return Response(status_code=204, headers=NO_STORE)


@router.post(
    "/{study}/links",
    status_code=201,
    response_model=CreatedStudyLink,
    responses=created("link") | failures(404, 409, *WITH_BODY),
)
@needs("operator")
def create_study_link(
    study: Studied,
    body: Annotated[Body[NewStudyLink], json_body(NewStudyLink)],
    session: SessionDep,
    who: SubmitterDep,
) -> Response:
    """Create a link with which people without an account read a study; it is returned once.

    Only an admin of its project can do this.
    """
    link = study_links.create(session, who, study, body.read())
    place = f"/v1/studies/{quote(study, safe='')}/links/{link.id}"
    return json_answer(link, status=201, headers={"Location": place})


@router.get("/{study}/links", response_model=StudyLinkList, responses=failures(404))
@needs("operator")
def list_study_links(study: Studied, session: SessionDep) -> Response:
    """List the links to a study, newest first; for admins of its project."""
    return json_answer(study_links.listed(session, study))


@router.delete("/{study}/links/{link_id}", response_model=StudyLinkView, responses=failures(404))
@needs("operator")
def revoke_study_link(study: Studied, link_id: RowId, session: SessionDep) -> Response:
    """Revoke a link to a study; it opens nothing from the next request on."""
    return json_answer(study_links.revoke(session, study, link_id))
