"""Routes of the list of jobs, and of one job with its buttons."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, BackgroundTasks, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from adaptlab.charts import Theme
from adaptlab.errors import InvalidSpec
from adaptlab_api.answers.problems import Refused, status_of
from adaptlab_api.limits.auditing import noted
from adaptlab_api.pages.jobs.curves import curves_chart
from adaptlab_api.pages.jobs.listing import JobFilters, ListPage, job_list
from adaptlab_api.pages.jobs.page import job_page
from adaptlab_api.pages.jobs.selected import MOST_FIELDS, Act, apply
from adaptlab_api.pages.rendering.annotation_form import job_changes
from adaptlab_api.pages.rendering.drawing import drawn
from adaptlab_api.pages.rendering.examples import first_job
from adaptlab_api.pages.rendering.forms import form_fields, small_form_fields
from adaptlab_api.pages.rendering.navigation import NavigationEntry
from adaptlab_api.pages.rendering.parameters import Reader, ReaderDep, server_address
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.requests.dependencies import ResourcesDep, SessionDep, SubmitterDep, valid
from adaptlab_api.requests.identities import JobId
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import access_of, needs
from adaptlab_services import short_ids
from adaptlab_services.errors import Absent, Forbidden, LimitReached, StateConflict
from adaptlab_services.hub import pushes
from adaptlab_services.hub.pushes import NewHubPush
from adaptlab_services.jobs import annotations, control, job_deletion, jobs
from adaptlab_services.models.model_folders import ModelRoots
from adaptlab_services.people.tokens import Principal

NAVIGATION = NavigationEntry(1, "Jobs", "/")
SEVERAL = "Several jobs match this id"
NO_JOB = "No job has this id. The id may be mistyped, or the job may be on another server."
NOT_DELETED = "The job was not deleted"
NOT_DONE = "This is not possible now"

_PUSH = TypeAdapter(NewHubPush)
_CHECKPOINT = TypeAdapter(int)

Control = Literal["pause", "resume", "retry"]
FieldsDep = Annotated[Mapping[str, Sequence[str]], Depends(small_form_fields)]


# Coroutines, though they wait for nothing: see `adaptlab_api.requests.dependencies.at_once`.


async def _filters(
    state: str = "",
    method: str = "",
    task: str = "",
    base_model: str = "",
    filter_text: Annotated[str, Query(alias="filter")] = "",
    order_by: Annotated[str, Query(max_length=200)] = "",
    archived: Literal["", "only", "include"] = "",
) -> JobFilters:
    return JobFilters(state, method, task, base_model, filter_text, order_by, archived)


async def _place(page_token: str = "", trail: str = "") -> ListPage:
    return ListPage.read(page_token, trail)


async def _selection(request: Request) -> Mapping[str, Sequence[str]]:
    return await form_fields(request, MOST_FIELDS)


def routers(renderer: Renderer) -> tuple[APIRouter, ...]:
    """Return the routers of this wing."""
    return (job_list_routes(renderer), job_routes(renderer), job_chart_routes())


def job_list_routes(renderer: Renderer) -> APIRouter:
    """Return the route of the list."""
    router = closed_router()

    @router.get("/")
    @needs("reader")
    def jobs_page(
        request: Request,
        session: SessionDep,
        principal: ReaderDep,
        filters: Annotated[JobFilters, Depends(_filters)],
        place: Annotated[ListPage, Depends(_place)],
    ) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": "/"}
        shown["example"] = first_job(server_address(request))
        shown["may_delete"] = access_of(request).highest() == "admin"
        return renderer.listed(
            "jobs.html", shown, lambda: job_list(session, filters, place, datetime.now(UTC))
        )

    @router.post("/jobs/selected/{act}")
    @needs("submitter")
    def change_selected(
        act: Act,
        fields: Annotated[Mapping[str, Sequence[str]], Depends(_selection)],
        request: Request,
        session: SessionDep,
        principal: SubmitterDep,
        opened: ResourcesDep,
        background: BackgroundTasks,
        back: str = "",
    ) -> Response:
        try:
            most, roots = opened.settings.max_queued_jobs, opened.model_roots
            done = apply(session, principal, act, fields, most, roots)
        except (InvalidSpec, Refused) as refusal:
            return _refused(renderer, principal, refusal)
        background.add_task(opened.bell.ring, done.queues)  # after the commit
        if not done.refused:
            return noted(session, request, RedirectResponse(_list(back), 303))
        shown = {"principal": principal, "here": "/", "faults": done.refused}
        page = renderer.fault(200, done.heading(act), "The others were not changed:", shown)
        return noted(session, request, page)

    return router


def _list(back: str) -> str:
    """Return the page of the list that a form came from, never another site."""
    query = back.partition("?")[2]
    return f"/?{query}" if query else "/"


def job_routes(renderer: Renderer) -> APIRouter:
    """Return the routes of one job and its buttons."""
    router = closed_router()

    @router.get("/jobs/{job_id}")
    @needs("reader")
    def one_job(
        job_id: str, session: SessionDep, principal: ReaderDep, opened: ResourcesDep
    ) -> Response:
        try:
            content = job_page(session, short_ids.job_id(session, job_id), datetime.now(UTC))
        except Absent:
            return _no_job(renderer, principal)
        except InvalidSpec as refusal:
            return renderer.fault(404, SEVERAL, str(refusal), {"principal": principal})
        may_push = opened.settings.hub == "on"
        shown = {"principal": principal, "may_push": may_push, **content}
        return renderer.page("job.html", shown)

    @router.post("/jobs/{job_id}/cancel")
    @needs("submitter")
    def cancel_job(
        job_id: JobId, request: Request, session: SessionDep, principal: SubmitterDep
    ) -> Response:
        try:
            jobs.cancel(session, principal, job_id)
        except Absent:
            return _no_job(renderer, principal)
        except Forbidden as refusal:
            return _refused(renderer, principal, refusal)
        return noted(session, request, RedirectResponse(f"/jobs/{job_id}", 303))

    @router.post("/jobs/{job_id}/annotations")
    @needs("submitter")
    def annotate_job(
        job_id: JobId,
        fields: FieldsDep,
        request: Request,
        session: SessionDep,
        principal: SubmitterDep,
    ) -> Response:
        try:
            changes = job_changes(fields, jobs.get(session, job_id).labels)
            annotations.annotate(session, job_id, changes)
        except Absent:
            return _no_job(renderer, principal)
        except (InvalidSpec, Refused, Forbidden) as refusal:
            return _refused(renderer, principal, refusal)
        return noted(session, request, RedirectResponse(f"/jobs/{job_id}", 303))

    _add_deletion(router, renderer)
    _add_pushing(router, renderer)
    _add_control(router, renderer)
    return router


def _add_deletion(router: APIRouter, renderer: Renderer) -> None:
    """Add the button that deletes a job."""

    @router.post("/jobs/{job_id}/delete")
    @needs("operator")
    def delete_job(  # pyright: ignore[reportUnusedFunction] - the router keeps it
        job_id: JobId, request: Request, session: SessionDep, principal: SubmitterDep
    ) -> Response:
        try:
            job_deletion.delete_job(session, job_id)
        except Absent:
            return _no_job(renderer, principal)
        except (StateConflict, Forbidden) as refusal:
            shown = {"principal": principal}
            return renderer.fault(status_of(refusal), NOT_DELETED, str(refusal), shown)
        return noted(session, request, RedirectResponse("/", 303))


def _add_pushing(router: APIRouter, renderer: Renderer) -> None:
    """Add the form that pushes an adapter to the hub."""

    @router.post("/jobs/{job_id}/push")
    @needs("submitter")
    def push_adapter(  # pyright: ignore[reportUnusedFunction] - the router keeps it
        job_id: JobId,
        fields: FieldsDep,
        request: Request,
        session: SessionDep,
        principal: SubmitterDep,
        opened: ResourcesDep,
    ) -> Response:
        typed = {name: values[0].strip() for name, values in fields.items()}
        asked = {"repository": typed.get("repository", ""), "is_public": False}
        try:
            checkpoint = valid(_CHECKPOINT, typed.get("checkpoint", "").encode())
            new = valid(_PUSH, json.dumps(asked).encode())
            with session.begin_nested():
                pushes.create(session, principal, checkpoint, new, opened.settings)
        except Absent:
            return _no_job(renderer, principal)
        except (InvalidSpec, Refused, Forbidden) as refusal:
            return _refused(renderer, principal, refusal)
        except StateConflict as refusal:
            shown = {"principal": principal}
            return renderer.fault(status_of(refusal), NOT_DONE, str(refusal), shown)
        return noted(session, request, RedirectResponse(f"/jobs/{job_id}#files", 303))


def _add_control(router: APIRouter, renderer: Renderer) -> None:
    """Add the buttons that pause, resume and retry a job."""

    @router.post("/jobs/{job_id}/{verb}")
    @needs("submitter")
    def control_job(  # pyright: ignore[reportUnusedFunction] - the router keeps it
        job_id: JobId,
        verb: Control,
        request: Request,
        session: SessionDep,
        principal: SubmitterDep,
        opened: ResourcesDep,
        background: BackgroundTasks,
    ) -> Response:
        most = opened.settings.max_queued_jobs
        try:
            # The page about a refusal commits, so what was written before it is rolled back here.
            with session.begin_nested():
                done = _controlled(session, principal, job_id, verb, most, opened.model_roots)
        except Absent:
            return _no_job(renderer, principal)
        except StateConflict:  # the state has changed meanwhile: show it
            return RedirectResponse(f"/jobs/{job_id}", 303)
        except (InvalidSpec, LimitReached, Forbidden) as refusal:
            return _refused(renderer, principal, refusal)
        background.add_task(opened.bell.ring, done.queues)  # after the commit
        return noted(session, request, RedirectResponse(f"/jobs/{done.job.id}", 303))


def _controlled(
    session: Session,
    principal: Principal,
    job_id: UUID,
    verb: Control,
    most: int | None,
    roots: ModelRoots,
) -> control.Controlled:
    if verb == "pause":
        return control.pause(session, principal, job_id)
    change = control.resume if verb == "resume" else control.retry
    return change(session, principal, job_id, most_queued=most, roots=roots)


def job_chart_routes() -> APIRouter:
    """Return the route of the learning curves, which are JSON."""
    router = closed_router("/jobs/{job_id}/charts")

    @router.get("/learning-curves")
    @needs("reader")
    def learning_curves(
        job_id: JobId, session: SessionDep, _: ReaderDep, theme: Theme = "light"
    ) -> Response:
        return drawn(curves_chart(session, job_id, theme))

    return router


def _refused(
    renderer: Renderer,
    principal: Principal,
    refusal: InvalidSpec | Refused | LimitReached | Forbidden,
) -> Response:
    """Return the page about a refused button, with the status of the API."""
    shown = {"principal": principal}
    return renderer.fault(status_of(refusal), NOT_DONE, str(refusal), shown)


def _no_job(renderer: Renderer, principal: Principal | Reader) -> Response:
    return renderer.fault(404, "There is no such job", NO_JOB, {"principal": principal})
