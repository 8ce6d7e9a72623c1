"""Comparisons over HTTP: JSON and CSV, what is refused, and who may look."""

import csv
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import ENOUGH_BASES, Run, a_measured_study, as_known, run_all
from tests.making import a_base_model

from adaptlab.comparisons.table_comparison import TableComparison
from adaptlab_services.comparisons import comparison_runs
from adaptlab_services.comparisons.comparison_groups import ComparedTable
from adaptlab_services.comparisons.comparison_inputs import Strictness

Sessions = sessionmaker[Session]
PLACE = "/v1/studies/small/comparison"


@pytest.fixture
def study(api: TestClient, sessions: Sessions) -> str:
    """A study that has been measured; the address of its comparison."""
    return measured(api, sessions)


@pytest.fixture(scope="module")
def shared_study(shared_api: TestClient, shared_sessions: Sessions) -> str:
    """The same, for tests that only read."""
    return measured(shared_api, shared_sessions)


def measured(api: TestClient, sessions: Sessions) -> str:
    with sessions.begin() as session:
        a_base_model(session, contents=ENOUGH_BASES)
    answer = api.post("/v1/studies", json=a_measured_study())
    assert answer.status_code == 201, answer.text
    run_all(sessions, as_known)
    return answer.json()["links"]["comparison"]


def test_a_study_is_compared(shared_api: TestClient, shared_study: str) -> None:
    answer = shared_api.get(shared_study)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["study"]["name"] == "small"
    assert (found["warnings"], found["level"], found["margin"]) == ([], 0.95, 0.01)
    (table,) = found["tables"]
    cell = table["comparison"]["cells"][1]
    # Three seeds exclude nothing, and full fine-tuning is beyond the budget.
    assert cell["best"] == ["frozen", "prefix_tuning at 64", "lora at 64"]
    assert table["reports"][1]["headline"].startswith("At up to 64 trained parameters, LoRA (100")
    assert cell["rows"][3]["score"]["mean"] == 1.0


def test_a_comparison_is_the_same_by_name_and_is_not_sent_twice(
    shared_api: TestClient, shared_study: str
) -> None:
    answer = shared_api.get(shared_study)
    assert shared_api.get(PLACE).json() == answer.json()
    known = {"If-None-Match": answer.headers["etag"]}
    assert shared_api.get(shared_study, headers=known).status_code == 304


def test_level_and_margin_are_asked_for(shared_api: TestClient, shared_study: str) -> None:
    found = shared_api.get(shared_study, params={"level": 0.8, "margin": 0.05}).json()
    assert found["tables"][0]["comparison"]["level"] == 0.8
    assert found["tables"][0]["comparison"]["margin"] == 0.05
    for wrong in ({"level": 1}, {"margin": -0.1}, {"format": "xlsx"}, {"levl": 0.9}):
        answer = shared_api.get(shared_study, params=wrong)
        assert (answer.status_code, next(iter(wrong)) in answer.text) == (422, True)


@pytest.mark.parametrize(
    ("headers", "params"), [({"Accept": "text/csv"}, {}), ({}, {"format": "csv"})]
)
def test_a_comparison_is_a_table(
    shared_api: TestClient, shared_study: str, headers: dict[str, str], params: dict[str, str]
) -> None:
    answer = shared_api.get(shared_study, headers=headers, params=params)
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    lines = [*csv.DictReader(io.StringIO(answer.text))]
    assert [(one["budget"], one["method"], one["score"]) for one in lines] == [
        ("32", "frozen", "0.0"),
        ("32", "full_finetuning", "1.0"),
        ("32", "prefix_tuning", "0.01"),
        ("32", "lora", "0.75"),
        ("64", "frozen", "0.0"),
        ("64", "full_finetuning", "1.0"),
        ("64", "prefix_tuning", "0.01"),
        ("64", "lora", "1.0"),
    ]
    lora = lines[3]
    assert (lora["could_be_best"], lora["rank_low"], lora["seeds"]) == ("true", "1", "3")
    assert (lora["trials"], lora["steps"], lora["items"], lora["voided"]) == (
        "3", "20", "400", "false",
    )  # fmt: skip
    assert float(lora["low"]) < 0.75 < float(lora["high"])


def test_missing_scores_and_warnings_are_in_the_table(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_base_model(session, contents=ENOUGH_BASES)
    methods = ["frozen", {"name": "lora", "label": "=HYPERLINK(1)"}]
    spec = a_measured_study(methods=methods, budgets=[64], seeds=2)
    api.post("/v1/studies", json=spec)
    (empty,) = api.get(PLACE).json()["tables"]
    assert empty["comparison"] is None
    assert [one["state"] for one in empty["missing"]] == ["queued", "queued"]
    run_all(sessions, lambda s: Run(fails=(s.method or {})["name"] == "lora"))
    frozen, row, lora = csv.DictReader(io.StringIO(api.get(PLACE, params={"format": "csv"}).text))
    assert (frozen["state"], frozen["warnings"]) == ("scored", "few_seeds")
    assert (row["state"], row["seeds"], row["seeds_ok"]) == ("scored", "2", "0")
    assert (lora["state"], lora["score"], lora["warnings"]) == ("failed", "", "missing")
    # What a spreadsheet would compute is a text.
    assert lora["method"] == "'=HYPERLINK(1)"
    assert "diverged" in lora["text"]


def test_a_comparison_that_takes_longer_is_waited_for(
    api: TestClient, study: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison_runs, "PATIENCE_SECONDS", 0)
    with held_tables(monkeypatch):
        for place in (study, f"{study}?format=csv"):
            answer = api.get(place)
            assert (answer.status_code, answer.headers["retry-after"]) == (202, "1")
            assert "etag" not in answer.headers
            progress = answer.json()
            assert progress["study"]["name"] == "small"
            assert (progress["object"], progress["tables"]) == ("comparison.progress", 1)
        page = api.get("/studies/small")
        assert (page.status_code, "0 of 1 table is ready" in page.text) == (200, True)
    monkeypatch.undo()
    assert api.get(study).status_code == 200


@contextmanager
def held_tables(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No table is computed before the block ends."""
    opened, compute = threading.Event(), comparison_runs.compared_table

    def hold(table: ComparedTable, strictness: Strictness) -> TableComparison:
        assert opened.wait(60)
        return compute(table, strictness)

    monkeypatch.setattr(comparison_runs, "compared_table", hold)
    try:
        yield
    finally:
        opened.set()
