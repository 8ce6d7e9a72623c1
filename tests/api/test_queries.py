"""Queries over results and heads: rows, pages and files."""

import csv
import io
import json
import math
from datetime import datetime
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import duckdb
import pytest
from fastapi.testclient import TestClient
from scipy import stats
from sqlalchemy import Engine, delete, event, func
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import ITEMS, Run, run_all
from tests.making import a_base_model, a_job, a_member, a_token, a_user, an_adapt_spec

from adaptlab.specs.spec import ResolvedSpec
from adaptlab.statistics import seed_interval
from adaptlab_db.tables import Membership
from adaptlab_services.results import result_groups

Sessions = sessionmaker[Session]
ARRAYS = {"lora": 300, "prefix_tuning": 200, "soft_prompt": 100}
SHIFT = 20


def run_of(spec: ResolvedSpec) -> Run:
    """A run of the fixture below; a job with three seeds fails."""
    assert spec.method is not None
    name = str(spec.method["name"])
    return Run(
        right=ARRAYS[name],
        shift=SHIFT,
        loss=0.25 if name == "lora" else 0.5,
        deviation=0.125 if name == "prefix_tuning" else None,
        fails=len(spec.seeds) == 3,
    )


def results_in(sessions: Sessions) -> dict[str, str]:
    """Three succeeded jobs, by method, a failed one and an unclaimed one."""
    with sessions.begin() as session:
        a_base_model(session)
        made = {
            "lora": a_job(session, an_adapt_spec(method="lora", budget=64, labels={"team": "x"})),
            "prefix_tuning": a_job(session, an_adapt_spec(labels={"team": "=1+1"})),
            "soft_prompt": a_job(session, an_adapt_spec(method="soft_prompt", budget=8)),
        }
        a_job(session, an_adapt_spec(method="lora", budget=64, seeds=3))
        a_job(session, an_adapt_spec(), queue="nobody")
    run_all(sessions, run_of)
    return {name: str(job) for name, job in made.items()}


@pytest.fixture(scope="module")
def made(shared_sessions: Sessions) -> dict[str, str]:
    """The jobs for tests that only read."""
    return results_in(shared_sessions)


@pytest.fixture
def own(sessions: Sessions) -> dict[str, str]:
    """The jobs in the test's own database."""
    return results_in(sessions)


def asked(api: TestClient, address: str = "/v1/results", **parameters: Any) -> dict[str, Any]:
    answer = api.get(address, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def found(api: TestClient, made: dict[str, str], text: str, **parameters: Any) -> list[str]:
    names = {job: name for name, job in made.items()}
    rows = asked(api, filter=text, **parameters)["data"]
    return [names[row["id"]] for row in rows if row["id"] in names]


def refused(api: TestClient, address: str = "/v1/results", **parameters: Any) -> dict[str, Any]:
    answer = api.get(address, params=parameters)
    assert answer.status_code == 422, answer.text
    (fault,) = answer.json()["errors"]
    return fault


FILTERS = {
    'task = "sort_descending" AND budget.trainable <= 2000 AND metrics.accuracy.mean > 0.7 '
    'OR method IN ("soft_prompt")': {"lora", "soft_prompt"},
    "metrics.accuracy.mean > 0.5": {"lora", "prefix_tuning"},
    "metrics.accuracy.mean >= 0.525": {"lora", "prefix_tuning"},
    "metrics.accuracy.mean > 0.525": {"lora"},
    "NOT metrics.accuracy.mean > 0.525": {"prefix_tuning", "soft_prompt"},
    "metrics.accuracy.min = 0.5 AND metrics.accuracy.max = 0.55": {"prefix_tuning"},
    "metrics.final_loss.mean < 0.3": {"lora"},
    "metrics.accuracy.n = 2 AND method !~ LORA": {"prefix_tuning", "soft_prompt"},
    "method ~ TUN": {"prefix_tuning"},
    'method ~ "_"': {"prefix_tuning", "soft_prompt"},
    'method ~ "%"': set[str](),
    "method NOT IN (lora, soft_prompt, null)": {"prefix_tuning"},
    "labels.team IS NULL": {"soft_prompt"},
    "labels.team IS NOT NULL": {"lora", "prefix_tuning"},
    'labels.team IN ("x", null)': {"lora", "soft_prompt"},
    "labels.team ~ X": {"lora"},
    "NOT labels.team = x": {"prefix_tuning", "soft_prompt"},
    "spec.method.rank >= 1": {"lora"},
    "spec.training.steps = 4 AND spec.training.precision = float32": set(ARRAYS),
    "spec.training.steps = 5": set[str](),
    "seeds = 2 AND budget.stored_bytes > 0": set(ARRAYS),
    "spec.no.such.member IS NULL": set(ARRAYS),
}  # fmt: skip


def test_filters_choose_what_they_say(shared_api: TestClient, made: dict[str, str]) -> None:
    for text, expected in FILTERS.items():
        assert set(found(shared_api, made, text)) == expected, text
    jobs = {
        job["id"]
        for job in asked(shared_api, "/v1/jobs", filter="metrics.accuracy.mean > 0.7")["data"]
    }
    assert jobs == {made["lora"]}


def test_only_what_succeeded_is_a_result(shared_api: TestClient, made: dict[str, str]) -> None:
    states = asked(shared_api, fields="id,state", page_size=200)["data"]
    assert {row["state"] for row in states} == {"succeeded"}
    assert len(states) == 4  # with the base model
    assert len(asked(shared_api, "/v1/jobs")["data"]) == 6


def test_figures_are_those_of_the_seeds(shared_api: TestClient, made: dict[str, str]) -> None:
    (row,) = asked(shared_api, filter="method = lora")["data"]
    right = [300, 320]
    shares = [count / ITEMS for count in right]
    interval = seed_interval(right, [ITEMS, ITEMS])
    assert row["metrics.accuracy.n"] == 2
    assert row["metrics.accuracy.mean"] == pytest.approx(mean(shares))
    assert row["metrics.accuracy.sd"] == pytest.approx(stdev(shares))
    assert row["metrics.accuracy.low"] == pytest.approx(interval.low)
    assert row["metrics.accuracy.high"] == pytest.approx(interval.high)
    names = [f"metrics.{metric}.mean" for metric in ("base_accuracy", "accuracy_change")]
    (more,) = asked(shared_api, filter="method = lora", fields=",".join(names))["data"]
    assert more[names[0]] == pytest.approx(7 / ITEMS)
    assert more[names[1]] == pytest.approx(mean(shares) - 7 / ITEMS)


def test_rows_are_sorted_and_go_on_without_gap(
    shared_api: TestClient, made: dict[str, str]
) -> None:
    for order, expected in (
        ("-metrics.accuracy.mean", ["lora", "prefix_tuning", "soft_prompt"]),
        ("metrics.accuracy.mean", ["soft_prompt", "prefix_tuning", "lora"]),
        ("-created_at", ["soft_prompt", "prefix_tuning", "lora"]),
        ("budget.trainable", ["soft_prompt", "prefix_tuning", "lora"]),
    ):
        seen: list[str] = []
        token = None
        for _ in expected:
            more = {"page_token": token} if token else {}
            page = asked(shared_api, filter="kind = adapt", order_by=order, page_size=1, **more)
            seen += [row["method"] for row in page["data"]]
            token = page["next_page_token"]
        assert seen == expected, order
        assert token is None
    assert refused(shared_api, order_by="method")["pointer"] == "/query/order_by"


def test_rows_of_one_moment_are_all_there(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        moment = session.scalars(func.clock_timestamp().select()).one()
        for _ in range(5):
            a_job(session, state="succeeded", created_at=moment)
    seen: list[str] = []
    token: str | None = None
    while True:
        more = {"page_token": token} if token else {}
        page = asked(api, page_size=2, order_by="created_at", fields="id", **more)
        seen += [row["id"] for row in page["data"]]
        token = page["next_page_token"]
        if token is None:
            break
    assert len(seen) == len(set(seen)) == 6


def test_a_token_belongs_to_its_question(shared_api: TestClient, made: dict[str, str]) -> None:
    token = asked(shared_api, page_size=1)["next_page_token"]
    for other in ({"filter": "method = lora"}, {"order_by": "created_at"}):
        assert refused(shared_api, page_token=token, **other)["code"] == "invalid_page_token"
    assert refused(shared_api, "/v1/attention", page_token=token)["code"] == "invalid_page_token"


WRONG = {
    ("filter", "metrics.acuracy.mean > 0.9"): (1, "metrics.accuracy.mean"),
    ("filter", 'kind = adapt AND tsk = "copy"'): (18, "task"),
    ("filter", "method = lora AND kind = adopt"): (26, "adapt"),
    ("filter", "method = lora AND"): (18, None),
    ("filter", "metrics.accuracy.mean > 90%x"): (25, None),
    ("fields", "id,metod"): (None, "method"),
    ("order_by", "-finished"): (None, "finished_at"),
    ("group_by", "metod"): (None, "method"),
}


@pytest.mark.parametrize(("parameter", "text"), WRONG)
def test_a_mistake_is_pointed_at(shared_api: TestClient, parameter: str, text: str) -> None:
    column, nearest = WRONG[parameter, text]
    fault = refused(shared_api, **{parameter: text})
    assert fault["pointer"] == f"/query/{parameter}"
    assert fault.get("column") == column
    assert nearest is None or nearest in fault["nearest"]


def test_values_are_never_part_of_the_statement(
    shared_api: TestClient, made: dict[str, str]
) -> None:
    poison = "x'; DROP TABLE job_metrics; --"
    for text in (
        f'method = "{poison}"',
        f'method ~ "{poison}"',
        f'labels.team IN ("{poison}")',
        f'study = "{poison}"',
        f'spec.method.name = "{poison}"',
    ):
        assert found(shared_api, made, text) == []
    assert len(found(shared_api, made, "")) == 3


def test_what_is_of_another_project_is_not_there(
    api: TestClient, own: dict[str, str], sessions: Sessions
) -> None:
    with sessions.begin() as session:
        a_base_model(session, project="secret")
        a_job(session, an_adapt_spec(method="lora", budget=64), project="secret", owner="eve")
        theirs = a_token(session, "eve", ["read"])
        eve = a_user(session, "eve")
        session.execute(delete(Membership).where(Membership.user_id == eve))
        a_member(session, eve, "secret")
    run_all(sessions, lambda _: Run(right=40, deviation=0.5))
    everything = {
        "/v1/results": {"fields": "id,study,metrics.accuracy.mean"},
        "/v1/results?group_by=method": {},
        "/v1/results?format=csv": {},
        "/v1/results/curves": {},
        "/v1/attention": {},
    }
    as_admin = {path: api.get(path, params=more).text for path, more in everything.items()}
    api.headers["Authorization"] = f"Bearer {theirs}"
    for path, more in everything.items():
        answer = api.get(path, params=more)
        assert answer.status_code == 200, answer.text
        for job in own.values():
            assert job not in answer.text, path
        assert len(answer.text) < len(as_admin[path]), path
    assert [row["jobs"] for row in asked(api, group_by="method")["data"]] == [1]
    assert len(asked(api, "/v1/attention")["data"]) == 2


@pytest.fixture(params=[1, 10], ids=["more seeds than positions", "fewer"])
def positions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums by position in one statement; more seeds need a second one."""
    monkeypatch.setattr(result_groups, "POSITIONS", request.param)


@pytest.mark.usefixtures("positions")
def test_groups_count_a_seed_once(api: TestClient, sessions: Sessions) -> None:
    """Two jobs of a method at two budgets: means of seeds are averaged."""
    with sessions.begin() as session:
        a_base_model(session)
        for budget in (64, 128):
            a_job(session, an_adapt_spec(method="lora", budget=budget))
        a_job(session, an_adapt_spec())
    run_all(
        sessions,
        lambda spec: Run(
            right=40 if spec.method and spec.method["name"] != "lora" else 300,
            shift=100 if spec.budget.requested == 128 else 20,
            loss=float(spec.budget.requested or 0),
        ),
    )
    rows = asked(api, group_by="method")["data"]
    assert [row["method"] for row in rows] == ["lora", "prefix_tuning"]
    lora = rows[0]
    seeds = [(300 + 300) / 800, (320 + 400) / 800]
    interval = seed_interval([600, 720], [800, 800])
    assert (lora["jobs"], lora["n"]) == (2, 2)
    assert lora["mean"] == pytest.approx(mean(seeds))
    assert lora["sd"] == pytest.approx(stdev(seeds))
    assert (lora["low"], lora["high"]) == pytest.approx((interval.low, interval.high))
    cells = asked(api, group_by="method,budget", filter="method = lora")["data"]
    assert {(row["budget.requested"], row["jobs"]) for row in cells} == {(64, 1), (128, 1)}


@pytest.mark.usefixtures("positions")
def test_groups_of_other_metrics_have_students_interval(
    api: TestClient, sessions: Sessions
) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        a_job(session, an_adapt_spec(seeds=2))
        a_job(session, an_adapt_spec(seeds=5))
    run_all(sessions, lambda spec: Run(shift=4, loss=float(len(spec.seeds))))
    (row,) = asked(api, group_by="method", metric="final_loss")["data"]
    values = [3.5, 3.5, 5, 5, 5]  # two seeds were run twice
    low, high = stats.t.interval(0.95, 4, mean(values), stdev(values) / math.sqrt(5))
    assert (row["n"], row["jobs"]) == (5, 2)
    assert (row["low"], row["high"]) == pytest.approx((low, high))
    assert refused(api, group_by="method", metric="acuracy")["pointer"] == "/query/metric"


def test_groups_take_one_statement_and_only_the_tables_they_need(
    shared_api: TestClient, made: dict[str, str]
) -> None:
    """Two passes over 95,000 results took 1.4 s of processor time."""
    statements: list[str] = []

    def note(_: object, __: object, statement: str, *___: object) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        rows = asked(shared_api, group_by="method,budget")["data"]
        asked(shared_api, group_by="owner")
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert len(rows) == 3
    plain, by_owner = (one for one in statements if "job_metrics" in one)
    assert "JOIN users" not in plain
    assert "JOIN attempts" not in plain
    assert "JOIN users" in by_owner


def test_heads_are_found_by_what_they_do(shared_api: TestClient, made: dict[str, str]) -> None:
    every = asked(shared_api, "/v1/attention")["data"]
    assert [(row["layer"], row["id"]) for row in every] == [
        (1, made["prefix_tuning"]),
        (0, made["prefix_tuning"]),
    ]
    text = 'layer = 1 AND relative_deviation > 0.3 AND learned_mass >= 0.5 AND task ~ "sort"'
    (head,) = asked(shared_api, "/v1/attention", filter=text)["data"]
    assert (head["layer"], head["head"], head["source"]) == (1, 0, "adapted")
    assert head["relative_deviation"] == 0.9
    assert asked(shared_api, "/v1/attention", filter="learned_mass > 0.5")["data"] == []
    by_accuracy = "metrics.accuracy.mean > 0.5 AND layer = 0"
    assert len(asked(shared_api, "/v1/attention", filter=by_accuracy)["data"]) == 1
    assert refused(shared_api, "/v1/attention", filter="layr = 2")["nearest"][0] == "layer"


@pytest.mark.parametrize("order", ["divergence", "-divergence", "-relative_deviation"])
def test_heads_go_on_without_gap(shared_api: TestClient, made: dict[str, str], order: str) -> None:
    first = asked(shared_api, "/v1/attention", order_by=order, page_size=1)
    token = first["next_page_token"]
    second = asked(shared_api, "/v1/attention", order_by=order, page_size=1, page_token=token)
    assert {row["layer"] for page in (first, second) for row in page["data"]} == {0, 1}
    assert second["next_page_token"] is None


def test_a_csv_file_holds_everything_and_no_formula(
    shared_api: TestClient, made: dict[str, str]
) -> None:
    names = "id,method,labels.team,metrics.accuracy.mean,created_at"
    answer = shared_api.get(
        "/v1/results", params={"format": "csv", "fields": names, "order_by": "created_at"}
    )
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="results.csv"'
    table = csv.DictReader(io.StringIO(answer.text))
    _, *rows = table
    assert table.fieldnames == names.split(",")
    columns = ("method", "labels.team", "metrics.accuracy.mean")
    assert [tuple(row[column] for column in columns) for row in rows] == [
        ("lora", "x", "0.775"),
        ("prefix_tuning", "'=1+1", "0.525"),
        ("soft_prompt", "", "0.275"),
    ]


def test_lines_of_json_hold_everything(shared_api: TestClient, made: dict[str, str]) -> None:
    answer = shared_api.get("/v1/results", params={"format": "jsonl", "filter": "kind = adapt"})
    rows = [json.loads(line) for line in answer.text.splitlines()]
    assert rows == asked(shared_api, filter="kind = adapt")["data"]


def test_a_parquet_file_is_read_by_another_program(
    shared_api: TestClient, made: dict[str, str], tmp_path: Path
) -> None:
    names = "id,method,budget.trainable,metrics.accuracy.mean,created_at,labels.team"
    content = shared_api.get("/v1/results", params={"format": "parquet", "fields": names}).content
    file = tmp_path / "results.parquet"
    file.write_bytes(content)
    with duckdb.connect() as reader:
        described = reader.execute(f"DESCRIBE SELECT * FROM '{file}'").fetchall()
        rows = reader.execute(
            'SELECT id, method, "metrics.accuracy.mean", "labels.team", epoch_us(created_at) '
            f"FROM '{file}' ORDER BY 3 DESC NULLS LAST"
        ).fetchall()
    assert [(column, kind) for column, kind, *_ in described] == [
        ("id", "VARCHAR"), ("method", "VARCHAR"), ("budget.trainable", "BIGINT"),
        ("metrics.accuracy.mean", "DOUBLE"), ("created_at", "TIMESTAMP WITH TIME ZONE"),
        ("labels.team", "VARCHAR"),
    ]  # fmt: skip
    shown = {row["id"]: row for row in asked(shared_api, fields=names)["data"]}
    for row, name in zip(rows, ("lora", "prefix_tuning", "soft_prompt"), strict=False):
        same = shown[made[name]]
        moment = datetime.fromisoformat(same["created_at"]).timestamp()
        *values, microseconds = row
        assert values == [made[name], name, same["metrics.accuracy.mean"], same["labels.team"]]
        assert microseconds / 1e6 == pytest.approx(moment, abs=1e-6)
    assert len(rows) == 4


def test_exports_go_on_beyond_a_batch(
    api: TestClient, sessions: Sessions, monkeypatch: pytest.MonkeyPatch, own: dict[str, str]
) -> None:
    whole = api.get("/v1/results", params={"format": "jsonl"}).text
    curves = api.get("/v1/results/curves").text
    monkeypatch.setattr("adaptlab_services.results.bulk_rows.ROWS_AT_ONCE", 1)
    monkeypatch.setattr("adaptlab_services.results.bulk_rows.JOBS_AT_ONCE", 2)
    monkeypatch.setattr("adaptlab_services.results.bulk_rows.POINTS_AT_ONCE", 3)
    assert api.get("/v1/results", params={"format": "jsonl"}).text == whole
    rows = list(csv.reader(io.StringIO(api.get("/v1/results/curves").text)))
    assert sorted(rows) == sorted(csv.reader(io.StringIO(curves)))
    assert len(whole.splitlines()) == 4


def test_curves_come_whole(shared_api: TestClient, made: dict[str, str]) -> None:
    answer = shared_api.get(
        "/v1/results/curves", params={"filter": "method = lora", "format": "jsonl"}
    )
    points = [json.loads(line) for line in answer.text.splitlines()]
    stored = asked(shared_api, f"/v1/jobs/{made['lora']}/metrics")["data"]
    expected = {
        (curve["name"], curve["replicate"], step, value)
        for curve in stored
        for step, value in zip(curve["steps"], curve["values"], strict=True)
    }
    assert {(p["name"], p["replicate"], p["step"], p["value"]) for p in points} == expected
    assert {(p["id"], p["method"], p["task"]) for p in points} == {
        (made["lora"], "lora", "sort_descending")
    }
    assert {p["replicate"]: p["seed"] for p in points} == {0: 0, 1: 1}
    none = shared_api.get("/v1/results/curves", params={"filter": "method = lora", "names": "no"})
    assert len(none.text.splitlines()) == 1


def test_a_file_with_a_mistake_is_refused_before_it_begins(shared_api: TestClient) -> None:
    for form in ("csv", "jsonl", "parquet"):
        assert refused(shared_api, filter="tsk = 1", format=form)["pointer"] == "/query/filter"
        wrong = refused(shared_api, "/v1/results/curves", filter="tsk = 1", format=form)
        assert wrong["pointer"] == "/query/filter"


def test_every_field_can_be_asked_about(shared_api: TestClient, made: dict[str, str]) -> None:
    """The list of fields is true: all are shown, compared and sorted."""
    for subject in ("results", "attention"):
        fields = asked(shared_api, f"/v1/{subject}/fields")["data"]
        plain = [field for field in fields if "<" not in field["name"]]
        names = ",".join(field["name"] for field in plain)
        assert asked(shared_api, f"/v1/{subject}", fields=names)["data"]
        for field in plain:
            asked(shared_api, f"/v1/{subject}", filter=f"{field['name']} IS NOT NULL", fields="id")
            if field["type"] in ("integer", "number", "time"):
                page = asked(shared_api, f"/v1/{subject}", order_by=field["name"], page_size=1)
                if (token := page["next_page_token"]) is not None:
                    asked(shared_api, f"/v1/{subject}", order_by=field["name"], page_token=token)
