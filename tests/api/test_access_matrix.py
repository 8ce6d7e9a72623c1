"""Permissions of every role on things of one's own and of others."""

from dataclasses import dataclass
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select, text, update
from sqlalchemy.orm import Session, sessionmaker
from tests.api.people import person
from tests.making import (
    a_base_model,
    a_job,
    a_pretrain_document,
    a_project,
    a_study_document,
    a_user,
    an_adapt_document,
    an_adapt_spec,
)

from adaptlab_db.tables import AttentionMapRow, CheckpointRow, EvaluationRow, Job, User
from adaptlab_services.people import tokens
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
ROLES = ("reader", "submitter", "operator", "admin")
OURS, THEIRS = "ours", "theirs"


@dataclass(frozen=True)
class Things:
    """One thing of each kind in one project, all of one owner."""

    job: str
    queued: str
    study: str
    study_name: str
    base_model: str
    dataset: str
    checkpoint: int
    map: int
    evaluation: int


def make_things(api: TestClient, sessions: Sessions, project: str, owner: str) -> Things:
    """A finished job with results, a queued one, a study and a dataset."""
    header = person(sessions, owner, {project: "submitter"})
    name = f"base-of-{project}"
    with sessions.begin() as session:
        a_base_model(session, name, owner=owner, project=project)
        spec = an_adapt_spec(base_model=name)
        job = a_job(session, spec, owner=owner, project=project, state="succeeded")
        queued = a_job(session, owner=owner, project=project, base_model=name)
        checkpoint = session.scalars(
            select(CheckpointRow.id).join(Job, Job.id == CheckpointRow.job_id)
            .where(Job.project_id == a_project(session, project)).limit(1)
        ).one()  # fmt: skip
        evaluation = EvaluationRow(
            job_id=job, attempt=1, replicate=0, seed=0, task_name="sort_descending",
            task={"name": "sort_descending"},
            split="test", correct=1, total=2,
        )  # fmt: skip
        sha256 = session.scalars(select(CheckpointRow.artifact_sha256).limit(1)).one()
        pattern = AttentionMapRow(
            job_id=job, attempt=1, replicate=0, seed=0, source="adapted", artifact_sha256=sha256,
            shape=[1, 1, 1, 2, 2], axes=list("slhqk"),
            learned_positions=0, target_start=0, samples={"tokens": [[1, 2]]},
        )  # fmt: skip
        session.add_all([evaluation, pattern])
        session.flush()
        ids = (evaluation.id, pattern.id)
    document = a_study_document(base_models=[name], name="small", methods=["frozen"])
    study = api.post("/v1/studies", json=document, headers=header)
    assert study.status_code == 201, study.text
    words = [a + b for a in "abcdefghij" for b in "klmnopqrst"]
    triples = [[word, f"{word}x", f"{word}y"] for word in words]
    made = api.post("/v1/datasets", json={"name": "words", "triples": triples}, headers=header)
    assert made.status_code in (200, 201), made.text
    return Things(
        str(job),
        str(queued),
        study.json()["id"],
        "small",
        name,
        "words",
        checkpoint,
        ids[1],
        ids[0],
    )


@pytest.fixture
def ours(anonymous: TestClient, sessions: Sessions) -> Things:
    """What a colleague of those who ask has made."""
    return make_things(anonymous, sessions, OURS, "colleague")


@pytest.fixture
def theirs(anonymous: TestClient, sessions: Sessions) -> Things:
    """What strangers have made."""
    return make_things(anonymous, sessions, THEIRS, "stranger")


def reads(things: Things) -> list[str]:
    """An address of every route that looks at something of a project."""
    job = f"/v1/jobs/{things.job}"
    parts = (
        *("", "/events", "/metrics", "/replicates", "/attempts", "/evaluations", "/answers"),
        "/attention",
    )
    return [
        *(job + part for part in (*parts, "/checkpoints", "/theory")),
        f"{job}?wait=0.1",
        f"{job}/attention/{things.map}/content",
        f"/v1/checkpoints/{things.checkpoint}",
        f"/v1/checkpoints/{things.checkpoint}/content",
        f"/v1/studies/{things.study}",
        f"/v1/studies/{things.study}/jobs",
        f"/v1/studies/{things.study}/comparison",
        f"/v1/base-models/{things.base_model}",
        f"/v1/comparison?job={things.job}",
        f"/jobs/{things.job}",
        f"/jobs/{things.job}/answers",
        f"/jobs/{things.job}/attention",
        f"/jobs/{things.job}/charts/attention-heads?shown=adapted",
        f"/compare?jobs={things.job}",
        f"/base-models/{things.base_model}",
        f"/studies/{things.study}",
        f"/studies/{things.study}/charts",
    ]


def changes(things: Things) -> list[tuple[str, dict[str, Any] | None]]:
    """A request of every kind that changes something that is there."""
    return [
        (f"/v1/jobs/{things.queued}/pause", None),
        (f"/v1/jobs/{things.queued}/resume", None),
        (f"/v1/jobs/{things.queued}/tokens", {}),
        (f"/v1/studies/{things.study}/extend", {"budgets": [32]}),
        (f"/v1/studies/{things.study}/cancel", None),
        (f"/v1/jobs/{things.queued}/cancel", None),
        (f"/v1/jobs/{things.queued}/retry", None),
    ]


@pytest.mark.long("every door for every role", but=1)
@pytest.mark.parametrize("role", ROLES)
def test_everybody_in_a_project_reads_all_of_it_and_nothing_of_others(
    anonymous: TestClient, sessions: Sessions, ours: Things, theirs: Things, role: str
) -> None:
    header = person(sessions, "asker", {OURS: role})
    for path in reads(ours):
        assert anonymous.get(path, headers=header).status_code in (200, 204), path
    for path in reads(theirs):
        answer = anonymous.get(path, headers=header)
        assert answer.status_code == 404, path
    outcomes = f"/v1/jobs/{ours.job}/evaluations/{theirs.evaluation}/outcomes"
    assert anonymous.get(outcomes, headers=header).status_code == 404
    crossed = f"/v1/jobs/{ours.job}/attention/{theirs.map}/content"
    assert anonymous.get(crossed, headers=header).status_code == 404


@pytest.mark.long("every door for every role", but=1)
@pytest.mark.parametrize("role", ROLES)
def test_what_others_share_is_read_and_not_changed(
    anonymous: TestClient, sessions: Sessions, theirs: Things, role: str
) -> None:
    """Every read and every change, on a study and a base model."""
    with sessions.begin() as session:
        rows = "SELECT :study, j.id, base_model, task, method, budget_requested, 'method', "
        link = text(
            "INSERT INTO study_jobs (study_id, job_id, base_model, task, method, budget, role, "
            f"over_budget, reused) {rows} false, true FROM jobs j WHERE id IN (:job, :queued)"
        )
        ids = {"study": theirs.study, "job": theirs.job, "queued": theirs.queued}
        session.execute(link, ids)
        session.execute(text("UPDATE studies SET name = 'of-strangers'"))
    header = person(sessions, "asker", {OURS: role})
    stranger = person(sessions, "stranger", {THEIRS: "submitter", OURS: "submitter"})
    places = (f"/v1/studies/{theirs.study}/shares", f"/v1/base-models/{theirs.base_model}/shares")
    for place in places:
        shared = anonymous.post(place, json={"project": OURS}, headers=stranger)
        assert shared.status_code == 200, shared.text
    for path in reads(theirs):
        assert anonymous.get(path, headers=header).status_code in (200, 204), path
    own = f"/v1/studies/{theirs.study}"
    dropped = () if role == "admin" else tuple(f"{place}/{OURS}" for place in places)
    deletions = (f"/v1/jobs/{theirs.job}", own, *dropped)
    for path, body in (*changes(theirs), (places[0], {"project": OURS})):
        assert anonymous.post(path, headers=header, json=body).status_code == 403, path
    for path in deletions:
        assert anonymous.delete(path, headers=header).status_code == 403, path
    for path in (f"/v1/jobs/{theirs.job}", own):
        written = anonymous.patch(path, headers=header, json={"notes": "mine"})
        assert written.status_code == 403, path
    for place in places:
        assert anonymous.delete(f"{place}/{OURS}", headers=stranger).status_code == 204
    for path in reads(theirs):
        assert anonymous.get(path, headers=header).status_code == 404, path


@pytest.mark.long("every door for every role", but=1)
@pytest.mark.parametrize("role", ROLES)
def test_strangers_things_answer_as_if_they_were_not_there(
    anonymous: TestClient, sessions: Sessions, theirs: Things, role: str
) -> None:
    header = person(sessions, "asker", {OURS: role})
    nowhere = "00000000-0000-0000-0000-000000000000"

    def said(path: str, identity: str) -> tuple[int, str]:
        answer = anonymous.get(path, headers=header)
        return answer.status_code, answer.json()["detail"].replace(identity, "ID")

    for place, there in (("jobs", theirs.job), ("studies", theirs.study)):
        assert said(f"/v1/{place}/{there}", there) == said(f"/v1/{place}/{nowhere}", nowhere)
    there, missing = str(theirs.checkpoint), "987654321"
    for part in ("", "/peft"):
        addresses = [f"/v1/checkpoints/{row}{part}" for row in (there, missing)]
        assert said(addresses[0], there) == said(addresses[1], missing)


@pytest.mark.parametrize(
    ("role", "of_others", "own"),
    [
        ("reader", 403, 403),
        ("submitter", 403, 200),
        ("operator", 200, 200),
        ("admin", 200, 200),
    ],
)
def test_what_may_be_changed(
    anonymous: TestClient,
    sessions: Sessions,
    ours: Things,
    theirs: Things,
    role: str,
    of_others: int,
    own: int,
) -> None:
    header = person(sessions, "asker", {OURS: role})

    def status(path: str, body: dict[str, Any] | None) -> int:
        code = anonymous.post(path, headers=header, json=body).status_code
        return 200 if code in (201, 202, 409) else code

    # A reader is told so before anything is looked for: nothing is learned from that either.
    strangers = 403 if role == "reader" else 404
    for path, body in changes(theirs):
        assert status(path, body) == strangers, path
    for path, body in changes(ours):
        assert status(path, body) == of_others, path
    with sessions.begin() as session:
        user = session.scalars(select(User.id).where(User.name == "asker")).one()
        named = ours.base_model
        mine = str(a_job(session, owner="asker", project=OURS, base_model=named))
        session.execute(text("UPDATE studies SET owner_id = :user"), {"user": user})
    for verb in ("pause", "resume", "cancel", "retry"):
        assert status(f"/v1/jobs/{mine}/{verb}", None) == own, verb
    assert status(f"/v1/jobs/{mine}/tokens", {}) == own
    assert status(f"/v1/studies/{ours.study}/cancel", None) == own


@pytest.mark.parametrize("role", ROLES)
def test_who_shares_and_deletes(
    anonymous: TestClient, sessions: Sessions, ours: Things, theirs: Things, role: str
) -> None:
    header = person(sessions, "asker", {OURS: role, "elsewhere": "submitter"})
    changed = {"reader": 403, "submitter": 403, "operator": 403, "admin": 200}[role]
    shares, body = "/v1/datasets/words/shares", {"project": "elsewhere"}
    assert anonymous.post(shares, json=body, headers=header).status_code == changed
    gone = anonymous.delete(f"/v1/jobs/{theirs.job}", headers=header)
    assert gone.status_code == (403 if role in ("reader", "submitter") else 404)
    anonymous.delete(f"{shares}/elsewhere", headers=header)
    strangers = person(sessions, "asker", {OURS: role})
    unseen = anonymous.post(shares, json={"project": THEIRS}, headers=strangers)
    nowhere = anonymous.post(shares, json={"project": "nowhere"}, headers=strangers)
    assert unseen.status_code == nowhere.status_code
    assert unseen.json()["detail"].replace(THEIRS, "nowhere") == nowhere.json()["detail"]
    finished = anonymous.delete(f"/v1/jobs/{ours.job}", headers=header)
    assert finished.status_code == (204 if changed == 200 else 403)


@pytest.mark.parametrize("role", ROLES)
def test_who_may_make_something(
    anonymous: TestClient, sessions: Sessions, ours: Things, theirs: Things, role: str
) -> None:
    header = person(sessions, "asker", {OURS: role})
    expected = 403 if role == "reader" else 201
    adapt = an_adapt_document(base_model=ours.base_model)
    assert anonymous.post("/v1/jobs", json=adapt, headers=header).status_code == expected
    pretrain = a_pretrain_document(name=theirs.base_model)
    made = anonymous.post("/v1/jobs", json=pretrain, headers=header)
    assert made.status_code == expected  # the same name as strangers use is free here
    elsewhere = {"project": THEIRS}
    refused = anonymous.post("/v1/jobs", json=adapt, params=elsewhere, headers=header)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["code"] == "unknown_project"


def test_strangers_names_are_unknown_in_specs(
    anonymous: TestClient, sessions: Sessions, ours: Things, theirs: Things
) -> None:
    header = person(sessions, "asker", {OURS: "operator"})
    by_name = an_adapt_document(base_model=theirs.base_model)
    for query in ({}, {"validate_only": "true"}):
        answer = anonymous.post("/v1/jobs", json=by_name, params=query, headers=header)
        assert answer.status_code == 422
        assert theirs.base_model not in str(answer.json()["errors"][0]["allowed"])
    study = a_study_document(base_models=[theirs.base_model], name="other")
    assert anonymous.post("/v1/studies", json=study, headers=header).status_code == 422
    theory = {
        "kind": "theory",
        "checks": ["lora_pattern"],
        "adaptations": [theirs.job],
    }
    answer = anonymous.post("/v1/jobs", json=theory, headers=header)
    assert answer.status_code == 422
    assert "succeeded" not in answer.text


def test_lists_and_counts_hold_nothing_of_strangers(
    anonymous: TestClient, sessions: Sessions, ours: Things, theirs: Things
) -> None:
    header = person(sessions, "asker", {OURS: "reader"})

    def listed(path: str) -> list[dict[str, Any]]:
        return anonymous.get(path, headers=header).json()["data"]

    assert {job["project"] for job in listed("/v1/jobs")} == {OURS}
    assert {study["id"] for study in listed("/v1/studies")} == {ours.study}
    assert [model["name"] for model in listed("/v1/base-models")] == [ours.base_model]
    assert {entry["project"] for entry in listed("/v1/datasets")} == {OURS, None}
    for hidden in (f"study = {theirs.study}", 'owner = "stranger"', f'study = "{theirs.study}"'):
        assert listed(f"/v1/jobs?filter={hidden}") == []
    assert listed(f"/v1/studies?job={theirs.job}") == []
    for page in ("/", "/studies", "/base-models"):
        shown = anonymous.get(page, headers=header).text
        assert theirs.job not in shown
        assert theirs.base_model not in shown


def test_equal_jobs_of_strangers_are_neither_told_of_nor_reused(
    anonymous: TestClient, sessions: Sessions, theirs: Things
) -> None:
    adapt = an_adapt_document(base_model="same")
    headers = {}
    for project, owner in ((THEIRS, "stranger"), (OURS, "asker")):
        headers[project] = person(sessions, owner, {project: "submitter"})
        with sessions.begin() as session:
            a_base_model(session, "same", owner=owner, project=project)
    first = anonymous.post("/v1/jobs", json=adapt, headers=headers[THEIRS]).json()
    digest = first["spec_digest"]
    with sessions.begin() as session:
        done = a_job(
            session, owner="stranger", project=THEIRS, state="succeeded", spec_digest=digest
        )
    preview = anonymous.post(
        "/v1/jobs", json=adapt, params={"validate_only": "true"}, headers=headers[OURS]
    )
    assert preview.json()["spec_digest"] == first["spec_digest"]
    assert str(done) not in preview.text
    inline = an_adapt_document(base_model=a_pretrain_document(name="again"))
    for project in (THEIRS, OURS):
        answer = anonymous.post("/v1/jobs", json=inline, headers=headers[project])
        assert answer.status_code == 201
        assert answer.json()["project"] == project
        if project == OURS:
            assert answer.json()["base_model"] in ("again", "same")
    study = a_study_document(base_models=["same"], name="study")
    found = anonymous.post("/v1/studies", json=study, headers=headers[THEIRS])
    assert found.status_code == 201
    shown = anonymous.post(
        "/v1/studies", json=study, params={"validate_only": "true"}, headers=headers[OURS]
    )
    assert shown.status_code == 200
    assert shown.json()["reused_jobs"] == 0


def test_a_key_of_one_project_brings_back_nothing_in_another(
    anonymous: TestClient, sessions: Sessions
) -> None:
    header = person(sessions, "asker", {OURS: "submitter", THEIRS: "submitter"})
    key = {"Idempotency-Key": "once"}
    document = a_pretrain_document()

    def post(project: str) -> Any:
        where = {"project": project}
        return anonymous.post("/v1/jobs", json=document, params=where, headers=header | key)

    assert post(OURS).status_code == 201, post(OURS).text
    assert post(OURS).headers["idempotency-replayed"] == "true"
    other = post(THEIRS)
    assert other.status_code == 422
    assert other.json()["type"].endswith("idempotency-key-reused")


def test_a_token_opens_no_more_than_its_scopes_and_project(
    anonymous: TestClient, sessions: Sessions, ours: Things, theirs: Things
) -> None:
    reading = person(sessions, "asker", {OURS: "admin", THEIRS: "admin"}, ("read",))
    for things in (ours, theirs):
        assert anonymous.get(f"/v1/jobs/{things.job}", headers=reading).status_code == 200
        cancel = anonymous.post(f"/v1/jobs/{things.queued}/cancel", headers=reading)
        assert cancel.status_code == 403
    with sessions.begin() as session:
        user = a_user(session, "asker")
        token = tokens.create_token(
            session, user, "of one", ("read", "submit"), None, a_project(session, OURS)
        )
    header = {"Authorization": f"Bearer {token}"}
    assert anonymous.get(f"/v1/jobs/{ours.job}", headers=header).status_code == 200
    assert anonymous.get(f"/v1/jobs/{theirs.job}", headers=header).status_code == 404
    assert anonymous.get("/v1/jobs?project=theirs", headers=header).status_code == 422


def test_a_request_names_one_of_several_projects(
    anonymous: TestClient, sessions: Sessions, ours: Things, theirs: Things
) -> None:
    header = person(sessions, "asker", {OURS: "reader", THEIRS: "submitter"})

    def projects(query: str) -> set[str]:
        data = anonymous.get(f"/v1/jobs{query}", headers=header).json().get("data", [])
        return {job["project"] for job in data}

    assert projects("") == {OURS, THEIRS}
    assert projects("?project=ours") == {OURS}
    twice = anonymous.get("/v1/studies/small", headers=header)
    assert twice.json()["id"] == ours.study, "in the usual project, the first that was joined"
    for project, things in ((OURS, ours), (THEIRS, theirs)):
        named = anonymous.get(f"/v1/studies/small?project={project}", headers=header)
        assert named.json()["id"] == things.study
    document = a_pretrain_document()
    undecided = person(sessions, "undecided", {OURS: "reader", THEIRS: "submitter"})
    with sessions.begin() as session:
        session.execute(update(User).values(usual_project_id=None))
    unclear = anonymous.post("/v1/jobs", json=document, headers=undecided)
    assert unclear.status_code == 403
    assert "project=" in unclear.json()["detail"]
    twice = anonymous.get("/v1/studies/small", headers=undecided)
    assert twice.status_code == 404  # two of that name, and no usual project
    for project, status in ((OURS, 403), (THEIRS, 201)):
        where = {"project": project}
        made = anonymous.post("/v1/jobs", json=document, params=where, headers=header)
        assert made.status_code == status


def test_nobody_learns_anything_without_a_project(
    anonymous: TestClient, sessions: Sessions, theirs: Things
) -> None:
    header = person(sessions, "asker", {})
    for path in ("/v1/jobs", "/v1/methods", f"/v1/jobs/{theirs.job}"):
        assert anonymous.get(path, headers=header).status_code == 403
    assert anonymous.get("/v1/me", headers=header).json()["projects"] == []


def test_limits_count_what_an_owner_has_in_other_projects(
    settings: Settings, sessions: Sessions
) -> None:
    from adaptlab_api.app import create_app

    strict = settings.model_copy(update={"max_queued_jobs": 1})
    header = person(sessions, "asker", {OURS: "submitter", THEIRS: "submitter"})
    with TestClient(create_app(strict)) as client:
        answers = [
            client.post(
                "/v1/jobs", json=a_pretrain_document(), params={"project": name}, headers=header
            ).status_code
            for name in (OURS, THEIRS)
        ]
    assert answers == [201, 429]
