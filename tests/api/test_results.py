"""Results of a job come back as recorded, from its latest attempt."""

import itertools
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.making import (
    a_base_model,
    a_checkpoint,
    a_claim,
    a_job,
    a_replicate,
    a_summary,
    an_attention_map,
    an_environment,
    an_evaluation,
    metric_points,
)

from adaptlab.runs import events
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.lifecycle.held_leases import Claim

Sessions = sessionmaker[Session]
BYTES = {"Accept": "application/octet-stream"}
CONTENT = bytes(range(256)) * 12_000  # three chunks of 1 MiB, the last one not full


@pytest.fixture
def claim(sessions: Sessions, ledger: DatabaseLedger) -> Claim:
    """A running attempt."""
    with sessions.begin() as session:
        a_base_model(session)
        a_job(session)
    return a_claim(ledger)


@pytest.fixture
def job(claim: Claim) -> str:
    """The address of the running job."""
    return f"/v1/jobs/{claim.job_id}"


def data(api: TestClient, address: str, **parameters: Any) -> list[dict[str, Any]]:
    answer = api.get(address, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def test_a_job_without_results_has_empty_lists(api: TestClient, job: str) -> None:
    for name in ("metrics", "replicates", "evaluations", "attention", "checkpoints"):
        answer = api.get(f"{job}/{name}").json()
        assert (answer["data"], answer["attempt"]) == ([], 1)


def test_curves_by_name_and_replicate(
    api: TestClient, job: str, ledger: DatabaseLedger, claim: Claim
) -> None:
    gap = events.MetricPoint(replicate=1, name="train_loss", step=5, value=None)
    points = (
        *metric_points((1, 2)),
        *metric_points((1, 3), replicate=1),
        *metric_points((1,), name="accuracy"),
        gap,
    )
    ledger.record(claim, [events.Metrics(points=points)])
    assert data(api, f"{job}/metrics") == [
        {"name": "accuracy", "replicate": 0, "steps": [1], "values": [0.5], "total_points": 1},
        {"name": "train_loss", "replicate": 0, "steps": [1, 2], "values": [0.5, 1 / 3],
         "total_points": 2},
        {"name": "train_loss", "replicate": 1, "steps": [1, 3, 5], "values": [0.5, 0.25, None],
         "total_points": 3},
    ]  # fmt: skip
    chosen = data(api, f"{job}/metrics", names=["train_loss"], replicates=[1])
    assert [(curve["name"], curve["replicate"]) for curve in chosen] == [("train_loss", 1)]


@pytest.mark.parametrize(
    ("count", "most"), [(10, 10), (10, 9), (1000, 7), (1000, 2), (3, 2), (1, 2)]
)
def test_a_long_curve_is_thinned_but_keeps_its_ends(
    api: TestClient, job: str, ledger: DatabaseLedger, claim: Claim, count: int, most: int
) -> None:
    steps = tuple(range(1, count + 1))
    ledger.record(claim, [events.Metrics(points=metric_points(steps))])
    (curve,) = data(api, f"{job}/metrics", max_points=most)
    kept = curve["steps"]
    assert len(kept) <= most
    assert len(kept) > min(count, most) / 2
    assert (kept[0], kept[-1]) == (1, count)
    assert len({b - a for a, b in itertools.pairwise(kept[:-1])}) <= 1
    assert curve["values"] == [1 / (1 + step) for step in kept]
    assert curve["total_points"] == count


def test_replicates_and_attempts(
    api: TestClient, job: str, ledger: DatabaseLedger, claim: Claim
) -> None:
    started = events.Started(environment=an_environment(), replicates=2)
    ended = events.ReplicatesDecided(
        replicates=(a_replicate(0), a_replicate(1, status="diverged", final_loss=None))
    )
    usage = events.Usage(
        training_seconds=12.5,
        training_steps=4,
        evaluation_seconds=0.75,
        peak_memory_bytes=400_000_000,
        base_memory_bytes=300_000_000,
    )
    ledger.record(claim, [started, ended, events.Finished(usage=usage)])
    first, second = data(api, f"{job}/replicates")
    assert (first["status"], first["final_loss"]) == ("completed", 0.25)
    assert (second["status"], second["final_loss"]) == ("diverged", None)
    (attempt,) = data(api, f"{job}/attempts")
    assert attempt["environment"]["torch_version"] == "2.13.0"
    assert attempt["usage"] == usage.model_dump()
    assert (attempt["attempt"], attempt["host"], attempt["outcome"]) == (1, "laptop", None)


def test_scores_and_the_outcome_of_every_item(
    api: TestClient, job: str, ledger: DatabaseLedger, claim: Claim
) -> None:
    evaluation = an_evaluation(correct=5, total=11, outcomes="b4a0")
    ledger.record(claim, [events.Evaluated(evaluation=evaluation)])
    (score,) = data(api, f"{job}/evaluations")
    assert (score["correct"], score["total"], score["accuracy"]) == (5, 11, 5 / 11)
    assert score["task"]["name"] == "sort_descending"
    outcomes = api.get(score["links"]["outcomes"])
    packed = np.frombuffer(bytes.fromhex("b4a0"), np.uint8)
    assert outcomes.json()["outcomes"] == np.unpackbits(packed)[:11].astype(bool).tolist()
    assert api.get(score["links"]["outcomes"], headers=BYTES).content == packed.tobytes()
    other = score["links"]["outcomes"].replace(str(claim.job_id), str(UUID(int=0)))
    assert api.get(other).status_code == 404


def test_the_confusion_of_labels_comes_with_macro_f1(
    api: TestClient, job: str, ledger: DatabaseLedger, claim: Claim
) -> None:
    confusion = events.Confusion(labels=("pos", "a"), counts=((5, 3), (1, 7)))
    scores = [an_evaluation(0, confusion=confusion), an_evaluation(1)]
    ledger.record(claim, [events.Evaluated(evaluation=score) for score in scores])
    with_counts, without_counts = data(api, f"{job}/evaluations")
    assert with_counts["confusion"] == {"labels": ["pos", "a"], "counts": [[5, 3], [1, 7]]}
    assert with_counts["measures"]["macro_f1"] == pytest.approx((10 / 14 + 14 / 18) / 2)
    assert (without_counts["confusion"], without_counts["measures"]) == (None, {})
    again = an_evaluation(0, confusion=None)
    ledger.record(claim, [events.Evaluated(evaluation=again)])
    first, *_ = data(api, f"{job}/evaluations")
    assert first["confusion"] is None


def test_scores_say_whether_the_adaptation_was_attached_and_can_be_asked_for_by_it(
    api: TestClient, job: str, ledger: DatabaseLedger, claim: Claim
) -> None:
    own = {"name": "sort_ascending", "length": 3, "alphabet": 4, "few_distinct": True}
    scores = [
        an_evaluation(0, attached=False, correct=0, outcomes="0000"),
        an_evaluation(0),
        an_evaluation(0, task=own, attached=False, correct=16, outcomes="ffff"),
        an_evaluation(0, task=own, correct=4, outcomes="f000"),
    ]
    ledger.record(claim, [events.Evaluated(evaluation=score) for score in scores])
    told = [
        (s["task"]["name"], s["attached"], s["correct"]) for s in data(api, f"{job}/evaluations")
    ]
    assert told == [
        ("sort_ascending", True, 4),
        ("sort_ascending", False, 16),
        ("sort_descending", True, 12),
        ("sort_descending", False, 0),
    ]
    for attached in (True, False):
        asked = data(api, f"{job}/evaluations", attached=attached)
        assert [s["correct"] for s in asked] == [score[2] for score in told if score[1] is attached]
    assert api.get(f"{job}/evaluations", params={"attached": "perhaps"}).status_code == 422


def record_map(
    ledger: DatabaseLedger, claim: Claim, path: Path, content: bytes, **changes: Any
) -> None:
    attention = an_attention_map(**changes)
    stored = ledger.put_artifact(claim, [content])
    captured = events.AttentionCaptured(attention=attention, path=path)
    ledger.record(claim, [captured], {path: stored.sha256})


def test_attention_maps_with_their_summaries(
    api: TestClient, job: str, ledger: DatabaseLedger, claim: Claim, tmp_path: Path
) -> None:
    heads = tuple(a_summary(layer, head) for layer in range(2) for head in range(3))
    record_map(ledger, claim, tmp_path / "adapted", b"adapted", summaries=heads)
    record_map(ledger, claim, tmp_path / "base", b"base", source="base", learned_positions=0)
    record_map(ledger, claim, tmp_path / "second", b"other", replicate=1)
    base, adapted, second = data(api, f"{job}/attention")
    assert [m["source"] for m in (base, adapted, second)] == ["base", "adapted", "adapted"]
    assert adapted["shape"] == [1, 1, 1, 5, 7]
    assert adapted["axes"] == ["sample", "layer", "head", "query", "key"]
    assert adapted["tokens"] == [[2, 0, 3, 3, 2]]
    assert adapted["predictions"] == [[3, 2, 0]]
    assert len(adapted["summaries"]) == 6
    (only,) = data(api, f"{job}/attention", source="adapted", replicate=0, layer=1, head=2)
    assert [(s["layer"], s["head"]) for s in only["summaries"]] == [(1, 2)]


def test_the_content_of_a_map_is_its_array(
    api: TestClient, job: str, ledger: DatabaseLedger, claim: Claim, tmp_path: Path
) -> None:
    array = np.linspace(0, 1, 35, dtype=np.float16).reshape(1, 1, 1, 5, 7)
    np.save(tmp_path / "map.npy", array)
    content = (tmp_path / "map.npy").read_bytes()
    record_map(ledger, claim, tmp_path / "map.npy", content)
    (attention,) = data(api, f"{job}/attention")
    assert attention["size"] == len(content)
    fetched = api.get(attention["links"]["content"])
    assert fetched.headers["etag"] == f'"{attention["sha256"]}"'
    (tmp_path / "fetched.npy").write_bytes(fetched.content)
    assert np.array_equal(np.load(tmp_path / "fetched.npy"), array)


@pytest.fixture
def file(
    api: TestClient, job: str, ledger: DatabaseLedger, claim: Claim, tmp_path: Path
) -> dict[str, Any]:
    """A checkpoint of three chunks."""
    stored = ledger.put_artifact(claim, [CONTENT])
    path = tmp_path / "adapter.safetensors"
    written = events.CheckpointWritten(checkpoint=a_checkpoint(), path=path)
    ledger.record(claim, [written], {path: stored.sha256})
    (checkpoint,) = data(api, f"{job}/checkpoints")
    assert api.get(f"/v1/checkpoints/{checkpoint['id']}").json() == checkpoint
    return checkpoint


def test_a_checkpoint_comes_back_byte_for_byte(api: TestClient, file: dict[str, Any]) -> None:
    answer = api.get(file["links"]["content"])
    assert answer.content == CONTENT
    assert answer.headers["content-length"] == str(len(CONTENT)) == str(file["size"])
    assert answer.headers["etag"] == f'"{file["sha256"]}"'
    assert answer.headers["accept-ranges"] == "bytes"
    assert "adapter-seed-0" in answer.headers["content-disposition"]
    assert file["tensors"] == {"blocks.0.attn.input": [2, 8]}
    head = api.head(file["links"]["content"])
    assert head.content == b""
    same = ("content-length", "etag", "accept-ranges", "content-disposition", "content-type")
    assert {n: head.headers[n] for n in same} == {n: answer.headers[n] for n in same}


SIZE = len(CONTENT)
RANGES: dict[str, tuple[int, int] | None] = {
    "bytes=0-0": (0, 1),
    "bytes=0-": (0, SIZE),
    "bytes=5-9": (5, 10),
    "bytes=1048570-1048585": (1_048_570, 1_048_586),
    f"bytes={SIZE - 1}-": (SIZE - 1, SIZE),
    f"bytes=7-{SIZE + 100}": (7, SIZE),
    "bytes=-10": (SIZE - 10, SIZE),
    f"bytes=-{SIZE * 2}": (0, SIZE),
    "bytes=9-5": None,
    "bytes=-": None,
    "bytes=a-b": None,
    "chunks=0-1": None,
    "bytes=0-1,5-6": None,
}


def test_a_range_of_a_checkpoint(api: TestClient, file: dict[str, Any]) -> None:
    for asked, span in RANGES.items():
        answer = api.get(file["links"]["content"], headers={"Range": asked})
        if span is None:
            assert (answer.status_code, len(answer.content)) == (200, SIZE), asked
            continue
        start, stop = span
        assert answer.status_code == 206, asked
        assert answer.content == CONTENT[start:stop], asked
        assert answer.headers["content-range"] == f"bytes {start}-{stop - 1}/{SIZE}", asked


def test_a_range_outside_the_checkpoint(api: TestClient, file: dict[str, Any]) -> None:
    for asked in (f"bytes={SIZE}-", f"bytes={SIZE + 5}-{SIZE + 9}", "bytes=-0"):
        answer = api.get(file["links"]["content"], headers={"Range": asked})
        assert answer.status_code == 416, asked
        assert answer.headers["content-range"] == f"bytes */{SIZE}"
        assert answer.headers["content-type"] == "application/problem+json"


def test_conditions_on_a_checkpoint(api: TestClient, file: dict[str, Any]) -> None:
    address, tag = file["links"]["content"], f'"{file["sha256"]}"'

    def status(**headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return api.get(address, headers=named).status_code

    assert status(If_None_Match=tag) == 304
    assert status(If_None_Match=f'"x", W/{tag}') == 304
    assert status(If_None_Match="*") == 304
    assert status(If_None_Match='"x"') == 200
    assert status(If_Range=tag, Range="bytes=0-1") == 206
    assert status(If_Range='"x"', Range="bytes=0-1") == 200
    assert status(If_None_Match=tag, Range="bytes=0-1") == 304


def test_only_the_latest_attempt_is_shown(
    api: TestClient, job: str, ledger: DatabaseLedger, claim: Claim, file: dict[str, Any]
) -> None:
    ledger.record(claim, [events.Metrics(points=metric_points())])
    ledger.release(claim, "preempted")
    again = a_claim(ledger)
    assert data(api, f"{job}/metrics") == data(api, f"{job}/checkpoints") == []
    ledger.record(again, [events.Metrics(points=metric_points((1,)))])
    (curve,) = data(api, f"{job}/metrics")
    assert curve["steps"] == [1]
    assert [a["attempt"] for a in data(api, f"{job}/attempts")] == [1, 2]
    assert api.get(file["links"]["content"]).status_code == 200


def test_losses_are_kept_as_they_are(
    api: TestClient, job: str, ledger: DatabaseLedger, claim: Claim
) -> None:
    scores = [an_evaluation(0, loss=0.5), an_evaluation(1, loss=800.0)]
    ledger.record(claim, [events.Evaluated(evaluation=score) for score in scores])
    likely, not_at_all = data(api, f"{job}/evaluations")
    assert (likely["loss"], not_at_all["loss"]) == (0.5, 800.0)
