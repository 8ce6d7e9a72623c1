"""`/v1/me`, `/v1/tokens`, `/v1/users`, `/v1/projects` and `/v1/audit`: who may get in, and did."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import TypeAdapter
from starlette.responses import Response

from adaptlab_answers.paging import Page
from adaptlab_answers.people import (
    AuditView,
    CreatedToken,
    Me,
    Members,
    MemberView,
    Projects,
    ProjectView,
    TokenView,
    UserView,
)
from adaptlab_api.answers.answers import NO_STORE, json_answer
from adaptlab_api.requests.dependencies import AccessDep, BodyDep, PrincipalDep, SessionDep, valid
from adaptlab_api.requests.describing import WITH_BODY, Described, failures, json_body
from adaptlab_api.requests.identities import JobId
from adaptlab_api.requests.routing import api_router
from adaptlab_api.routes.jobs import PageSize, PageToken
from adaptlab_api.routes.results import RowId
from adaptlab_services.jobs import job_tokens
from adaptlab_services.jobs.job_tokens import NewJobToken
from adaptlab_services.paging import DEFAULT_PAGE_SIZE
from adaptlab_services.people import audit, issued_tokens, projects, users
from adaptlab_services.people.audit import AuditFilter
from adaptlab_services.people.issued_tokens import NewToken
from adaptlab_services.people.projects import NewMember, NewProject
from adaptlab_services.people.users import NewUser, UserChanges

UserName = Annotated[str, Path(max_length=63, description="The name of a user.")]
ProjectName = Annotated[str, Path(max_length=63, description="The name of a project.")]
OfUser = Annotated[str | None, Query(max_length=63, description="Only tokens of this user.")]
Text = Annotated[str | None, Query(max_length=200)]
Instant = Annotated[datetime | None, Query(description="RFC 3339, for example 2026-01-31T12:00Z.")]

_TOKEN = TypeAdapter(NewToken)
_JOB_TOKEN = TypeAdapter(NewJobToken)
_USER = TypeAdapter(NewUser)
_USER_CHANGES = TypeAdapter(UserChanges)
_PROJECT = TypeAdapter(NewProject)
_MEMBER = TypeAdapter(NewMember)


def people_router() -> APIRouter:
    """The routes of tokens, users, projects and the audit log."""
    router = api_router(tag="access")
    router.add_api_route("/me", get_me, response_model=Me, responses=failures())
    _add_tokens(router)
    _add_users(router)
    _add_projects(router)
    router.add_api_route(
        "/audit", list_audit_entries, response_model=Page[AuditView], responses=failures()
    )
    return router


def _add_tokens(router: APIRouter) -> None:
    router.add_api_route(
        "/tokens",
        create_token,
        methods=["POST"],
        status_code=201,
        response_model=CreatedToken,
        openapi_extra=json_body("NewToken"),
        responses=_made("token") | failures(404, *WITH_BODY),
    )
    router.add_api_route(
        "/jobs/{job_id}/tokens",
        create_job_token,
        methods=["POST"],
        status_code=201,
        response_model=CreatedToken,
        openapi_extra=json_body("NewJobToken"),
        responses=_made("token") | failures(404, 409, *WITH_BODY),
    )
    router.add_api_route(
        "/tokens", list_tokens, response_model=Page[TokenView], responses=failures()
    )
    router.add_api_route(
        "/tokens/{token_id}/revoke",
        revoke_token,
        methods=["POST"],
        response_model=TokenView,
        responses=failures(404),
    )


def _add_users(router: APIRouter) -> None:
    router.add_api_route(
        "/users",
        create_user,
        methods=["POST"],
        status_code=201,
        response_model=UserView,
        openapi_extra=json_body("NewUser"),
        responses=_made("user") | failures(409, *WITH_BODY),
    )
    router.add_api_route("/users", list_users, response_model=Page[UserView], responses=failures())
    router.add_api_route(
        "/users/{user}",
        update_user,
        methods=["PATCH"],
        response_model=UserView,
        openapi_extra=json_body("UserChanges"),
        responses=failures(404, 409, *WITH_BODY),
    )


def _add_projects(router: APIRouter) -> None:
    router.add_api_route(
        "/projects",
        create_project,
        methods=["POST"],
        status_code=201,
        response_model=ProjectView,
        openapi_extra=json_body("NewProject"),
        responses=_made("project") | failures(409, *WITH_BODY),
    )
    router.add_api_route("/projects", list_projects, response_model=Projects, responses=failures())
    place = "/projects/{name}/members"
    router.add_api_route(place, list_members, response_model=Members, responses=failures(404))
    router.add_api_route(
        f"{place}/{{user}}",
        put_member,
        methods=["PUT"],
        response_model=MemberView,
        openapi_extra=json_body("NewMember"),
        responses=failures(404, *WITH_BODY),
    )
    router.add_api_route(
        f"{place}/{{user}}",
        delete_member,
        methods=["DELETE"],
        status_code=204,
        responses=failures(404),
    )


def get_me(session: SessionDep, who: PrincipalDep, found: AccessDep) -> Response:
    """Get your user, the permissions of your token, and your projects."""
    return json_answer(issued_tokens.me(session, who, found))


def create_token(
    body: BodyDep, session: SessionDep, who: PrincipalDep, found: AccessDep
) -> Response:
    """Create a token; only this answer contains its text."""
    made = issued_tokens.create(session, who, found, valid(_TOKEN, body))
    return json_answer(made, status=201, headers={"Location": f"/v1/tokens/{made.id}"})


def create_job_token(
    job_id: JobId, body: BodyDep, session: SessionDep, who: PrincipalDep
) -> Response:
    """Create a token with which workers run one job; only this answer contains its text."""
    made = job_tokens.create(session, who, job_id, valid(_JOB_TOKEN, body))
    return json_answer(made, status=201, headers={"Location": f"/v1/tokens/{made.id}"})


def list_tokens(
    session: SessionDep,
    who: PrincipalDep,
    found: AccessDep,
    user: OfUser = None,
    page_size: PageSize = DEFAULT_PAGE_SIZE,
    page_token: PageToken = None,
) -> Response:
    """List your tokens, newest first; an admin sees everybody's."""
    return json_answer(issued_tokens.page(session, who, found, user, page_size, page_token))


def revoke_token(
    token_id: RowId, session: SessionDep, who: PrincipalDep, found: AccessDep
) -> Response:
    """Revoke a token; its sessions and streams end within about two seconds."""
    return json_answer(issued_tokens.revoke(session, who, found, token_id))


def create_user(body: BodyDep, session: SessionDep) -> Response:
    """Create a user; to give access, add them to a project and create a token."""
    made = users.create(session, valid(_USER, body))
    return json_answer(made, status=201, headers={"Location": f"/v1/users/{made.name}"})


def list_users(
    session: SessionDep, page_size: PageSize = DEFAULT_PAGE_SIZE, page_token: PageToken = None
) -> Response:
    """List users by name."""
    return json_answer(users.page(session, page_size, page_token))


def update_user(user: UserName, body: BodyDep, session: SessionDep, who: PrincipalDep) -> Response:
    """Grant or revoke a user's admin rights or access."""
    return json_answer(users.change(session, who, user, valid(_USER_CHANGES, body)))


def create_project(body: BodyDep, session: SessionDep, found: AccessDep) -> Response:
    """Create a project."""
    made = projects.create(session, found, valid(_PROJECT, body))
    return json_answer(made, status=201, headers={"Location": f"/v1/projects/{made.name}"})


def list_projects(session: SessionDep, found: AccessDep) -> Response:
    """List the projects that you can see, with your role in each."""
    return json_answer(projects.listed(session, found))


def list_members(name: ProjectName, session: SessionDep, found: AccessDep) -> Response:
    """List the members of a project, with their roles."""
    return json_answer(projects.members(session, found, name))


def put_member(
    name: ProjectName, user: UserName, body: BodyDep, session: SessionDep, found: AccessDep
) -> Response:
    """Give a user a role in a project."""
    return json_answer(projects.put_member(session, found, name, user, valid(_MEMBER, body)))


def delete_member(
    name: ProjectName, user: UserName, session: SessionDep, found: AccessDep
) -> Response:
    """Remove a user from a project; what they created remains."""
    projects.remove_member(session, found, name, user)
    return Response(status_code=204, headers=NO_STORE)


def list_audit_entries(
    session: SessionDep,
    actor: Text = None,
    action: Text = None,
    of: Annotated[str | None, Query(alias="object", max_length=200)] = None,
    since: Instant = None,
    until: Instant = None,
    page_size: PageSize = DEFAULT_PAGE_SIZE,
    page_token: PageToken = None,
) -> Response:
    """List audit entries, actions and refusals, newest first."""
    wanted = AuditFilter(actor=actor, action=action, object=of, since=since, until=until)
    return json_answer(audit.page(session, wanted, page_size, page_token))


def _made(what: str) -> Described:
    headers = {
        "Location": {"description": f"The address of the {what}.", "schema": {"type": "string"}}
    }
    return {201: {"description": f"The new {what}.", "headers": headers}}
