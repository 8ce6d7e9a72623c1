"""Bearer tokens and browser sessions, of which only digests are stored.

A token is `al_`, 256 random bits in base 62, `_`, and their CRC-32 in base 36. A mistyped token is
refused without a database query, and secret scanners recognise leaked ones.
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
from adaptlab_services.errors import NotAuthorised

SCOPES = ("read", "submit", "worker", "metrics", "admin")
ADMIN = "admin"
METRICS = "metrics"
"""The scope of tokens that open only the server's figures, for Prometheus."""
WORKER = "worker"
"""The scope of tokens with which workers use the API."""
FIRST_START = "first start"
BROWSER_SESSION = timedelta(hours=12)
MOST_BROWSER_SESSIONS = 20
"""Limit per token; another session ends the oldest."""
USE_RECORDED_EVERY = timedelta(minutes=1)
FAREWELL = timedelta(minutes=5)
"""How long a job's token stays valid after the job has ended.

Its worker may not have received the answer to its last report, and repeats it that long. Without a
lease, nothing can be written with the token.
"""
FIRST_START_LOCK = 0x66_69_72_73_74  # "first"

PREFIX = "al_"
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SECRET_LENGTH = 43  # digits in base 62 that hold 256 bits
_CHECK_LENGTH = 7  # digits in base 36 that hold 32 bits
_FORM = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{_SECRET_LENGTH}}}_[0-9a-z]{{{_CHECK_LENGTH}}}")


class Principal(Value):
    """The authenticated user and token.

    `project_id` is the only project that the token opens, and `job_id` the only job that workers
    with it can hold; None is any. `usual_project_id` is the project of requests that name none.
    `is_fetcher` is true for the server itself, which fetches for the user.
    """

    user_id: int
    name: str
    token_id: int
    scopes: tuple[str, ...]
    is_admin: bool = False
    project_id: int | None = None
    job_id: UUID | None = None
    usual_project_id: int | None = None
    is_fetcher: bool = False


def create_token(
    session: Session,
    user_id: int,
    name: str,
    scopes: Sequence[str] = SCOPES,
    expires_at: datetime | ColumnElement[datetime] | None = None,
    project_id: int | None = None,
    job_id: UUID | None = None,
) -> str:
    """Create a token for a user and return its text, which is not stored."""
    token = _new_token()
    row = {
        "user_id": user_id,
        "name": name,
        "digest": _digest(token),
        "scopes": list(scopes),
        "expires_at": expires_at,
        "project_id": project_id,
        "job_id": job_id,
    }
    session.execute(insert(Token).values(row))
    return token


def ensure_admin_token(session: Session, path: Path) -> None:
    """Ensure that a user `admin` exists whose token is in the file at `path`.

    A file with a valid token stays as it is. Otherwise a new token is created and written, readable
    by its owner only, and the one of an earlier first start is revoked. The caller commits; a file
    whose token was never committed is replaced at the next start.
    """
    # Two servers that start simultaneously would revoke each other's new tokens.
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
    """Return the user and token; raises `NotAuthorised`.

    The use is recorded at most once a minute.
    """
    if not _well_formed(presented):
        raise NotAuthorised
    digest = _digest(presented)
    key = {"digest": digest}
    row = session.execute(_by_token(), key, execution_options=ACROSS_PROJECTS).one_or_none()
    if row is None or not hmac.compare_digest(row.digest, digest):
        raise NotAuthorised
    if row.is_unnoted:
        _record_use(session, row.token_id)
    return _principal(row)


@cache
def _by_token() -> Select[*tuple[Any, ...]]:  # Any: the columns of `_PRINCIPAL`
    """Return the look-up of a token; cached, because building it is slow."""
    tokens = select(Token.digest, *_PRINCIPAL).join(User)
    return tokens.where(Token.digest == bindparam("digest", type_=Token.digest.type), *_valid())


def without_tokens(content: str) -> str:
    """Return the text with every token in it reduced to its prefix."""
    for token in _tokens_in(content):
        content = content.replace(token, f"{PREFIX}…")
    return content


def new_secret() -> tuple[str, bytes]:
    """Return the text of a token that signs nobody in, and its digest."""
    secret = _new_token()
    return secret, _digest(secret)


def digest_of(presented: str) -> bytes | None:
    """Return the digest of a text; None if it has not the form of a token."""
    return _digest(presented) if _well_formed(presented) else None


def is_token(presented: str) -> ColumnElement[bool]:
    """Return the condition that a token's row belongs to this text."""
    return Token.digest == _digest(presented)


def is_over() -> ColumnElement[bool]:
    """Return the condition that a token has expired, or its job has ended.

    It needs the rows of the token and its user, in a statement with `ACROSS_PROJECTS`: the caller
    is not known yet. For a token without a job, jobs are not searched.
    """
    # The database's clock, because all servers share it.
    return or_(
        func.coalesce(Token.expires_at <= func.clock_timestamp(), false()),
        and_(Token.job_id.is_not(None), ~_opens_its_job()),
    )


def _opens_its_job() -> ColumnElement[bool]:
    """Return the condition that a token's job can still be reported on.

    The job has not ended, or only just, and the token's user may still submit in its project.
    """
    member = exists().where(
        Membership.user_id == Token.user_id,
        Membership.project_id == Job.project_id,
        Membership.role != "reader",
        Membership.accepted_at.is_not(None),
    )
    ended_before = func.clock_timestamp() - FAREWELL
    return exists().where(
        Job.id == Token.job_id,
        or_(Job.finished_at.is_(None), Job.finished_at > ended_before),
        or_(User.is_admin, member),
    )


def open_browser_session(session: Session, principal: Principal) -> str:
    """Sign a browser in for twelve hours; return the value of its cookie."""
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
    """Return the user and token of a browser session.

    Raises:
        Unauthorised: the cookie is unknown or expired, or its token is no longer valid.
    """
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
        raise NotAuthorised
    if row.is_unnoted:
        _record_use(session, row.token_id)
    return _principal(row)


def close_browser_session(session: Session, cookie: str) -> None:
    """Sign a browser out; an unknown cookie is ignored."""
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
    User.usual_project_id.label("usual_project_id"),
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
        usual_project_id=row.usual_project_id,
    )


def _valid() -> tuple[ColumnElement[bool], ...]:
    """Return the conditions on a valid token, on its row and its user's."""
    return (User.deactivated_at.is_(None), Token.revoked_at.is_(None), ~is_over())


def _record_use(session: Session, token_id: int) -> None:
    # Requests with one token must not wait for each other while one of them records the time.
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
    except (FileNotFoundError, UnicodeDecodeError, NotAuthorised):
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
    # Searches for whole tokens, because a text can have a prefix every three characters.
    tokens: list[str] = []
    match = _FORM.search(content)
    while match is not None:
        if _well_formed(match[0]):
            tokens.append(match[0])
        match = _FORM.search(content, match.start() + 1)  # overlapping ones too
    return tokens


def _check(secret: str) -> str:
    return _in_base(zlib.crc32(secret.encode("ascii")), 36, _CHECK_LENGTH).lower()


def _in_base(number: int, base: int, length: int) -> str:
    digits = ""
    for _ in range(length):
        number, digit = divmod(number, base)
        digits = _DIGITS[digit] + digits
    return digits


def _digest(secret: str) -> bytes:
    # Deliberately fast: 256 random bits cannot be guessed, so a slow hash would not add protection.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _write_private(path: Path, content: str) -> None:
    """Replace the file atomically; only its owner can ever read the new one."""
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
