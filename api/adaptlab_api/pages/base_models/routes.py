"""Routes of the list of base models, and of one with its lineage."""

from fastapi import APIRouter, Request
from fastapi.responses import Response
from sqlalchemy.orm import Session

from adaptlab_api.pages.rendering.examples import first_job
from adaptlab_api.pages.rendering.fetching import FetchPage, add_fetching
from adaptlab_api.pages.rendering.formats import pretty
from adaptlab_api.pages.rendering.job_titles import job_title
from adaptlab_api.pages.rendering.navigation import MODELS, NavigationEntry
from adaptlab_api.pages.rendering.parameters import ReaderDep, server_address
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.pages.rendering.sharing import Shared, add_sharing
from adaptlab_api.requests.dependencies import ResourcesDep, SessionDep
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import needs
from adaptlab_services.errors import Absent
from adaptlab_services.models import base_model_sharing, base_models
from adaptlab_services.results import lineage

HERE = "/base-models"
NAVIGATION = NavigationEntry(6, "Base models", HERE, MODELS)
SHARED = Shared(HERE, "base_model", "name", base_model_sharing.share, base_model_sharing.take_back)
FETCHED = FetchPage(HERE, "base-models.html", "model")
PAGE_SIZE = 50
POLL = 5
NO_MODEL = "No base model of your projects has this name. The name may be mistyped."


def routers(renderer: Renderer) -> tuple[APIRouter, ...]:
    """Return the routers of this wing."""
    return (base_model_routes(renderer),)


def base_model_routes(renderer: Renderer) -> APIRouter:
    """Return the routes of the list and of one base model."""
    router = closed_router(HERE)

    @router.get("")
    @needs("reader")
    def base_models_page(
        request: Request,
        session: SessionDep,
        principal: ReaderDep,
        opened: ResourcesDep,
        page_token: str = "",
    ) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        shown["example"] = first_job(server_address(request))

        def content() -> dict[str, object]:
            return _listed(session, page_token) | FETCHED.panel(session, opened)

        return renderer.listed("base-models.html", shown, content)

    @router.get("/{name}")
    @needs("reader")
    def one_base_model(name: str, session: SessionDep, principal: ReaderDep) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        try:
            content = _one(session, name)
        except Absent:
            return renderer.fault(404, "There is no such base model", NO_MODEL, shown)
        content["may_share"] = base_model_sharing.may_share(session, name)
        return renderer.page("base-model.html", {**shown, **content})

    add_sharing(router, renderer, SHARED)
    add_fetching(router, renderer, FETCHED, lambda session, _, __: _listed(session, ""))
    return router


def _listed(session: Session, page_token: str) -> dict[str, object]:
    page = base_models.page(session, PAGE_SIZE, page_token or None)
    following = page.next_page_token
    return {
        "models": page.data,
        "following": following and f"{HERE}?page_token={following}",
        "poll": None if page_token else POLL,
    }


def _one(session: Session, name: str) -> dict[str, object]:
    origin = lineage.of(session, name)
    spec = origin.made_by.resolved_spec
    return {
        "found": origin,
        "model": origin.model,
        "spec": spec,
        "family_json": pretty(origin.model.family),
        "task_json": pretty(origin.model.task) if origin.model.task else "",
        "titles": {job.id: job_title(job) for job in origin.newest},
        "poll": POLL if not origin.made_by.terminal else None,
    }
