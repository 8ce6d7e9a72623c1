"""Routes of the list of uploaded folders."""

from fastapi import APIRouter
from fastapi.responses import Response
from sqlalchemy.orm import Session

from adaptlab_api.pages.rendering.navigation import MODELS, NavigationEntry
from adaptlab_api.pages.rendering.parameters import ReaderDep
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.requests.dependencies import SessionDep
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import needs
from adaptlab_services.models import uploaded_folders

HERE = "/model-folders"
NAVIGATION = NavigationEntry(8, "Uploads", HERE, MODELS)
PAGE_SIZE = 50


def routers(renderer: Renderer) -> tuple[APIRouter, ...]:
    """Return the routers of this wing."""
    return (model_folder_routes(renderer),)


def model_folder_routes(renderer: Renderer) -> APIRouter:
    """Return the routes of the list."""
    router = closed_router(HERE)

    @router.get("")
    @needs("reader")
    def model_folders_page(
        session: SessionDep, principal: ReaderDep, page_token: str = ""
    ) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        return renderer.listed("model-folders.html", shown, lambda: _listed(session, page_token))

    return router


def _listed(session: Session, page_token: str) -> dict[str, object]:
    page = uploaded_folders.page(session, PAGE_SIZE, page_token or None)
    following = page.next_page_token
    return {
        "folders": page.data,
        "following": following and f"{HERE}?page_token={following}",
    }
