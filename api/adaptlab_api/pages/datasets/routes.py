"""Routes of the list of datasets and of one dataset."""

from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy.orm import Session

from adaptlab_api.answers.problems import TOO_MANY, status_of
from adaptlab_api.answers.state import Resources
from adaptlab_api.limits.auditing import noted
from adaptlab_api.limits.thread_turns import turn_of
from adaptlab_api.pages.datasets.file_form import FIELDS, FileForm, file_form
from adaptlab_api.pages.datasets.uploading import add_uploading
from adaptlab_api.pages.rendering.fetching import FetchPage, add_fetching
from adaptlab_api.pages.rendering.form_faults import REFUSALS, faults_of
from adaptlab_api.pages.rendering.formats import pretty
from adaptlab_api.pages.rendering.navigation import MODELS, NavigationEntry
from adaptlab_api.pages.rendering.parameters import ReaderDep
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.pages.rendering.sharing import FieldsDep, Shared, add_sharing
from adaptlab_api.requests.dependencies import (
    PrincipalDep,
    ResourcesDep,
    SessionDep,
    SubmitterDep,
    UnitsDep,
)
from adaptlab_api.requests.readings import OTHERS, in_turn
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.datasets import PATIENCE_SECONDS, stored_records
from adaptlab_services.errors import Absent, Forbidden, StateConflict
from adaptlab_services.models import dataset_deletion, dataset_sharing, datasets
from adaptlab_services.people.tokens import Principal
from adaptlab_services.storage import uploads

HERE = "/datasets"
NAVIGATION = NavigationEntry(7, "Datasets", HERE, MODELS)
SHARED = Shared(HERE, "dataset", "name", dataset_sharing.share, dataset_sharing.take_back)
FETCHED = FetchPage(HERE, "datasets.html", "dataset")
PAGE_SIZE = 50
POLL = 5
MOST_VALUES = 12
"""Values of a field that are listed with their counts; further ones are counted."""
NEEDED = "This dataset is still needed"
NOT_ALLOWED = "You may not delete this dataset"
NO_DATASET = "No dataset of your projects has this name. The name may be mistyped."


def routers(renderer: Renderer) -> tuple[APIRouter, ...]:
    """Return the routers of this wing."""
    return (dataset_routes(renderer),)


def dataset_routes(renderer: Renderer) -> APIRouter:
    """Return the routes of the list and of one dataset."""
    router = closed_router(HERE)

    @router.get("")
    @needs("reader")
    def datasets_page(
        session: SessionDep,
        principal: ReaderDep,
        who: PrincipalDep,
        opened: ResourcesDep,
        page_token: str = "",
    ) -> Response:
        shown = {"principal": principal, "here": HERE, **file_form(opened)}
        content = partial(_content, session, who, opened, page_token)
        return renderer.listed("datasets.html", shown, content)

    @router.get("/{name}")
    @needs("reader")
    def one_dataset(name: str, session: SessionDep, principal: ReaderDep) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        try:
            found, task = datasets.get(session, name), datasets.fitting_task(session, name)
        except Absent:
            return renderer.fault(404, "There is no such dataset", NO_DATASET, shown)
        values = {"found": found, "most": MOST_VALUES, "task": task and pretty(task)}
        may_delete = found.source == "imported" and dataset_deletion.may_delete(session, name)
        values["may_share"] = dataset_sharing.may_share(session, name)
        return renderer.page("dataset.html", {**shown, **values, "may_delete": may_delete})

    @router.post("/{name}/delete")
    @needs("submitter")
    def delete_dataset(
        name: str, request: Request, session: SessionDep, principal: SubmitterDep
    ) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        try:
            dataset_deletion.delete_dataset(session, name)
        except Absent:
            return renderer.fault(404, "There is no such dataset", NO_DATASET, shown)
        except StateConflict as refusal:
            return renderer.fault(409, NEEDED, str(refusal), shown)
        except Forbidden as refusal:
            return renderer.fault(403, NOT_ALLOWED, str(refusal), shown)
        return noted(session, request, RedirectResponse(HERE, 303))

    add_sharing(router, renderer, SHARED)
    add_uploading(router, renderer, _content)
    add_fetching(router, renderer, FETCHED, _with_form)
    _add_form(router, renderer)
    return router


def _add_form(router: APIRouter, renderer: Renderer) -> None:
    """Add the route that makes a dataset of a file of the server."""

    @router.post("")
    @needs("submitter")
    async def add_dataset(  # pyright: ignore[reportUnusedFunction] - the router keeps it
        fields: FieldsDep,
        request: Request,
        units: UnitsDep,
        principal: SubmitterDep,
        opened: ResourcesDep,
    ) -> Response:
        form, turn = FileForm.read(fields), turn_of(request)
        try:
            reading = partial(stored_records, units, opened, principal, form.asked())
            stored = await in_turn(request, PATIENCE_SECONDS, reading)
        except REFUSALS as refusal:
            faults, status = faults_of(refusal, FIELDS), status_of(refusal)
        else:
            if stored is not None:
                return RedirectResponse(f"{HERE}/{stored.dataset.name}", 303)
            faults, status = (OTHERS,), TOO_MANY.status
        shown = {"principal": principal, "here": HERE, **file_form(opened, form, faults)}

        def page() -> Response:
            with units() as session:
                return renderer.page(
                    "datasets.html", {**shown, **_content(session, principal, opened)}, status
                )

        return await turn.call(page)


def _content(
    session: Session, who: Principal, opened: Resources, page_token: str = ""
) -> dict[str, object]:
    """Return the values of the list and of fetches."""
    return _listed(session, who, page_token) | FETCHED.panel(session, opened)


def _with_form(session: Session, who: Principal, opened: Resources) -> dict[str, object]:
    return _listed(session, who, "") | file_form(opened)


def _listed(session: Session, who: Principal, page_token: str) -> dict[str, object]:
    kept = [one for one in uploads.page(session, who).data if one.state == "complete"]
    page = datasets.page(session, PAGE_SIZE, page_token or None)
    following = page.next_page_token
    return {
        "datasets": page.data,
        "kept": kept,
        "poll": None if page_token else POLL,
        "following": following and f"{HERE}?page_token={following}",
    }
