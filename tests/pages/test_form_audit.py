"""Changes by forms are in the audit log, in the same unit of work."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Connection, Engine, event
from tests.pages.made_up import PRETRAINING, MadeUpWorker
from tests.pages.submitting import HERE, opened, sent
from tests.pages.submitting import admin as admin
from tests.pages.submitting import browser as browser

NOTED = "INSERT INTO audit_entries"


@contextmanager
def committed() -> Iterator[list[tuple[str, ...]]]:
    """The statements of each transaction that is committed meanwhile."""
    done: list[tuple[str, ...]] = []
    running: dict[int, list[str]] = {}

    def keep(connection: Connection, _: object, statement: str, *__: object) -> None:
        running.setdefault(id(connection), []).append(statement)

    def end(connection: Connection) -> None:
        done.append(tuple(running.pop(id(connection), ())))

    def forget(connection: Connection) -> None:
        running.pop(id(connection), None)

    heard = (("before_cursor_execute", keep), ("commit", end), ("rollback", forget))
    for name, hear in heard:
        event.listen(Engine, name, hear)
    try:
        yield done
    finally:
        for name, hear in heard:
            event.remove(Engine, name, hear)


def of_what_was_noted(act: Callable[[], Any]) -> str:
    """All statements of the one transaction that wrote an entry."""
    with committed() as done:
        answer = act()
    assert answer.status_code in (201, 303), answer.text
    (one,) = (sent for sent in done if any(NOTED in statement for statement in sent))
    return "\n".join(one)


def test_jobs_are_changed_with_their_entries(admin: TestClient, worker: MadeUpWorker) -> None:
    job = f"/jobs/{worker.submit(PRETRAINING, name='another').id}"
    for verb in ("pause", "resume", "cancel"):
        changing = of_what_was_noted(lambda verb=verb: admin.post(f"{job}/{verb}", headers=HERE))
        assert "UPDATE jobs" in changing
    anew = of_what_was_noted(lambda: admin.post(f"{job}/retry", headers=HERE))
    assert "INSERT INTO jobs" in anew


@pytest.mark.parametrize(("new", "table"), [("/jobs/new", "jobs"), ("/studies/new", "studies")])
def test_what_a_form_submits_is_made_with_its_entry(
    admin: TestClient, new: str, table: str
) -> None:
    fields = opened(admin, new)
    assert f"INSERT INTO {table}" in of_what_was_noted(lambda: sent(admin, new, fields))


def test_studies_are_cancelled_with_their_entries(admin: TestClient) -> None:
    made = sent(admin, "/studies/new", opened(admin, "/studies/new"))
    cancel = f"{made.headers['location']}/cancel"
    changing = of_what_was_noted(lambda: admin.post(cancel, headers=HERE))
    assert "UPDATE studies" in changing


def test_tokens_and_sessions_are_changed_with_their_entries(admin: TestClient, token: str) -> None:
    asked = {"name": "x", "scope": "read", "days": "3"}
    making = of_what_was_noted(lambda: admin.post("/tokens", data=asked, headers=HERE))
    assert "INSERT INTO tokens" in making
    made = admin.get("/v1/tokens").json()["data"][0]["id"]
    revoking = of_what_was_noted(lambda: admin.post(f"/tokens/{made}/revoke", headers=HERE))
    assert "UPDATE tokens" in revoking
    leaving = of_what_was_noted(lambda: admin.post("/logout", headers=HERE))
    assert "browser_sessions" in leaving
    given = {"token": token}
    coming = of_what_was_noted(lambda: admin.post("/login", data=given, headers=HERE))
    assert "browser_sessions" in coming
