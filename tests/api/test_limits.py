"""What is too large is refused when it is submitted, by a problem that names the limit."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_pretrain_document, a_study_document, an_adapt_document

from adaptlab import spec
from adaptlab.bundle import bounds
from adaptlab.bundle.contents import MOST_PLOTS
from adaptlab.bundle.reading import LARGEST_BUNDLE, LARGEST_MEMBER, MOST_MEMBERS
from adaptlab_api import body_limit, http_protocol, open_requests, request_rate, strict_json
from adaptlab_api.app import create_app
from adaptlab_api.pages.submit_routes import MOST_FIELDS
from adaptlab_api.routes.jobs import LONGEST_WAIT
from adaptlab_services.comparisons import (
    comparison_groups,
    comparison_results,
    comparison_runs,
    comparisons,
    plot_drawing,
)
from adaptlab_services.jobs import job_tokens
from adaptlab_services.leases import lease_views
from adaptlab_services.limits import quotas
from adaptlab_services.paging import LARGEST_PAGE_SIZE
from adaptlab_services.people import tokens
from adaptlab_services.people.idempotency import LONGEST_KEY
from adaptlab_services.settings import Settings

# Items of the task have 3 characters to sort and 3 sorted ones, of which the last is not read; the
# base has one layer and one head, the jobs two seeds, and the prefix two positions.
LENGTH, SEEDS, SOURCES, PREFIX = 5, 2, 2, 2
CAPTURE = {"attention": {"samples": 3}}
CAPTURED_BYTES = 2 * SEEDS * SOURCES * 3 * LENGTH * (LENGTH + PREFIX)


@pytest.fixture(autouse=True)
def base(sessions: sessionmaker[Session]) -> None:
    """The base model that jobs adapt."""
    with sessions.begin() as session:
        a_base_model(session)


@contextmanager
def a_server(settings: Settings, token: str, **limits: Any) -> Iterator[TestClient]:
    """A server with other limits."""
    headers = {"Authorization": f"Bearer {token}"}
    with TestClient(create_app(settings.model_copy(update=limits)), headers=headers) as client:
        yield client


CASES: dict[str, tuple[dict[str, Any], str, str, int]] = {
    "a batch": (an_adapt_document(), "max_batch_tokens", "/training/batch_size", 4 * LENGTH),
    "a model": (a_pretrain_document(name="other"), "max_model_parameters", "/family", 0),
    "a capture": (
        an_adapt_document(capture=CAPTURE), "max_attention_bytes", "/capture/attention",
        CAPTURED_BYTES,
    ),
    "a check": (
        {"kind": "theory", "base_model": "tiny-sort", "checks": [
            {"name": "capacity", "length": 3, "soft_tokens": 10, "directed_tokens": 2, "steps": 5}
        ]},
        "max_check_tokens", "/checks/0", 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("document", "limit", "pointer", "asked"), CASES.values(), ids=CASES)
def test_a_job_up_to_the_limit_and_no_further(
    settings: Settings, token: str, document: dict[str, Any], limit: str, pointer: str, asked: int
) -> None:
    with a_server(settings, token, **{limit: 1}) as server:
        for path in ("/v1/jobs?validate_only=true", "/v1/jobs"):
            answer = server.post(path, json=document)
            assert answer.status_code == 422, answer.text
            (fault,) = answer.json()["errors"]
            assert (fault["pointer"], fault["nearest"]) == (pointer, [1])
            assert "allows 1;" in fault["detail"]
        counted = int(re.findall(r"\d+", fault["detail"].replace("of 4 items", ""))[0])
        assert counted == asked or not asked
        assert server.get("/v1/jobs?filter=state = queued").json()["data"] == []
    with a_server(settings, token, **{limit: counted - 1}) as server:
        assert server.post("/v1/jobs", json=document).status_code == 422
    with a_server(settings, token, **{limit: counted}) as server:
        assert server.post("/v1/jobs", json=document).status_code == 201


def test_the_jobs_of_a_study_are_bounded_too(settings: Settings, token: str) -> None:
    document = a_study_document()
    with a_server(settings, token, max_batch_tokens=4 * LENGTH - 1) as server:
        for path in ("/v1/studies?validate_only=true", "/v1/studies"):
            answer = server.post(path, json=document)
            assert answer.status_code == 422, answer.text
            assert "tokens, and this server allows 19" in answer.json()["detail"]
        assert server.get("/v1/studies").json()["data"] == []
    with a_server(settings, token, max_batch_tokens=4 * LENGTH) as server:
        assert server.post("/v1/studies", json=document).status_code == 201


def test_an_inline_base_model_is_bounded_where_it_stands(settings: Settings, token: str) -> None:
    inline = a_pretrain_document(name="inline", training={"steps": 4, "batch_size": 8})
    with a_server(settings, token, max_batch_tokens=4 * LENGTH) as server:
        answer = server.post("/v1/jobs", json=an_adapt_document(base_model=inline))
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == "/base_model/training/batch_size"
        study = a_study_document(base_models=[inline])
        answer = server.post("/v1/studies", json=study)
        assert answer.json()["errors"][0]["pointer"] == "/base_models/0/training/batch_size"


def test_the_table_says_what_holds(settings: Settings) -> None:
    text = Path("docs/reference/limits.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("| ").split("|")]
        for line in text.splitlines()
        if line.startswith("| ") and "---" not in line
    ]
    table = {row[0]: row[1] for row in rows}
    for what, value in _stated(settings).items():
        assert table.pop(what) == value, what
    # What is left says no number that could be wrong.
    assert set(table) == {
        "Limit",
        "body that is compressed, or of another kind than its route takes",
    }


def _stated(settings: Settings) -> dict[str, str]:
    defaults = {name: field.default for name, field in type(settings).model_fields.items()}
    times = {minutes: most * defaults["wrong_tokens_per_minute"]
             for most, minutes in request_rate.BACKOFF}  # fmt: skip
    training, captured = spec.TrainingSpec.model_fields, spec.AttentionSpec.model_fields
    return {
        "sign-ins from one address": f"{defaults['sign_ins_per_minute']} a minute",
        "sessions of one token in browsers": f"{tokens.MOST_BROWSER_SESSIONS}",
        "hours for which a token of one job is good": f"{job_tokens.MOST_HOURS}",
        "reads of one person that are worked on at a time": f"{open_requests.READS_AT_ONCE}",
        "body, as JSON": f"{defaults['max_body_bytes']} bytes",
        "body, one chunk of an upload": f"{body_limit.MOST_CHUNK_BYTES} bytes",
        "body, the form to sign in": f"{body_limit.MOST_FORM_BYTES} bytes",
        "body, a form of the page of tokens": f"{body_limit.MOST_FORM_BYTES} bytes",
        "fields of a form that submits a job or a study": f"{MOST_FIELDS}",
        "bundles that one process makes at a time": f"{plot_drawing.DRAWERS}",
        "plots of a bundle": f"{MOST_PLOTS}",
        "what is read of a bundle by `bundle check`": f"{MOST_MEMBERS} members, "
        f"{LARGEST_MEMBER // 2**20} MiB each unpacked, {LARGEST_BUNDLE // 2**20} MiB together",
        "jobs that are compared without a study": f"{comparisons.MOST_JOBS}",
        "comparisons that wait to be computed in one process": f"{comparison_runs.MOST_RUNS}",
        "computed tables of comparisons that are kept": (
            f"{comparison_results.MOST_BYTES // 2**20} MiB of JSON, "
            f"{comparison_results.LONGEST_UNUSED.days} days without use"
        ),
        "pairs of rows that are compared without a study": f"{comparison_groups.MOST_PAIRS}",
        "body, what a worker reports at a time": f"{body_limit.MOST_RECORD_BYTES} bytes",
        "bytes of one content that a worker stores": f"{defaults['max_upload_bytes']}",
        "events that a worker reports at a time": f"{lease_views.MOST_EVENTS}",
        "queues that a worker asks for": f"{lease_views.MOST_QUEUES}",
        "requests under leases of one worker's token": f"{defaults['lease_rate']} a second, "
        f"{defaults['lease_burst']} at once",
        "bytes of one upload": f"{defaults['max_upload_bytes']}",
        "uploads of one person at a time": f"{defaults['max_uploads']}",
        "head: request line and headers": f"{http_protocol.MOST_HEADER_BYTES} bytes",
        "levels of JSON": f"{strict_json.DEEPEST}",
        "largest integer in JSON": f"{strict_json.LARGEST_INTEGER}",
        "time for the head": f"{http_protocol.HEADER_SECONDS:g} s",
        "time for the body": f"{body_limit.GRACE_SECONDS:g} s, then "
        f"{body_limit.SLOWEST_BYTES_PER_SECOND} bytes a second",
        "time in which a client takes nothing of an answer": f"{http_protocol.SEND_SECONDS:g} s",
        "connections at a time": f"{http_protocol.MOST_CONNECTIONS}",
        "connections from one address at a time, without a proxy in front": (
            f"{http_protocol.MOST_FROM_ONE_ADDRESS}"
        ),
        "requests of one person under way at a time, streams and waits too": (
            f"{defaults['max_open_requests']}"
        ),
        "changes of one person that are worked on at a time": f"{open_requests.CHANGES_AT_ONCE}",
        "reads of one person": f"{defaults['read_rate']} a second, "
        f"{defaults['read_burst']} at once",
        "writes of one person": f"{defaults['write_rate']} a second, "
        f"{defaults['write_burst']} at once",
        "wrong tokens from one address": f"{times[1]} a minute, {times[10]} in ten minutes, "
        f"{times[60]} an hour",
        "rows of a page": f"{LARGEST_PAGE_SIZE}",
        "a wait for news": f"{LONGEST_WAIT} s",
        "an idempotency key": f"{LONGEST_KEY} characters",
        "steps of training": f"{_most(training['steps'])}",
        "items of a batch": f"{_most(training['batch_size'])}",
        "tokens of a batch: items × length, of one replicate": f"{defaults['max_batch_tokens']}",
        "parameters of a model that is trained or imported": f"{defaults['max_model_parameters']}",
        "seeds of a job": "64",
        "trials of a job": f"{spec.MOST_TRIALS}",
        "items scored per task": f"{_most(spec.EvaluationSpec.model_fields['samples'])}",
        "inputs whose attention is recorded": f"{_most(captured['samples'])}",
        "bytes of a job's attention maps": f"{defaults['max_attention_bytes']}",
        "tokens that a theory check passes through models": f"{defaults['max_check_tokens']}",
        "time of a run": f"{_most(spec.ResourcesSpec.model_fields['max_seconds'])} s",
        "labels of a job": "32",
        "jobs of a study": f"{defaults['max_study_jobs']}",
        "waiting and queued jobs of one person": "any",
        "running jobs of one person": "any",
        "hours of one person's attempts in a queue, in 30 days": "any",
        "bytes that one person stores": "any",
        "queues that a user's own quotas name": f"{quotas.MOST_QUEUES}",
        "what `bundle check` computes from a bundle": f"{bounds.MOST_JOBS} jobs, "
        f"{bounds.MOST_ROWS} rows, {bounds.MOST_PAIRS} pairs of rows, {bounds.MOST_SEEDS} seeds "
        f"and {bounds.MOST_ROW_OUTCOMES} outcomes a row, "
        f"{bounds.MOST_PAIRED_OUTCOMES} outcomes in pairs",
    }


def _most(field: Any) -> int:
    return next(bound.le for bound in field.metadata if hasattr(bound, "le"))
