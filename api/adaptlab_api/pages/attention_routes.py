"""The routes of the attention page and of its charts."""

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from adaptlab.charts import Theme
from adaptlab_api.dependencies import SessionDep
from adaptlab_api.pages.attention_charts import (
    Look,
    Shown,
    difference_chart,
    heads_chart,
    patterns_chart,
    step_chart,
)
from adaptlab_api.pages.attention_page import Asked, attention_page
from adaptlab_api.pages.attention_view import Place
from adaptlab_api.pages.drawing import drawn
from adaptlab_api.pages.parameters import Number, ReaderDep, identity
from adaptlab_api.pages.rendering import Renderer
from adaptlab_services.attention_heads import HeadOrder, Sorting
from adaptlab_services.errors import NotFound

MOST_OFFSET = 10**6
NO_JOB = "No job has this id. It may be mistyped, or the job may be on another server."


def _place(
    replicate: Number = 0,
    sample: Number = 0,
    layer: Number = 0,
    head: Number = 0,
    step: Number = 0,
) -> Place:
    return Place(replicate, sample, layer, head, step)


def _asked(
    place: Annotated[Place, Depends(_place)],
    shown: Shown | None = None,
    sort: HeadOrder = "layer",
    order: Literal["asc", "desc"] = "asc",
    offset: Annotated[int, Query(ge=0, le=MOST_OFFSET)] = 0,
) -> Asked:
    return Asked(place, shown, Sorting(sort, order == "desc"), offset)


def _look(theme: Theme = "light", columns: Annotated[int, Query(ge=1, le=3)] = 3) -> Look:
    return Look(theme, columns)


def _query(step: Number | None = None) -> int | None:
    """The step whose row is framed in a pattern, counted among the tokens of the output."""
    return step


PlaceDep = Annotated[Place, Depends(_place)]
LookDep = Annotated[Look, Depends(_look)]
StepDep = Annotated[int | None, Depends(_query)]


def attention_routes(renderer: Renderer) -> APIRouter:
    """One job's attention as a page."""
    router = APIRouter()

    @router.get("/jobs/{job_id}/attention", name="attention_page")
    def page(
        job_id: str,
        session: SessionDep,
        principal: ReaderDep,
        asked: Annotated[Asked, Depends(_asked)],
    ) -> Response:
        shown: dict[str, object] = {"principal": principal}
        try:
            content = attention_page(session, identity(job_id), asked)
        except NotFound:
            return renderer.fault(404, "There is no such job", NO_JOB, shown)
        return renderer.page("attention.html", {**shown, **content})

    return router


def attention_chart_routes() -> APIRouter:
    """Its charts, as JSON."""
    router = APIRouter(prefix="/jobs/{job_id}/charts")

    @router.get("/attention", name="attention")
    def patterns(
        job_id: UUID,
        session: SessionDep,
        _: ReaderDep,
        look: LookDep,
        place: PlaceDep,
        step: StepDep,
    ) -> Response:
        return drawn(patterns_chart(session, job_id, place, look, step))

    @router.get("/attention-difference", name="attention_difference")
    def difference(
        job_id: UUID,
        session: SessionDep,
        _: ReaderDep,
        look: LookDep,
        place: PlaceDep,
        step: StepDep,
    ) -> Response:
        return drawn(difference_chart(session, job_id, place, look, step))

    @router.get("/attention-step", name="attention_step")
    def one_step(
        job_id: UUID, session: SessionDep, _: ReaderDep, place: PlaceDep, theme: Theme = "light"
    ) -> Response:
        return drawn(step_chart(session, job_id, place, theme))

    @router.get("/attention-heads", name="attention_heads")
    def heads(
        job_id: UUID,
        session: SessionDep,
        _: ReaderDep,
        look: LookDep,
        place: PlaceDep,
        shown: Shown = "difference",
    ) -> Response:
        return drawn(heads_chart(session, job_id, place, shown, look))

    return router
