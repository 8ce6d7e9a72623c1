"""Texts are checked by the model's tokeniser before a job is created."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from fastapi.testclient import TestClient
from tests import patience
from tests.api.rooted import with_a_root
from tests.api.sending import sent
from tests.chats import CHAT, chats
from tests.folders import a_bert_folder, a_qwen3_folder
from tests.texts import (
    CLASSIFICATION,
    COMPLETION,
    MASK_OF_PIECES,
    a_byte_pair_tokeniser,
    a_word_piece_tokeniser,
    reviews,
    stored,
    without,
)

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.corpus import read_corpus
from adaptlab.text.source import TextSource
from adaptlab.text.tokeniser import ByteTokeniser, Tokeniser, read_tokeniser
from adaptlab_services.models import token_checks
from adaptlab_services.settings import Settings

RECORDS = reviews(120)
TEXTS = [record["text"] for record in RECORDS] + ["films songs"] * 200 + ["an Answer"] * 200
PAIRS = a_byte_pair_tokeniser(TEXTS)
IMPORT = {"kind": "import", "name": "qwen", "folder": "models/qwen"}
GOOD = without(CLASSIFICATION, tokens={"longest": 60, "answer": 8})


def words_of(negative: str, positive: str) -> dict[str, Any]:
    return {"field": "label", "words": {"neg": negative, "pos": positive}}


WORDS = words_of(" not good at all", " not bad")
REFUSED: list[dict[str, Any]] = [
    without(GOOD, label=WORDS, tokens={"longest": 60, "answer": 2}),
    without(GOOD, tokens={"longest": 9, "answer": 8}),
    without(GOOD, prompt="{text} Ans", label=words_of("wer", " yes")),
    without(GOOD, prompt="{thing}", label=words_of("s yes", "s no"), splits={"by": "text"}),
    without(COMPLETION, tokens={"longest": 60, "answer": 1}),
]
CODES = (
    *("answers_too_long", "items_too_long", "no_own_tokens", "label_word_varies"),
    "answers_too_long",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = a_qwen3_folder(tmp_path / "root" / "qwen", vocabulary=400)
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 128}))
    (place / "tokenizer.json").write_bytes(PAIRS)
    return place


@pytest.fixture
def settings(database_url: str, broker_url: str, tmp_path: Path, folder: Path) -> Settings:
    return with_a_root(database_url, broker_url, tmp_path, folder.parent)


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is known yet, and a process may start late on a busy machine."""
    monkeypatch.setattr(token_checks, "LONGEST_SECONDS", 120.0)
    monkeypatch.setattr(token_checks, "LONGEST_WAIT", 120.0)
    token_checks.forget()
    yield
    token_checks.forget()


@pytest.fixture
def lab(api: TestClient) -> TestClient:
    """The API with a dataset and an imported model."""
    made = api.post("/v1/datasets", json={"name": "reviews", "records": RECORDS})
    assert made.status_code == 201, made.text
    imported = api.post("/v1/jobs", json=IMPORT)
    assert imported.status_code == 201, imported.text
    return api


def a_spec(task: dict[str, Any], **members: Any) -> dict[str, Any]:
    method = {"name": "lora", "rank": 1}
    return {"kind": "adapt", "base_model": "qwen", "task": task, "method": method} | members


def of_worker(folder: Path, task: dict[str, Any], tokeniser: Tokeniser) -> tuple[Problem, ...]:
    """The problems for which a worker refuses the task before its first step."""
    with pytest.raises(InvalidSpec) as caught:
        read_corpus(stored(folder, RECORDS).task(task, tokeniser))
    return caught.value.problems


def said(answer: Any) -> list[tuple[str, str, str]]:
    assert answer.status_code == 422, answer.text
    return [(e["pointer"], e["code"], e["detail"]) for e in answer.json()["errors"]]


def test_the_api_refuses_what_the_worker_would(lab: TestClient, tmp_path: Path):
    for task in REFUSED:
        problems = of_worker(tmp_path, task, read_tokeniser(PAIRS, 1))
        expected = [(p.pointer, p.code, p.detail) for p in problems]
        assert expected[0][1] == CODES[REFUSED.index(task)]
        assert said(lab.post("/v1/jobs?validate_only=true", json=a_spec(task))) == expected
        assert said(lab.post("/v1/jobs", json=a_spec(task))) == expected


def test_the_tokeniser_of_an_uploaded_folder_is_read_too(lab: TestClient, folder: Path):
    files = [{"name": p.name, "upload": sent(lab, p.read_bytes())} for p in folder.iterdir()]
    made = lab.post("/v1/model-folders", json={"name": "qwen", "files": files})
    assert made.status_code == 201, made.text
    uploaded = {**IMPORT, "name": "uploaded", "folder": "uploaded/qwen"}
    assert lab.post("/v1/jobs", json=uploaded).status_code == 201
    places = [a_spec(REFUSED[1], base_model=base) for base in ("qwen", "uploaded")]
    below, stored_there = (said(lab.post("/v1/jobs", json=spec)) for spec in places)
    assert below == stored_there
    assert below[0][1] == "items_too_long"


def test_unfavourable_label_words_are_warned_of(lab: TestClient):
    words = without(GOOD, label=WORDS, tokens={"longest": 60, "answer": 40})
    preview = lab.post("/v1/jobs?validate_only=true", json=a_spec(words))
    assert preview.status_code == 200, preview.text
    several, alike = preview.json()["warnings"][-2:]
    assert several.startswith("Label words of several tokens: ' not good at all' (")
    assert alike == ("The label words ' not good at all' and ' not bad' begin with the same token.")
    assert lab.post("/v1/jobs", json=a_spec(words)).status_code == 201


def test_evaluation_tasks_and_studies_have_their_own_places(lab: TestClient):
    bad = REFUSED[1]
    evaluated = a_spec(GOOD, evaluation={"tasks": [GOOD, bad]})
    ((pointer, code, _),) = said(lab.post("/v1/jobs", json=evaluated))
    assert (pointer, code) == ("/evaluation/tasks/1/tokens/longest", "items_too_long")
    study = {"name": "small", "base_models": ["qwen"], "tasks": [GOOD, bad], "budgets": [2000]}
    study["methods"] = ["lora"]
    for path in ("/v1/studies?validate_only=true", "/v1/studies"):
        ((pointer, code, _),) = said(lab.post(path, json=study))
        assert (pointer, code) == ("/tasks/1/tokens/longest", "items_too_long")
    words = without(GOOD, label=WORDS, tokens={"longest": 60, "answer": 40})
    preview = lab.post("/v1/studies?validate_only=true", json=study | {"tasks": [words]})
    assert "begin with the same token" in " ".join(preview.json()["warnings"])


def test_a_model_that_is_trained_here_reads_bytes(api: TestClient, tmp_path: Path):
    api.post("/v1/datasets", json={"name": "reviews", "records": RECORDS})
    task = without(CLASSIFICATION, tokens={"longest": 20, "answer": 1})
    (problem,) = of_worker(tmp_path, task, ByteTokeniser())
    pretraining = {"kind": "pretrain", "name": "reader", "family": "minigpt", "task": task}
    expected = [(problem.pointer, problem.code, problem.detail)]
    assert said(api.post("/v1/jobs", json=pretraining)) == expected
    inline = a_spec(task, base_model=pretraining | {"task": CLASSIFICATION}, method="bitfit")
    assert said(api.post("/v1/jobs?validate_only=true", json=inline)) == expected


def test_only_the_first_records_are_read(lab: TestClient, monkeypatch: pytest.MonkeyPatch):
    lengths = [len(record["text"]) for record in RECORDS]
    assert max(lengths[:1]) < max(lengths)
    monkeypatch.setattr(token_checks, "MOST_RECORDS", 1)
    tight = without(GOOD, tokens={"longest": 60, "answer": 8})
    assert lab.post("/v1/jobs?validate_only=true", json=a_spec(tight)).status_code == 200


# What cannot be read changes nothing


@pytest.mark.parametrize(
    ("content", "how"), [(PAIRS + b"\n", "digest "), (None, "missing")], ids=["changed", "gone"]
)
def test_another_tokeniser_than_that_of_the_import_is_refused_and_not_read(
    lab: TestClient, folder: Path, content: bytes | None, how: str
):
    if content is None:
        (folder / "tokenizer.json").unlink()
    else:
        (folder / "tokenizer.json").write_bytes(content)
    ((pointer, code, detail),) = said(lab.post("/v1/jobs", json=a_spec(GOOD)))
    assert (pointer, code) == ("/base_model", "folder_changed")
    assert f"Changed since then: tokenizer.json ({how}" in detail


def test_a_check_that_takes_too_long_is_broken_off(
    lab: TestClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(token_checks, "LONGEST_SECONDS", 0.01)
    assert lab.post("/v1/jobs", json=a_spec(REFUSED[1])).status_code == 201


def a_wide_tokeniser() -> bytes:
    words = {str(number): number for number in range(10**6)}
    return json.dumps({"model": {"type": "BPE", "vocab": words, "merges": []}}).encode()


HOSTILE = {
    "deep": lambda: b"[" * 2**22,
    "wide": a_wide_tokeniser,
    "text": lambda: b"\xff" * 2**20,
}


@pytest.mark.long("large uploads and slow clients", but=1)
@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_tokeniser_neither_hangs_nor_fills_the_api(
    api: TestClient,
    folder: Path,
    content: Callable[[], bytes],
    monkeypatch: pytest.MonkeyPatch,
):
    """Its process is limited by processor time; a busy core takes more.

    Where that is used up, nothing was found, and the job is accepted.
    """
    monkeypatch.setattr(token_checks, "LONGEST_SECONDS", patience.LONG)
    monkeypatch.setattr(token_checks, "LONGEST_PAUSE", f"{2 * patience.LONG:.0f}s")
    (folder / "tokenizer.json").write_bytes(content())
    api.post("/v1/datasets", json={"name": "reviews", "records": RECORDS})
    assert api.post("/v1/jobs", json=IMPORT).status_code == 201
    before = psutil.Process().memory_info().rss
    refused = api.post("/v1/jobs", json=a_spec(REFUSED[1]))
    codes = [error["code"] for error in refused.json().get("errors", ())]
    assert (refused.status_code, codes[:1]) in ((422, ["bad_tokeniser"]), (201, [])), refused.text
    assert psutil.Process().memory_info().rss - before < 32 * 2**20


PIECES = a_word_piece_tokeniser(TEXTS)
FILLED = without(GOOD, label=words_of(" sad", " fine"), tokens={"longest": 32, "answer": 8})


@pytest.fixture
def filling(lab: TestClient, folder: Path) -> Path:
    """The folder of an imported encoder that fills masks in."""
    place = a_bert_folder(folder.parent / "bert", vocabulary=300, mask_token_id=MASK_OF_PIECES)
    (place / "tokenizer.json").write_bytes(PIECES)
    imported = {**IMPORT, "name": "bert", "folder": "models/bert"}
    assert lab.post("/v1/jobs", json=imported).status_code == 201
    return place


@pytest.mark.long("many bad inputs", but=2)
@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"label": words_of(" not at all", " fine")}, "words_of_unequal_length"),
        ({"label": words_of(" \N{SNOWMAN}", " fine")}, "special_word"),
        ({"label": words_of(" Fine", " fine")}, "word_twice"),
        ({"prompt": "{text} It is [MASK]"}, "mask_in_prompt"),
        ({"tokens": {"longest": 8, "answer": 1}}, "items_too_long"),
    ],
)
def test_label_words_that_an_encoder_cannot_fill_in_are_refused(
    lab: TestClient, filling: Path, tmp_path: Path, members: dict[str, Any], code: str
):
    task = without(FILLED, **members)
    data = stored(tmp_path, RECORDS)
    tokeniser = read_tokeniser(PIECES, None)
    source = TextSource(data.path, data.facts.digest, tokeniser, mask=MASK_OF_PIECES)
    with pytest.raises(InvalidSpec) as caught:
        read_corpus(data.task(task).with_texts({source.digest: source}))
    expected = [(p.pointer, p.code, p.detail) for p in caught.value.problems]
    assert [found for _, found, _ in expected] == [code]
    for path in ("/v1/jobs?validate_only=true", "/v1/jobs"):
        assert said(lab.post(path, json=a_spec(task, base_model="bert"))) == expected


def test_label_words_that_an_encoder_fills_in_are_accepted(lab: TestClient, filling: Path):
    preview = lab.post("/v1/jobs?validate_only=true", json=a_spec(FILLED, base_model="bert"))
    assert preview.status_code == 200, preview.text
    assert not any("Label words" in warning for warning in preview.json()["warnings"])
    mixed = {"name": "both", "base_models": ["qwen", "bert"], "tasks": [FILLED], "budgets": [99]}
    study = lab.post("/v1/studies?validate_only=true", json=mixed | {"methods": ["lora"]})
    assert study.status_code == 200, study.text
    several = without(FILLED, label=words_of(" now sad", " now fine"))
    preview = lab.post("/v1/jobs?validate_only=true", json=a_spec(several, base_model="bert"))
    assert "without seeing one another" in " ".join(preview.json()["warnings"])


READER = {
    "kind": "pretrain",
    "name": "talker",
    "family": {"name": "minigpt", "layers": 1, "heads": 2, "width": 8},
    "task": dict(CHAT),
}


def test_conversations_for_a_model_of_bytes_are_checked(api: TestClient, tmp_path: Path) -> None:
    made = api.post("/v1/datasets", json={"name": "chats", "records": chats(90)})
    assert made.status_code == 201, made.text
    data = stored(tmp_path, chats(90), "chats")
    for limits in ({"longest": 60, "answer": 20}, {"longest": 200, "answer": 4}):
        task = {**CHAT, "tokens": limits}
        with pytest.raises(InvalidSpec) as caught:
            read_corpus(data.task(task))
        expected = [(p.pointer, p.code, p.detail) for p in caught.value.problems]
        assert said(api.post("/v1/jobs", json=READER | {"task": task})) == expected
    fitting = READER | {"task": {**CHAT, "tokens": {"longest": 200, "answer": 20}}}
    assert api.post("/v1/jobs", json=fitting).status_code == 201


LONG: dict[str, Any] = {**CHAT, "tokens": {"longest": 60, "answer": 20}}


def test_a_template_of_a_model_is_not_run_here_and_a_preview_says_so(
    api: TestClient, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "chat_template.jinja").write_text("{{ raise_exception('never') }}")
    assert api.post("/v1/jobs", json=IMPORT).status_code == 201
    made = api.post("/v1/datasets", json={"name": "chats", "records": chats(90)})
    assert made.status_code == 201, made.text
    monkeypatch.setattr("adaptlab.text.chat._compiled", None)
    preview = api.post("/v1/jobs?validate_only=true", json=a_spec(LONG)).json()
    assert token_checks.UNCHECKED in preview["warnings"]
    assert api.post("/v1/jobs", json=a_spec(LONG)).status_code == 201


def test_conversations_for_a_model_without_a_template_are_checked(
    lab: TestClient, tmp_path: Path
) -> None:
    made = lab.post("/v1/datasets", json={"name": "chats", "records": chats(90)})
    assert made.status_code == 201, made.text
    with pytest.raises(InvalidSpec) as caught:
        read_corpus(stored(tmp_path, chats(90), "chats").task(LONG, read_tokeniser(PAIRS, 1)))
    expected = [(p.pointer, p.code, p.detail) for p in caught.value.problems]
    assert said(lab.post("/v1/jobs", json=a_spec(LONG))) == expected
    fitting = {**CHAT, "tokens": {"longest": 128, "answer": 40}}
    preview = lab.post("/v1/jobs?validate_only=true", json=a_spec(fitting))
    assert preview.status_code == 200, preview.text
    assert token_checks.UNCHECKED not in preview.json()["warnings"]
