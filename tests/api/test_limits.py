"""Too large values are refused at once, with the limit in the problem."""

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.api.limited import a_server
from tests.making import a_base_model, a_pretrain_document, a_study_document, an_adapt_document

from adaptlab.bundle import bounds
from adaptlab.bundle.contents import MOST_PLOTS
from adaptlab.bundle.reading import LARGEST_BUNDLE, LARGEST_MEMBER, MOST_MEMBERS
from adaptlab.exchange import adapter_folder
from adaptlab.plugins.dataset import FEWEST_TRIPLES, MOST_TRIPLES
from adaptlab.records import conversations, facts, gathering, record
from adaptlab.records.facts import MOST_CONFUSED
from adaptlab.records.file_forms import LONGEST_FILE
from adaptlab.runs import reported_answers
from adaptlab.specs import spec
from adaptlab.text import chat, sandbox
from adaptlab_answers.people import MOST_QUEUES
from adaptlab_answers.server import MOST_GPUS
from adaptlab_api.doors import (
    body_limit,
    http_protocol,
    open_requests,
    request_rate,
    request_record,
)
from adaptlab_api.doors.time_limit import SLOW_FACTOR
from adaptlab_api.pages.results.query import MOST_ROWS
from adaptlab_api.pages.submitting.routes import MOST_FIELDS
from adaptlab_api.requests import strict_json
from adaptlab_api.routes import datasets
from adaptlab_api.routes.jobs import LONGEST_WAIT
from adaptlab_services.comparisons import (
    comparison_groups,
    comparison_results,
    comparison_runs,
    comparisons,
    plot_drawing,
)
from adaptlab_services.hub import due_fetches, fetcher
from adaptlab_services.hub.hub_child import HubPatience
from adaptlab_services.jobs import batch_tokens
from adaptlab_services.leases import lease_views
from adaptlab_services.limits import addresses
from adaptlab_services.models import (
    fetch_rows,
    records_process,
    task_files,
    token_checks,
    token_process,
    uploaded_folders,
)
from adaptlab_services.paging import LARGEST_PAGE_SIZE
from adaptlab_services.people import tokens
from adaptlab_services.people.idempotency import LONGEST_KEY
from adaptlab_services.settings import Settings
from adaptlab_services.trackers import trackers
from adaptlab_services.webhooks import due_deliveries, sending, webhooks

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
    "its files": (
        an_adapt_document(method="full_finetuning", budget={}), "max_job_bytes", "/method", 0
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
            nearest = [] if limit == "max_attention_bytes" else [1]  # not a number of items
            assert (fault["pointer"], fault["nearest"]) == (pointer, nearest)
            assert "allows 1" in fault["detail"]
        counted = int(
            re.findall(r"\d+", fault["detail"].replace("of 4 items", "").replace(",", ""))[0]
        )
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
            assert "tokens. This server allows 19" in answer.json()["detail"]
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
    table = {limit: value for limit, value, *_ in rows}
    for what, value in _stated(settings).items():
        assert table.pop(what) == value, what
    # What is left says no number that could be wrong.
    assert set(table) == {
        "Limit",
        "body that is compressed or has another media type than the route accepts",
    }


def _stated(settings: Settings) -> dict[str, str]:
    defaults = {name: field.default for name, field in type(settings).model_fields.items()}
    times = {minutes: most * defaults["wrong_tokens_per_minute"]
             for most, minutes in request_rate.BACKOFF}  # fmt: skip
    training, captured = spec.TrainingSpec.model_fields, spec.AttentionSpec.model_fields
    return {
        "sign-ins from one address": f"{defaults['sign_ins_per_minute']} a minute",
        "browser sessions per token": f"{tokens.MOST_BROWSER_SESSIONS}",
        "lifetime of a token for one job": f"{batch_tokens.MOST_HOURS} hours",
        "reads per user processed at a time": f"{open_requests.READS_AT_ONCE}",
        "JSON body": f"{defaults['max_body_bytes']:,} bytes",
        "body: one chunk of an upload": f"{body_limit.MOST_CHUNK_BYTES:,} bytes",
        "body: the sign-in form": f"{body_limit.MOST_FORM_BYTES:,} bytes",
        "fetches from a hub: active per user, at once per API": (
            f"{fetch_rows.MOST_ACTIVE}, {fetcher.MOST_AT_ONCE}"
        ),
        "a fetch: silence, least rate, pause, attempts in vain": (
            f"{HubPatience().silent_seconds:.0f} s, "
            f"{HubPatience().least_rate / 1024:.0f} KiB/s, "
            f"{due_fetches.LONGEST_DELAY.seconds // 60} minutes, {due_fetches.MOST_FAILURES}"
        ),
        "webhooks per project": f"{webhooks.MOST_WEBHOOKS}",
        "trackers per project": f"{trackers.MOST_TRACKERS}",
        "characters of a webhook's address": f"{addresses.LONGEST_URL:,}",
        "files of the server that one spec names": f"{task_files.MOST_FILES}",
        "characters of the path of a file below a dataset root": (f"{LONGEST_FILE:,}"),
        "addresses of the process that reads Parquet or a workbook, or inspects a file": (
            f"{records_process.MEMORY_BYTES:,} bytes"
        ),
        "time for a receiver to answer a webhook": f"{sending.TOTAL_SECONDS:g} s",
        "attempts to send a message of a webhook": f"{due_deliveries.MOST_ATTEMPTS}",
        "messages that a worker or the API sends at a time, in all and to one webhook": (
            f"{due_deliveries.MOST_AT_ONCE} and {due_deliveries.MOST_PER_WEBHOOK}"
        ),
        "days for which sent and failed messages are kept": f"{due_deliveries.KEPT_DAYS}",
        "body: a form of the pages of tokens, webhooks, projects and users": (
            f"{body_limit.MOST_FORM_BYTES:,} bytes"
        ),
        "an imported adapter, in float32": f"{adapter_folder.LARGEST_ADAPTER:,} bytes",
        "fields of a job or study form": f"{MOST_FIELDS}",
        "conditions in the form of the results page": f"{MOST_ROWS}",
        "bundles created at a time per process": f"{plot_drawing.DRAWERS}",
        "plots per bundle": f"{MOST_PLOTS}",
        "size of a bundle for `bundle check`": f"{MOST_MEMBERS} members, "
        f"{LARGEST_MEMBER // 2**20} MiB each unpacked, {LARGEST_BUNDLE // 2**20} MiB in total",
        "jobs compared without a study": f"{comparisons.MOST_JOBS}",
        "comparisons waiting to be computed per process": f"{comparison_runs.MOST_RUNS}",
        "stored comparison tables": (
            f"{comparison_results.MOST_BYTES // 2**20} MiB of JSON, "
            f"{comparison_results.LONGEST_UNUSED.days} days without use"
        ),
        "pairs of rows compared without a study": f"{comparison_groups.MOST_PAIRS:,}",
        "body: one report of a worker": f"{body_limit.MOST_RECORD_BYTES:,} bytes",
        "bytes of one artifact that a worker stores": f"{defaults['max_upload_bytes']:,}",
        "events in one report of a worker": f"{lease_views.MOST_EVENTS:,}",
        "queues that a worker serves": f"{lease_views.MOST_QUEUES}",
        "characters of `X-Request-ID`; other ids are replaced": (
            f"{request_record.LONGEST_REQUEST_ID}"
        ),
        "GPUs that a worker reports": f"{MOST_GPUS}",
        "model roots that a worker reports": f"{lease_views.MOST_ROOTS}",
        "lease requests per worker token": f"{defaults['lease_rate']} a second, "
        f"{defaults['lease_burst']} at once",
        "bytes of one upload": f"{defaults['max_upload_bytes']:,}",
        "bytes of an upload that is read as records": f"{defaults['max_dataset_bytes']:,}",
        "time for reading records": (
            f"{datasets.READING_SHARE * SLOW_FACTOR:g} × `ANSWER_SECONDS`: "
            f"{datasets.READING_SHARE * SLOW_FACTOR * defaults['answer_seconds']:g} s"
        ),
        "time for reading the files that a spec names": (
            f"{datasets.READING_SHARE:g} × `ANSWER_SECONDS`: "
            f"{datasets.READING_SHARE * defaults['answer_seconds']:g} s"
        ),
        "uploads read as records at a time per process": "1",
        "triples of words": f"{FEWEST_TRIPLES} to {MOST_TRIPLES:,}",
        "records": f"1 to {record.MOST_RECORDS:,}",
        "records whose tokens are checked when a job is submitted": (
            f"the first {token_checks.MOST_RECORDS} in {token_checks.MOST_BYTES:,} bytes"
        ),
        "time, and memory, of such a check with a `tokenizer.json`": (
            f"{token_checks.LONGEST_SECONDS:g} s, {token_process.MEMORY_BYTES:,} bytes"
        ),
        "messages of a conversation": f"{conversations.MOST_MESSAGES}",
        "characters of a chat template": f"{chat.LONGEST_CHAT_TEMPLATE:,}",
        "characters that a chat template writes for a conversation": f"{chat.LONGEST_RENDERED:,}",
        "turns of loops, calls and printed pieces of a chat template per conversation": (
            f"{sandbox.MOST_STEPS:,}"
        ),
        "bytes of all records as JSON lines": f"{record.MOST_BYTES:,}",
        "bytes of one record": f"{record.LONGEST_LINE:,}",
        "fields of a record": (
            f"{record.MOST_FIELDS}, with names of at most {record.LONGEST_FIELD_NAME} characters"
        ),
        "values of a field that are counted one by one": (
            f"{facts.MOST_VALUES} of at most {gathering.LONGEST_VALUE} characters"
        ),
        "sources of a dataset": "16",
        "uploads per user at a time": f"{defaults['max_uploads']}",
        "files of an uploaded model folder": f"{uploaded_folders.MOST_FILES}",
        "request line and headers": f"{http_protocol.MOST_HEADER_BYTES:,} bytes",
        "levels of JSON": f"{strict_json.DEEPEST}",
        "largest integer in JSON": f"{strict_json.LARGEST_INTEGER:,}",
        "time to send the headers": f"{http_protocol.HEADER_SECONDS:g} s",
        "time to send the body": f"{body_limit.GRACE_SECONDS:g} s, then "
        f"{body_limit.SLOWEST_BYTES_PER_SECOND:,} bytes a second",
        "time in which a client reads nothing of a response": f"{http_protocol.SEND_SECONDS:g} s",
        "connections at a time": f"{http_protocol.MOST_CONNECTIONS:,}",
        "connections from one address at a time, without a proxy": (
            f"{http_protocol.MOST_FROM_ONE_ADDRESS}"
        ),
        "open requests per user, streams and long polls included": (
            f"{defaults['max_open_requests']}"
        ),
        "changes per user processed at a time": f"{open_requests.CHANGES_AT_ONCE}",
        "reads per user": f"{defaults['read_rate']} a second, {defaults['read_burst']} at once",
        "writes per user": f"{defaults['write_rate']} a second, {defaults['write_burst']} at once",
        "wrong tokens from one address": f"{times[1]} a minute, {times[10]} in ten minutes, "
        f"{times[60]} an hour",
        "rows of a page": f"{LARGEST_PAGE_SIZE}",
        "long poll (`wait`)": f"{LONGEST_WAIT} s",
        "idempotency key": f"{LONGEST_KEY} characters",
        "labels of a task whose right and given ones are counted": f"2 to {MOST_CONFUSED}",
        "training steps": f"{_most(training['steps']):,}",
        "batch size": f"{_most(training['batch_size']):,}",
        "tokens per batch and replicate: items × length": f"{defaults['max_batch_tokens']:,}",
        "parameters of a trained or imported model": f"{defaults['max_model_parameters']:,}",
        "seeds per job": "64",
        "trials per job": f"{spec.MOST_TRIALS}",
        "items scored per task": f"{_most(spec.EvaluationSpec.model_fields['samples']):,}",
        "test items per task whose answers are stored": f"{spec.MOST_SHOWN}",
        "characters stored of a prompt, and of an answer": (
            f"{reported_answers.LONGEST_PROMPT:,} and {reported_answers.LONGEST_ANSWER}"
        ),
        "inputs whose attention is stored": f"{_most(captured['samples'])}",
        "bytes of a job's attention maps": f"{defaults['max_attention_bytes']:,}",
        "tokens that a theory check passes through models": f"{defaults['max_check_tokens']:,}",
        "bytes of a job's checkpoints and saved state": f"{defaults['max_job_bytes']:,}",
        "duration of a run": f"{_most(spec.ResourcesSpec.model_fields['max_seconds']):,} s",
        "labels per job": "32",
        "jobs per study": f"{defaults['max_study_jobs']:,}",
        "waiting and queued jobs per user": "any",
        "running jobs per user": "any",
        "hours of attempts per user and queue, in 30 days": "any",
        "stored bytes per user": "any",
        "queues in a user's own quotas": f"{MOST_QUEUES}",
        "work of `bundle check` on one bundle": f"{bounds.MOST_JOBS:,} jobs, "
        f"{bounds.MOST_ROWS:,} rows, {bounds.MOST_PAIRS:,} pairs of rows, "
        f"{bounds.MOST_SEEDS:,} seeds and {bounds.MOST_ROW_OUTCOMES:,} outcomes per row, "
        f"{bounds.MOST_PAIRED_OUTCOMES:,} outcomes in pairs",
    }


def _most(field: Any) -> int:
    return next(bound.le for bound in field.metadata if hasattr(bound, "le"))
