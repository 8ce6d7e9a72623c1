"""Routes of the links to a study, and of the page that each opens.

Below `/shared/` no account is needed and no cookie is read: what can be seen follows from the token
in the address alone. Limits on these requests are in `adaptlab_api.doors`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import RedirectResponse, Response

from adaptlab_api.answers.problems import status_of
from adaptlab_api.answers.state import resources_of
from adaptlab_api.limits.auditing import noted
from adaptlab_api.pages.attention.routes import picture
from adaptlab_api.pages.rendering.form_faults import REFUSALS, faults_of
from adaptlab_api.pages.rendering.forms import small_form_fields
from adaptlab_api.pages.rendering.parameters import Number, server_address
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.pages.study_links.page import (
    FIELDS,
    LinkForm,
    linked_map,
    linked_page,
    links_page,
    results_question,
)
from adaptlab_api.requests.dependencies import PrincipalDep, ResourcesDep, SessionDep, Units
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.results import RowId
from adaptlab_services.errors import Absent, Forbidden
from adaptlab_services.people.access import look
from adaptlab_services.results import bulk_rows, row_formats
from adaptlab_services.studies import study_links
from adaptlab_services.studies.study_links import SHARED_FOLDER

HERE = "/studies"
NO_LINK = "Links to this study cannot be changed"
VISITORS_HEADERS: Mapping[str, str] = {
    "Referrer-Policy": "no-referrer",  # the address is the permission
    "X-Robots-Tag": "noindex, nofollow, noarchive",
}
FILE_HEADERS: Mapping[str, str] = {
    **VISITORS_HEADERS,
    "Cache-Control": "no-store",
    "Content-Disposition": 'attachment; filename="results.csv"',
}

Place = Annotated[int, Path(ge=0, lt=2**31)]
FieldsDep = Annotated[Mapping[str, Sequence[str]], Depends(small_form_fields)]


@dataclass(frozen=True, slots=True)
class Visit:
    """A visitor by a valid link: the study, and units of work that see it."""

    study_id: str
    units: Units


def visit(request: Request, token: str) -> Visit:
    """Return the visit by the link in the address; raises `Absent`."""
    sessions = resources_of(request.app).sessions
    with sessions.begin() as session:
        access = study_links.opened(session, token)
    assert access.linked is not None
    return Visit(str(access.linked.study_id), lambda: look(sessions, access))


VisitDep = Annotated[Visit, Depends(visit)]


def routers(renderer: Renderer) -> tuple[APIRouter, ...]:
    """Return the routers of this wing."""
    return (link_routes(renderer), visitor_routes(renderer))


def link_routes(renderer: Renderer) -> APIRouter:
    """Return the routes of the list of links and of its forms."""
    router = closed_router(HERE)

    @router.get("/{study}/links")
    @needs("operator")
    def study_links_page(study: str, session: SessionDep, principal: PrincipalDep) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        try:
            content = links_page(session, study)
        except (Absent, Forbidden) as refusal:
            return renderer.fault(status_of(refusal), NO_LINK, str(refusal), shown)
        return renderer.page("study-links.html", {**shown, **content})

    @router.post("/{study}/links")
    @needs("operator")
    def create_study_link(
        study: str,
        fields: FieldsDep,
        request: Request,
        session: SessionDep,
        principal: PrincipalDep,
    ) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        form = LinkForm.read(fields)
        try:
            with session.begin_nested():
                link = study_links.create(session, principal, study, form.asked())
        except (Absent, Forbidden) as refusal:
            return renderer.fault(status_of(refusal), NO_LINK, str(refusal), shown)
        except REFUSALS as refusal:
            faults = {"faults": faults_of(refusal, FIELDS)}
            content = {**shown, **links_page(session, study, form), **faults}
            return renderer.page("study-links.html", content, status_of(refusal))
        made = {"made": link, "address": f"{server_address(request)}{link.path}"}
        # No redirect: the address would have to be stored until it is shown.
        place = {
            "Location": f"/v1/studies/{quote(study, safe='')}/links/{link.id}"
        }  # names it in the audit log
        content = {**shown, **links_page(session, study), **made}
        answer = renderer.page("study-links.html", content, 201, place)
        return noted(session, request, answer)

    @router.post("/{study}/links/{link_id}/revoke")
    @needs("operator")
    def revoke_study_link(
        study: str, link_id: RowId, request: Request, session: SessionDep, principal: PrincipalDep
    ) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": HERE}
        try:
            study_links.revoke(session, study, link_id)
        except (Absent, Forbidden) as refusal:
            return renderer.fault(status_of(refusal), NO_LINK, str(refusal), shown)
        return noted(
            session, request, RedirectResponse(f"{HERE}/{quote(study, safe='')}/links", 303)
        )

    return router


def visitor_routes(renderer: Renderer) -> APIRouter:
    """Return the routes for people without an account, which only read."""
    router = APIRouter(prefix=SHARED_FOLDER.rstrip("/"), include_in_schema=False)

    @router.get("/{token}")
    def linked_study(
        visit: VisitDep, token: str, opened: ResourcesDep, table: Number = 0
    ) -> Response:
        folder = f"{SHARED_FOLDER}{token}"
        content = linked_page(visit.units, opened.comparisons, visit.study_id, folder, table)
        return renderer.page("linked-study.html", content, headers=VISITORS_HEADERS)

    @router.get("/{token}/maps/{table}-{budget}-{number}.svg")
    def linked_picture(
        visit: VisitDep, opened: ResourcesDep, table: Place, budget: Place, number: Place
    ) -> Response:
        place = table, budget, number
        drawing = linked_map(visit.units, opened.comparisons, visit.study_id, place)
        answer = picture(drawing)
        answer.headers.update(VISITORS_HEADERS)
        return answer

    @router.get("/{token}/results.csv")
    def linked_results(visit: VisitDep) -> Response:
        with visit.units() as session:
            question = results_question(session, visit.study_id)
        columns, batches = bulk_rows.all_rows(visit.units, question)
        # Not streamed: a study has few jobs, and streams check the permissions of a user.
        content = b"".join(row_formats.text_lines(columns, batches, "csv"))
        return Response(content, 200, FILE_HEADERS, row_formats.MEDIA_TYPES["csv"])

    return router
