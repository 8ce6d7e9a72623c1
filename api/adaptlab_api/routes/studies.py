"""`/v1/studies`: create, list, look at, extend, clone and cancel."""

from typing import Annotated

from fastapi import APIRouter, BackgroundTasks, Path, Query, Request
from pydantic import TypeAdapter
from starlette.responses import Response

from adaptlab.studies.study import StudyChanges, StudyExtension, StudySpec
from adaptlab_answers.paging import Page
from adaptlab_answers.studies import StudyPreview, StudySummary, StudyView
from adaptlab_api.answers.answers import changed_answer, json_answer, tagged_answer
from adaptlab_api.answers.state import Resources
from adaptlab_api.requests.dependencies import (
    BodyDep,
    ResourcesDep,
    SessionDep,
    SubmitterDep,
    valid,
)
from adaptlab_api.requests.describing import WITH_BODY, Described, failures, json_body, succeeds
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.study_request import asked_study, study_rules
from adaptlab_api.routes.jobs import (
    FilterText,
    JobPage,
    Key,
    OnlyValidate,
    PageSize,
    PageToken,
    View,
    listed,
)
from adaptlab_services import short_ids
from adaptlab_services.jobs.job_lists import JobQuery, Order
from adaptlab_services.paging import DEFAULT_PAGE_SIZE
from adaptlab_services.recipes import recipe_studies
from adaptlab_services.studies import studies

Studied = Annotated[
    str,
    Path(max_length=63, description="The name of a study, or its id or a unique part of it."),
]
OfJob = Annotated[
    str | None,
    Query(alias="job", max_length=64, description="Only studies with this job."),
]

_EXTENSION = TypeAdapter(StudyExtension)
_CHANGES = TypeAdapter(StudyChanges)


def studies_router() -> APIRouter:
    """The routes of studies."""
    router = api_router("/studies", tag="studies")
    add = router.add_api_route
    add(
        "",
        create_study,
        methods=["POST"],
        status_code=201,
        response_model=StudyView,
        openapi_extra=json_body("StudySpec", "RecipeRequest"),
        responses=_new_study() | failures(409, *WITH_BODY),
    )
    add("", list_studies, response_model=Page[StudySummary], responses=failures())
    add(
        "/{study}",
        get_study,
        response_model=StudyView,
        responses=succeeds(304, "The study has not changed.") | failures(404),
    )
    add("/{study}/jobs", list_study_jobs, response_model=JobPage, responses=failures(404))
    add(
        "/{study}/cancel",
        cancel_study,
        methods=["POST"],
        response_model=StudyView,
        responses=failures(404),
    )
    add(
        "/{study}/extend",
        extend_study,
        methods=["POST"],
        response_model=StudyView | StudyPreview,
        openapi_extra=json_body("StudyExtension"),
        responses=failures(404, 409, *WITH_BODY),
    )
    add(
        "/{study}/clone",
        clone_study,
        methods=["POST"],
        status_code=201,
        response_model=StudyView,
        openapi_extra=json_body("StudyChanges"),
        responses=_new_study() | failures(404, 409, *WITH_BODY),
    )
    return router


def create_study(
    body: BodyDep,
    session: SessionDep,
    who: SubmitterDep,
    opened: ResourcesDep,
    background: BackgroundTasks,
    validate_only: OnlyValidate = False,
    idempotency_key: Key = None,
) -> Response:
    """Create a study and its jobs, or with `validate_only` return the plan and create nothing.

    The body is the spec of a study, or names a recipe and one of its presets.
    """
    asked, rules = asked_study(body), study_rules(opened)
    if isinstance(asked, StudySpec):
        if validate_only:
            return json_answer(studies.preview(session, asked, rules))
        return _created(session, who, asked, opened, background, idempotency_key)
    if validate_only:
        return json_answer(recipe_studies.preview(session, asked, rules))
    made = recipe_studies.create(session, who, asked, rules, idempotency_key=idempotency_key)
    return changed_answer(made.study, made, opened, background, location=made.study.links.self)


def list_studies(
    session: SessionDep,
    job_id: OfJob = None,
    page_size: PageSize = DEFAULT_PAGE_SIZE,
    page_token: PageToken = None,
) -> Response:
    """List studies, newest first."""
    of_job = None if job_id is None else short_ids.job_id(session, job_id)
    found = studies.page(session, job_id=of_job, page_size=page_size, page_token=page_token)
    return json_answer(found)


def get_study(study: Studied, session: SessionDep, request: Request) -> Response:
    """Get one study, with its cells."""
    return tagged_answer(studies.get(session, study), request.headers)


def list_study_jobs(
    study: Studied,
    session: SessionDep,
    filter_text: FilterText = "",
    order_by: Order = "-created_at",
    page_size: PageSize = DEFAULT_PAGE_SIZE,
    page_token: PageToken = None,
    view: View = "full",
) -> Response:
    """List the jobs of a study, including those that train its base models."""
    found = studies.get(session, study).id
    query = JobQuery(filter_text, found, order_by, page_size, page_token)
    return json_answer(listed(session, query, view))


def cancel_study(study: Studied, session: SessionDep, who: SubmitterDep) -> Response:
    """Cancel a study and its jobs, except jobs that another study needs."""
    return json_answer(studies.cancel(session, who, study).study)


def extend_study(
    study: Studied,
    body: BodyDep,
    session: SessionDep,
    who: SubmitterDep,
    opened: ResourcesDep,
    background: BackgroundTasks,
    validate_only: OnlyValidate = False,
) -> Response:
    """Add seeds, methods, budgets, tasks or base models, and re-run failed jobs.

    The same request sent again changes nothing.
    """
    extension = valid(_EXTENSION, body)
    if validate_only:
        return json_answer(
            studies.preview_extension(session, study, extension, study_rules(opened))
        )
    made = studies.extend(session, who, study, extension, study_rules(opened))
    return changed_answer(made.study, made, opened, background)


def clone_study(
    study: Studied,
    body: BodyDep,
    session: SessionDep,
    who: SubmitterDep,
    opened: ResourcesDep,
    background: BackgroundTasks,
    validate_only: OnlyValidate = False,
    idempotency_key: Key = None,
) -> Response:
    """Create a copy of a study with the given members changed; existing jobs are reused."""
    spec = studies.cloned(session, study, valid(_CHANGES, body))
    with studies.inside_project_of(session, study):
        if validate_only:
            return json_answer(studies.preview(session, spec, study_rules(opened)))
        return _created(session, who, spec, opened, background, idempotency_key)


def _created(
    session: SessionDep,
    who: SubmitterDep,
    spec: StudySpec,
    opened: Resources,
    background: BackgroundTasks,
    idempotency_key: str | None,
) -> Response:
    made = studies.create(session, who, spec, study_rules(opened), idempotency_key=idempotency_key)
    return changed_answer(made.study, made, opened, background, location=made.study.links.self)


def _new_study() -> Described:
    headers = {
        "Location": {"description": "The address of the study.", "schema": {"type": "string"}},
        "ETag": {"description": "Entity tag of this representation.", "schema": {"type": "string"}},
    }
    earlier = "A preview, or the earlier answer."
    return {
        201: {"description": "The new study.", "headers": headers},
        200: {"model": StudyPreview | StudyView, "description": earlier},
    }
