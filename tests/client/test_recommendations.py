"""Recommendations from Python and the command line, by the real API."""

import csv
import io
import json

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import Invoke
from tests.comparing import ENOUGH_BASES, Run, a_measured_job, run_all
from tests.making import BASE, a_base_model

from adaptlab_client import Client

Sessions = sessionmaker[Session]
TASK = {"name": "sort_descending", "length": 3, "alphabet": 4}
OPTIONS = ("--base-model", BASE, "--budget", "64", "--method", "lora", "--method", "prefix_tuning")


@pytest.fixture(autouse=True)
def base(sessions: Sessions) -> None:
    """A base model that can be adapted."""
    with sessions.begin() as session:
        a_base_model(session, contents=ENOUGH_BASES)


@pytest.fixture
def measured(client: Client, sessions: Sessions, base: None) -> None:
    """LoRA, of which 80 % is right."""
    client.jobs.submit(a_measured_job(method="lora", budget=64))
    run_all(sessions, lambda _: Run(right=320))


def test_from_the_command_line(invoke: Invoke, measured: None) -> None:
    done = invoke("recommend", json.dumps(TASK), *OPTIONS)
    assert done.exit_code == 0, done.stderr
    assert "LoRA at 64, which scored 80.0 %" in done.stdout
    assert "no_run: No comparable run of prefix-tuning" in done.stdout
    assert "missing_method" in done.stdout
    assert " 80.0 % " in done.stdout, "in per cent, as elsewhere"


def test_a_table_for_programs_and_jobs_that_can_be_sent(invoke: Invoke, measured: None) -> None:
    asked = ("recommend", json.dumps(TASK), *OPTIONS)
    (filed,) = csv.DictReader(io.StringIO(invoke(*asked, "-o", "csv").stdout))
    assert float(filed["score"]) == pytest.approx(0.8)
    assert float(filed["low"]) < 0.8 < float(filed["high"])
    whole = json.loads(invoke(*asked, "-o", "json").stdout)
    lines = invoke(*asked, "-o", "jobs").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [one["spec"] for one in whole["jobs"]]
    assert len(lines) == 2  # five seeds can decide
    sent = invoke("jobs", "submit", "-", given=lines[0])
    assert sent.exit_code == 0, sent.stderr


def test_without_results_there_is_a_first_study(invoke: Invoke) -> None:
    done = invoke("recommend", json.dumps(TASK), *OPTIONS)
    assert done.exit_code == 0, done.stderr
    assert "There are no comparable results for" in done.stdout
    assert '"budgets": [' in done.stdout
    wrong = invoke("recommend", "add", "--base-model", BASE)
    assert (wrong.exit_code, "--budget" in wrong.stderr) == (2, True)
