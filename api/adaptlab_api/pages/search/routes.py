"""The search for a study or job by name or id."""

from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query
from fastapi.responses import RedirectResponse, Response
from sqlalchemy.orm import Session

from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.requests.dependencies import SessionDep
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import needs
from adaptlab_services import short_ids
from adaptlab_services.errors import Absent
from adaptlab_services.studies import studies

LONGEST = 200


def routers(_: Renderer) -> tuple[APIRouter, ...]:
    """Return the routers of this wing."""
    return (search_routes(),)


def search_routes() -> APIRouter:
    """Return the route of the search."""
    router = closed_router("/search")

    @router.get("")
    @needs("reader")
    def search(session: SessionDep, q: Annotated[str, Query(max_length=LONGEST)] = "") -> Response:
        return RedirectResponse(_place(session, q.strip()), 303)

    return router


def _place(session: Session, text: str) -> str:
    """Return the address of the study or job, else of jobs with such a name.

    Raises `InvalidSpec` if several have an id that begins or ends with the text.
    """
    if not text:
        return "/"
    try:
        return f"/studies/{quote(studies.get(session, text).name, safe='')}"
    except Absent:
        pass
    try:
        return f"/jobs/{short_ids.job_id(session, text)}"
    except Absent:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        wanted = f'name ~ "{escaped}"'
        return f"/?{urlencode({'filter': wanted, 'archived': 'include'})}"
