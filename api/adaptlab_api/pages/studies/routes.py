"""Routes of the list of studies, and of one study with its charts."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, BackgroundTasks, Depends, Request
from fastapi.responses import RedirectResponse, Response

from adaptlab.charts import Theme
from adaptlab.errors import InvalidSpec
from adaptlab.statistics.more_seeds import MOST_SEEDS
from adaptlab_api.answers.problems import Refused, status_of
from adaptlab_api.limits.auditing import noted
from adaptlab_api.pages.comparisons.charts import curves_answer, table_answer
from adaptlab_api.pages.rendering.annotation_form import study_changes
from adaptlab_api.pages.rendering.examples import first_study
from adaptlab_api.pages.rendering.forms import form_fields, small_form_fields
from adaptlab_api.pages.rendering.navigation import NavigationEntry
from adaptlab_api.pages.rendering.parameters import Number, Reader, ReaderDep, server_address
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.pages.rendering.sharing import Shared, add_sharing
from adaptlab_api.pages.studies.extending import USUAL, extend_page, extension_of
from adaptlab_api.pages.studies.page import study_list, study_page
from adaptlab_api.requests.dependencies import ResourcesDep, SessionDep, SubmitterDep, UnitsDep
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.requests.study_request import study_rules
from adaptlab_services.comparisons.comparisons import StudyQuestion
from adaptlab_services.errors import Absent, Forbidden, LimitReached, StateConflict
from adaptlab_services.people.tokens import Principal
from adaptlab_services.studies import studies, study_deletion, study_sharing

HERE = "/studies"
NAVIGATION = NavigationEntry(2, "Studies", HERE)
SHARED = Shared(HERE, "study", "study", study_sharing.share, study_sharing.take_back)
NO_STUDY = (
    "No study has this name or id. The name may be mistyped, or the study may be on another server."
)
NOT_EXTENDED = "No seeds were added"
NOT_DELETED = "The study was not deleted"
NOT_SAVED = "The change was not saved"
NO_TABLE = "The study does not have this many tables. Remove the number from the address."


FieldsDep = Annotated[Mapping[str, Sequence[str]], Depends(small_form_fields)]


def routers(renderer: Renderer) -> tuple[APIRouter, ...]:
    """Return the routers of this wing."""
    return (study_routes(renderer),)


def study_routes(renderer: Renderer) -> APIRouter:
    """Return the routes of the list, one study, and its charts."""
    router = closed_router(HERE)

    @router.get("")
    @needs("reader")
    def studies_page(
        request: Request,
        session: SessionDep,
        principal: ReaderDep,
        page_token: str = "",
        archived: Literal["", "only"] = "",
    ) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        shown["example"] = first_study(server_address(request))
        return renderer.listed(
            "studies.html",
            shown,
            lambda: study_list(session, page_token or None, only_archived=archived == "only"),
        )

    @router.get("/{study}")
    @needs("reader")
    def one_study(
        study: str,
        units: UnitsDep,
        opened: ResourcesDep,
        principal: ReaderDep,
        table: Number = 0,
    ) -> Response:
        try:
            content = study_page(units, opened.comparisons, study_rules(opened), study, table)
        except Absent as fault:
            return _not_found(renderer, principal, fault)
        return renderer.page("study.html", {"principal": principal, "here": HERE, **content})

    @router.post("/{study}/cancel")
    @needs("submitter")
    def cancel_study(
        study: str, request: Request, session: SessionDep, principal: SubmitterDep
    ) -> Response:
        try:
            changed = studies.cancel(session, principal, study)
        except Absent as fault:
            return _not_found(renderer, principal, fault)
        return noted(session, request, RedirectResponse(f"{HERE}/{changed.study.name}", 303))

    @router.get("/{study}/charts")
    @needs("reader")
    def study_charts(
        study: str,
        units: UnitsDep,
        opened: ResourcesDep,
        _: ReaderDep,
        table: Number = 0,
        theme: Theme = "light",
    ) -> Response:
        try:
            comparison = opened.comparisons.answer(units, StudyQuestion(study))
        except Absent:
            return Response(status_code=404)
        return table_answer(comparison, table, theme)

    @router.get("/{study}/curves")
    @needs("reader")
    def study_curves(
        study: str,
        units: UnitsDep,
        opened: ResourcesDep,
        _: ReaderDep,
        table: Number = 0,
        cell: Number = 0,
        theme: Theme = "light",
    ) -> Response:
        try:
            comparison = opened.comparisons.answer(units, StudyQuestion(study))
        except Absent:
            return Response(status_code=404)
        return curves_answer(units, comparison, (table, cell), theme)

    _add_annotating(router, renderer)
    _add_deletion(router, renderer)
    add_sharing(router, renderer, SHARED)
    _add_extending(router, renderer)
    return router


def _add_annotating(router: APIRouter, renderer: Renderer) -> None:
    """Add the form of name, labels and notes."""

    @router.post("/{study}/annotations")
    @needs("submitter")
    def annotate_study(  # pyright: ignore[reportUnusedFunction] - the router keeps it
        study: str,
        fields: FieldsDep,
        request: Request,
        session: SessionDep,
        principal: SubmitterDep,
    ) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        try:
            changes = study_changes(fields, studies.get(session, study).labels)
            changed = studies.annotate(session, study, changes)
        except Absent as fault:
            return _not_found(renderer, principal, fault)
        except (InvalidSpec, Refused, Forbidden, StateConflict) as refusal:
            return renderer.fault(status_of(refusal), NOT_SAVED, str(refusal), shown)
        return noted(session, request, RedirectResponse(f"{HERE}/{changed.name}", 303))


def _add_deletion(router: APIRouter, renderer: Renderer) -> None:
    """Add the button that deletes a study."""

    @router.post("/{study}/delete")
    @needs("operator")
    def delete_study(  # pyright: ignore[reportUnusedFunction] - the router keeps it
        study: str,
        fields: FieldsDep,
        request: Request,
        session: SessionDep,
        principal: SubmitterDep,
    ) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        try:
            study_deletion.delete_study(session, study, with_jobs="with_jobs" in fields)
        except Absent as fault:
            return _not_found(renderer, principal, fault)
        except (StateConflict, Forbidden) as refusal:
            return renderer.fault(status_of(refusal), NOT_DELETED, str(refusal), shown)
        return noted(session, request, RedirectResponse(HERE, 303))


def _add_extending(router: APIRouter, renderer: Renderer) -> None:
    """Add the page that shows the cost of more seeds, and its form."""

    @router.get("/{study}/extend")
    @needs("submitter")
    def more_seeds(  # pyright: ignore[reportUnusedFunction] - the router keeps it
        study: str,
        session: SessionDep,
        principal: SubmitterDep,
        opened: ResourcesDep,
        more: Number = USUAL,
    ) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        try:
            content = extend_page(session, study, more, study_rules(opened))
        except Absent as fault:
            return _not_found(renderer, principal, fault)
        except (InvalidSpec, StateConflict) as refusal:
            return renderer.fault(status_of(refusal), NOT_EXTENDED, str(refusal), shown)
        return renderer.page("study-extend.html", {**shown, **content})

    @router.post("/{study}/extend")
    @needs("submitter")
    def extend_study(  # pyright: ignore[reportUnusedFunction] - the router keeps it
        study: str,
        fields: Annotated[Mapping[str, Sequence[str]], Depends(_seeds)],
        request: Request,
        session: SessionDep,
        principal: SubmitterDep,
        opened: ResourcesDep,
        background: BackgroundTasks,
    ) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        try:
            # The page about a refusal commits, so what was written before it is rolled back here.
            with session.begin_nested():
                extension = extension_of(fields)
                done = studies.extend(session, principal, study, extension, study_rules(opened))
        except Absent as fault:
            return _not_found(renderer, principal, fault)
        except (InvalidSpec, StateConflict, Forbidden, LimitReached) as refusal:
            return renderer.fault(status_of(refusal), NOT_EXTENDED, str(refusal), shown)
        background.add_task(opened.bell.ring, done.queues)  # after the commit
        return noted(session, request, RedirectResponse(f"{HERE}/{done.study.name}", 303))


async def _seeds(request: Request) -> Mapping[str, Sequence[str]]:
    return await form_fields(request, MOST_SEEDS)


def _not_found(renderer: Renderer, principal: Principal | Reader, fault: Absent) -> Response:
    shown: dict[str, object] = {"principal": principal, "here": HERE}
    if fault.kind == "table":
        return renderer.fault(404, "There is no such table", NO_TABLE, shown)
    return renderer.fault(404, "There is no such study", NO_STUDY, shown)
