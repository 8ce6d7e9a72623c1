"""Tokens, users and projects of a server."""

from builtins import list as list_of
from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from adaptlab_answers.people import (
    CreatedToken,
    Me,
    Members,
    MemberView,
    Projects,
    ProjectView,
    TokenView,
    UserView,
)
from adaptlab_client.transport.connection import Connection, Identity, Request, path_of
from adaptlab_client.transport.paging import entries

DEFAULT_SCOPES = ("read", "submit")


class Tokens:
    """Access tokens."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(
        self,
        name: str,
        scopes: Sequence[str] = DEFAULT_SCOPES,
        *,
        project: str | None = None,
        user: str | None = None,
        expires_in_days: int | None = 90,
    ) -> CreatedToken:
        """Create a token for yourself or, as an admin, for another user.

        With `project`, it is valid for that project only. `expires_in_days=None` means that it does
        not expire, which requires an admin.
        """
        optional = {"project": project, "user": user}
        body: dict[str, JsonValue] = {
            "name": name,
            "scopes": list_of(scopes),
            "expires_in_days": expires_in_days,
            **{member: value for member, value in optional.items() if value is not None},
        }
        # Not repeatable: if the answer is lost, the token exists and can only be revoked.
        request = Request("POST", path_of("tokens"), body=body, repeatable=False)
        return self._connection.ask(request, CreatedToken)

    def create_for_job(
        self, job_id: Identity, name: str = "batch job", *, expires_in_hours: int = 72
    ) -> CreatedToken:
        """Create a token with which a worker can run this job until it has ended.

        You need the permission to cancel the job. Raises `Conflict` if the job has ended.
        """
        body: dict[str, JsonValue] = {"name": name, "expires_in_hours": expires_in_hours}
        path = path_of("jobs", job_id, "tokens")
        return self._connection.ask(
            Request("POST", path, body=body, repeatable=False), CreatedToken
        )

    def list(self, user: str | None = None) -> Iterator[TokenView]:
        """Iterate over your tokens, newest first.

        An admin gets the tokens of all users, or of `user`.
        """
        return entries(self._connection, path_of("tokens"), TokenView, {"user": user})

    def revoke(self, token_id: int) -> TokenView:
        """Revoke a token permanently; repeated calls change nothing."""
        path = path_of("tokens", token_id, "revoke")
        return self._connection.ask(Request("POST", path), TokenView)


class Users:
    """The users of one server, for admins."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, name: str, *, is_admin: bool = False) -> UserView:
        """Create a user; raises `Conflict` if the name is taken."""
        body: dict[str, JsonValue] = {"name": name, "is_admin": is_admin}
        request = Request("POST", path_of("users"), body=body, repeatable=False)
        return self._connection.ask(request, UserView)

    def list(self) -> Iterator[UserView]:
        """Iterate over all users, by name."""
        return entries(self._connection, path_of("users"), UserView)

    def change(
        self, name: str, *, is_admin: bool | None = None, is_active: bool | None = None
    ) -> UserView:
        """Change whether a user is an admin, and whether the user can sign in."""
        members = {"is_admin": is_admin, "is_active": is_active}
        body: dict[str, JsonValue] = {k: v for k, v in members.items() if v is not None}
        return self._connection.ask(Request("PATCH", path_of("users", name), body=body), UserView)

    def set_quotas(
        self, name: str, queue_hours: Mapping[str, float], stored_bytes: int | None = None
    ) -> UserView:
        """Set a user's quotas; the server's settings apply to those left out.

        `queue_hours` are hours of attempts per queue in thirty days.
        """
        hours: dict[str, JsonValue] = dict(queue_hours)
        body: dict[str, JsonValue] = {
            "quotas": {"queue_hours": hours, "stored_bytes": stored_bytes}
        }
        return self._connection.ask(Request("PATCH", path_of("users", name), body=body), UserView)


class ProjectList:
    """Projects and their members."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, name: str) -> ProjectView:
        """Create a project, as an admin."""
        request = Request("POST", path_of("projects"), body={"name": name}, repeatable=False)
        return self._connection.ask(request, ProjectView)

    def list(self) -> tuple[ProjectView, ...]:
        """Return the projects visible to you, by name."""
        return self._connection.ask(Request("GET", path_of("projects")), Projects).data

    def members(self, name: str) -> tuple[MemberView, ...]:
        """Return the members of a project."""
        path = path_of("projects", name, "members")
        return self._connection.ask(Request("GET", path), Members).data

    def add(self, name: str, user: str, role: str) -> MemberView:
        """Give a member the role reader, submitter, operator or admin.

        A user who is no member yet is invited, and has the role after `accept`. An admin of the
        server adds users at once.
        """
        path = path_of("projects", name, "members", user)
        return self._connection.ask(Request("PUT", path, body={"role": role}), MemberView)

    def remove(self, name: str, user: str) -> None:
        """Remove a member or an invitation; you can remove yourself."""
        self._connection.send(Request("DELETE", path_of("projects", name, "members", user)))

    def accept(self, name: str) -> ProjectView:
        """Accept an invitation to a project; raises `NotFound` if there is none."""
        path = path_of("projects", name, "accept")
        return self._connection.ask(Request("POST", path, repeatable=False), ProjectView)

    def use(self, name: str) -> Me:
        """Choose the project of your requests that name none."""
        body: dict[str, JsonValue] = {"usual_project": name}
        return self._connection.ask(Request("PATCH", path_of("me"), body=body), Me)
