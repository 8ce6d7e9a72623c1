"""Tokens, users and projects of a server."""

from builtins import list as list_of
from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from adaptlab_answers.people import (
    CreatedToken,
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
    """What opens the server."""

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
        """Make a token: for yourself, or as an admin for another user.

        With a `project` it opens that one only. None for `expires_in_days` is for good, which
        only an admin may ask for.
        """
        optional = {"project": project, "user": user}
        body: dict[str, JsonValue] = {
            "name": name,
            "scopes": list_of(scopes),
            "expires_in_days": expires_in_days,
            **{member: value for member, value in optional.items() if value is not None},
        }
        # Sent once: a token that was made and whose answer was lost can only be revoked.
        request = Request("POST", path_of("tokens"), body=body, repeatable=False)
        return self._connection.ask(request, CreatedToken)

    def create_for_job(
        self, job_id: Identity, name: str = "batch job", *, expires_in_hours: int = 72
    ) -> CreatedToken:
        """Make a token with which a worker may have this one job, until that has ended.

        For a job that you may cancel; `Conflict` for one that has ended.
        """
        body: dict[str, JsonValue] = {"name": name, "expires_in_hours": expires_in_hours}
        path = path_of("jobs", job_id, "tokens")
        return self._connection.ask(
            Request("POST", path, body=body, repeatable=False), CreatedToken
        )

    def list(self, user: str | None = None) -> Iterator[TokenView]:
        """Your tokens, newest first; an admin sees everybody's, or those of one user."""
        return entries(self._connection, path_of("tokens"), TokenView, {"user": user})

    def revoke(self, token_id: int) -> TokenView:
        """End a token for good; repeating it changes nothing."""
        path = path_of("tokens", token_id, "revoke")
        return self._connection.ask(Request("POST", path), TokenView)


class Users:
    """Who can get in; for admins."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, name: str, *, is_admin: bool = False) -> UserView:
        """Make a user; raises `Conflict` for a taken name."""
        body: dict[str, JsonValue] = {"name": name, "is_admin": is_admin}
        request = Request("POST", path_of("users"), body=body, repeatable=False)
        return self._connection.ask(request, UserView)

    def list(self) -> Iterator[UserView]:
        """All users by name."""
        return entries(self._connection, path_of("users"), UserView)

    def change(
        self, name: str, *, is_admin: bool | None = None, is_active: bool | None = None
    ) -> UserView:
        """Make somebody an admin or not, shut them out or let them in again."""
        asked = {"is_admin": is_admin, "is_active": is_active}
        body: dict[str, JsonValue] = {k: v for k, v in asked.items() if v is not None}
        return self._connection.ask(Request("PATCH", path_of("users", name), body=body), UserView)

    def set_quotas(
        self, name: str, queue_hours: Mapping[str, float], stored_bytes: int | None = None
    ) -> UserView:
        """Say what somebody may use; of what is left out the server's settings hold again.

        `queue_hours` are hours of attempts in thirty days, by queue.
        """
        hours: dict[str, JsonValue] = dict(queue_hours)
        body: dict[str, JsonValue] = {
            "quotas": {"queue_hours": hours, "stored_bytes": stored_bytes}
        }
        return self._connection.ask(Request("PATCH", path_of("users", name), body=body), UserView)


class ProjectList:
    """Projects, and who may do what in them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, name: str) -> ProjectView:
        """Make a project; for admins."""
        request = Request("POST", path_of("projects"), body={"name": name}, repeatable=False)
        return self._connection.ask(request, ProjectView)

    def list(self) -> tuple[ProjectView, ...]:
        """The projects that you see, by name."""
        return self._connection.ask(Request("GET", path_of("projects")), Projects).data

    def members(self, name: str) -> tuple[MemberView, ...]:
        """Who is in a project."""
        path = path_of("projects", name, "members")
        return self._connection.ask(Request("GET", path), Members).data

    def add(self, name: str, user: str, role: str) -> MemberView:
        """Give somebody the role reader, submitter, operator or admin in a project."""
        path = path_of("projects", name, "members", user)
        return self._connection.ask(Request("PUT", path, body={"role": role}), MemberView)

    def remove(self, name: str, user: str) -> None:
        """Take somebody out of a project."""
        self._connection.send(Request("DELETE", path_of("projects", name, "members", user)))
