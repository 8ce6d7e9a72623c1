"""Queries over results from Python and the command line, by a server."""

import csv
import io
import json
from pathlib import Path

import pandas
import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import Invoke
from tests.comparing import ITEMS, Run, run_all
from tests.making import a_base_model, a_job, an_adapt_spec

from adaptlab_client import Client, InvalidRequest

RIGHT = {"lora": 300, "prefix_tuning": 200}


@pytest.fixture
def made(sessions: sessionmaker[Session]) -> dict[str, str]:
    """Two jobs that succeeded, by method, and their base model."""
    with sessions.begin() as session:
        a_base_model(session)
        made = {
            "lora": a_job(session, an_adapt_spec(method="lora", budget=64)),
            "prefix_tuning": a_job(session, an_adapt_spec(labels={"note": "=2+3"})),
        }
    run_all(
        sessions, lambda spec: Run(right=RIGHT[str((spec.method or {})["name"])], deviation=0.5)
    )
    return {name: str(job) for name, job in made.items()}


def test_a_query_goes_through_all_pages(
    client: Client, made: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adaptlab_client.resources.results.PAGE", 1)
    table = client.results.query("kind = adapt", order_by="-metrics.accuracy.mean")
    assert [row["id"] for row in table.rows()] == [made["lora"], made["prefix_tuning"]]
    assert len(client.results.query("kind = adapt", limit=1)) == 1
    nothing = client.results.query("kind = theory")
    assert (len(nothing), nothing.columns) == (0, table.columns[: len(nothing.columns)])
    assert "labels.note" in table.to_pandas().columns, "what varies is there unasked"


def test_a_data_frame_has_numbers_and_times(client: Client, made: dict[str, str]) -> None:
    names = ("method", "metrics.accuracy.mean", "created_at", "finished_at")
    table = client.results.query("kind = adapt", fields=names, order_by="created_at")
    frame = table.to_pandas()
    assert tuple(frame.columns) == names
    assert frame["metrics.accuracy.mean"].tolist() == [300 / ITEMS, 200 / ITEMS]
    assert frame["created_at"].is_monotonic_increasing
    assert str(frame["created_at"].dt.tz) == "UTC"


def test_a_mistake_says_its_column(client: Client) -> None:
    with pytest.raises(InvalidRequest) as caught:
        client.results.query("kind = adapt AND metod = lora")
    (fault,) = caught.value.problem.errors
    assert (fault.column, fault.nearest[0]) == (18, "method")


def test_the_command_line_lists_results(invoke: Invoke, made: dict[str, str]) -> None:
    chosen = ("--filter", "kind = adapt", "--order-by", "created_at")
    fields = ("--fields", "id,metrics.accuracy.mean,labels.note")
    table = invoke("results", "list", *chosen, *fields)
    assert table.exit_code == 0
    assert made["lora"] in table.stdout
    assert "0.75" in table.stdout
    values = json.loads(invoke("results", "list", *chosen, *fields, "-o", "json").stdout)
    assert [row["id"] for row in values] == [*made.values()]
    lines = invoke("results", "list", *chosen, *fields, "-o", "jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == values
    written = invoke("results", "list", *chosen, *fields, "-o", "csv").stdout
    notes = [row["labels.note"] for row in csv.DictReader(io.StringIO(written))]
    assert notes == ["", "'=2+3"]
    one = invoke("results", "list", *chosen, "--limit", "1", "-o", "jsonl")
    assert len(one.stdout.splitlines()) == 1


def test_the_command_line_groups_and_exports(
    invoke: Invoke, made: dict[str, str], tmp_path: Path
) -> None:
    grouped = invoke("results", "groups", "--by", "method,task", "-o", "jsonl")
    assert [json.loads(line)["mean"] for line in grouped.stdout.splitlines()] == [0.75, 0.5]
    heads = invoke("results", "heads", "--filter", "layer = 1", "-o", "jsonl")
    assert len(heads.stdout.splitlines()) == 2
    assert "spec.<path>" in invoke("results", "fields").stdout
    for name in ("r.csv", "r.jsonl", "r.parquet"):
        assert invoke("results", "export", str(tmp_path / name)).exit_code == 0
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 3
    assert len(pandas.read_csv(tmp_path / "r.csv")) == 3
    curves = invoke("results", "curves", str(tmp_path / "c.jsonl"), "--name", "train_loss")
    assert curves.exit_code == 0
    names = {json.loads(line)["name"] for line in (tmp_path / "c.jsonl").read_text().splitlines()}
    assert names == {"train_loss"}


def test_what_makes_no_sense_is_exit_code_2(invoke: Invoke, tmp_path: Path) -> None:
    wrong = invoke("results", "list", "--filter", "metod = lora")
    assert wrong.exit_code == 2
    assert "nearest: method" in wrong.stderr
    assert invoke("results", "export", str(tmp_path / "results.xlsx")).exit_code == 2


def test_results_at_80_columns_break_no_word(invoke: Invoke, made: dict[str, str]) -> None:
    done = invoke("results", "list", COLUMNS="80")
    assert done.exit_code == 0, done.output
    header, *lines = done.stdout.splitlines()
    assert max(map(len, (header, *lines))) <= 80
    assert {"id", "task", "method", "metrics.accuracy.mean"} <= set(header.split())
    shown = {line.split()[0] for line in lines}
    everything = invoke("results", "list", "-o", "id").stdout.split()
    assert shown == {one[:8] for one in everything}
    assert "too narrow for" in done.stderr


@pytest.mark.parametrize("state", [(), ("--state", "queued")])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("methd = lora", "'methd' of jobs at character 1"),
        ("method = lora AND", "At character 18, a field is expected, not the end"),
        ("method = lora)", "At character 14, AND, OR or the end is expected, not ')'"),
    ],
)
def test_positions_are_those_of_the_filter_as_it_was_typed(
    invoke: Invoke, state: tuple[str, ...], text: str, told: str
) -> None:
    done = invoke("jobs", "list", *state, "--filter", text)
    assert done.exit_code == 2
    assert told in done.stderr
