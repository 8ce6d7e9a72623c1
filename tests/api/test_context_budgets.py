"""Studies that are matched by context tokens, over HTTP and on pages."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.api.measured import PLACE as BUNDLE
from tests.api.measured import a_study
from tests.api.stored import fault
from tests.comparing import Run, a_measured_study
from tests.making import an_adapt_document

from adaptlab.bundle.checking import check_bundle
from adaptlab.specs.spec import ResolvedSpec
from adaptlab_db.tables import Job

Sessions = sessionmaker[Session]
OF_ITS_OWN = {"name": "soft_prompt", "length": 3, "initial_scale": 0.5}
METHODS = ["prefix_tuning", "soft_prompt", {"name": "lora", "rank": 2}, "full_finetuning"]
BUDGETS = [{"context_tokens": 2}, {"context_tokens": 4}]


def by_length(spec: ResolvedSpec) -> Run:
    """Prefix and prompt hardly learn anything, and the others all of it."""
    length = (spec.method or {}).get("length")
    if (spec.method or {}).get("name") == "prefix_tuning":
        return Run(right=5 * int(str(length)), shift=1, loss=1.3, own_task=(380, 340))
    return (
        Run(right=5, loss=1.3, own_task=(380, 340))
        if length
        else Run(right=400, shift=-1, loss=0.01)
    )


@pytest.fixture(scope="module")
def study(shared_api: TestClient, shared_sessions: Sessions) -> TestClient:
    """A client of a server with the measured study."""
    a_study(shared_api, shared_sessions, by_length, methods=METHODS, budgets=BUDGETS, seeds=5)
    return shared_api


def comparison_of(answer: httpx2.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    (table,) = answer.json()["tables"]
    return table["comparison"]


def test_the_comparison_says_which_axis_is_matched(study: TestClient) -> None:
    found = comparison_of(study.get("/v1/studies/small/comparison"))
    assert found["axis"] == "context_tokens"
    assert [cell["budget"] for cell in found["cells"]] == [2, 4]
    curves = {curve["method"]: curve["points"] for curve in found["curves"]}
    assert [point["budget"] for point in curves["prefix_tuning"]] == [2, 4]
    assert "lora(rank=2)" not in curves  # the same at every budget
    assert "At a budget of 2 context tokens: " in found["sentence"]


def test_the_study_says_it_too_and_its_plan_what_is_unused(study: TestClient) -> None:
    assert study.get("/v1/studies/small").json()["budget_axis"] == "context_tokens"
    spec = a_measured_study(name="other", methods=METHODS, budgets=BUDGETS)
    found = study.post("/v1/studies?validate_only=true", json=spec).json()
    assert found["budget_axis"] == "context_tokens"
    gaps = {(cell["method"], cell["budget"]): cell["gap"] for cell in found["cells"]}
    assert gaps["prefix_tuning", 4] == gaps["soft_prompt", 2] == 0
    assert gaps["lora(rank=2)", 4] == gaps["full_finetuning", 4] == 4
    assert not any(cell["over_budget"] for cell in found["cells"])


def test_lines_of_the_csv_have_axis_and_positions(study: TestClient) -> None:
    text = study.get("/v1/studies/small/comparison", params={"format": "csv"}).text
    lines = [*csv.DictReader(io.StringIO(text, newline=""))]
    assert {line["budget_axis"] for line in lines} == {"context_tokens"}
    taken = {(line["method"], line["budget"]): line["context_tokens"] for line in lines}
    assert (taken["prefix_tuning", "4"], taken["lora(rank=2)", "4"]) == ("4", "0")
    steps = {(line["seeds"], line["trials"], line["steps"]) for line in lines}
    ((seeds, trials, each),) = steps
    passes = str(int(seeds) * int(trials) * int(each))
    assert {(line["forward_passes"], line["backward_passes"]) for line in lines} == {
        (passes, passes)
    }
    for line in lines:
        assert int(line["stored_bits"]) == 32 * int(line["parameters"])


def test_its_bundle_is_checked_from_its_outcomes(study: TestClient, tmp_path: Path) -> None:
    (tmp_path / "bundle.zip").write_bytes(study.get(BUNDLE).content)
    checked = check_bundle(tmp_path / "bundle.zip")
    assert checked.findings == ()


def test_a_job_that_asks_for_positions_asks_for_no_parameters(
    study: TestClient, shared_sessions: Sessions
) -> None:
    with shared_sessions() as session:
        rows = session.scalars(select(Job).where(Job.method == "prefix_tuning")).all()
        assert {row.budget_requested for row in rows} == {None}
    found = study.get(f"/v1/jobs/{rows[0].id}").json()["budget"]
    assert (found["axis"], found["requested"], found["gap"]) == (
        "context_tokens",
        found["extra_context_tokens"],
        0,
    )


def test_jobs_of_both_axes_are_compared_in_one_cell(
    study: TestClient, shared_sessions: Sessions
) -> None:
    with shared_sessions() as session:
        ids = session.scalars(select(Job.id).where(Job.kind == "adapt")).all()
    in_tokens = comparison_of(study.get("/v1/comparison", params={"job": [*map(str, ids)]}))
    assert in_tokens["axis"] == "context_tokens"
    document = an_adapt_document(budget=64, method={"name": "lora"})
    other = study.post("/v1/jobs", json=document).json()["id"]
    places = {"job": [*map(str, ids), other]}
    both = study.get("/v1/comparison", params=places)
    (table,) = both.json()["tables"]
    assert {method["budget"] for method in table["methods"]} == {None}
    assert len(table["comparison"]["cells"]) == 1


def test_the_solver_answers_on_the_axis(study: TestClient) -> None:
    question = {"base_model": "tiny-sort", "budget": {"context_tokens": 3}}
    found = study.post("/v1/budgets/solve", json=question).json()
    assert (found["axis"], found["requested"]) == ("context_tokens", 3)
    answers = {one["name"]: one for one in found["data"]}
    assert answers["soft_prompt"]["method"]["length"] == 3
    assert answers["lora"]["problems"][0]["code"] == "budget_of_other_axis"


def test_a_recommendation_is_for_parameters(study: TestClient) -> None:
    question = {
        "base_model": "tiny-sort",
        "task": {"name": "sort_descending", "length": 3, "alphabet": 4},
        "budget": {"context_tokens": 3},
    }
    answer = study.post("/v1/recommendations", json=question)
    assert answer.status_code == 422
    assert fault(answer)["pointer"] == "/budget/context_tokens"
    assert "trainable parameters" in json.dumps(answer.json())


def test_a_method_with_a_length_of_its_own_is_extended_on_the_axis_too(
    api: TestClient, sessions: Sessions
) -> None:
    methods = [OF_ITS_OWN, "full_finetuning"]
    a_study(api, sessions, by_length, methods=methods, budgets=BUDGETS[1:], seeds=5)
    (table,) = api.get("/v1/studies/small/comparison").json()["tables"]
    missing = {one["method"]: one["diagnosis"]["next_run"] for one in table["diagnoses"]}
    (extension,) = missing.values()
    lengths = [one.get("length") for one in extension["controls"]]
    assert lengths == [3, 6, None, None]  # pinned fine-tuning and LoRA have none
    assert {"rank", "name"} <= extension["controls"][-1].keys()


def test_a_run_that_is_missing_is_on_the_same_axis(study: TestClient) -> None:
    (table,) = study.get("/v1/studies/small/comparison").json()["tables"]
    missing = {one["label"]: one["diagnosis"]["next_run"] for one in table["diagnoses"]}
    extension = missing["soft_prompt at 4"]
    assert [one.get("length") for one in extension["controls"]] == [4, 8, None, None]
    answer = study.post("/v1/studies/small/extend", json=extension)
    assert answer.status_code == 200, answer.text
    cells = answer.json()["cells"]
    assert {cell["budget"] for cell in cells} == {2, 4}
    assert {cell["role"] for cell in cells} == {"method", "reference", "control"}
