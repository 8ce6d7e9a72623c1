"""Routes of the documentation."""

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from adaptlab_api.pages.documents.page import HERE, document_page
from adaptlab_api.pages.rendering.parameters import ReaderDep
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import needs
from adaptlab_services.errors import Absent

FIRST = f"{HERE}/README.md"
NO_DOCUMENT = "The documentation of this server has no page with this address."


def routers(renderer: Renderer) -> tuple[APIRouter, ...]:
    """Return the routers of this wing."""
    return (document_routes(renderer),)


def document_routes(renderer: Renderer) -> APIRouter:
    """Return the routes of the documents."""
    router = closed_router(HERE)

    @router.get("")
    @needs("reader")
    def contents(_: ReaderDep) -> Response:
        return RedirectResponse(FIRST, 303)

    @router.get("/{name:path}")
    @needs("reader")
    def one_document(name: str, principal: ReaderDep) -> Response:
        shown: dict[str, object] = {"principal": principal}
        try:
            content = document_page(name)
        except Absent:
            return renderer.fault(404, "There is no such document", NO_DOCUMENT, shown)
        return renderer.page("document.html", {**shown, **content})

    return router
