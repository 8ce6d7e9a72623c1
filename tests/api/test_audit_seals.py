"""The audit log is sealed in a chain: what was changed, taken out or put in is found."""

import hashlib
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker
from tests.worker.conftest import wait_until

from adaptlab.audit_chain import START, check_export
from adaptlab.errors import BrokenLog
from adaptlab_api import sealing
from adaptlab_api.app import create_app
from adaptlab_api.sealing import seal_all
from adaptlab_services.server import audit_seals
from adaptlab_services.server.audit_seals import Verification
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
EACH = 4
"""Entries of a seal in these tests."""
WRITE = text("""
    INSERT INTO audit_entries (at, actor, action, object, status, request_id, details)
    VALUES (clock_timestamp() - interval '1 minute', 'ada', 'cancel_job', :object, 200, :request,
        '{"seconds": 0.1, "who": "\u00e4"}')
    RETURNING id""")


@pytest.fixture(autouse=True)
def small_seals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seals of few entries, made when a test says so."""
    monkeypatch.setattr(audit_seals, "AT_ONCE", EACH)
    monkeypatch.setattr(sealing, "SEAL_SECONDS", 1e6)  # what the server does itself has its test


@pytest.fixture
def sealed(sessions: Sessions) -> Sessions:
    """A log of three seals of four entries, one entry that none holds, and no gap."""
    write(sessions, 3 * EACH)
    assert seal_all(sessions) == 3 * EACH
    write(sessions, 1)
    return sessions


def write(sessions: Sessions, count: int) -> list[int]:
    """Entries of a minute ago; their ids."""
    with sessions.begin() as session:
        return [write_one(session, f"job-{number}") for number in range(count)]


def write_one(session: Session, name: str) -> int:
    """One of them, in an open unit of work."""
    return session.execute(WRITE, {"object": name, "request": uuid4()}).scalar_one()


def verified(sessions: Sessions) -> Verification:
    """What the whole log comes to, where it is verified at once."""
    with sessions.begin() as session:
        found = audit_seals.verify(session)
    assert found.next_after is None
    return found


def past_the_triggers(sessions: Sessions, statement: str) -> None:
    """What the owner of the database can do to the log."""
    with sessions.begin() as session:
        session.execute(text("SET LOCAL session_replication_role = replica"))
        session.execute(text(statement))


def test_what_holds(sealed: Sessions) -> None:
    found = verified(sealed)
    assert (found.holds, found.seals, found.entries, found.unsealed) == (True, 3, 3 * EACH, 1)
    assert found.unsealed_since is not None
    assert found.last_seal is not None
    assert (found.last_seal.id, found.last_seal.last_id) == (3, 3 * EACH)
    with sealed() as session:
        rows = session.execute(text("SELECT previous, digest FROM audit_seals ORDER BY id")).all()
    assert rows[0][0] == START
    assert [row[0] for row in rows[1:]] == [row[1] for row in rows[:-1]]


FORGED: dict[str, tuple[str, set[tuple[int, str]]]] = {
    "changed": ("UPDATE audit_entries SET actor = 'eve' WHERE id = 6", {(2, "changed")}),
    "another time": (
        "UPDATE audit_entries SET at = at - interval '1 day' WHERE id = 6", {(2, "changed")},
    ),
    "other details": ("""UPDATE audit_entries SET details = '{"seconds": 0.2}' WHERE id = 6""",
                      {(2, "changed")}),
    "removed": ("DELETE FROM audit_entries WHERE id = 6", {(2, "removed")}),
    "one for another": (
        "UPDATE audit_entries SET id = CASE id WHEN 5 THEN -5 ELSE 5 END WHERE id IN (5, 6);"
        "UPDATE audit_entries SET id = 6 WHERE id = -5", {(2, "changed")},
    ),
    "before the first": (
        "INSERT INTO audit_entries (id, action, status, request_id) OVERRIDING SYSTEM VALUE "
        "VALUES (0, 'cancel_job', 200, gen_random_uuid())", {(1, "inserted")},
    ),
    "a seal removed": ("DELETE FROM audit_seals WHERE id = 2", {(3, "chain")}),
    "a seal and its entries removed": (
        "DELETE FROM audit_seals WHERE id = 2; DELETE FROM audit_entries WHERE id IN (5, 6, 7, 8)",
        {(3, "chain")},
    ),
    "a seal of fewer": (
        "DELETE FROM audit_entries WHERE id = 6;"
        "UPDATE audit_seals SET entries = 3, absent = '[[6, 6]]' WHERE id = 2", {(2, "changed")},
    ),
    "a seal with another digest": (
        f"UPDATE audit_seals SET digest = '{START}' WHERE id = 2", {(2, "changed"), (3, "chain")},
    ),
    "the first seal removed": ("DELETE FROM audit_seals WHERE id = 1", {(2, "chain")}),
}  # fmt: skip


@pytest.mark.parametrize(("statement", "expected"), FORGED.values(), ids=FORGED)
def test_what_was_forged_past_the_triggers(
    sealed: Sessions, statement: str, expected: set[tuple[int, str]]
) -> None:
    assert verified(sealed).holds
    for one in statement.split(";"):
        past_the_triggers(sealed, one)
    found = verified(sealed)
    assert not found.holds
    assert {(fault.seal, fault.kind) for fault in found.faults} == expected


@pytest.mark.parametrize("table", ["audit_entries", "audit_seals"])
@pytest.mark.parametrize("change", ["UPDATE {} SET id = id", "DELETE FROM {}", "TRUNCATE {}"])
def test_the_triggers_refuse(sealed: Sessions, table: str, change: str) -> None:
    with pytest.raises(Exception, match="append-only"), sealed.begin() as session:
        session.execute(text(change.format(table)))


@pytest.mark.usefixtures("patient_locks")
def test_an_entry_that_is_committed_late(sessions: Sessions) -> None:
    """Its id is lower than those of entries that were sealed before anybody could see it."""
    write(sessions, 1)
    with sessions() as slow:
        late = write_one(slow, "late")
        write(sessions, 2)
        assert seal_all(sessions) == 3
        assert verified(sessions).holds
        slow.commit()
    assert verified(sessions).holds, "not sealed yet, and not old enough to be a forgery"
    assert seal_all(sessions) == 1
    found = verified(sessions)
    assert (found.holds, found.entries) == (True, 4)
    assert found.last_seal is not None
    assert (found.last_seal.late, found.last_seal.entries) == ((late,), 1)
    past_the_triggers(sessions, f"UPDATE audit_entries SET actor = 'eve' WHERE id = {late}")
    assert [(one.seal, one.kind) for one in verified(sessions).faults] == [(2, "changed")]


def test_an_entry_in_a_gap_that_is_too_old(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit of work that was rolled back leaves a gap, which somebody fills long afterwards."""
    write(sessions, 1)
    with sessions() as undone:
        gap = write_one(undone, "undone")
    write(sessions, 1)
    seal_all(sessions)
    monkeypatch.setattr(audit_seals, "LATE_FOR", timedelta(0))
    past_the_triggers(
        sessions,
        "INSERT INTO audit_entries (id, action, status, request_id) OVERRIDING SYSTEM VALUE "
        f"VALUES ({gap}, 'cancel_job', 200, gen_random_uuid())",
    )
    assert seal_all(sessions) == 0
    assert [(one.seal, one.kind) for one in verified(sessions).faults] == [(1, "inserted")]


def test_a_server_seals_while_it_runs(
    settings: Settings, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "SEAL_SECONDS", 0.01)
    write(sessions, 2 * EACH)
    with TestClient(create_app(settings)):
        wait_until(lambda: verified(sessions).entries == 2 * EACH, "the seal")
    assert verified(sessions).holds


def test_young_entries_are_left_for_later(
    sessions: Sessions, api: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_seals, "SEALED_AFTER", timedelta(hours=1))
    api.post("/v1/projects", json={"name": "vision"})
    assert seal_all(sessions) == 0
    assert verified(sessions).unsealed == 1


@pytest.mark.usefixtures("patient_locks")
def test_who_writes_does_not_wait_for_who_seals(sessions: Sessions, api: TestClient) -> None:
    write(sessions, 2)
    with sessions() as sealing:
        assert audit_seals.seal(sealing) == 2
        assert api.post("/v1/projects", json={"name": "vision"}).status_code == 201
        with sessions.begin() as another:
            assert audit_seals.seal(another) == 0, "one at a time"
        sealing.commit()
    assert verified(sessions).seals == 1


def test_a_long_log_is_verified_in_several_requests(
    sealed: Sessions, api: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_seals, "VERIFIED_AT_ONCE", EACH)
    found = list(each_verification(api))
    assert [one["last_seal"]["id"] for one in found] == [1, 2, 3]
    assert all(one["holds"] and one["seals"] == 1 for one in found)
    assert found[-1]["unsealed"] == 1
    until = api.get("/v1/audit/verification?after=1&until=2").json()
    assert (until["seals"], until["last_seal"]["id"], until["next_after"]) == (1, 2, None)
    assert api.get("/v1/audit/verification?after=-1").status_code == 422


def each_verification(api: TestClient) -> Iterator[dict[str, Any]]:
    """The answers, until there is no more to go on with."""
    after = 0
    while after is not None:
        found = api.get(f"/v1/audit/verification?after={after}").json()
        yield found
        after = found["next_after"]


def exported(api: TestClient) -> list[bytes]:
    """The lines of the export."""
    answer = api.get("/v1/audit/export")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/jsonl"
    return answer.content.splitlines()


def test_an_export_is_verified_without_the_server(sealed: Sessions, api: TestClient) -> None:
    lines = exported(api)
    found = check_export(lines)
    assert (found.seals, found.entries, found.unsealed, found.faults) == (3, 3 * EACH, 1, ())
    # The digest is what anybody would compute from the lines themselves.
    first = json.loads(lines[EACH])["seal"]
    documents = [{k: v for k, v in first.items() if k != "digest"}]
    documents += [json.loads(line)["entry"] for line in lines[:EACH]]
    written = "".join(
        json.dumps(one, sort_keys=True, separators=(",", ":")) + "\n" for one in documents
    )
    assert hashlib.sha256(written.encode()).hexdigest() == first["digest"]
    assert found.last_seal is not None
    noted = (3, found.last_seal.digest)
    assert check_export(lines, noted).faults == ()
    for other in ((3, START), (4, START)):
        assert [one.kind for one in check_export(lines, other).faults] == ["chain"]


LINES: dict[str, tuple[Callable[[list[bytes]], list[bytes]], str]] = {
    "changed": (lambda lines: [lines[0].replace(b"ada", b"eve"), *lines[1:]], "changed"),
    "removed": (lambda lines: lines[1:], "removed"),
    "twice": (lambda lines: [lines[0], *lines], "changed"),
    "from elsewhere": (lambda lines: [lines[-1], *lines], "inserted"),
    "in another order": (lambda lines: [lines[1], lines[0], *lines[2:]], "changed"),
    "a seal less": (lambda lines: lines[EACH + 1 :], "chain"),
}


@pytest.mark.parametrize(("change", "kind"), LINES.values(), ids=LINES)
def test_a_forged_export(
    sealed: Sessions, api: TestClient, change: Callable[[list[bytes]], list[bytes]], kind: str
) -> None:
    assert kind in {one.kind for one in check_export(change(exported(api))).faults}


@pytest.mark.parametrize(
    "line",
    [b"", b"[]", b"{}", b'{"entry": {}}', b'{"seal": {"id": 1}}', b"\xff", b'{"entry": 1}',
     b"[" * 100_000],
    ids=["empty", "list", "object", "no id", "no seal", "no text", "number", "deep"],
)  # fmt: skip
def test_what_is_no_export(line: bytes) -> None:
    with pytest.raises(BrokenLog, match="Line 1 is neither"):
        check_export([line])


def test_an_export_has_what_was_put_in_where_it_stands(
    sessions: Sessions, api: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sessions() as undone:
        write_one(undone, "undone")
    write(sessions, EACH)
    seal_all(sessions)
    monkeypatch.setattr(audit_seals, "LATE_FOR", timedelta(0))
    past_the_triggers(
        sessions,
        "INSERT INTO audit_entries (id, action, status, request_id) OVERRIDING SYSTEM VALUE "
        "VALUES (1, 'cancel_job', 200, gen_random_uuid())",
    )
    assert [one.kind for one in check_export(exported(api)).faults] == ["inserted"]
