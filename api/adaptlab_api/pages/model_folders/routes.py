"""Routes of the list of uploaded folders."""

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy.orm import Session

from adaptlab_api.limits.auditing import noted
from adaptlab_api.pages.rendering.navigation import MODELS, NavigationEntry
from adaptlab_api.pages.rendering.parameters import ReaderDep
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.requests.dependencies import SessionDep, SubmitterDep
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import needs
from adaptlab_services.errors import Absent, Forbidden, StateConflict
from adaptlab_services.models import uploaded_folder_deletion, uploaded_folders

HERE = "/model-folders"
NAVIGATION = NavigationEntry(8, "Uploads", HERE, MODELS)
PAGE_SIZE = 50
NEEDED = "This upload is still needed"
NOT_ALLOWED = "You may not delete this upload"
NO_FOLDER = "No upload of your projects has this name. It may be deleted."


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

    @router.post("/{name}/delete")
    @needs("submitter")
    def delete_model_folder_form(
        name: str, request: Request, session: SessionDep, principal: SubmitterDep
    ) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        try:
            uploaded_folder_deletion.delete_folder(session, name)
        except Absent:
            return renderer.fault(404, "There is no such upload", NO_FOLDER, shown)
        except StateConflict as refusal:
            return renderer.fault(409, NEEDED, str(refusal), shown)
        except Forbidden as refusal:
            return renderer.fault(403, NOT_ALLOWED, str(refusal), shown)
        return noted(session, request, RedirectResponse(HERE, 303))

    return router


def _listed(session: Session, page_token: str) -> dict[str, object]:
    page = uploaded_folders.page(session, PAGE_SIZE, page_token or None)
    following = page.next_page_token
    return {
        "folders": page.data,
        "deletable": uploaded_folder_deletion.may_delete(session, page.data),
        "following": following and f"{HERE}?page_token={following}",
    }
