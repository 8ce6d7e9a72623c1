"""Routes of the page that compares chosen jobs, and of its charts."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from adaptlab.charts import Theme
from adaptlab.errors import InvalidSpec
from adaptlab_api.pages.comparisons.charts import curves_answer, table_answer
from adaptlab_api.pages.comparisons.page import Chosen, compare_page, compared, refused
from adaptlab_api.pages.rendering.parameters import Number, ReaderDep
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.requests.dependencies import ResourcesDep, UnitsDep
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import needs
from adaptlab_services.errors import Absent
from adaptlab_services.querying.filtering import LONGEST_FILTER


def routers(renderer: Renderer) -> tuple[APIRouter, ...]:
    """Return the routers of this wing."""
    return (compare_routes(renderer),)


def compare_routes(renderer: Renderer) -> APIRouter:
    """Return the routes of the page and of its charts."""
    router = closed_router("/compare")

    @router.get("")
    @needs("reader")
    def compare(
        units: UnitsDep,
        opened: ResourcesDep,
        principal: ReaderDep,
        job: Annotated[tuple[str, ...], Query()] = (),
        jobs: str = "",
        baseline: str = "",
        filter_text: Annotated[str, Query(alias="filter", max_length=LONGEST_FILTER)] = "",
    ) -> Response:
        shown: dict[str, object] = {"principal": principal}
        chosen = Chosen(filter=filter_text)
        try:
            chosen = Chosen.read((*job, *jobs.split(",")), filter_text, baseline)
            content = compare_page(units, opened.comparisons, chosen)
        except Absent as fault:
            return renderer.page("compare.html", {**shown, **refused(chosen, fault)}, 404)
        except InvalidSpec as fault:
            return renderer.page("compare.html", {**shown, **refused(chosen, fault)}, 400)
        return renderer.page("compare.html", {**shown, **content})

    @router.get("/charts")
    @needs("reader")
    def compare_charts(
        units: UnitsDep,
        opened: ResourcesDep,
        _: ReaderDep,
        jobs: str = "",
        table: Number = 0,
        theme: Theme = "light",
    ) -> Response:
        try:
            comparison = compared(units, opened.comparisons, Chosen.read(jobs.split(","), ""))
        except (Absent, InvalidSpec):
            return Response(status_code=404)
        return table_answer(comparison, table, theme)

    @router.get("/curves")
    @needs("reader")
    def compare_curves(
        units: UnitsDep,
        opened: ResourcesDep,
        _: ReaderDep,
        jobs: str = "",
        table: Number = 0,
        cell: Number = 0,
        theme: Theme = "light",
    ) -> Response:
        try:
            comparison = compared(units, opened.comparisons, Chosen.read(jobs.split(","), ""))
        except (Absent, InvalidSpec):
            return Response(status_code=404)
        return curves_answer(units, comparison, (table, cell), theme)

    return router
