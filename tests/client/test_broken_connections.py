"""The client when the network fails, which a stand-in does on call."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.answering import a_job_answer, identity

from adaptlab_client import Client, EventView, ProgressNews, errors
from adaptlab_client.transport.connection import Retries

Handler = Callable[[httpx.Request], httpx.Response]
JOB = a_job_answer()
CONTENT = bytes(range(256)) * 40
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Line:
    """A network that plays a list of answers, and keeps requests and waits."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.waits: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else answer(request)

    def client(self, attempts: int = 4) -> Client:
        retries = Retries(attempts=attempts, sleep=self.waits.append, jitter=lambda: 1.0)
        transport = httpx.MockTransport(self)
        return Client("http://server", "token", retries=retries, transport=transport)


class Cut(httpx.SyncByteStream):
    """A body that breaks off after the given bytes."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        yield from self.chunks
        raise httpx.ReadError("connection reset")


def busy(status: int = 503, **headers: str) -> httpx.Response:
    return httpx.Response(status, json={"title": "Busy", "status": status}, headers=headers)


def job(**changes: Any) -> httpx.Response:
    return httpx.Response(200, json=JOB | changes)


@pytest.mark.parametrize("fault", [httpx.ConnectError("refused"), httpx.ReadTimeout("slow")])
def test_a_question_is_asked_again(fault: Exception) -> None:
    line = Line(fault, busy(502), busy(429), job())
    assert line.client().jobs.get("j1").id == identity("j1")
    assert line.waits == [0.25, 0.5, 1.0]


def test_the_server_says_how_long_to_wait() -> None:
    line = Line(busy(429, **{"Retry-After": "7"}), busy(503, **{"Retry-After": "9999"}), job())
    line.client().jobs.get("j1")
    assert line.waits == [7.0, 60.0]


def test_after_the_last_attempt_the_error_is_raised() -> None:
    line = Line(*[httpx.ConnectError("refused")] * 4)
    with pytest.raises(errors.ServerUnreachable, match=r"http://server.*refused"):
        line.client().jobs.get("j1")
    line = Line(*[busy()] * 4)
    with pytest.raises(errors.ServerUnavailable, match="Busy"):
        line.client().jobs.get("j1")


def test_who_asked_too_often_is_told_so_and_when_to_come_back() -> None:
    line = Line(*[busy(429, **{"Retry-After": "7"})] * 4)
    with pytest.raises(errors.TooManyRequests, match="Busy") as refused:
        line.client().jobs.get("j1")
    assert refused.value.retry_after == 7.0
    assert not isinstance(refused.value, errors.ServerUnavailable)
    assert line.waits == [7.0] * 3


def test_a_submission_is_repeated_when_the_server_says_when_and_only_then() -> None:
    line = Line(busy(429, **{"Retry-After": "2"}), httpx.Response(201, json=JOB))
    line.client().jobs.submit({"kind": "adapt"})
    assert line.waits == [2.0]
    line = Line(busy(429))  # as many jobs queued as are allowed: that may be so for days
    with pytest.raises(errors.TooManyRequests) as refused:
        line.client().jobs.submit({"kind": "adapt"})
    assert refused.value.retry_after is None
    assert (len(line.requests), line.waits) == (1, [])


def test_a_job_is_submitted_again_under_the_same_key() -> None:
    line = Line(httpx.ReadTimeout("slow"), busy(), httpx.Response(201, json=JOB))
    line.client().jobs.submit({"kind": "adapt"})
    keys = {request.headers["Idempotency-Key"] for request in line.requests}
    assert len(keys) == 1
    assert len(line.requests) == 3


def test_two_submissions_have_two_keys() -> None:
    line = Line(httpx.Response(201, json=JOB), httpx.Response(201, json=JOB))
    client = line.client()
    client.jobs.submit({"kind": "adapt"})
    client.jobs.submit({"kind": "adapt"})
    first, second = (request.headers["Idempotency-Key"] for request in line.requests)
    assert first != second


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.InvalidRequest),
        (422, errors.InvalidRequest),
        (401, errors.Unauthorised),
        (403, errors.Unauthorised),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (413, errors.TooLarge),
        (500, errors.ApiError),
        (303, errors.ApiError),
    ],
)
def test_what_will_not_change_is_not_asked_again(status: int, kind: type[Exception]) -> None:
    line = Line(httpx.Response(status, json={"title": "No", "status": status}))
    with pytest.raises(kind):
        line.client().jobs.get("j1")
    assert len(line.requests) == 1


def test_an_error_shows_pointer_detail_and_the_nearest_value() -> None:
    problem = {
        "title": "Invalid",
        "status": 422,
        "detail": "The spec cannot be run.",
        "errors": [{"pointer": "/budget", "code": "x", "detail": "Too small.", "nearest": [96]}],
    }
    line = Line(httpx.Response(422, json=problem))
    with pytest.raises(errors.InvalidRequest) as caught:
        line.client().jobs.submit({"kind": "adapt"})
    assert str(caught.value) == "The spec cannot be run.\n  /budget: Too small. (nearest: 96)"


def test_a_page_of_a_proxy_is_an_error_too() -> None:
    line = Line(httpx.Response(404, text="<html>nginx</html>"))
    with pytest.raises(errors.NotFound, match="nginx"):
        line.client().jobs.get("j1")


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b"[1]", b"\xff"])
def test_an_answer_of_something_else_is_told_apart(body: bytes) -> None:
    line = Line(httpx.Response(200, content=body))
    with pytest.raises(errors.UnexpectedAnswer, match="adaptlab server"):
        line.client().jobs.get("j1")


def test_an_unknown_state_and_unknown_members_are_taken() -> None:
    line = Line(job(state="hibernating", terminal=True, shade="blue"))
    found = line.client().jobs.get("j1")
    assert (found.state, found.terminal, found.succeeded) == ("hibernating", True, False)
    assert found.model_dump()["shade"] == "blue"


def test_an_identity_stays_one_segment_of_the_path() -> None:
    line = Line(job())
    line.client().jobs.get("../methods?x=1#")
    assert line.requests[0].url.raw_path == b"/v1/jobs/..%2Fmethods%3Fx%3D1%23"


EVENT = {"type": "running", "at": "2026-01-01T12:00:00Z", "attempt": 1, "data": {}}


def stream(*events: int, cut: bool) -> httpx.Response:
    text = "".join(
        f"id: {n}\nevent: running\ndata: {json.dumps(EVENT | {'sequence': n})}\n\n" for n in events
    )
    body = Cut(text.encode()) if cut else None
    kind = {"Content-Type": "text/event-stream"}
    return (
        httpx.Response(200, stream=body, headers=kind)
        if body
        else httpx.Response(200, content=text, headers=kind)
    )


def number(event: EventView | ProgressNews) -> int:
    assert isinstance(event, EventView)
    return event.sequence


def test_a_broken_event_stream_goes_on_after_the_last_event() -> None:
    line = Line(
        stream(1, 2, cut=True),
        httpx.ConnectError("refused"),
        stream(3, cut=False),
        httpx.Response(204),
    )
    found = [number(event) for event in line.client().jobs.events("j1")]
    assert found == [1, 2, 3]
    assert [r.headers["Last-Event-ID"] for r in line.requests] == ["0", "2", "2", "3"]


def test_an_event_that_was_cut_off_comes_again_whole() -> None:
    half = Cut(b'id: 1\ndata: {"sequence": 1, "ty')
    first = httpx.Response(200, stream=half, headers={"Content-Type": "text/event-stream"})
    line = Line(first, stream(1, cut=False), httpx.Response(204))
    assert [number(event) for event in line.client().jobs.events("j1")] == [1]


def test_a_wait_goes_on_through_an_outage() -> None:
    outage = [httpx.ConnectError("refused")] * 6
    line = Line(job(), *outage, job(state="succeeded", terminal=True))
    seen: list[str] = []
    found = line.client().jobs.wait("j1", on_progress=lambda job: seen.append(job.state))
    assert found.succeeded
    assert seen == ["queued", "succeeded"]
    assert line.requests[1].url.params["if_state_not"] == "queued"


def test_a_wait_ends_with_its_time() -> None:
    line = Line(*[job()] * 100)
    with pytest.raises(errors.WaitTimedOut, match="j1") as caught:
        line.client().jobs.wait("j1", timeout=0)
    assert caught.value.jobs == ("j1",)


def test_jobs_come_in_the_order_in_which_they_end() -> None:
    ends = {"a": 3, "b": 1}

    def answer(request: httpx.Request) -> httpx.Response:
        name = request.url.path.rpartition("/")[2]
        ends[name] -= 1
        done = ends[name] <= 0
        return job(id=str(identity(name)), terminal=done, state="succeeded" if done else "running")

    line = Line(*[answer] * 20)
    assert [found.id for found in line.client().jobs.as_ended(["a", "b"])] == [
        identity("b"), identity("a"),
    ]  # fmt: skip


def ranged(*, cut_after: int | None = None, content: bytes = CONTENT) -> Handler:
    """A server of one file; it breaks off after so many bytes of its answer."""

    def answer(request: httpx.Request) -> httpx.Response:
        start = int(request.headers.get("Range", "bytes=0-")[6:-1])
        if start >= len(content):
            return httpx.Response(416, json={"title": "Range", "status": 416})
        rest = content[start:]
        headers = {"Content-Length": str(len(rest)), "ETag": f'"{DIGEST}"'}
        status = 206 if start else 200
        if cut_after is None:
            return httpx.Response(status, content=rest, headers=headers)
        return httpx.Response(status, stream=Cut(rest[:cut_after]), headers=headers)

    return answer


CHECKPOINT = {
    "id": 1,
    "replicate": 0,
    "seed": 0,
    "kind": "adapter",
    "parameters": 96,
    "sha256": DIGEST,
    "size": len(CONTENT),
    "job_id": str(identity("j1")),
    "tensors": {},
    "created_at": "2026-01-01T12:00:00Z",
    "links": {"content": "/v1/checkpoints/1/content", "job": "/v1/jobs/j1"},
}


def a_checkpoint(client: Client, line: Line) -> Any:
    line.answers.insert(0, httpx.Response(200, json={"data": [CHECKPOINT], "attempt": 1}))
    return client.jobs.checkpoints("j1")[0]


def test_a_download_that_breaks_off_goes_on_where_it_stopped(tmp_path: Path) -> None:
    line = Line(ranged(cut_after=100), httpx.ConnectError("x"), ranged(cut_after=50), ranged())
    client = line.client()
    told: list[int] = []
    target = client.checkpoints.download(
        a_checkpoint(client, line), tmp_path / "a.safetensors", report=lambda n, _: told.append(n)
    )
    assert target.read_bytes() == CONTENT
    assert [r.headers.get("Range") for r in line.requests[1:]] == [
        None, "bytes=100-", "bytes=100-", "bytes=150-",
    ]  # fmt: skip
    assert line.requests[-1].headers["If-Range"] == f'"{DIGEST}"'
    assert told[-1] == len(CONTENT)
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]


def test_a_download_is_taken_up_by_a_later_call(tmp_path: Path) -> None:
    (tmp_path / "a.part").write_bytes(CONTENT[:300])
    line = Line(ranged())
    client = line.client()
    client.checkpoints.download(a_checkpoint(client, line), tmp_path / "a")
    assert line.requests[-1].headers["Range"] == "bytes=300-"
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_a_part_that_is_already_whole_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.part").write_bytes(CONTENT)
    line = Line(ranged())
    client = line.client()
    client.checkpoints.download(a_checkpoint(client, line), tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_bytes_that_are_not_the_announced_ones_are_not_kept(tmp_path: Path) -> None:
    line = Line(ranged(content=CONTENT[:-1] + b"!"))
    client = line.client()
    with pytest.raises(errors.DigestMismatch, match=DIGEST):
        client.checkpoints.download(a_checkpoint(client, line), tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_server_without_ranges_sends_it_again(tmp_path: Path) -> None:
    (tmp_path / "a.part").write_bytes(b"something else entirely")
    line = Line(httpx.Response(200, content=CONTENT))
    client = line.client()
    client.checkpoints.download(a_checkpoint(client, line), tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_an_attention_array_is_checked_and_never_unpickled() -> None:
    import io

    import numpy as np

    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    evil = buffer.getvalue()
    recorded = {
        "id": 1, "replicate": 0, "seed": 0, "source": "base", "shape": [1], "axes": ["sample"],
        "sha256": hashlib.sha256(evil).hexdigest(), "size": len(evil), "learned_positions": 0,
        "target_start": 0, "tokens": [], "predictions": [], "summaries": [],
        "links": {"content": "/v1/jobs/j1/attention/1/content"},
    }  # fmt: skip
    maps = {"data": [recorded], "attempt": 1}
    line = Line(httpx.Response(200, json=maps), httpx.Response(200, content=evil))
    client = line.client()
    with pytest.raises(errors.UnexpectedAnswer, match="npy"):
        client.jobs.attention_array("j1", client.jobs.attention("j1")[0])


def test_a_picture_is_its_bytes_or_the_reason_for_none() -> None:
    gone = {"title": "There is none", "status": 404, "detail": "The dataset has been deleted."}
    problem = {"content-type": "application/problem+json"}
    missing = httpx.Response(404, content=json.dumps(gone), headers=problem)
    line = Line(httpx.Response(200, content=b"\x89PNG"), missing)
    client = line.client()
    assert client.jobs.picture("j1", 3, task_place=2) == b"\x89PNG"
    assert line.requests[0].url.path == "/v1/jobs/j1/answers/2/3/picture"
    with pytest.raises(errors.NotFound, match="deleted"):
        client.jobs.picture("j1", 4)


def test_a_list_is_read_to_its_last_page() -> None:
    pages = [
        {"data": [JOB | {"id": str(identity(str(n)))}], "next_page_token": token}
        for n, token in enumerate(("p1", "p2", None))
    ]
    line = Line(*(httpx.Response(200, content=json.dumps(page)) for page in pages))
    assert [found.id for found in line.client().jobs.list(page_size=1)] == [
        identity(name) for name in "012"
    ]
    assert [r.url.params.get("page_token") for r in line.requests] == [None, "p1", "p2"]


def test_a_server_that_repeats_a_page_does_not_hold_us_for_ever() -> None:
    page = {"data": [JOB], "next_page_token": "again"}
    line = Line(*(httpx.Response(200, json=page) for _ in range(5)))
    assert len(list(line.client().jobs.list())) == 2


def test_an_unexpected_error_names_its_request() -> None:
    body = b'{"status": 500, "detail": "It failed.", "request_id": "nightly-7"}'
    for status, is_named in ((500, True), (404, False)):
        problem = errors.ProblemDocument.read(status, "", body)
        assert ("request nightly-7" in str(errors.api_error(problem))) == is_named
