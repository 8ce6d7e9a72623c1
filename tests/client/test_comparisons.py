"""Comparisons from Python and from the command line, against the real API."""

import csv
import io
import json
import sys
from typing import Any

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import Invoke
from tests.comparing import ENOUGH_BASES, Run, a_measured_job, a_measured_study, as_known, run_all
from tests.making import BASE, a_base_model

from adaptlab_answers.comparisons import ComparisonProgress
from adaptlab_client import Client, WaitTimedOut
from adaptlab_client.cli.commands import compare
from adaptlab_services.comparisons.comparison_runs import ComparisonRuns

Sessions = sessionmaker[Session]


@pytest.fixture
def base(sessions: Sessions) -> None:
    """A base model that can be adapted."""
    with sessions.begin() as session:
        a_base_model(session, contents=ENOUGH_BASES)


@pytest.fixture
def study(client: Client, sessions: Sessions, base: None) -> str:
    """The name of a study that has been measured."""
    return measured(client, sessions)


@pytest.fixture(scope="module")
def shared_study(shared_client: Client, shared_sessions: Sessions) -> str:
    """The same, for tests that only read."""
    with shared_sessions.begin() as session:
        a_base_model(session, contents=ENOUGH_BASES)
    return measured(shared_client, shared_sessions)


def measured(client: Client, sessions: Sessions) -> str:
    methods = ["frozen", "full_finetuning", "prefix_tuning", "lora", "attention_bias"]
    client.studies.create(a_measured_study(methods=methods, seeds=5))
    run_all(sessions, as_known)
    return "small"


def test_a_single_best_has_a_corrected_score(
    client: Client, sessions: Sessions, base: None, invoke: Invoke
) -> None:
    methods = ["frozen", "lora", "prefix_tuning"]
    client.studies.create(a_measured_study(methods=methods, budgets=[64], seeds=5))
    run_all(sessions, as_known)
    comparison = client.studies.comparison("small").tables[0].comparison
    assert comparison is not None
    (cell,) = comparison.cells
    assert cell.best == ("lora at 64",)
    assert cell.chosen is not None
    assert (cell.chosen.candidates, cell.chosen.corrected) == (3, 1.0)
    (lora,) = [row for row in cell.rows if row.method == "lora"]
    assert cell.chosen.score.low < lora.score.low
    assert "LoRA (100.0 %) is the best" in invoke("compare", "small").stdout


def test_an_undecided_diagnosis_has_the_run_that_would_extend_the_study(
    client: Client, study: str
) -> None:
    (table,) = client.studies.comparison(study).tables
    assert {one.diagnosis.cause for one in table.diagnoses if one.method == "prefix_tuning"} == {
        "undecided"
    }
    next_run = table.diagnoses[0].diagnosis.next_run
    assert next_run is not None
    assert client.studies.extend(study, next_run).name == "small"


def test_rows_are_those_of_the_servers_table(shared_client: Client, shared_study: str) -> None:
    rows = [*shared_client.studies.comparison(shared_study).rows()]
    lines = [*csv.DictReader(io.StringIO(shared_client.comparisons.csv(study=shared_study)))]
    assert len(rows) == len(lines) == 10
    for row, line in zip(rows, lines, strict=True):
        assert set(line) - set(row) == {"state", "warnings", "text"}
        told = {n: "" if value is None else str(value).lower() for n, value in row.items()}
        assert told == {name: line[name].lower() for name in row}


def test_rows_become_a_data_frame(shared_client: Client, shared_study: str) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = shared_client.studies.comparison(shared_study).to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame[frame.method == "lora"].score.tolist() == [0.75, 1.0]


def test_without_pandas_it_is_said_what_to_do(
    client: Client, study: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        client.studies.comparison(study).to_pandas()


def test_jobs_are_compared(client: Client, invoke: Invoke, sessions: Sessions, base: None) -> None:
    first = client.jobs.submit(a_measured_job(method="lora", budget=64)).id
    shorter = {"steps": 10, "batch_size": 4}
    second = client.jobs.submit(a_measured_job(method="ia3", budget=64, training=shorter)).id
    run_all(sessions, as_known)
    found = client.comparisons.jobs([first, second])
    assert [warning.kind for warning in found.warnings] == ["not_comparable"]
    told = invoke("compare", first, second)
    assert told.exit_code == 0, told.output
    text = " ".join(told.stdout.split())
    assert "No verdict, because the jobs differ in settings that void the comparison" in text
    assert "/training/steps differs" in text
    assert "is the best" not in text
    table = invoke("compare", first, second, "-o", "csv").stdout
    assert [one["voided"] for one in csv.DictReader(io.StringIO(table))] == ["true", "true"]


def test_a_comparison_at_the_command_line(invoke: Invoke, study: str) -> None:
    told = invoke("compare", study)
    assert told.exit_code == 0, told.output
    short = " ".join(told.stdout.split())
    for text in (
        f"sort_descending(length=3, alphabet=4) on {BASE}",
        "At up to 32 trained parameters, LoRA (75.0 %) is the best; the frozen base (0.0 %), ",
        "Full fine-tuning (ref) 1,024 100.0",
        "With 5 seeds, up to 45 % of other seeds may fail",
        "Cheapest that is shown to be within 1 point of full fine-tuning: LoRA with 64 parameters",
        "The base's own tasks, before and after",
        "Details: the same command with --all-pairs",
    ):
        assert text in short, text
    (row,) = [line.split() for line in told.stdout.splitlines() if line.startswith("LoRA  ")][:1]
    assert row[:3] == ["LoRA", "32", "75.0"]
    assert row[-5:-1] == ["5", "of", "5", "best"] or row[-4:] == ["5", "of", "5", "best"]
    assert json.loads(invoke("compare", "--study", study, "-o", "json").stdout)["study"]
    assert invoke("compare", study, "-o", "csv").stdout.startswith("base_model,task,budget,")
    everything = " ".join(invoke("compare", study, "--all-pairs").stdout.split())
    for text in (
        "The frozen base is worse than full fine-tuning (-100.0 points",
        "Undecided why prefix-tuning at 32 fails: 3 measurements are missing.",
        '{"name": "pinned_finetuning", ',
        "Right items over all seeds, with failures that none showed",
    ):
        assert text in everything, text
        assert text not in short


def test_many_changes_of_old_skills_are_one_line(
    invoke: Invoke, study: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "MOST_CHANGES", 0)
    short = " ".join(invoke("compare", study).stdout.split())
    assert "The base's own tasks change by" in short
    assert "before and after" not in short
    assert "before and after" in invoke("compare", study, "--all-pairs").stdout


def test_what_is_missing_stands_above_the_table(
    invoke: Invoke, client: Client, sessions: Sessions, base: None
) -> None:
    client.studies.create(a_measured_study(budgets=[16, 64]))
    assert "No scores yet." in invoke("compare", "small").stdout
    run_all(sessions, lambda s: Run(fails=(s.method or {})["name"] == "prefix_tuning", right=200))
    told = invoke("compare", "small").stdout
    text = " ".join(told.split())
    assert "Scores are missing: " in text
    assert "failed (diverged): The loss is not finite." in text
    assert "LoRA at 16 was left out" in text


def test_what_makes_no_sense_is_refused(invoke: Invoke, study: str) -> None:
    assert invoke("compare").exit_code == 2
    assert invoke("compare", "--study", study, "a-job").exit_code == 2
    assert invoke("compare", "nobody").exit_code == 5
    assert invoke("compare", study, "--margin", "7").exit_code == 2


def test_a_comparison_that_is_being_computed_is_waited_for(
    client: Client, invoke: Invoke, study: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answers and the deadline say how much is ready."""
    answer, asked = ComparisonRuns.answer, list[int]()

    def late(runs: ComparisonRuns, units: Any, question: Any) -> Any:
        asked.append(1)
        if len(asked) <= 2:
            return ComparisonProgress(study=None, tables=12, computed=3)
        return answer(runs, units, question)

    monkeypatch.setattr(ComparisonRuns, "answer", late)
    heard: list[tuple[int, int]] = []
    found = client.comparisons.study(
        study, on_progress=lambda one: heard.append((one.computed, one.tables))
    )
    assert (found.study.name, heard) == ("small", [(3, 12), (3, 12)])
    asked.clear()
    with pytest.raises(WaitTimedOut, match="3 of 12 tables computed"):
        client.comparisons.study(study, timeout=0)
    asked.clear()
    assert client.comparisons.csv(study=study).startswith("base_model,")
    asked.clear()
    shown = invoke("compare", study)
    assert shown.exit_code == 0
    assert "Computing the comparison: 3 of 12 tables are ready." in shown.stderr


def test_one_word_is_a_study_or_a_job(client: Client, invoke: Invoke, study: str) -> None:
    job = str(next(iter(client.jobs.list(filter="method = lora"))).id)
    whole = invoke("compare", job, "-o", "json")
    assert whole.exit_code == 0, whole.output
    assert invoke("compare", job[-8:], "-o", "json").stdout == whole.stdout
    of_study = invoke("compare", str(client.studies.get(study).id)[:8], "-o", "json")
    assert json.loads(of_study.stdout)["study"]["name"] == study
    unknown = invoke("compare", "nobody")
    assert unknown.exit_code == 5
    assert "There is no study and no job 'nobody'" in unknown.stderr


def test_waiting_for_a_study_ends_with_what_was_found(
    shared_invoke: Invoke, shared_study: str
) -> None:
    waited = shared_invoke("studies", "wait", shared_study)
    (table,) = json.loads(shared_invoke("compare", shared_study, "-o", "json").stdout)["tables"]
    assert waited.stdout.rstrip().endswith(table["comparison"]["sentence"])
    assert table["comparison"]["sentence"]
