"""A file of one's own, from the upload to a comparison of methods on it."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from tests.engine.text_models import folder_maker
from tests.folders import a_qwen3_folder, a_sentence_encoder
from tests.texts import (
    CLASSIFICATION,
    COMPLETION,
    a_byte_pair_tokeniser,
    a_word_piece_tokeniser,
    reviews,
    without,
)
from tests.whole.conftest import PATIENCE, command

from adaptlab_client import Client, InvalidRequest, JobView
from adaptlab_stack.stack import Stack

MINIGPT = {"name": "minigpt", "layers": 2, "heads": 2, "width": 16}
TRAINING = {"steps": 200, "batch_size": 16, "learning_rate": 0.01, "validations": 1}
WORDS = {"field": "label", "words": {"neg": " bad", "pos": " good"}}


@pytest.fixture(scope="module")
def uploaded(client: Client, stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A dataset from a CSV file with a heading, as a user has it."""
    file = tmp_path_factory.mktemp("own") / "reviews.csv"
    with file.open("w", newline="") as written:
        writer = csv.DictWriter(written, ["text", "label", "thing"])
        writer.writeheader()
        writer.writerows(reviews(400))
    done = command(stack, "datasets", "upload", "reviews", str(file))
    assert done.returncode == 0, done.stderr
    return client.datasets.get("reviews").digest


def succeeded(client: Client, spec: dict[str, Any]) -> JobView:
    job = client.jobs.wait(client.jobs.submit(spec).id, timeout=PATIENCE)
    assert job.succeeded, job.error
    return job


@pytest.fixture(scope="module")
def pretrained(client: Client, uploaded: str) -> JobView:
    spec = {
        "kind": "pretrain",
        "name": "reader",
        "family": MINIGPT,
        "task": without(CLASSIFICATION, tokens={"longest": 56}),
        "training": TRAINING,
    }
    return succeeded(client, spec)


def test_a_base_from_scratch_learns_what_bytes_say(
    client: Client, pretrained: JobView, uploaded: str
) -> None:
    (own,) = client.jobs.evaluations(pretrained.id)
    assert own.task_name == "text_classification"
    dataset: Any = own.task["dataset"]
    assert dataset["digest"] == uploaded
    assert own.total == dataset["splits"]["test"] < 100
    assert own.correct / own.total > dataset["majority"] + 0.1


def test_its_items_are_read_with_the_answers_to_them(
    client: Client, stack: Stack, pretrained: JobView
) -> None:
    records, rows = reviews(400), list(client.jobs.answers(pretrained.id))
    assert len(rows) == pretrained.resolved_spec.evaluation_shown == 4
    for row in rows:
        assert row.line is not None
        assert row.attached is not None
        record = records[row.line - 1]
        assert row.prompt.text == f"{record['text']}. It is"
        assert row.expected.label == record["label"]
        assert row.attached.right == (row.attached.label == row.expected.label)
        assert row.detached is None
    (own,) = client.jobs.evaluations(pretrained.id)
    outcomes = client.jobs.outcomes(pretrained.id, own.id).outcomes[:4]
    assert tuple(row.attached and row.attached.right for row in rows) == outcomes
    wrong = command(stack, "answers", str(pretrained.id), "--outcome", "wrong", "-o", "jsonl")
    assert len(wrong.stdout.splitlines()) == outcomes.count(False)


def test_it_is_adapted_to_another_view_of_the_records(client: Client, pretrained: JobView) -> None:
    spec = {
        "kind": "adapt",
        "base_model": "reader",
        "task": without(COMPLETION),
        "method": "lora",
        "budget": {"trainable_parameters": 1000},
        "training": {"steps": 20, "batch_size": 8},
        "tuning": {"learning_rates": [0.03, 0.1]},
        "seeds": 1,
    }
    job = succeeded(client, spec)
    scored = client.jobs.evaluations(job.id)
    assert {one.task_name for one in scored} == {"text_completion", "text_classification"}
    assert len({one.total for one in scored}) == 1
    assert len(client.results.query("task = text_completion AND base_model = reader")) == 1
    differing = list(client.jobs.answers(job.id, task="text_completion", differs=True))
    assert differing
    assert all(row.attached != row.detached for row in differing)


def test_a_published_model_reads_them_by_its_own_tokeniser(
    client: Client, uploaded: str, model_root: Path
) -> None:
    folder = a_qwen3_folder(model_root / "reading", vocabulary=320)
    texts = [record["text"] for record in reviews(100)]
    (folder / "tokenizer.json").write_bytes(a_byte_pair_tokeniser(texts))
    job = client.base_models.import_folder("published", "models/reading")
    assert client.jobs.wait(job.id, timeout=PATIENCE).succeeded
    spec = {
        "kind": "adapt",
        "base_model": "published",
        "task": without(CLASSIFICATION, label=WORDS, tokens={"longest": 30}),
        "method": {"name": "lora", "rank": 2},
        "training": {"steps": 10, "batch_size": 8},
        "seeds": 1,
    }
    adapted = succeeded(client, spec)
    assert {e.attached for e in client.jobs.evaluations(adapted.id)} == {True, False}
    (checkpoint,) = client.jobs.checkpoints(adapted.id)
    client.checkpoints.export(checkpoint, model_root / "adapters" / "of-texts")


def test_an_encoder_classifies_by_a_head(client: Client, uploaded: str, model_root: Path) -> None:
    folder = a_sentence_encoder(model_root / "sentences", vocabulary=300)
    texts = [record["text"] for record in reviews(100)]
    (folder / "tokenizer.json").write_bytes(a_word_piece_tokeniser(texts))
    job = client.base_models.import_folder("sentences", "models/sentences")
    assert client.jobs.wait(job.id, timeout=PATIENCE).succeeded
    spec: dict[str, Any] = {
        "kind": "adapt",
        "base_model": "sentences",
        "task": without(
            CLASSIFICATION, label={"field": "label"}, score="head", tokens={"longest": 30}
        ),
        "method": "lora",
        "budget": {"trainable_parameters": 400},
        "training": {"steps": 60, "batch_size": 16},
        "tuning": {"learning_rates": [0.03]},
        "seeds": 1,
    }
    adapted = succeeded(client, spec)
    scores = {e.attached: e.correct / e.total for e in client.jobs.evaluations(adapted.id)}
    assert scores[True] > scores[False]
    (checkpoint,) = client.jobs.checkpoints(adapted.id)
    exported = model_root / "adapters" / "of-a-head"
    client.checkpoints.export(checkpoint, exported)
    config = json.loads((exported / "adapter_config.json").read_text())
    assert (config["task_type"], config["modules_to_save"]) == ("TOKEN_CLS", ["classifier"])
    words = without(CLASSIFICATION, label=WORDS, tokens={"longest": 30})
    with pytest.raises(InvalidRequest, match=r"score: head"):
        client.jobs.submit({**spec, "task": words})


@pytest.fixture(scope="module")
def filling(client: Client, model_root: Path) -> str:
    """An imported encoder with its head for masks."""
    folder_maker(model_root / "filling")("bert")
    job = client.base_models.import_folder("filling", "models/filling/bert")
    assert client.jobs.wait(job.id, timeout=PATIENCE).succeeded
    return "filling"


def test_an_encoder_fills_label_words_in(client: Client, uploaded: str, filling: str) -> None:
    words = {"neg": " sad", "pos": " fine"}
    task = without(CLASSIFICATION, label={"field": "label", "words": words}, tokens={"longest": 30})
    spec: dict[str, Any] = {
        "kind": "adapt",
        "base_model": filling,
        "task": task,
        "method": {"name": "lora", "rank": 4},
        "training": {"steps": 250, "batch_size": 16},
        "tuning": {"learning_rates": [0.03]},
        "seeds": 1,
    }
    adapted = succeeded(client, spec)
    scored = {e.attached: e for e in client.jobs.evaluations(adapted.id)}
    assert scored[True].correct > scored[False].correct
    rows, records = list(client.jobs.answers(adapted.id)), reviews(400)
    assert len(rows) == adapted.resolved_spec.evaluation_shown == 4
    for row in rows:
        assert row.attached is not None
        assert row.line is not None
        assert row.expected.label == records[row.line - 1]["label"]
        assert row.attached.text == words[str(row.attached.label)]
        assert row.attached.right == (row.attached.label == row.expected.label)
    outcomes = client.jobs.outcomes(adapted.id, scored[True].id).outcomes[:4]
    assert tuple(row.attached and row.attached.right for row in rows) == outcomes
    base = client.jobs.outcomes(adapted.id, scored[False].id).outcomes[:4]
    assert tuple(row.detached and row.detached.right for row in rows) == base
