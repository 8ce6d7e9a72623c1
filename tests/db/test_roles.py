"""The API's and workers' roles in Postgres can do their work only."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from fastapi.testclient import TestClient
from psycopg.errors import CheckViolation, InsufficientPrivilege
from psycopg.sql import SQL, Identifier
from sqlalchemy import delete, func, make_url, select, text, update
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.orm import Session, sessionmaker
from tests.ledgers import BY_THE_API, ledger_by
from tests.making import (
    a_base_model,
    a_job,
    a_study_document,
    a_token,
    an_adapt_spec,
    keep_checkpoints,
)
from tests.receiving import deliver, open_to_loopback, receiving
from tests.services.recorded import record_a_whole_run

from adaptlab.runs.events import TrainingSaved
from adaptlab_api.app import create_app
from adaptlab_db.migrate import downgrade, upgrade
from adaptlab_db.rights import PARTS, RIGHTS, Part
from adaptlab_db.role_passwords import OnePassword, RolePasswords, address_for, role_of
from adaptlab_db.roles import make_logins
from adaptlab_db.secret_files import SecretUnreadable
from adaptlab_db.session import close, session_factory
from adaptlab_db.tables import AuditEntry, Job, Study, Table, Worker
from adaptlab_services.errors import NotAuthorised
from adaptlab_services.leases.reaping import reap
from adaptlab_services.lifecycle import workers
from adaptlab_services.people.tokens import authenticate
from adaptlab_services.settings import Settings
from adaptlab_services.webhooks.tracked_studies import note_changes
from adaptlab_stack.first_token import first_token
from adaptlab_worker.loop.storage_upkeep import StorageUpkeep

Sessions = sessionmaker[Session]
PASSWORDS = RolePasswords("of-the-api", "of-the-workers")

OF_NEITHER = (
    "DROP TABLE jobs",
    "DROP TABLE audit_entries CASCADE",
    "ALTER TABLE jobs ADD COLUMN mine integer",
    "ALTER TABLE audit_entries DISABLE TRIGGER append_only",
    "DROP TRIGGER append_only ON audit_entries",
    "DROP TRIGGER guard_states ON jobs",
    "CREATE OR REPLACE FUNCTION refuse_to_change_audit_entries() RETURNS trigger"
    " LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
    "TRUNCATE jobs CASCADE",
    "TRUNCATE audit_entries",
    "TRUNCATE job_events",
    "TRUNCATE metric_points",
    "UPDATE audit_entries SET actor = 'nobody'",
    "DELETE FROM audit_entries",
    "UPDATE job_events SET type = 'nothing'",
    "DELETE FROM job_events",
    "DELETE FROM jobs",
    "DELETE FROM users",
    "DELETE FROM tokens",
    "DELETE FROM projects",
    "UPDATE alembic_version SET version_num = '0001'",
    "CREATE TABLE mine (word text)",
    "CREATE SCHEMA mine",
    "CREATE ROLE mine SUPERUSER",
    "SET session_replication_role = replica",
    "COPY jobs TO PROGRAM 'cat'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT rolpassword FROM pg_authid",
)
FORBIDDEN: dict[Part, tuple[str, ...]] = {
    "api": (
        "DELETE FROM metric_points",
        "DELETE FROM evaluations",
        "DELETE FROM checkpoints",
        "DELETE FROM attempts",
        "DELETE FROM workers",
    ),
    "worker": (
        "SELECT * FROM tokens",
        "SELECT * FROM users",
        "SELECT * FROM browser_sessions",
        "SELECT * FROM audit_entries",
        "SELECT * FROM usage_counts",
        "INSERT INTO audit_entries (action, status, request_id) "
        "VALUES ('x', 200, gen_random_uuid())",
        "INSERT INTO tokens (user_id, name, digest, scopes) VALUES (1, 'x', '', '{}')",
        "UPDATE users SET is_admin = true",
        "INSERT INTO memberships (user_id, project_id, role) VALUES (1, 1, 'admin')",
        "INSERT INTO jobs DEFAULT VALUES",
        "UPDATE studies SET name = 'x'",
        "UPDATE webhooks SET url = 'x'",
        "DELETE FROM webhooks",
    ),
}


@pytest.fixture
def addresses(database_url: str) -> Iterator[dict[Part, str]]:
    """Where each part finds the test's own database."""
    make_logins(database_url, PASSWORDS)
    upgrade(database_url)
    yield {part: address_for(database_url, part, PASSWORDS) for part in PARTS}
    with psycopg.connect(plain(database_url), autocommit=True) as owner:
        for part in PARTS:
            role = Identifier(role_of(str(make_url(database_url).database), part))
            owner.execute(SQL("DROP OWNED BY {}").format(role))
            owner.execute(SQL("DROP ROLE {}").format(role))


def plain(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def test_every_table_has_rights_that_were_thought_of() -> None:
    named = {table.name for table in Table.metadata.sorted_tables} | {"alembic_version"}
    for part in PARTS:
        assert set(RIGHTS[part]) == named | {"shared_jobs"}, part
        for appended in ("audit_entries", "job_events"):
            assert not set("wd") & set(RIGHTS[part][appended])


@pytest.mark.parametrize("part", PARTS)
def test_what_is_forbidden_is_refused_by_postgres(
    addresses: dict[Part, str], sessions: Sessions, part: Part
) -> None:
    with sessions.begin() as session:
        a_job(session)
        a_token(session)
    with psycopg.connect(plain(addresses[part]), autocommit=True) as connection:
        for statement in (*OF_NEITHER, *FORBIDDEN[part]):
            with pytest.raises(InsufficientPrivilege):
                connection.execute(statement.encode())
        owner = Identifier(str(make_url(addresses[part]).username).removesuffix(f"_{part}"))
        with pytest.raises(psycopg.Error):
            connection.execute(SQL("SET ROLE {}").format(owner))
        for table, letters in RIGHTS[part].items():
            if "r" in letters:
                connection.execute(SQL("SELECT 1 FROM {} LIMIT 1").format(Identifier(table)))


def test_the_orm_is_refused_too(addresses: dict[Part, str], sessions: Sessions) -> None:
    api = session_factory(addresses["api"])
    try:
        with api() as session, pytest.raises(ProgrammingError, match="permission denied"):
            session.execute(delete(AuditEntry))
    finally:
        close(api)


def test_the_api_may_do_what_workers_ask_of_it(
    addresses: dict[Part, str], sessions: Sessions, settings: Settings
) -> None:
    of_api = settings.model_copy(update={"database_url": addresses["api"]})
    with sessions.begin() as session:
        a_base_model(session, state="queued")
        a_job(session, an_adapt_spec(capture={"attention": {"samples": 1}}), state="waiting")
    with ledger_by(BY_THE_API, sessions, of_api) as ledger:
        worker = ledger.register_worker("node", 1, ["cpu"])
        ledger.stand_back(worker, "The disk is full.")
        claim = ledger.claim(worker, ["cpu"])
        assert claim is not None
        path = Path("state")
        saved = TrainingSaved(step=1, path=path)
        for content in (b"one", b"two"):  # the first is let go
            ledger.record(claim, [saved], {path: ledger.put_artifact(claim, [content]).sha256})
        ledger.release(claim, "preempted")
        again = ledger.claim(worker, ["cpu"])
        assert again is not None
        assert again.inputs.resume is not None
        assert b"".join(ledger.fetch_artifact(again, again.inputs.resume.state.sha256)) == b"two"
        keep_checkpoints(ledger, again)
        assert ledger.heartbeat(again, 4) == "continue"
        assert ledger.finish(again) == ("cpu",)
        adapting = ledger.claim(worker, ["cpu"])
        assert adapting is not None
        record_a_whole_run(ledger, adapting)
        ledger.say_goodbye(worker)


def test_the_api_may_give_a_token_of_one_job(
    addresses: dict[Part, str], sessions: Sessions, settings: Settings
) -> None:
    of_api = settings.model_copy(update={"database_url": addresses["api"]})
    with sessions.begin() as session:
        job_id, header = a_job(session), {"Authorization": f"Bearer {a_token(session)}"}
    with TestClient(create_app(of_api), raise_server_exceptions=False) as client:
        made = client.post(f"/v1/jobs/{job_id}/tokens", json={}, headers=header)
        assert made.status_code == 201, made.text
        its_own = {"Authorization": f"Bearer {made.json()['token']}"}
        new = {"host": "node", "process_id": 1, "queues": ["cpu"]}
        assert client.post("/v1/workers", json=new, headers=its_own).status_code == 201


def test_the_api_may_create_the_first_token(addresses: dict[Part, str], tmp_path: Path) -> None:
    first, second = tmp_path / "a pod", tmp_path / "its successor"
    for folder in (first, second):
        folder.mkdir()
    token = first_token(addresses["api"], first)
    assert first_token(addresses["api"], first) == token
    factory = session_factory(addresses["api"])
    try:
        with factory.begin() as session:
            assert authenticate(session, token).is_admin
        assert first_token(addresses["api"], second) != token
        with factory.begin() as session, pytest.raises(NotAuthorised):
            authenticate(session, token)
    finally:
        close(factory)


def test_the_api_may_delete_what_has_ended_and_nothing_else(
    addresses: dict[Part, str], sessions: Sessions, settings: Settings
) -> None:
    of_api = settings.model_copy(update={"database_url": addresses["api"]})
    with sessions.begin() as session:
        a_base_model(session)
        jobs = [a_job(session, state=state) for state in ("failed", "queued")]
        header = {"Authorization": f"Bearer {a_token(session)}"}
    with TestClient(create_app(of_api), headers=header) as client:
        study = client.post("/v1/studies", json=a_study_document(seeds=1)).json()["id"]
        client.post(f"/v1/studies/{study}/cancel")
        assert client.delete(f"/v1/studies/{study}?with_jobs=true").json()["deleted_jobs"] > 1
        assert client.delete(f"/v1/jobs/{jobs[0]}").status_code == 204
    with (
        psycopg.connect(plain(addresses["api"])) as connection,
        pytest.raises(CheckViolation, match="have ended"),
    ):
        connection.execute("SELECT delete_ended_jobs(%s)", [[jobs[1]]])


def test_workers_may_remove_what_has_expired(
    addresses: dict[Part, str], sessions: Sessions, settings: Settings
) -> None:
    days = {"archived_days": 30, "curve_days": 30, "worker_days": 30}
    old = text("clock_timestamp() - interval '31 days'")
    with sessions.begin() as session:
        columns = {"state": "succeeded", "finished_at": old, "archived_at": old}
        a_base_model(session, **columns)
        workers.register(session, "node", 1, ["cpu"])
        session.execute(update(Worker).values(heartbeat_at=old))
    of_worker = session_factory(addresses["worker"])
    try:
        StorageUpkeep(of_worker, settings.model_copy(update=days)).tend()
    finally:
        close(of_worker)
    with sessions() as session:
        for table in ("jobs", "base_models", "workers"):
            assert session.scalar(text(f"SELECT count(*) FROM {table}")) == 0, table


def test_workers_may_settle_what_waits(addresses: dict[Part, str], sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        job = a_job(session, state="waiting")
    of_worker = session_factory(addresses["worker"])
    try:
        with of_worker.begin() as session:
            reap(session)
    finally:
        close(of_worker)
    with sessions() as session:
        assert session.get_one(Job, job).state == "queued"


def test_workers_and_the_api_may_send_webhooks(
    addresses: dict[Part, str], sessions: Sessions, settings: Settings
) -> None:
    of_api, of_worker = (
        open_to_loopback(settings.model_copy(update={"database_url": addresses[part]}))
        for part in PARTS
    )
    with sessions.begin() as session:
        a_base_model(session)
        header = {"Authorization": f"Bearer {a_token(session)}"}
    with (
        receiving() as receiver,
        TestClient(create_app(of_api), headers=header) as client,
    ):
        made = client.post("/v1/webhooks", json={"url": receiver.url}).json()
        tracker = {"kind": "mlflow", "url": "http://127.0.0.1:9"}
        assert client.post("/v1/trackers", json=tracker).status_code == 201
        assert client.post(f"/v1/webhooks/{made['id']}/test").status_code == 202
        study = client.post("/v1/studies", json=a_study_document(seeds=1)).json()["id"]
        assert client.post(f"/v1/studies/{study}/cancel").status_code == 200
        factory = session_factory(of_api.database_url)
        try:
            deliver(factory, of_api)
        finally:
            close(factory)
        assert len(receiver.received) == 2
        factory = session_factory(of_worker.database_url)
        try:
            with factory.begin() as session:
                workers.register(session, "node", 1, ["cpu"])
                ago = func.clock_timestamp() - timedelta(seconds=90)
                session.execute(update(Worker).values(heartbeat_at=ago))
            with factory.begin() as session:
                assert reap(session).lost_workers == 1
            with factory.begin() as session:
                note_changes(session, session.scalars(select(Study.id)).all())
            deliver(factory, of_worker)
        finally:
            close(factory)
        client.delete(f"/v1/webhooks/{made['id']}")
        (tracked,) = client.get("/v1/trackers").json()["data"]
        assert tracked["waiting"] == 1
    types = [one.message["type"] for one in receiver.received]
    assert sorted(types) == ["study.ended", "webhook.test", "worker.lost"]


def test_rights_follow_a_migration_and_making_roles_again_changes_only_passwords(
    database_url: str, addresses: dict[Part, str]
) -> None:
    downgrade(database_url, "base")
    upgrade(database_url)
    make_logins(database_url, PASSWORDS)
    upgrade(database_url)
    for part in PARTS:
        with psycopg.connect(plain(addresses[part])) as connection:
            connection.execute("SELECT 1 FROM jobs")
    another = RolePasswords.generated()
    make_logins(database_url, another)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(plain(addresses["api"]))
    with psycopg.connect(plain(address_for(database_url, "api", another))) as connection:
        connection.execute("SELECT 1 FROM jobs")


def test_rights_that_were_given_by_hand_are_taken_back(
    database_url: str, addresses: dict[Part, str]
) -> None:
    role = Identifier(role_of(str(make_url(database_url).database), "api"))
    with psycopg.connect(plain(database_url), autocommit=True) as owner:
        owner.execute(SQL("GRANT ALL ON audit_entries TO {}").format(role))
    upgrade(database_url)
    connection = psycopg.connect(plain(addresses["api"]))
    with connection, pytest.raises(InsufficientPrivilege):
        connection.execute("DELETE FROM audit_entries")


def test_postgres_keeps_and_is_told_a_digest_of_a_password(
    database_url: str, addresses: dict[Part, str]
) -> None:
    with psycopg.connect(plain(database_url)) as owner:
        name = str(make_url(addresses["api"]).username)
        query = "SELECT rolpassword, rolsuper, rolcreaterole FROM pg_authid WHERE rolname = %s"
        found = owner.execute(query, [name]).fetchone()
    assert found is not None
    password, *powers = found
    assert str(password).startswith("SCRAM-SHA-256$")
    assert powers == [False, False]
    assert PASSWORDS.api not in repr(PASSWORDS)


def test_whoever_may_make_roles_makes_them_without_being_a_superuser(
    database_url: str, addresses: dict[Part, str]
) -> None:
    """As on hosted servers, where nobody is given a superuser."""
    url = make_url(database_url)
    maker = Identifier(f"{url.database}_maker")
    with psycopg.connect(plain(database_url), autocommit=True) as owner:
        for part in PARTS:
            owner.execute(SQL("DROP OWNED BY {}").format(Identifier(_role(database_url, part))))
            owner.execute(SQL("DROP ROLE {}").format(Identifier(_role(database_url, part))))
        owner.execute(SQL("CREATE ROLE {} LOGIN CREATEROLE PASSWORD 'x'").format(maker))
        try:
            as_maker = url.set(username=f"{url.database}_maker", password="x")
            for _ in range(2):  # new ones, and those that are there
                make_logins(as_maker.render_as_string(hide_password=False), PASSWORDS)
            upgrade(database_url)
            with psycopg.connect(plain(addresses["api"])) as connection:
                connection.execute("SELECT 1 FROM jobs")
        finally:
            owner.execute(SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(maker))
            owner.execute(SQL("DROP OWNED BY {} CASCADE").format(maker))
            owner.execute(SQL("DROP ROLE {}").format(maker))


def test_a_role_that_was_given_powers_loses_them(
    database_url: str, addresses: dict[Part, str]
) -> None:
    with psycopg.connect(plain(database_url), autocommit=True) as owner:
        role = _role(database_url, "api")
        owner.execute(SQL("ALTER ROLE {} SUPERUSER CREATEDB INHERIT").format(Identifier(role)))
        make_logins(database_url, PASSWORDS)
        query = "SELECT rolsuper, rolcreatedb, rolinherit FROM pg_roles WHERE rolname = %s"
        assert owner.execute(query, [role]).fetchone() == (False, False, False)


def _role(url: str, part: Part) -> str:
    return role_of(str(make_url(url).database), part)


def test_passwords_come_from_the_environment_or_from_files() -> None:
    api, worker = "ADAPTLAB_API_DATABASE_PASSWORD", "ADAPTLAB_WORKER_DATABASE_PASSWORD"
    assert RolePasswords.given({}) is None
    assert RolePasswords.given({api: "one", worker: "two"}) == RolePasswords("one", "two")
    with pytest.raises(OnePassword):
        RolePasswords.given({api: "one"})
    with pytest.raises(SecretUnreadable):
        RolePasswords.given({f"{api}_FILE": "/nowhere", worker: "two"})


def test_a_database_without_the_roles_is_migrated_as_before(database_url: str) -> None:
    upgrade(database_url)
    with psycopg.connect(plain(database_url)) as owner:
        query = "SELECT count(*) FROM pg_roles WHERE rolname LIKE %s"
        found = owner.execute(query, [f"{make_url(database_url).database}_%"]).fetchone()
    assert found == (0,)
