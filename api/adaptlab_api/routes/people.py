"""`/v1/me`, `/v1/tokens`, `/v1/users`, `/v1/projects` and `/v1/audit`."""

from datetime import datetime
from typing import Annotated

from fastapi import Path, Query
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
from adaptlab_api.requests.bodies import Body, json_body
from adaptlab_api.requests.dependencies import AccessDep, PrincipalDep, SessionDep
from adaptlab_api.requests.describing import WITH_BODY, created, failures
from adaptlab_api.requests.identities import JobId
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_api.routes.jobs import PageSize, PageToken
from adaptlab_api.routes.results import RowId
from adaptlab_services.jobs import batch_tokens
from adaptlab_services.jobs.batch_tokens import NewJobToken
from adaptlab_services.paging import DEFAULT_PAGE_SIZE
from adaptlab_services.people import audit, invitations, issued_tokens, projects, users
from adaptlab_services.people.audit import AuditFilter
from adaptlab_services.people.invitations import OwnChanges
from adaptlab_services.people.issued_tokens import NewToken
from adaptlab_services.people.projects import NewMember, NewProject
from adaptlab_services.people.users import NewUser, UserChanges

UserName = Annotated[str, Path(max_length=63, description="The name of a user.")]
ProjectName = Annotated[str, Path(max_length=63, description="The name of a project.")]
OfUser = Annotated[str | None, Query(max_length=63, description="Only tokens of this user.")]
Text = Annotated[str | None, Query(max_length=200)]
Instant = Annotated[datetime | None, Query(description="RFC 3339, for example 2026-01-31T12:00Z.")]


router = api_router(tag="access")


@router.get("/me", response_model=Me, responses=failures())
@needs("person")
def get_me(session: SessionDep, who: PrincipalDep, access: AccessDep) -> Response:
    """Get your user, the permissions of your token, and your projects."""
    return json_answer(issued_tokens.me(session, who, access))


@router.patch("/me", response_model=Me, responses=failures(404, *WITH_BODY))
@needs("person")
def update_me(
    body: Annotated[Body[OwnChanges], json_body(OwnChanges)],
    session: SessionDep,
    who: PrincipalDep,
    access: AccessDep,
) -> Response:
    """Choose the project of your requests that name none."""
    changes = body.read()
    invitations.choose(session, who, access, changes)
    me = issued_tokens.me(session, who, access)
    return json_answer(me.model_copy(update={"usual_project": changes.usual_project}))


@router.post(
    "/tokens",
    status_code=201,
    response_model=CreatedToken,
    responses=created("token") | failures(404, *WITH_BODY),
)
@needs("person")
def create_token(
    body: Annotated[Body[NewToken], json_body(NewToken)],
    session: SessionDep,
    who: PrincipalDep,
    access: AccessDep,
) -> Response:
    """Create a token; only this answer contains its text."""
    token = issued_tokens.create(session, who, access, body.read())
    return json_answer(token, status=201, headers={"Location": f"/v1/tokens/{token.id}"})


@router.post(
    "/jobs/{job_id}/tokens",
    status_code=201,
    response_model=CreatedToken,
    responses=created("token") | failures(404, 409, *WITH_BODY),
)
@needs("submitter")
def create_job_token(
    job_id: JobId,
    body: Annotated[Body[NewJobToken], json_body(NewJobToken)],
    session: SessionDep,
    who: PrincipalDep,
) -> Response:
    """Create a token with which workers run one job; only this answer contains its text."""
    token = batch_tokens.create(session, who, job_id, body.read())
    return json_answer(token, status=201, headers={"Location": f"/v1/tokens/{token.id}"})


@router.get("/tokens", response_model=Page[TokenView], responses=failures())
@needs("person")
def list_tokens(
    session: SessionDep,
    who: PrincipalDep,
    access: AccessDep,
    user: OfUser = None,
    page_size: PageSize = DEFAULT_PAGE_SIZE,
    page_token: PageToken = None,
) -> Response:
    """List your tokens, newest first; an admin sees everybody's."""
    return json_answer(issued_tokens.page(session, who, access, user, page_size, page_token))


@router.post("/tokens/{token_id}/revoke", response_model=TokenView, responses=failures(404))
@needs("person")
def revoke_token(
    token_id: RowId, session: SessionDep, who: PrincipalDep, access: AccessDep
) -> Response:
    """Revoke a token; its sessions and streams end within about two seconds."""
    return json_answer(issued_tokens.revoke(session, who, access, token_id))


@router.post(
    "/users",
    status_code=201,
    response_model=UserView,
    responses=created("user") | failures(409, *WITH_BODY),
)
@needs("admin")
def create_user(
    body: Annotated[Body[NewUser], json_body(NewUser)], session: SessionDep
) -> Response:
    """Create a user; to give access, add them to a project and create a token."""
    user = users.create(session, body.read())
    return json_answer(user, status=201, headers={"Location": f"/v1/users/{user.name}"})


@router.get("/users", response_model=Page[UserView], responses=failures())
@needs("admin")
def list_users(
    session: SessionDep, page_size: PageSize = DEFAULT_PAGE_SIZE, page_token: PageToken = None
) -> Response:
    """List users by name."""
    return json_answer(users.page(session, page_size, page_token))


@router.patch(
    "/users/{user}",
    response_model=UserView,
    responses=failures(404, 409, *WITH_BODY),
)
@needs("admin")
def update_user(
    user: UserName,
    body: Annotated[Body[UserChanges], json_body(UserChanges)],
    session: SessionDep,
    who: PrincipalDep,
) -> Response:
    """Grant or revoke a user's admin rights or access."""
    return json_answer(users.change(session, who, user, body.read()))


@router.post(
    "/projects",
    status_code=201,
    response_model=ProjectView,
    responses=created("project") | failures(409, *WITH_BODY),
)
@needs("admin")
def create_project(
    body: Annotated[Body[NewProject], json_body(NewProject)], session: SessionDep, access: AccessDep
) -> Response:
    """Create a project."""
    project = projects.create(session, access, body.read())
    return json_answer(project, status=201, headers={"Location": f"/v1/projects/{project.name}"})


@router.get("/projects", response_model=Projects, responses=failures())
@needs("person")
def list_projects(session: SessionDep, access: AccessDep) -> Response:
    """List the projects that you can see, with your role in each."""
    return json_answer(projects.listed(session, access))


@router.get("/projects/{name}/members", response_model=Members, responses=failures(404))
@needs("reader")
def list_members(name: ProjectName, session: SessionDep, access: AccessDep) -> Response:
    """List the members of a project, with their roles."""
    return json_answer(projects.members(session, access, name))


@router.put(
    "/projects/{name}/members/{user}",
    response_model=MemberView,
    responses=failures(404, *WITH_BODY),
)
@needs("reader")
def put_member(
    name: ProjectName,
    user: UserName,
    body: Annotated[Body[NewMember], json_body(NewMember)],
    session: SessionDep,
    access: AccessDep,
) -> Response:
    """Give a member a role, or invite a user; an admin of the server adds at once."""
    return json_answer(projects.put_member(session, access, name, user, body.read()))


@router.delete("/projects/{name}/members/{user}", status_code=204, responses=failures(404))
@needs("person")
def delete_member(
    name: ProjectName, user: UserName, session: SessionDep, who: PrincipalDep, access: AccessDep
) -> Response:
    """Remove a user from a project, or leave it; what they created remains."""
    projects.remove_member(session, who, access, name, user)
    return Response(status_code=204, headers=NO_STORE)


@router.post("/projects/{name}/accept", response_model=ProjectView, responses=failures(404))
@needs("person")
def accept_invitation(name: ProjectName, session: SessionDep, who: PrincipalDep) -> Response:
    """Accept an invitation to a project."""
    return json_answer(projects.accept(session, who, name))


@router.get("/audit", response_model=Page[AuditView], responses=failures())
@needs("person")
def list_audit_entries(
    session: SessionDep,
    who: PrincipalDep,
    access: AccessDep,
    actor: Text = None,
    action: Text = None,
    of: Annotated[str | None, Query(alias="object", max_length=200)] = None,
    since: Instant = None,
    until: Instant = None,
    page_size: PageSize = DEFAULT_PAGE_SIZE,
    page_token: PageToken = None,
) -> Response:
    """List audit entries, newest first: yours, and changes of members; an admin sees all."""
    wanted = AuditFilter(actor=actor, action=action, object=of, since=since, until=until)
    viewer = projects.viewer_of(session, who, access)
    return json_answer(audit.page(session, wanted, page_size, page_token, viewer))
