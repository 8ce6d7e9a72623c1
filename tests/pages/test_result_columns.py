"""Columns of the page of results: what differs, what is chosen, and files."""

import csv
import html
import io
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import Run, run_all
from tests.making import a_base_model, a_job, a_token, an_adapt_spec

from adaptlab_api.app import create_app
from adaptlab_services.settings import Settings

SWEEP = "labels.same = yes"


@pytest.fixture(scope="module")
def reader(
    shared_settings: Settings, shared_sessions: sessionmaker[Session]
) -> Iterator[TestClient]:
    """A reader of two jobs that differ in steps, learning rate and a label."""
    with shared_sessions.begin() as session:
        a_base_model(session)
        for steps, rate, note in ((20, 0.01, "=1+1"), (40, 0.25, "plain")):
            training = {"steps": steps, "learning_rate": rate}
            labels = {"note": note, "same": "yes"}
            a_job(session, an_adapt_spec(training=training, labels=labels))
        header = {"Authorization": f"Bearer {a_token(session)}"}
    run_all(shared_sessions, lambda _: Run(right=100))
    with TestClient(create_app(shared_settings), headers=header) as client:
        yield client


def page(reader: TestClient, *pairs: tuple[str, str]) -> Any:
    return reader.get(f"/results?{urlencode([('filter', SWEEP), *pairs])}")


def csv_of(reader: TestClient, answer: Any) -> list[list[str]]:
    link = html.unescape(re.findall(r'href="(/v1/results[^"]*)" download', answer.text)[0])
    return list(csv.reader(io.StringIO(reader.get(link).text)))


def test_fields_that_differ_are_columns_of_page_and_file(reader: TestClient) -> None:
    answer = page(reader, ("order_by", "created_at"))
    for heading in ("note", "learning rates", "training steps"):
        assert f'data-label="{heading}"' in answer.text
    assert 'data-label="same"' not in answer.text
    names, *rows = csv_of(reader, answer)
    chosen = [names.index(one) for one in ("labels.note", "learning_rates", "spec.training.steps")]
    assert [[row[place] for place in chosen] for row in rows[-2:]] == [
        ["'=1+1", "0.01", "20"],
        ["plain", "0.25", "40"],
    ]


def test_numbers_of_a_spec_are_numbers(reader: TestClient) -> None:
    asked = {"filter": SWEEP, "fields": "spec.training.steps,learning_rates"}
    rows = reader.get("/v1/results", params=asked).json()["data"]
    assert sorted(tuple(row.values()) for row in rows) == [(20, 0.01), (40, 0.25)]
    assert reader.get("/v1/results", params={"filter": "learning_rates > 0.2"}).json()["data"]


def test_varying_stands_for_the_fields_that_differ(reader: TestClient) -> None:
    def columns(fields: str) -> list[str]:
        answer = reader.get("/v1/results", params={"filter": SWEEP, "fields": fields}).json()
        return [column["name"] for column in answer["columns"]]

    differing = ["labels.note", "learning_rates", "spec.training.steps"]
    usual = columns("")
    assert columns("varying") == [*usual, *differing]
    assert columns("id,varying,labels.note") == ["id", *differing[1:], "labels.note"]


def test_columns_can_be_chosen_and_are_kept(reader: TestClient) -> None:
    chosen = (("columns", "method"), ("columns", "spec.training.batch_size, queue"))
    answer = page(reader, *chosen)
    assert csv_of(reader, answer)[0] == ["method", "spec.training.batch_size", "queue"]
    assert re.findall(r'name="columns" value="(.*?)" checked', answer.text) == [
        "method", "spec.training.batch_size", "queue",
    ]  # fmt: skip
    assert 'value="method,spec.training.batch_size,queue"' in answer.text  # of the filter's form
    assert page(reader, ("columns", "no_such_field")).status_code == 400
