"""Rules by which a token can create and revoke tokens.

A token creates none that allows more or lasts longer than itself, and revokes none that allows
more. Its permissions are its scopes and the projects that it opens. A browser session has those of
the token that it was opened with, and a token created in it expires no later than that one.
"""

from datetime import datetime

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from adaptlab_db.tables import Token
from adaptlab_services.errors import Forbidden, NotAuthorised
from adaptlab_services.people.access import CEILINGS, Access, is_at_least
from adaptlab_services.people.tokens import ADMIN, METRICS, SCOPES, Principal

Moment = ColumnElement[datetime]


def covered(scopes: tuple[str, ...]) -> frozenset[str]:
    """Return the scopes that allow nothing beyond these.

    `admin` covers `submit`, `read` and `metrics`.
    """
    return frozenset(scope for scope in SCOPES if any(_covers(own, scope) for own in scopes))


def check_scopes(principal: Principal, scopes: tuple[str, ...]) -> None:
    """Raise `Forbidden` for scopes that the caller's own token lacks.

    This applies to admins too.
    """
    if more := sorted(set(scopes) - covered(principal.scopes)):
        raise Forbidden(f"Your own token lacks the scopes {', '.join(more)}. Ask an admin.")


def end_of(
    session: Session, principal: Principal, asked: Moment | None
) -> Moment | datetime | None:
    """Return the end of a new token: `asked`, but not after its creator's.

    None is never. The creating token is locked until the unit of work ends, so it remains valid
    until the new one exists.

    Raises:
        Forbidden: the new token would never expire, but its creator does.
        Unauthorised: the creating token has just been revoked or has expired.
    """
    own = session.execute(
        select(Token.expires_at)
        .where(
            Token.id == principal.token_id,
            Token.revoked_at.is_(None),
            or_(Token.expires_at.is_(None), Token.expires_at > func.clock_timestamp()),
        )
        .with_for_update(read=True)
    ).one_or_none()
    if own is None:
        raise NotAuthorised
    if own.expires_at is None:
        return asked
    if asked is None:
        raise Forbidden(
            f"Your own token expires at {own.expires_at:%Y-%m-%d %H:%M} UTC, so it cannot "
            "create a token that never expires. Give a number of days."
        )
    return func.least(asked, own.expires_at)


def check_revocation(principal: Principal, rights: Access, token: Token) -> None:
    """Raise `Forbidden` if the token allows more than the caller's own."""
    if rights.is_admin or token.id == principal.token_id:
        return
    # A job's token is created with `submit`, which also allows cancelling the job.
    scopes = set(token.scopes) if token.job_id is None else {"submit"}
    if more := sorted(scopes - covered(principal.scopes)):
        raise Forbidden(
            f"That token has the scopes {', '.join(more)}, which yours lacks. Revoke it with "
            "itself or with a token that has them, or ask an admin."
        )
    if principal.project_id not in (None, token.project_id):
        raise Forbidden(
            "That token is valid for more than the one project of yours. Revoke it with itself "
            "or with a token that is valid for as much, or ask an admin."
        )


def _covers(own: str, other: str) -> bool:
    if own in CEILINGS and other in CEILINGS:
        return is_at_least(CEILINGS[own], CEILINGS[other])
    return own == other or (own, other) == (ADMIN, METRICS)
