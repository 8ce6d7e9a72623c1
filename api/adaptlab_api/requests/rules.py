"""The permissions that routes require; a route without one is closed.

This is the first of two checks. It requires a role in any project that the request sees. The
service that changes something checks the role in its project, and its owner.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from fastapi import Request

from adaptlab_api.answers.problems import FORBIDDEN, Refused
from adaptlab_services.errors import NotAuthorised
from adaptlab_services.people.access import CEILINGS, Access, Role, is_at_least
from adaptlab_services.people.tokens import ADMIN, METRICS, WORKER, Principal

H = TypeVar("H", bound=Callable[..., Any])
Rule = Literal["person", "reader", "submitter", "operator", "admin", "worker", "metrics"]
"""The permission that a route requires.

`person` is any token that is not only for machines, and `admin` an admin of the server. `worker` is
not a role: these routes require a token with that scope. `metrics` requires a token of an admin of
the server, with that scope or `admin`.
"""

_NO_METRICS = (
    "The figures of the server need a token of an admin of the server with the scope `metrics` or "
    "`admin`, for all projects."
)
RULE = "adaptlab_rule"
"""The attribute of a handler that holds its rule."""


def needs(rule: Rule) -> Callable[[H], H]:
    """Return a decorator that sets the permission for a handler."""

    def mark(handler: H) -> H:
        setattr(handler, RULE, rule)
        return handler

    return mark


def rule_of(handler: Callable[..., object]) -> Rule | None:
    """Return the rule of a handler, or None if it has none."""
    return getattr(handler, RULE, None)


def may_call(request: Request, rule: Rule | None) -> None:
    """Raise `Refused` unless the caller has the permission of a route."""
    if rule is None:
        raise Refused(FORBIDDEN, "Nobody can call this, because the server has no rule for it.")
    who, access = request.state.principal, access_of(request)
    assert isinstance(who, Principal)
    if rule == "worker":
        if WORKER not in who.scopes:
            raise Refused(
                FORBIDDEN, "Only workers can call this, with a token that has the scope `worker`."
            )
        return
    if rule == "metrics":
        is_for_all = who.is_admin and who.project_id is None
        if not (is_for_all and set(who.scopes) & {METRICS, ADMIN}):
            raise Refused(FORBIDDEN, _NO_METRICS)
        return
    if not set(who.scopes) & set(CEILINGS):
        raise Refused(
            FORBIDDEN,
            "This token is only for a machine: it opens leases (`worker`) or the server's figures "
            "(`metrics`). Use one of yours.",
        )
    if rule == "person" or _has(access, rule):
        return
    raise Refused(FORBIDDEN, _lacking(who, rule))


def lacks_to_submit(request: Request) -> str | None:
    """Return the caller's missing permission to submit, in words, or None."""
    if _has(access_of(request), "submitter"):
        return None
    return _lacking(request.state.principal, "submitter")


def access_of(request: Request) -> Access:
    """Return the caller's permissions; raises `NotAuthorised`."""
    access = getattr(request.state, "access", None)
    if not isinstance(access, Access):
        raise NotAuthorised
    return access


def _has(access: Access, rule: Role) -> bool:
    return access.is_admin if rule == "admin" else is_at_least(access.highest(), rule)


def _lacking(who: Principal, rule: Role) -> str:
    scope = {"reader": "read", "submitter": "submit", "operator": "submit"}.get(rule, "admin")
    if not set(who.scopes) & {scope, "submit" if scope == "read" else scope, "admin"}:
        return f"This needs a token with the scope `{scope}`. Create one, or ask an admin."
    if rule == "admin":
        return "Only an admin of the server can do this."
    return f"This needs the role `{rule}` in a project; ask an admin of it."
