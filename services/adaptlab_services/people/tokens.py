"""Bearer tokens and signed-in browsers: made, checked, revoked. No secret is ever stored.

A token is `al_`, 256 random bits in base 62, `_`, and their CRC-32 in base 36, so that a mistyped
one is refused without a look at the database, and a leaked one is found by secret scanners.
"""

import hashlib
import hmac
import os
import re
import secrets
import zlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    false,
    func,
    insert,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Session

from adaptlab.values import Value
from adaptlab_db.tables import BrowserSession, Job, Membership, Token, User
from adaptlab_db.visibility import ACROSS_PROJECTS
from adaptlab_services.errors import Unauthorised

SCOPES = ("read", "submit", "worker", "admin")
ADMIN = "admin"
WORKER = "worker"
"""The scope of tokens with which workers come by the API."""
FIRST_START = "first start"
BROWSER_SESSION = timedelta(hours=12)
MOST_BROWSER_SESSIONS = 20
"""Of one token; one more ends the oldest."""
USE_RECORDED_EVERY = timedelta(minutes=1)
FAREWELL = timedelta(minutes=5)
"""For how long the token of a job opens something when the job is over: its worker may not have
heard that, and says it again for as long. Nothing can be written in that time, as in any other
without a lease."""
FIRST_START_LOCK = 0x66_69_72_73_74  # "first"

PREFIX = "al_"
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SECRET_LENGTH = 43  # digits in base 62 that hold 256 bits
_CHECK_LENGTH = 7  # digits in base 36 that hold 32 bits
_FORM = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{_SECRET_LENGTH}}}_[0-9a-z]{{{_CHECK_LENGTH}}}")


class Principal(Value):
    """Who is asking, and with which token; `project_id` is the only one that it opens, if any.

    `job_id` is the only job that workers with it may have; None is any.
    """

    user_id: int
    name: str
    token_id: int
    scopes: tuple[str, ...]
    is_admin: bool = False
    project_id: int | None = None
    job_id: UUID | None = None


def create_token(
    session: Session,
    user_id: int,
    name: str,
    scopes: Sequence[str] = SCOPES,
    expires_at: datetime | ColumnElement[datetime] | None = None,
    project_id: int | None = None,
    job_id: UUID | None = None,
) -> str:
    """Make a token for a user; this is the only time that its text can be had."""
    made = _new_token()
    row = {
        "user_id": user_id,
        "name": name,
        "digest": _digest(made),
        "scopes": list(scopes),
        "expires_at": expires_at,
        "project_id": project_id,
        "job_id": job_id,
    }
    session.execute(insert(Token).values(row))
    return made


def ensure_admin_token(session: Session, path: Path) -> None:
    """See that there is a user `admin` whose token stands in the file at `path`.

    A file that holds a valid token is left alone. Otherwise a new token is made and written,
    readable by its owner only, and the one of an earlier first start is revoked. The caller
    commits; a file whose token was never committed is replaced at the next start.
    """
    # Two servers that start at once would each revoke what the other has just written.
    session.execute(text("SET LOCAL lock_timeout = '10s'"))
    session.execute(select(func.pg_advisory_xact_lock(FIRST_START_LOCK)))
    if _holds_valid_token(session, path):
        return
    admin = _admin(session, ADMIN)
    session.execute(
        update(Token)
        .where(Token.user_id == admin, Token.name == FIRST_START, Token.revoked_at.is_(None))
        .values(revoked_at=func.clock_timestamp())
    )
    _write_private(path, create_token(session, admin, FIRST_START) + "\n")


def authenticate(session: Session, presented: str) -> Principal:
    """Who presents this token; raises `Unauthorised`. Its use is noted at most once a minute."""
    if not _well_formed(presented):
        raise Unauthorised
    digest = _digest(presented)
    given = {"digest": digest}
    row = session.execute(_by_token(), given, execution_options=ACROSS_PROJECTS).one_or_none()
    if row is None or not hmac.compare_digest(row.digest, digest):
        raise Unauthorised
    if row.is_unnoted:
        _record_use(session, row.token_id)
    return _principal(row)


@cache
def _by_token() -> Select[*tuple[Any, ...]]:  # Any: the columns of `_PRINCIPAL`
    """Made once: that takes as long as asking."""
    whose = select(Token.digest, *_PRINCIPAL).join(User)
    return whose.where(Token.digest == bindparam("digest", type_=Token.digest.type), *_valid())


def without_tokens(content: str) -> str:
    """The text with every token in it cut down to its prefix."""
    for found in _tokens_in(content):
        content = content.replace(found, f"{PREFIX}…")
    return content


def is_token(presented: str) -> ColumnElement[bool]:
    """The condition on the row of a token, given its text."""
    return Token.digest == _digest(presented)


def is_over() -> ColumnElement[bool]:
    """The condition on the row of a token, and its user's, that its time is over, or its job.

    A statement with it is one `ACROSS_PROJECTS`: nobody who asks is known before. The job of a
    token that opens none is not looked for.
    """
    # By the database's clock, which all servers share.
    return or_(
        func.coalesce(Token.expires_at <= func.clock_timestamp(), false()),
        and_(Token.job_id.is_not(None), ~_opens_its_job()),
    )


def _opens_its_job() -> ColumnElement[bool]:
    """Whether the job goes on, or has just ended, and its token's user may submit there still."""
    member = exists().where(
        Membership.user_id == Token.user_id,
        Membership.project_id == Job.project_id,
        Membership.role != "reader",
    )
    ended_before = func.clock_timestamp() - FAREWELL
    return exists().where(
        Job.id == Token.job_id,
        or_(Job.finished_at.is_(None), Job.finished_at > ended_before),
        or_(User.is_admin, member),
    )


def open_browser_session(session: Session, principal: Principal) -> str:
    """Sign a browser in for twelve hours; returns the value of its cookie."""
    session.execute(
        delete(BrowserSession).where(BrowserSession.expires_at < func.clock_timestamp())
    )
    kept = (
        select(BrowserSession.digest)
        .where(BrowserSession.token_id == principal.token_id)
        .order_by(BrowserSession.expires_at.desc())
        .limit(MOST_BROWSER_SESSIONS - 1)
    )
    session.execute(
        delete(BrowserSession).where(
            BrowserSession.token_id == principal.token_id, BrowserSession.digest.not_in(kept)
        )
    )
    cookie = secrets.token_urlsafe(32)
    row = {
        "digest": _digest(cookie),
        "token_id": principal.token_id,
        "expires_at": func.clock_timestamp() + BROWSER_SESSION,
    }
    session.execute(insert(BrowserSession).values(row))
    return cookie


def authenticate_browser(session: Session, cookie: str) -> Principal:
    """Who signed in with this cookie; raises `Unauthorised`, too when the token was revoked."""
    digest = _digest(cookie)
    query = (
        select(BrowserSession.digest, *_PRINCIPAL)
        .join(Token, Token.id == BrowserSession.token_id)
        .join(User)
        .where(
            BrowserSession.digest == digest,
            BrowserSession.expires_at > func.clock_timestamp(),
            *_valid(),
        )
    )
    row = session.execute(query, execution_options=ACROSS_PROJECTS).one_or_none()
    if row is None or not hmac.compare_digest(row.digest, digest):
        raise Unauthorised
    if row.is_unnoted:
        _record_use(session, row.token_id)
    return _principal(row)


def close_browser_session(session: Session, cookie: str) -> None:
    """Sign a browser out; a cookie that is not known is no fault."""
    session.execute(delete(BrowserSession).where(BrowserSession.digest == _digest(cookie)))


_UNNOTED = or_(
    Token.last_used_at.is_(None),
    Token.last_used_at < func.clock_timestamp() - USE_RECORDED_EVERY,
)
_PRINCIPAL = (
    Token.id.label("token_id"),
    Token.user_id.label("user_id"),
    User.name.label("name"),
    Token.scopes.label("scopes"),
    User.is_admin.label("is_admin"),
    Token.project_id.label("project_id"),
    Token.job_id.label("job_id"),
    _UNNOTED.label("is_unnoted"),
)


def _principal(row: Row[*tuple[Any, ...]]) -> Principal:  # Any: the columns of `_PRINCIPAL`
    return Principal(
        user_id=row.user_id,
        name=row.name,
        token_id=row.token_id,
        scopes=tuple(row.scopes),
        is_admin=row.is_admin,
        project_id=row.project_id,
        job_id=row.job_id,
    )


def _valid() -> tuple[ColumnElement[bool], ...]:
    """What holds for a token of use: not revoked, not over, and its user active."""
    return (User.deactivated_at.is_(None), Token.revoked_at.is_(None), ~is_over())


def _record_use(session: Session, token_id: int) -> None:
    # Requests of one token must not wait for each other because one of them notes the time.
    unlocked = (
        select(Token.id)
        .where(and_(Token.id == token_id, _UNNOTED))
        .with_for_update(skip_locked=True)
        .scalar_subquery()
    )
    session.execute(
        update(Token)
        .where(Token.id == unlocked)
        .values(last_used_at=func.clock_timestamp())
        .execution_options(synchronize_session=False)
    )


def _admin(session: Session, name: str) -> int:
    new = upsert(User).values(name=name, is_admin=True)
    session.execute(
        new.on_conflict_do_update(
            index_elements=[User.name], set_={"is_admin": True, "deactivated_at": None}
        )
    )
    return session.scalars(select(User.id).where(User.name == name)).one()


def _holds_valid_token(session: Session, path: Path) -> bool:
    try:
        authenticate(session, path.read_text(encoding="ascii").strip())
    except (FileNotFoundError, UnicodeDecodeError, Unauthorised):
        return False
    return True


def _new_token() -> str:
    secret = _in_base(secrets.randbits(256), 62, _SECRET_LENGTH)
    return f"{PREFIX}{secret}_{_check(secret)}"


def _well_formed(presented: str) -> bool:
    return _FORM.fullmatch(presented) is not None and hmac.compare_digest(
        _check(presented[len(PREFIX) : -_CHECK_LENGTH - 1]), presented[-_CHECK_LENGTH:]
    )


def _tokens_in(content: str) -> list[str]:
    # Not prefix by prefix, of which a text may have one in every three letters.
    found: list[str] = []
    form = _FORM.search(content)
    while form is not None:
        if _well_formed(form[0]):
            found.append(form[0])
        form = _FORM.search(content, form.start() + 1)  # those that overlap count too
    return found


def _check(secret: str) -> str:
    return _in_base(zlib.crc32(secret.encode("ascii")), 36, _CHECK_LENGTH).lower()


def _in_base(number: int, base: int, length: int) -> str:
    digits = ""
    for _ in range(length):
        number, digit = divmod(number, base)
        digits = _DIGITS[digit] + digits
    return digits


def _digest(secret: str) -> bytes:
    # Fast on purpose: 256 random bits cannot be guessed, so slowing the hash protects nothing.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _write_private(path: Path, content: str) -> None:
    """Replace the file in one step by one that only its owner can ever have read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
