"""Authentication of requests, and renewed checks of admitted callers."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from threading import Lock

from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import InvalidSpec
from adaptlab_services.errors import NotAuthorised
from adaptlab_services.people import tokens
from adaptlab_services.people.access import Access, access_of
from adaptlab_services.people.tokens import Principal


@dataclass(frozen=True, slots=True, repr=False)
class Grant:
    """The credentials of a request: a token or cookie, and the named project."""

    secret: str
    is_browser: bool
    project: str | None


@dataclass(frozen=True, slots=True)
class Admitted:
    """An authenticated caller with their permissions."""

    grant: Grant
    principal: Principal
    access: Access


KEPT_SECONDS = 1.0
"""Lifetime of a cached admission, after which a revocation takes effect."""
MOST_KEPT = 1000


class Admissions:
    """Authentication of callers, cached for `KEPT_SECONDS`.

    The cache holds callers and permissions by the digest of the credentials; failures are not
    cached. `clock` counts seconds.
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
        """Return the cached admission of these credentials, without a query."""
        key = _key(grant)
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or self._clock() >= kept.until:
                self._kept.pop(key, None)
                return None
        return Admitted(grant, kept.principal, kept.access)

    def admit(self, grant: Grant) -> Admitted:
        """Authenticate a caller in the database; raises what `admitted` raises."""
        # Before the query, so that a cached admission is never older than its deadline implies.
        until, forgotten = self._clock() + KEPT_SECONDS, self._forgotten
        with self._sessions.begin() as session:
            caller = admitted(session, grant)
        with self._lock:
            if forgotten == self._forgotten:
                self._kept[_key(grant)] = _Kept(caller.principal, caller.access, until)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return caller

    def forget(self) -> None:
        """Empty the cache, because permissions were changed on this server."""
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
    """Authenticate a caller and look up their permissions.

    Raises:
        Unauthorised: the credentials are not valid.
        InvalidSpec: the caller is not a member of the named project.
    """
    authenticate = tokens.authenticate_browser if grant.is_browser else tokens.authenticate
    principal = authenticate(session, grant.secret)
    return Admitted(grant, principal, access_of(session, principal, grant.project))


def still_good(session: Session, known: Collection[Admitted]) -> Collection[Admitted]:
    """Return the callers who would be admitted again and have lost nothing."""
    return {caller for caller in known if _has_lost_nothing(session, caller)}


def _has_lost_nothing(session: Session, caller: Admitted) -> bool:
    try:
        now = admitted(session, caller.grant)
    except (NotAuthorised, InvalidSpec):
        return False
    before = caller.principal
    return (
        (now.principal.user_id, now.principal.project_id) == (before.user_id, before.project_id)
        and set(now.principal.scopes) >= set(before.scopes)
        and now.principal.is_admin >= before.is_admin
        and now.access.covers(caller.access)
    )
