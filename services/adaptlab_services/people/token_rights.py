"""What a token may do to tokens: make none that can do more or longer, end none that can do more.

The rights of a token are its scopes and the projects that it opens. A browser's session has those
of the token that it was opened with, and a token made in it ends with that one at the latest.
"""

from datetime import datetime

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from adaptlab_db.tables import Token
from adaptlab_services.errors import Forbidden, Unauthorised
from adaptlab_services.people.access import CEILINGS, Access, is_at_least
from adaptlab_services.people.tokens import SCOPES, Principal

Moment = ColumnElement[datetime]


def covered(scopes: tuple[str, ...]) -> frozenset[str]:
    """The scopes that allow nothing which these do not; `admin` has `submit` in it, and `read`."""
    return frozenset(one for one in SCOPES if any(_covers(own, one) for own in scopes))


def check_scopes(principal: Principal, scopes: tuple[str, ...]) -> None:
    """Raise `Forbidden` for scopes beyond those of the asker's own token, an admin's too."""
    if more := sorted(set(scopes) - covered(principal.scopes)):
        raise Forbidden(f"Your own token lacks the scopes {', '.join(more)}. Ask an admin.")


def end_of(
    session: Session, principal: Principal, asked: Moment | None
) -> Moment | datetime | None:
    """When a token ends that is to end when `asked`: with the one that makes it at the latest.

    None is never, and raises `Forbidden` where the maker ends. Raises `Unauthorised` for a maker
    that has just been ended; one that is still good stays so until the new one is there.
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
        raise Unauthorised
    if own.expires_at is None:
        return asked
    if asked is None:
        raise Forbidden(
            f"Your own token expires at {own.expires_at:%Y-%m-%d %H:%M} UTC, so it cannot "
            "create a token that never expires. Give a number of days."
        )
    return func.least(asked, own.expires_at)


def check_revocation(principal: Principal, found: Access, token: Token) -> None:
    """Raise `Forbidden` for a token, but the asker's own, with rights that theirs has not."""
    if found.is_admin or token.id == principal.token_id:
        return
    # One of a job is made with this scope, which may end the job itself.
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
    return own == other
