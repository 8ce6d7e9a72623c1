"""Routes of the attention page and its charts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from sqlalchemy.orm import Session

from adaptlab.charts import Chart, Theme
from adaptlab_api.pages.attention.charts import (
    ChartLook,
    Shown,
    difference_chart,
    heads_chart,
    patterns_chart,
    step_chart,
    strongest_chart,
)
from adaptlab_api.pages.attention.page import AttentionQuery, attention_page
from adaptlab_api.pages.attention.small_map import Source, small_difference, small_map
from adaptlab_api.pages.attention.view import MapPlace
from adaptlab_api.pages.rendering.drawing import drawn
from adaptlab_api.pages.rendering.parameters import Number, ReaderDep
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.requests.dependencies import SessionDep
from adaptlab_api.requests.identities import JobId
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import needs
from adaptlab_services import short_ids
from adaptlab_services.errors import Absent
from adaptlab_services.results.attention_heads import HeadOrder, Sorting

MOST_OFFSET = 10**6
NO_JOB = "No job has this id. The id may be mistyped, or the job may be on another server."


@dataclass(frozen=True, slots=True)
class Drawing:
    """The request for a chart: its place in the maps, and its look.

    `step` is the output token whose row is framed in a pattern.
    """

    place: MapPlace
    look: ChartLook
    step: int | None
    shown: Shown


AttentionChart = Callable[[Session, UUID, Drawing], Chart | None]
CHARTS: Mapping[str, AttentionChart] = {
    "attention": lambda s, job, asked: patterns_chart(s, job, asked.place, asked.look, asked.step),
    "attention_difference": lambda s, job, asked: difference_chart(
        s, job, asked.place, asked.look, asked.step
    ),
    "attention_strongest": lambda s, job, asked: strongest_chart(s, job, asked.look),
    "attention_step": lambda s, job, asked: step_chart(s, job, asked.place, asked.look.theme),
    "attention_heads": lambda s, job, asked: heads_chart(
        s, job, asked.place, asked.shown, asked.look
    ),
}
"""The charts of a job's attention, by the names of their routes."""


# Coroutines, though they wait for nothing: see `adaptlab_api.requests.dependencies.at_once`.


async def _place(
    replicate: Number = 0,
    sample: Number = 0,
    layer: Number = 0,
    head: Number = 0,
    step: Number = 0,
) -> MapPlace:
    return MapPlace(replicate, sample, layer, head, step)


async def _asked(
    place: Annotated[MapPlace, Depends(_place)],
    shown: Shown | None = None,
    sort: HeadOrder = "layer",
    order: Literal["asc", "desc"] = "asc",
    offset: Annotated[int, Query(ge=0, le=MOST_OFFSET)] = 0,
) -> AttentionQuery:
    return AttentionQuery(place, shown, Sorting(sort, order == "desc"), offset)


async def _drawing(
    place: Annotated[MapPlace, Depends(_place)],
    theme: Theme = "light",
    columns: Annotated[int, Query(ge=1, le=3)] = 3,
    step: Number | None = None,
    shown: Shown = "difference",
) -> Drawing:
    return Drawing(place, ChartLook(theme, columns), step, shown)


def routers(renderer: Renderer) -> tuple[APIRouter, ...]:
    """Return the routers of this wing."""
    return (attention_routes(renderer), attention_chart_routes())


def attention_routes(renderer: Renderer) -> APIRouter:
    """Return the route of the page."""
    router = closed_router()

    @router.get("/jobs/{job_id}/attention", name="attention_page")
    @needs("reader")
    def page(
        job_id: str,
        session: SessionDep,
        principal: ReaderDep,
        asked: Annotated[AttentionQuery, Depends(_asked)],
    ) -> Response:
        shown: dict[str, object] = {"principal": principal}
        try:
            content = attention_page(session, short_ids.job_id(session, job_id), asked)
        except Absent:
            return renderer.fault(404, "There is no such job", NO_JOB, shown)
        return renderer.page("attention.html", {**shown, **content})

    return router


def attention_chart_routes() -> APIRouter:
    """Return the routes of the charts, which are JSON."""
    router = closed_router("/jobs/{job_id}/charts")
    for name, chart in CHARTS.items():
        router.add_api_route(f"/{name.replace('_', '-')}", _route(chart), name=name)

    router.add_api_route("/attention-small.svg", _small, name="attention_small")
    router.add_api_route(
        "/attention-small-difference.svg", _small_difference, name="attention_small_difference"
    )
    return router


@needs("reader")
def _small(
    job_id: JobId, session: SessionDep, _: ReaderDep, changed_by: UUID, source: Source = "adapted"
) -> Response:
    return picture(small_map(session, job_id, source, changed_by))


@needs("reader")
def _small_difference(job_id: JobId, session: SessionDep, _: ReaderDep, minus: UUID) -> Response:
    return picture(small_difference(session, job_id, minus))


def picture(drawing: str | None) -> Response:
    """Return the answer with a drawing, or an empty one."""
    if drawing is None:
        return Response(status_code=204)  # its bytes may be collected
    return Response(drawing, media_type="image/svg+xml")


def _route(chart: AttentionChart) -> Callable[..., Response]:
    @needs("reader")
    def draw(
        job_id: JobId,
        session: SessionDep,
        _: ReaderDep,
        asked: Annotated[Drawing, Depends(_drawing)],
    ) -> Response:
        return drawn(chart(session, job_id, asked))

    return draw
