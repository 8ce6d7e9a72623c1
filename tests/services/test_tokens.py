"""Tokens: who gets in, who does not, and what of them is kept."""

import hashlib
import stat
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_principal, a_token, a_user
from tests.watching import statements

from adaptlab_db.tables import BrowserSession, Token
from adaptlab_services.errors import NotAuthorised
from adaptlab_services.people import tokens
from adaptlab_services.people.tokens import (
    MOST_BROWSER_SESSIONS,
    Principal,
    authenticate,
    authenticate_browser,
    close_browser_session,
    create_token,
    ensure_admin_token,
    open_browser_session,
    without_tokens,
)

Sessions = sessionmaker[Session]


def who(sessions: Sessions, presented: str) -> Principal:
    with sessions.begin() as session:
        return authenticate(session, presented)


def change_token(sessions: Sessions, **values: object) -> None:
    with sessions.begin() as session:
        session.execute(update(Token).values(values))


@pytest.fixture
def token_file(sessions: Sessions, tmp_path: Path) -> Path:
    path = tmp_path / "data" / "token"
    with sessions.begin() as session:
        ensure_admin_token(session, path)
    return path


def test_a_token_tells_who_presents_it(sessions: Sessions) -> None:
    with sessions.begin() as session:
        presented = a_token(session, "ada", ["read"])
        user = a_user(session, "ada")
    principal = who(sessions, presented)
    assert (principal.user_id, principal.name, principal.scopes) == (user, "ada", ("read",))


def test_a_token_has_256_random_bits_and_their_checksum() -> None:
    made = {tokens._new_token() for _ in range(200)}
    assert len(made) == 200
    for token in made:
        prefix, secret, check = token.split("_")
        assert (prefix, len(secret)) == ("al", 43)
        assert int(check, 36) == zlib.crc32(secret.encode())
    # 43 digits in base 62 hold 256 bits, 42 do not.
    assert 62**42 < 2**256 < 62**43


AROUND: list[Any] = ["{}", "x{}y", "Bearer {}", "al_{}", "al_al_{}", "{0}{0}", "é{}\n"]


def test_tokens_are_cut_wherever_they_stand(sessions: Sessions) -> None:
    for around in AROUND:
        with sessions.begin() as session:
            token = a_token(session, "ada")
        assert without_tokens(around.format(token)) == around.format("al_…")


def test_a_text_without_tokens_stays_as_it_is(sessions: Sessions) -> None:
    with sessions.begin() as session:
        token = a_token(session, "ada")
    mistyped = token[:-1] + ("0" if token[-1] != "0" else "1")
    for content in ("", "al_ is no token", token[:-1], mistyped):
        assert without_tokens(content) == content


def test_only_the_hash_is_stored(sessions: Sessions) -> None:
    with sessions.begin() as session:
        presented = a_token(session)
    with sessions() as session:
        stored = session.scalars(select(Token)).one()
        dump = str(session.execute(text("SELECT tokens::text FROM tokens")).all())
    assert stored.digest == hashlib.sha256(presented.encode()).digest()
    assert presented[3:46] not in dump


NO_TOKENS: list[Any] = [
    lambda token: "",
    lambda token: token + "x",
    lambda token: token[:-1],
    lambda token: " " + token,
    lambda token: token + "\n",
    lambda token: token.replace("al_", "bl_"),
    lambda token: token[:10] + ("A" if token[10] != "A" else "B") + token[11:],
    lambda token: "\ud800" + token[1:],
    lambda token: "al_" + "é" * 43 + "_0000000",
    lambda token: "x" * 1_000_000,
]


def test_what_is_no_token_is_refused_without_a_look_at_the_database(sessions: Sessions) -> None:
    for spoil in NO_TOKENS:
        with sessions.begin() as session:
            presented = spoil(a_token(session))
        with statements(sessions) as sent, sessions() as session, pytest.raises(NotAuthorised):
            authenticate(session, presented)
        assert sent == []


def test_an_unknown_token_is_refused(sessions: Sessions) -> None:
    with pytest.raises(NotAuthorised):
        who(sessions, tokens._new_token())


@pytest.mark.parametrize(
    "values",
    [
        {"revoked_at": func.clock_timestamp()},
        {"expires_at": func.clock_timestamp()},
    ],
)
def test_a_token_that_is_over_is_refused(sessions: Sessions, values: dict[str, object]) -> None:
    with sessions.begin() as session:
        presented = a_token(session)
    assert who(sessions, presented)
    change_token(sessions, **values)
    with pytest.raises(NotAuthorised):
        who(sessions, presented)


def test_its_use_is_noted_at_most_once_a_minute(sessions: Sessions) -> None:
    with sessions.begin() as session:
        presented = a_token(session)

    def last_use() -> object:
        who(sessions, presented)
        with sessions() as session:
            return session.scalars(select(Token.last_used_at)).one()

    first = last_use()
    assert first is not None
    assert last_use() == first
    earlier = func.clock_timestamp() - text("interval '61 seconds'")
    change_token(sessions, last_used_at=earlier)
    assert last_use() != first


def test_requests_of_one_token_do_not_wait_for_each_other(sessions: Sessions) -> None:
    with sessions.begin() as session:
        presented = a_token(session)
    with sessions.begin() as slow:
        authenticate(slow, presented)
        with sessions.begin() as quick:
            quick.execute(text("SET LOCAL lock_timeout = '100ms'"))
            assert authenticate(quick, presented)


def test_the_first_start_makes_a_token_that_only_its_owner_can_read(
    sessions: Sessions, token_file: Path
) -> None:
    assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
    assert list(token_file.parent.iterdir()) == [token_file]
    principal = who(sessions, token_file.read_text().strip())
    assert principal.name == "admin"
    assert principal.scopes == ("read", "submit", "worker", "metrics", "admin")


def test_the_file_is_never_readable_by_others_and_replaced_in_one_step(
    sessions: Sessions, token_file: Path
) -> None:
    token_file.chmod(0o644)
    token_file.write_text("spoiled")
    with sessions.begin() as session:
        ensure_admin_token(session, token_file)
    assert stat.S_IMODE(token_file.stat().st_mode) == 0o600


def test_a_second_start_keeps_the_token(sessions: Sessions, token_file: Path) -> None:
    before = token_file.read_text()
    with sessions.begin() as session:
        ensure_admin_token(session, token_file)
    assert token_file.read_text() == before


@pytest.mark.parametrize("content", [None, b"", b"al_spoiled", b"\xff\xfe"])
def test_a_lost_file_is_replaced_and_its_token_revoked(
    sessions: Sessions, token_file: Path, content: bytes | None
) -> None:
    before = token_file.read_text().strip()
    with sessions.begin() as session:
        other = create_token(session, a_user(session, "admin"), "of a script")
    token_file.unlink()
    if content is not None:
        token_file.write_bytes(content)
    with sessions.begin() as session:
        ensure_admin_token(session, token_file)
    assert who(sessions, token_file.read_text().strip())
    assert who(sessions, other)
    with pytest.raises(NotAuthorised):
        who(sessions, before)


def test_a_file_whose_token_was_never_committed_is_replaced(
    sessions: Sessions, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    with sessions() as session:
        ensure_admin_token(session, path)
        session.rollback()
    with sessions.begin() as session:
        ensure_admin_token(session, path)
    assert who(sessions, path.read_text().strip())


def test_servers_that_start_at_once_make_one_token(sessions: Sessions, tmp_path: Path) -> None:
    path = tmp_path / "token"
    start = threading.Barrier(4)

    def start_server(_: int) -> None:
        start.wait()
        with sessions.begin() as session:
            ensure_admin_token(session, path)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(start_server, range(4)))
    with sessions() as session:
        assert session.scalar(select(func.count()).select_from(Token)) == 1
    assert who(sessions, path.read_text().strip())


def test_a_browser_signs_in_and_out(sessions: Sessions) -> None:
    with sessions.begin() as session:
        principal = a_principal(session)
        cookie = open_browser_session(session, principal)
    with sessions.begin() as session:
        found = authenticate_browser(session, cookie)
        assert found.model_copy(update={"usual_project_id": None}) == principal
        assert session.scalars(select(BrowserSession.digest)).one() != cookie.encode()
    with sessions.begin() as session:
        close_browser_session(session, cookie)
        close_browser_session(session, "never opened")
    with sessions.begin() as session, pytest.raises(NotAuthorised):
        authenticate_browser(session, cookie)


def test_a_browser_is_signed_out_in_time(sessions: Sessions) -> None:
    with sessions.begin() as session:
        cookie = open_browser_session(session, a_principal(session))
        session.execute(update(BrowserSession).values(expires_at=func.clock_timestamp()))
    with sessions.begin() as session:
        with pytest.raises(NotAuthorised):
            authenticate_browser(session, cookie)
        open_browser_session(session, a_principal(session))
        assert session.scalar(select(func.count()).select_from(BrowserSession)) == 1


@pytest.mark.parametrize("cookie", ["", "\ud800", "x" * 100_000])
def test_a_strange_cookie_is_refused(sessions: Sessions, cookie: str) -> None:
    with sessions.begin() as session, pytest.raises(NotAuthorised):
        authenticate_browser(session, cookie)


def test_a_token_has_so_many_browsers_and_the_oldest_is_signed_out(sessions: Sessions) -> None:
    with sessions.begin() as session:
        principal, beside = a_principal(session), a_principal(session, "ben")
        theirs = open_browser_session(session, beside)
        first = open_browser_session(session, principal)
        later = [open_browser_session(session, principal) for _ in range(MOST_BROWSER_SESSIONS)]
    for cookie in (theirs, *later):
        with sessions.begin() as session:
            assert authenticate_browser(session, cookie)
    with sessions.begin() as session, pytest.raises(NotAuthorised):
        authenticate_browser(session, first)
