"""Every route with no token, and with tokens that are not enough.

Those are wrong, expired, revoked or too weak.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import delete, event, exists, func, insert, select, text, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_job, a_member, a_project, a_token, a_user

from adaptlab_api.doors.gate import PUBLIC_FOLDERS, PUBLIC_PATHS
from adaptlab_api.requests.routing import ApiRoute, ClosedRoute
from adaptlab_api.requests.rules import rule_of
from adaptlab_db import visibility
from adaptlab_db.tables import (
    EvaluationRow,
    Job,
    JobEvent,
    Membership,
    Project,
    Study,
    StudyJob,
    StudyShare,
    Table,
    Token,
)
from adaptlab_services.people import tokens
from adaptlab_services.people.tokens import create_token

Sessions = sessionmaker[Session]
SOMEWHERE = "00000000-0000-0000-0000-000000000000"
MISSING = "987654"
IDENTITIES = ("{job_id}", "{upload_id}", "{lease_id}", "{worker_id}")


def routes(client: TestClient) -> list[tuple[str, str, str]]:
    """Method, address and rule of every route; no rule is empty."""
    found: list[tuple[str, str, str]] = []
    for route in client.app.routes:  # type: ignore[attr-defined]
        path = route.path
        for part in IDENTITIES:
            path = path.replace(part, SOMEWHERE)
        path = path.replace("{verb}", "pause").replace("{preset}", "quick")
        while "{" in path:
            path = path[: path.index("{")] + MISSING + path[path.index("}") + 1 :]
        rule = rule_of(route.endpoint) or ""
        found += [(method, path, rule) for method in route.methods]
    return sorted(found)


def closed(client: TestClient) -> list[tuple[str, str, str]]:
    """The routes that are not public."""
    return [
        route
        for route in routes(client)
        if route[1] not in PUBLIC_PATHS and not route[1].startswith(PUBLIC_FOLDERS)
    ]


def test_every_route_has_a_rule(anonymous: TestClient) -> None:
    without = [path for _, path, rule in closed(anonymous) if not rule and path != "/logout"]
    assert without == [], "decorate the handler with `needs` of adaptlab_api.requests.rules"


def test_every_route_asks_for_its_rule(anonymous: TestClient) -> None:
    for route in anonymous.app.routes:  # type: ignore[attr-defined]
        is_open = route.path in (*PUBLIC_PATHS, "/logout") or route.path.startswith(PUBLIC_FOLDERS)
        assert isinstance(route, ClosedRoute) != is_open, (
            f"see adaptlab_api.requests.routing: {route}"
        )
        assert isinstance(route, ApiRoute) == route.path.startswith("/v1"), route


def test_a_route_without_a_rule_is_closed_to_everybody(
    api: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert api.get("/v1/workers").status_code == 200
    routes = [route for route in api.app.routes if route.path == "/v1/workers"]  # type: ignore[attr-defined]
    for route in routes:
        monkeypatch.setitem(vars(route), "rule", None)
    assert api.get("/v1/workers").status_code == 403


def ended(sessions: Sessions, column: str) -> str:
    """A token with all scopes, whose time is over."""
    with sessions.begin() as session:
        token = a_token(session, "ada")
        newest = select(func.max(Token.id)).scalar_subquery()
        over = {column: func.clock_timestamp()}
        session.execute(update(Token).where(Token.id == newest).values(over))
    return f"Bearer {token}"


def of_nobody(sessions: Sessions) -> str:
    """A token of a user who was shut out."""
    with sessions.begin() as session:
        token = a_token(session, "gone")
        session.execute(text("UPDATE users SET deactivated_at = now() WHERE name = 'gone'"))
    return f"Bearer {token}"


PRESENTED: dict[str, Callable[[Sessions], str]] = {
    "nothing": lambda _: "",
    "wrong": lambda _: f"Bearer {tokens._new_token()}",
    "malformed": lambda _: "Bearer al_no",
    "expired": lambda sessions: ended(sessions, "expires_at"),
    "revoked": lambda sessions: ended(sessions, "revoked_at"),
    "of nobody": of_nobody,
}


@pytest.mark.long("every door for every role", but=2)
@pytest.mark.parametrize("what", PRESENTED)
def test_nothing_opens_without_a_token_of_use(
    anonymous: TestClient, sessions: Sessions, what: str
) -> None:
    presented = PRESENTED[what](sessions)
    header = {"Authorization": presented} if presented else {}
    streaming = header | {"Accept": "text/event-stream"}
    asked = [(method, path) for method, path, _ in closed(anonymous)]
    assert len(asked) > 60
    for method, path in [*asked, ("GET", "/docs"), ("GET", "/nowhere"), ("POST", "/v1/x/y")]:
        answer = anonymous.request(method, path, headers=header)
        # Who tries many wrong tokens is told to wait, which opens nothing either.
        assert answer.status_code in ((401,) if what == "nothing" else (401, 429)), (method, path)
    events = f"/v1/jobs/{SOMEWHERE}/events"
    assert anonymous.get(events, headers=streaming).status_code in (401, 429)


def weak(sessions: Sessions, role: str | None, *scopes: str) -> dict[str, str]:
    """The header of somebody with one role in `default`."""
    with sessions.begin() as session:
        user = a_user(session, f"{role}-{'-'.join(scopes)}")
        session.execute(delete(Membership).where(Membership.user_id == user))
        if role is not None:
            a_member(session, user, role=role)
        return {"Authorization": f"Bearer {create_token(session, user, 'weak', scopes)}"}


ALLOWED = {
    "worker": ("worker",),
    "nobody": ("person",),
    "reader": ("person", "reader"),
    "submitter": ("person", "reader", "submitter"),
    "operator": ("person", "reader", "submitter", "operator"),
    "admin": ("person", "reader", "submitter", "operator"),  # of a project, not of the server
}


@pytest.mark.long("every door for every role", but=2)
@pytest.mark.parametrize("role", ALLOWED)
def test_a_weak_token_opens_what_its_role_may(
    anonymous: TestClient, sessions: Sessions, role: str
) -> None:
    """Also shows that every page and read works for who sees one project only."""
    if role == "worker":
        header = weak(sessions, "admin", "worker")
    else:
        header = weak(sessions, None if role == "nobody" else role, "read", "submit", "admin")
    for method, path, rule in closed(anonymous):
        if path == "/logout":
            continue
        answer = anonymous.request(method, path, headers=header)
        assert answer.status_code < 500, (method, path, answer.text)
        if rule not in ALLOWED[role]:
            assert answer.status_code == 403, (role, method, path)
        elif not (path.startswith("/v1/projects/") and method in ("PUT", "DELETE")):
            assert answer.status_code not in (401, 403), (role, method, path, answer.text)


@pytest.mark.long("every door for every role")
def test_the_first_admin_may_call_everything(api: TestClient) -> None:
    for method, path, _ in closed(api):
        if path != "/logout":
            assert api.request(method, path).status_code not in (401, 403, 500), (method, path)


def test_what_is_seen_is_decided_below_every_query() -> None:
    """Every table belongs to a project, or is listed as an exception."""
    for table in visibility.tables():
        belongs = visibility.column_to_project(table) is not None
        assert belongs != (table.__tablename__ in visibility.OPEN), table.__tablename__


@contextmanager
def seeing(sessions: Sessions, *projects: int) -> Iterator[Session]:
    """A session as a route has it, for somebody in these projects."""
    factory = visibility.guarded(sessions)
    with factory(info={visibility.VISIBLE: projects}) as session, session.begin():
        yield session


def test_a_session_that_was_told_nothing_sees_nothing(sessions: Sessions) -> None:
    with visibility.guarded(sessions).begin() as session:
        with pytest.raises(visibility.NotVisible):
            session.execute(select(Job.id))
        with pytest.raises(visibility.NotVisible):
            session.execute(text("SELECT * FROM users, jobs"))
        assert session.scalars(select(func.count()).select_from(Token)).one() == 0


def test_a_statement_that_cannot_be_limited_is_refused(sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_job(session)
        here = a_project(session)
    for statement in (
        "SELECT id FROM jobs",
        "SELECT j.id FROM jobs AS j WHERE j.state = 'queued'",
        "SELECT 1 FROM users JOIN jobs ON true",
        "SELECT jobs.id FROM jobs, studies WHERE jobs.project_id IN (SELECT 1)",
        "SELECT id FROM public.jobs",
        'SELECT id FROM "jobs"',
        'SELECT id FROM "public"."jobs"',
        "SELECT 1 FROM job_events WHERE job_events.job_id IN (SELECT gen_random_uuid())",
        "SELECT 1 FROM users UNION SELECT 1 FROM jobs",
        "WITH a AS (SELECT id FROM jobs) SELECT id FROM a",
        "SELECT (SELECT count(*) FROM jobs)",
        "TABLE jobs",
        "COPY jobs TO STDOUT",
        "UPDATE jobs SET priority = 1",
        "UPDATE ONLY public.jobs SET priority = 1",
        "WITH a AS (UPDATE jobs SET priority = 1 RETURNING id) SELECT id FROM a",
        "DELETE FROM jobs",
        "TRUNCATE jobs CASCADE",
        "MERGE INTO jobs USING users ON true WHEN MATCHED THEN DO NOTHING",
        "INSERT INTO projects (name) SELECT id::text FROM jobs",
    ):
        with seeing(sessions, here) as session, pytest.raises(visibility.NotVisible):
            session.execute(text(statement))


def test_a_query_of_plain_tables_is_refused(sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_job(session)
        here = a_project(session)
    jobs, events = (Table.metadata.tables[name] for name in ("jobs", "job_events"))
    for statement in (
        select(jobs.c.id),
        select(events.c.sequence).where(events.c.job_id.in_([uuid4()])),
        select(events.c.sequence).where(events.c.job_id.in_(select(jobs.c.id))),
        select(exists().where(jobs.c.priority == 0)),
        update(jobs).values(priority=1),
        update(jobs).values(priority=1).returning(jobs.c.id),
        delete(events),
        insert(Project).from_select(["name"], select(Job.queue)),
    ):
        with seeing(sessions, here) as session, pytest.raises(visibility.NotVisible):
            session.execute(statement)


def test_rows_are_seen_by_project_however_they_are_asked_for(sessions: Sessions) -> None:
    with sessions.begin() as session:
        here, there = a_project(session), a_project(session, "other")
        for project in ("default", "other"):
            a_job(session, project=project)
    for projects, expected in (((here,), 1), ((here, there), 2), ((), 0)):
        with seeing(sessions, *projects) as session:
            assert len(session.scalars(select(Job)).all()) == expected
            assert session.scalars(select(func.count()).where(Job.state != "x")).one() == expected
            for table in visibility.tables():
                if visibility.column_to_project(table) is not None:
                    session.execute(select(func.count()).select_from(table)).one()
            changed = session.execute(update(Job).values(priority=1))
            assert changed.rowcount == expected  # type: ignore[attr-defined]
            assert session.scalars(select(Study)).all() == []


def test_shared_rows_are_read_and_never_written(sessions: Sessions) -> None:
    with sessions.begin() as session:
        here, there = a_project(session), a_project(session, "other")
        job = a_job(session, project="other")
        owner = session.scalars(select(Job.owner_id)).one()
        rows = {"id": uuid4(), "owner_id": owner, "project_id": there, "name": "shared"}
        session.execute(insert(Study).values(**rows, spec={}, skipped=[]))
        cell = {"base_model": "b", "task": "t", "method": "m", "budget": 1, "role": "method"}
        link = {"study_id": rows["id"], "job_id": job, "over_budget": False, "reused": False}
        session.execute(insert(StudyJob).values(**link, **cell))
        private = {**rows, "id": uuid4(), "name": "private"}
        session.execute(insert(Study).values(**private, spec={}, skipped=[]))
        session.execute(insert(StudyJob).values(**{**link, "study_id": private["id"]}, **cell))
        session.execute(insert(JobEvent).values(job_id=job, sequence=1, type="queued", data={}))
        session.execute(insert(StudyShare).values(project_id=here, study_id=rows["id"]))
    factory = visibility.guarded(sessions)
    seen = {visibility.VISIBLE: (here,)}
    by_link = visibility.LinkedStudy(rows["id"], (job,))
    for receiving, expected in (((), 0), ((here,), 1), (by_link, 1)):
        with factory(info={**seen, visibility.RECEIVING: receiving}) as session, session.begin():
            for table in (Job, Study, StudyJob, JobEvent):
                assert session.execute(select(func.count()).select_from(table)).scalar_one() == (
                    expected
                ), table
            for table in visibility.tables():
                if visibility.column_to_project(table) is not None:
                    session.execute(select(func.count()).select_from(table)).one()
            changed = session.execute(update(Job).values(priority=1))
            assert changed.rowcount == 0  # type: ignore[attr-defined]
            assert session.execute(delete(Study)).rowcount == 0  # type: ignore[attr-defined]
    with factory(info={**seen, visibility.RECEIVING: (here,)}) as session, session.begin():
        session.scalars(select(Study)).one().name = "mine"
        with pytest.raises(visibility.NotVisible):
            session.flush()
        session.expunge_all()


def test_who_receives_nothing_keeps_the_statements(sessions: Sessions) -> None:
    """Shares are looked up for members of receiving projects alone."""
    with sessions.begin() as session:
        a_job(session)
        here = a_project(session)
    sent: list[str] = []
    engine = sessions.kw["bind"]
    event.listen(engine, "before_cursor_execute", lambda *given: sent.append(given[2]))
    for receiving in ((), (here,)):
        info = {visibility.VISIBLE: (here,), visibility.RECEIVING: receiving}
        with visibility.guarded(sessions)(info=info) as session, session.begin():
            session.execute(
                select(Job.id, EvaluationRow.id).where(EvaluationRow.job_id == Job.id)
            ).all()
    plain, shared = (statement for statement in sent if "evaluations" in statement)
    assert "share" not in plain
    assert shared.count("FROM shared_jobs") == 2, "once per table"


def test_the_list_of_jobs_reads_an_index_for_who_sees_one_project(sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_job(session)
        here = a_project(session)
        session.execute(text("SET LOCAL enable_seqscan = off"))
        plan = "\n".join(
            session.scalars(
                text(
                    "EXPLAIN SELECT id FROM jobs WHERE project_id IN (:here) "
                    "ORDER BY created_at DESC, id DESC LIMIT 51"
                ),
                {"here": here},
            )
        )
    assert "ix_jobs_project_newest" in plan
    assert "Sort" not in plan
