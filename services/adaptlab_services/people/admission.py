"""Who comes in with what they present, and whether they still would."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from threading import Lock

from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import InvalidSpec
from adaptlab_services.errors import Unauthorised
from adaptlab_services.people import tokens
from adaptlab_services.people.access import Access, access_of
from adaptlab_services.people.tokens import Principal


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


KEPT_SECONDS = 1.0
"""How long a look-up is taken for granted: within it a revocation reaches every server."""
MOST_KEPT = 1000


class Admissions:
    """Lets people in, and the same ones for a second without another look at the database.

    What is kept is who and with which rights, by the digest of what was presented; of what opens
    nothing nothing is kept. `clock` counts seconds.
    """

    def __init__(
        self, sessions: sessionmaker[Session], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sessions = sessions
        self._clock = clock
        self._lock = Lock()
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._forgotten = 0

    def known(self, grant: Grant) -> Admitted | None:
        """Whoever was let in with this within the last second; looks at nothing else."""
        key = _key(grant)
        with self._lock:
            found = self._kept.get(key)
            if found is None or self._clock() >= found.until:
                self._kept.pop(key, None)
                return None
        return Admitted(grant, found.principal, found.access)

    def admit(self, grant: Grant) -> Admitted:
        """Look somebody up; raises what `admitted` does."""
        # Before the look, so that what is kept is never older than it claims to be.
        until, forgotten = self._clock() + KEPT_SECONDS, self._forgotten
        with self._sessions.begin() as session:
            found = admitted(session, grant)
        with self._lock:
            if forgotten == self._forgotten:
                self._kept[_key(grant)] = _Kept(found.principal, found.access, until)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return found

    def forget(self) -> None:
        """Look everybody up again: rights were changed here."""
        with self._lock:
            self._forgotten += 1
            self._kept.clear()


_Key = tuple[bytes, bool, str | None]


@dataclass(frozen=True, slots=True)
class _Kept:
    principal: Principal
    access: Access
    until: float


def _key(grant: Grant) -> _Key:
    digest = hashlib.sha256(grant.secret.encode("utf-8", "surrogatepass")).digest()
    return digest, grant.is_browser, grant.project


def admitted(session: Session, grant: Grant) -> Admitted:
    """Let somebody in; raises `Unauthorised`, and `InvalidSpec` for a project of others."""
    known = tokens.authenticate_browser if grant.is_browser else tokens.authenticate
    principal = known(session, grant.secret)
    return Admitted(grant, principal, access_of(session, principal, grant.project))


def still_good(session: Session, known: Collection[Admitted]) -> Collection[Admitted]:
    """Those who would be let in again, with the rights that they had, or more."""
    return {one for one in known if _has_lost_nothing(session, one)}


def _has_lost_nothing(session: Session, one: Admitted) -> bool:
    try:
        now = admitted(session, one.grant)
    except (Unauthorised, InvalidSpec):
        return False
    before = one.principal
    return (
        (now.principal.user_id, now.principal.project_id) == (before.user_id, before.project_id)
        and set(now.principal.scopes) >= set(before.scopes)
        and now.principal.is_admin >= before.is_admin
        and now.access.covers(one.access)
    )
