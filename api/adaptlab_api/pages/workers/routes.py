"""The route of the page of workers and queues."""

from fastapi import APIRouter
from fastapi.responses import Response

from adaptlab_api.pages.rendering.navigation import TEAM_GROUP, NavigationEntry
from adaptlab_api.pages.rendering.parameters import ReaderDep
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.pages.workers.page import worker_page
from adaptlab_api.requests.dependencies import ResourcesDep, SessionDep
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import needs
from adaptlab_services.server import expiry

HERE = "/workers"
NAVIGATION = NavigationEntry(10, "Workers", HERE, TEAM_GROUP)


def routers(renderer: Renderer) -> tuple[APIRouter, ...]:
    """Return the routers of this wing."""
    return (worker_routes(renderer),)


def worker_routes(renderer: Renderer) -> APIRouter:
    """Return the route of the page."""
    router = closed_router(HERE)

    @router.get("")
    @needs("reader")
    def workers_page(session: SessionDep, principal: ReaderDep, opened: ResourcesDep) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        shown["expires"] = expiry.in_words(opened.settings)
        return renderer.page("workers.html", {**shown, **worker_page(session)})

    return router
