"""Routes of the page of results and of its chart."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from adaptlab.charts import Theme
from adaptlab_api.pages.rendering.drawing import drawn
from adaptlab_api.pages.rendering.navigation import NavigationEntry
from adaptlab_api.pages.rendering.parameters import ReaderDep
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.pages.results.page import groups_chart, results_page
from adaptlab_api.pages.results.query import LONGEST_VALUE, MOST_ROWS, ResultsQuery
from adaptlab_api.requests.dependencies import SessionDep
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.queries import LONGEST_LIST
from adaptlab_services.querying.filtering import LONGEST_FILTER
from adaptlab_services.results.result_queries import MOST_FIELDS

HERE = "/results"
NAVIGATION = NavigationEntry(3, "Results", HERE)
Text = Annotated[str, Query(max_length=LONGEST_VALUE)]
Texts = Annotated[list[Text], Query(max_length=MOST_ROWS)]
Columns = Annotated[
    list[Annotated[str, Query(max_length=LONGEST_LIST)]], Query(max_length=MOST_FIELDS)
]


async def asked_query(
    field: Texts = [],  # noqa: B006 - FastAPI copies it
    operator: Texts = [],  # noqa: B006
    value: Texts = [],  # noqa: B006
    filter_text: Annotated[str, Query(alias="filter", max_length=LONGEST_FILTER)] = "",
    group_by: Text = "",
    metric: Text = "",
    order_by: Text = "",
    project: Text = "",
    columns: Columns = [],  # noqa: B006
) -> ResultsQuery:
    """Return the query in the address of a page."""
    return ResultsQuery.read(
        field, operator, value, columns,
        filter=filter_text, group_by=group_by, metric=metric, order_by=order_by, project=project,
    )  # fmt: skip


QueryDep = Annotated[ResultsQuery, Depends(asked_query)]


def routers(renderer: Renderer) -> tuple[APIRouter, ...]:
    """Return the routers of this wing."""
    return (result_routes(renderer),)


def result_routes(renderer: Renderer) -> APIRouter:
    """Return the routes of the page."""
    router = closed_router(HERE)

    @router.get("")
    @needs("reader")
    def show_results(
        query: QueryDep,
        session: SessionDep,
        principal: ReaderDep,
        page_token: str = "",
    ) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        values = results_page(session, query, page_token or None)
        status = 400 if values["fault"] or values["problem"] else 200
        return renderer.page("results.html", {**shown, **values}, status)

    @router.get("/charts/groups")
    @needs("reader")
    def chart_of_groups(
        query: QueryDep, session: SessionDep, _: ReaderDep, theme: Theme = "light"
    ) -> Response:
        return drawn(groups_chart(session, query, theme))

    return router
