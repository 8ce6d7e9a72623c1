"""The route of the answers page."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from adaptlab_api.pages.item_answers.page import AnswersQuery, answers_page
from adaptlab_api.pages.rendering.parameters import Number, ReaderDep
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.requests.dependencies import SessionDep
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import needs
from adaptlab_services import short_ids
from adaptlab_services.errors import Absent

NO_JOB = "No job has this id. The id may be mistyped, or the job may be on another server."


# A coroutine, though it waits for nothing: see `adaptlab_api.requests.dependencies.at_once`.


async def _asked(
    task_place: Number = 0,
    seed: Annotated[str, Query(max_length=20)] = "",
    outcome: Literal["", "right", "wrong"] = "",
    differs: Literal["", "true"] = "",
    other: Annotated[str, Query(alias="with", max_length=64)] = "",
    page_token: Annotated[str, Query(max_length=2000)] = "",
) -> AnswersQuery:
    return AnswersQuery(
        task_place, seed, outcome or None, bool(differs), other.strip(), page_token or None
    )


def routers(renderer: Renderer) -> tuple[APIRouter, ...]:
    """Return the routers of this wing."""
    return (answers_routes(renderer),)


def answers_routes(renderer: Renderer) -> APIRouter:
    """Return the route of the page."""
    router = closed_router()

    @router.get("/jobs/{job_id}/answers", name="answers_page")
    @needs("reader")
    def page(
        job_id: str,
        session: SessionDep,
        principal: ReaderDep,
        asked: Annotated[AnswersQuery, Depends(_asked)],
    ) -> Response:
        shown: dict[str, object] = {"principal": principal}
        try:
            content = answers_page(session, short_ids.job_id(session, job_id), asked)
        except Absent:
            return renderer.fault(404, "There is no such job", NO_JOB, shown)
        return renderer.page("answers.html", {**shown, **content})

    return router
