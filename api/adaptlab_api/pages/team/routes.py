"""Routes of the pages of projects, users and the audit log.

The gate checks that a form was sent from this server, as for every change with a cookie.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy.orm import Session

from adaptlab_api.answers.problems import status_of
from adaptlab_api.doors.gate import PROJECT_COOKIE
from adaptlab_api.limits.auditing import noted, unaudited
from adaptlab_api.pages.rendering.form_faults import REFUSALS, faults_of
from adaptlab_api.pages.rendering.forms import small_form_fields
from adaptlab_api.pages.rendering.navigation import TEAM_GROUP, NavigationEntry
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.pages.rendering.team_tabs import TEAM
from adaptlab_api.pages.team.page import (
    AUDIT,
    FIELDS,
    NEW_MEMBER,
    NEW_PROJECT,
    NEW_USER,
    NO_USER,
    OWN_CHANGES,
    USERS,
    asked,
    audit_page,
    project_page,
    projects_page,
    text_of,
    users_page,
)
from adaptlab_api.requests.dependencies import AccessDep, PrincipalDep, SessionDep
from adaptlab_api.requests.routing import closed_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.people import ProjectName, UserName
from adaptlab_services.errors import Absent
from adaptlab_services.people import invitations, projects, users
from adaptlab_services.people.access import Access
from adaptlab_services.people.tokens import Principal
from adaptlab_services.people.users import UserChanges

NAVIGATION = NavigationEntry(11, "Projects and users", TEAM, TEAM_GROUP)
NO_PROJECT = "You are not a member of a project with this name. The name may be mistyped."
FieldsDep = Annotated[Mapping[str, Sequence[str]], Depends(small_form_fields)]
Text = Annotated[str, Query(max_length=200)]
Values = Callable[[], dict[str, object]]


def routers(renderer: Renderer) -> tuple[APIRouter, ...]:
    """Return the routers of this wing."""
    return (
        project_routes(renderer),
        choice_routes(renderer),
        user_routes(renderer),
        audit_routes(renderer),
    )


def project_routes(renderer: Renderer) -> APIRouter:
    """Return the routes of the list of projects and of one project."""
    router = closed_router(TEAM)

    @router.get("")
    @needs("person")
    def show_projects(
        request: Request, session: SessionDep, principal: PrincipalDep, access: AccessDep
    ) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": TEAM}
        values = projects_page(session, principal, access, request.cookies.get(PROJECT_COOKIE))
        return renderer.page("projects.html", {**shown, **values})

    @router.post("")
    @needs("admin")
    def create_project(
        fields: FieldsDep,
        request: Request,
        session: SessionDep,
        principal: PrincipalDep,
        access: AccessDep,
    ) -> Response:
        name = text_of(fields, "name")
        return _changed(
            renderer, session, request, "projects.html", f"{TEAM}/{name}",
            lambda: projects.create(session, access, asked(NEW_PROJECT, name=name)),
            lambda: projects_page(session, principal, access, name=name),
        )  # fmt: skip

    @router.get("/{name}")
    @needs("reader")
    def show_project(
        name: ProjectName, session: SessionDep, principal: PrincipalDep, access: AccessDep
    ) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": TEAM}
        try:
            values = project_page(session, access, name)
        except Absent:
            return renderer.fault(404, "There is no such project", NO_PROJECT, shown)
        return renderer.page("project.html", {**shown, **values})

    @router.post("/{name}/members")
    @needs("reader")
    def put_member(
        name: ProjectName,
        fields: FieldsDep,
        request: Request,
        session: SessionDep,
        principal: PrincipalDep,
        access: AccessDep,
    ) -> Response:
        user, role = text_of(fields, "user"), text_of(fields, "role")
        if (missing := _missing(renderer, session, access, principal, name)) is not None:
            return missing
        return _changed(
            renderer, session, request, "project.html", f"{TEAM}/{name}",
            lambda: projects.put_member(
                session, access, name, user, asked(NEW_MEMBER, role=role)
            ),
            lambda: project_page(session, access, name, user),
        )  # fmt: skip

    @router.post("/{name}/members/{user}/remove")
    @needs("person")
    def delete_member(
        name: ProjectName,
        user: UserName,
        request: Request,
        session: SessionDep,
        principal: PrincipalDep,
        access: AccessDep,
    ) -> Response:
        is_own = user == principal.name  # perhaps an invitation, which shows no project
        if (
            not is_own
            and (missing := _missing(renderer, session, access, principal, name)) is not None
        ):
            return missing
        return _changed(
            renderer, session, request, *_after_removal(name, is_own=is_own),
            lambda: projects.remove_member(session, principal, access, name, user),
            lambda: _shown_again(session, principal, access, None if is_own else name),
        )  # fmt: skip

    return router


def choice_routes(renderer: Renderer) -> APIRouter:
    """Return the routes by which users choose among their own projects."""
    router = closed_router(TEAM)

    @router.post("/{name}/accept")
    @needs("person")
    def accept_invitation(
        name: ProjectName,
        request: Request,
        session: SessionDep,
        principal: PrincipalDep,
        access: AccessDep,
    ) -> Response:
        return _changed(
            renderer, session, request, "projects.html", TEAM,
            lambda: projects.accept(session, principal, name),
            lambda: projects_page(session, principal, access),
        )  # fmt: skip

    @router.post("/usual")
    @needs("person")
    def choose_usual_project(
        fields: FieldsDep,
        request: Request,
        session: SessionDep,
        principal: PrincipalDep,
        access: AccessDep,
    ) -> Response:
        name = text_of(fields, "project")
        return _changed(
            renderer, session, request, "projects.html", TEAM,
            lambda: invitations.choose(
                session, principal, access, asked(OWN_CHANGES, usual_project=name)
            ),
            lambda: projects_page(session, principal, access),
        )  # fmt: skip

    @router.post("/shown")
    @needs("person")
    @unaudited
    def choose_project(
        fields: FieldsDep,
        request: Request,
        session: SessionDep,
        principal: PrincipalDep,
        access: AccessDep,
    ) -> Response:
        name = text_of(fields, "project")
        answer = RedirectResponse("/", 303)
        if not name:
            answer.delete_cookie(PROJECT_COOKIE, path="/")
            return answer
        if (missing := _missing(renderer, session, access, principal, name)) is not None:
            return missing
        is_secure = request.url.scheme == "https"
        answer.set_cookie(
            PROJECT_COOKIE, name, path="/", secure=is_secure, httponly=True, samesite="lax"
        )
        return answer

    return router


def user_routes(renderer: Renderer) -> APIRouter:
    """Return the routes of the list of users and of its forms."""
    router = closed_router(USERS)

    @router.get("")
    @needs("admin")
    def show_users(
        session: SessionDep, principal: PrincipalDep, access: AccessDep, page_token: str = ""
    ) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": TEAM}
        return renderer.listed(
            "users.html",
            shown,
            lambda: users_page(session, access, principal.name, page_token or None),
        )

    @router.post("")
    @needs("admin")
    def create_user(
        fields: FieldsDep,
        request: Request,
        session: SessionDep,
        principal: PrincipalDep,
        access: AccessDep,
    ) -> Response:
        name, is_admin = text_of(fields, "name"), bool(text_of(fields, "admin"))
        return _changed(
            renderer, session, request, "users.html", USERS,
            lambda: users.create(session, asked(NEW_USER, name=name, is_admin=is_admin)),
            lambda: users_page(session, access, principal.name, name=name),
        )  # fmt: skip

    @router.post("/{user}")
    @needs("admin")
    def update_user(
        user: UserName,
        fields: FieldsDep,
        request: Request,
        session: SessionDep,
        principal: PrincipalDep,
        access: AccessDep,
    ) -> Response:
        return _changed(
            renderer, session, request, "users.html", USERS,
            lambda: users.change(
                session,
                principal,
                user,
                UserChanges(is_admin=_flag(fields, "admin"), is_active=_flag(fields, "active")),
            ),
            lambda: users_page(session, access, principal.name),
        )  # fmt: skip

    return router


def audit_routes(renderer: Renderer) -> APIRouter:
    """Return the route of the audit log."""
    router = closed_router(AUDIT)

    @router.get("")
    @needs("admin")
    def show_audit_entries(
        session: SessionDep,
        principal: PrincipalDep,
        access: AccessDep,
        actor: Text = "",
        action: Text = "",
        of: Annotated[str, Query(alias="object", max_length=200)] = "",
        since: Text = "",
        until: Text = "",
        page_token: str = "",
    ) -> Response:
        shown: dict[str, object] = {"principal": principal, "here": TEAM}
        conditions = {
            "actor": actor, "action": action, "object": of, "since": since, "until": until
        }  # fmt: skip
        filters = {name: text.strip() for name, text in conditions.items() if text.strip()}
        return renderer.listed(
            "audit.html", shown, lambda: audit_page(session, access, filters, page_token or None)
        )

    return router


def _after_removal(name: str, *, is_own: bool) -> tuple[str, str]:
    """Return the template with the errors, and the page to go back to."""
    return ("projects.html", TEAM) if is_own else ("project.html", f"{TEAM}/{name}")


def _shown_again(
    session: Session, principal: Principal, access: Access, name: str | None
) -> dict[str, object]:
    if name is None:
        return projects_page(session, principal, access)
    return project_page(session, access, name)


def _flag(fields: Mapping[str, Sequence[str]], name: str) -> bool | None:
    return {"yes": True, "no": False}.get(text_of(fields, name))


def _missing(
    renderer: Renderer, session: Session, access: Access, principal: Principal, name: str
) -> Response | None:
    """Return the error page for a project that the caller does not see."""
    try:
        projects.id_of(session, access, name)
    except Absent:
        shown: dict[str, object] = {"principal": principal, "here": TEAM}
        return renderer.fault(404, "There is no such project", NO_PROJECT, shown)
    return None


def _changed(
    renderer: Renderer,
    session: Session,
    request: Request,
    template: str,
    back: str,
    change: Callable[[], object],
    values: Values,
) -> Response:
    """Change something and go back to a page, or show it with the errors."""
    try:
        with session.begin_nested():
            change()
    except REFUSALS as refusal:
        shown: dict[str, object] = {"principal": request.state.principal, "here": TEAM}
        faults = {"faults": faults_of(refusal, FIELDS, NO_USER)}
        return renderer.page(template, {**shown, **values(), **faults}, status_of(refusal))
    return noted(session, request, RedirectResponse(back, 303))
