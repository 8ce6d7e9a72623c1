"""Conversations in jobs, written and read as the library does."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.chats import (
    CHAT,
    CHATML,
    LLAMA,
    a_chat_tokeniser,
    a_tokeniser_configuration,
    chats,
)
from tests.engine.making import Remembering
from tests.engine.running import local, run
from tests.folders import a_qwen3_folder
from tests.texts import Stored, adaptation_of, stored, without
from transformers import PreTrainedTokenizerFast

from adaptlab.engine.items.datasets import read_datasets
from adaptlab.engine.items.texts import texts_of
from adaptlab.errors import BadModelFolder, InvalidSpec
from adaptlab.plugins.text_task import TextTask
from adaptlab.records.conversations import conversation_in
from adaptlab.runs.events import Evaluated
from adaptlab.specs.resolved import ResolvedAdapt
from adaptlab.weights.model_folder import check_folder, fingerprint
from adaptlab.weights.placed_folder import PlacedFolder

REFUSING = "{{ raise_exception('never') if messages | length > 3 }}" + CHATML


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return stored(tmp_path_factory.mktemp("data"), chats(60), "chats")


def a_folder(path: Path, template: str | None, *, apart: bool = False) -> PlacedFolder:
    a_qwen3_folder(path, vocabulary=330)
    shape = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(shape | {"max_position_embeddings": 256}))
    (path / "tokenizer.json").write_bytes(a_chat_tokeniser())
    config = a_tokeniser_configuration(None if apart else template)
    (path / "tokenizer_config.json").write_bytes(config)
    if apart and template is not None:
        (path / "chat_template.jinja").write_text(template)
    return PlacedFolder(path=path, name="lab/chat", files=fingerprint(check_folder(path)))


def adaptation(data: Stored, folder: PlacedFolder, **changes: Any) -> ResolvedAdapt:
    members = {
        "task": without(CHAT, tokens={"longest": 28, "answer": 8}),
        "training": {"steps": 3, "batch_size": 4},
        "tuning": {"learning_rates": [0.01]},
        "seeds": 1,
        "evaluation": {"samples": 4, "shown": 4},
        **changes,
    }
    return adaptation_of(folder, data, **members)


LONG = {"task": without(CHAT, tokens={"longest": 200, "answer": 8})}


@pytest.mark.parametrize(("template", "apart"), [(CHATML, False), (CHATML, True), (LLAMA, False)])
def test_prompts_and_answers_are_the_library_s(
    data: Stored, tmp_path: Path, template: str, apart: bool
):
    folder = a_folder(tmp_path / "model", template, apart=apart)
    resolved = adaptation(data, folder, **LONG)
    task = resolved.task.with_texts(read_datasets(resolved, (local(data.path),), folder).texts)
    assert isinstance(task, TextTask)
    texts = texts_of(task)
    library = PreTrainedTokenizerFast.from_pretrained(folder.path)
    tokens: list[int] = []
    for number, record in enumerate(chats(60)):
        said = [message._asdict() for message in conversation_in(record["messages"]) or ()]
        whole = library.apply_chat_template(said, return_dict=False)
        asked = library.apply_chat_template(
            said[:-1], add_generation_prompt=True, return_dict=False
        )
        start, read = int(texts.starts[number]), int(texts.read[number]) + 1
        tokens = texts.tokens[start : start + read].tolist()
        assert tokens == whole[:read]
        assert tokens[: int(texts.asked[number])] == asked
        assert library.decode(whole[read:]).strip() == "", "only a line feed is left out"
    assert texts.end == tokens[-1] == (321 if template == CHATML else 1)


def test_a_job_is_trained_on_conversations(data: Stored, tmp_path: Path):
    folder = a_folder(tmp_path / "model", CHATML)
    resolved = adaptation(data, folder, **LONG)
    watching = Remembering()
    run(resolved, (), tmp_path, watching, "cpu", folder=folder, datasets=(data.path,))
    scored = [e.evaluation for e in watching.of(Evaluated)]
    assert [(one.attached, one.total) for one in scored] == [(True, 4), (False, 4)]


def refusal(data: Stored, folder: PlacedFolder, tmp_path: Path, **changes: Any) -> str:
    resolved = adaptation(data, folder, **changes)
    with pytest.raises((InvalidSpec, BadModelFolder)) as caught:
        run(resolved, (), tmp_path, Remembering(), "cpu", folder=folder, datasets=(data.path,))
    return str(caught.value)


def test_a_template_that_refuses_names_the_record(data: Stored, tmp_path: Path):
    folder = a_folder(tmp_path / "model", REFUSING)
    wrong = refusal(data, folder, tmp_path, **LONG)
    assert "refuses the conversation: never. This concerns 30 records; line 2 of" in wrong
    assert "leave these records out" in refusal(data, folder, tmp_path)


def test_a_changed_or_a_new_template_is_refused(data: Stored, tmp_path: Path):
    folder = a_folder(tmp_path / "model", CHATML)
    (folder.path / "chat_template.jinja").write_text(LLAMA)
    folder.checked()  # jobs without conversations do not need it
    assert "has chat_template.jinja, which was not there" in refusal(data, folder, tmp_path)
    (folder.path / "chat_template.jinja").unlink()
    (folder.path / "tokenizer_config.json").write_text(json.dumps({"chat_template": LLAMA}))
    assert "Changed since then: tokenizer_config.json" in refusal(data, folder, tmp_path)
