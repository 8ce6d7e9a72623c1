"""Who comes in with what they present, and whether they still would."""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec
from adaptlab_services import tokens
from adaptlab_services.access import Access, access_of
from adaptlab_services.errors import Unauthorised
from adaptlab_services.tokens import Principal


@dataclass(frozen=True, slots=True, repr=False)
class Grant:
    """What a request presents: a token or a browser's cookie, and the project that it names."""

    secret: str
    is_browser: bool
    project: str | None


@dataclass(frozen=True, slots=True)
class Admitted:
    """Somebody who was let in, and what they may see and do."""

    grant: Grant
    principal: Principal
    access: Access


def admitted(session: Session, grant: Grant) -> Admitted:
    """Let somebody in; raises `Unauthorised`, and `InvalidSpec` for a project of others."""
    known = tokens.authenticate_browser if grant.is_browser else tokens.authenticate
    principal = known(session, grant.secret)
    return Admitted(grant, principal, access_of(session, principal, grant.project))


def still_good(session: Session, known: Collection[Admitted]) -> Collection[Admitted]:
    """Those who would be let in again, with the same rights as before."""
    return {one for one in known if _is_same(session, one)}


def _is_same(session: Session, one: Admitted) -> bool:
    try:
        return admitted(session, one.grant) == one
    except (Unauthorised, InvalidSpec):
        return False
