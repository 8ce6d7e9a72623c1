"""Standard tasks are rendered without a network, or refused with a reason."""

import json
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.benchmarks import write_documents

from adaptlab.records.gathering import Gatherer
from adaptlab.records.rendered_items import item_of
from adaptlab_client.machine import benchmark_items, harness_files
from adaptlab_client.machine.benchmark_generation import NotRendered
from adaptlab_client.machine.benchmark_items import rendered


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    def refused(*_: Any) -> None:
        raise OSError("no network")

    folder = tmp_path_factory.mktemp("documents")
    write_documents(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refused)
        yield folder


def test_the_same_documents_give_the_same_dataset(documents: Path, tmp_path: Path) -> None:
    arc = tmp_path / "elsewhere"
    shutil.copytree(documents / "arc_easy", arc)
    one, same = (rendered("arc_easy", 2, folder) for folder in (documents / "arc_easy", arc))
    assert digest(one) == digest(same)
    first = rendered("arc_easy", 2, arc, limit=3)
    assert first.items == one.items[:3], "the first items of all"
    assert first.name == "arc_easy-2-shots-first-3"
    lines = (arc / "test.jsonl").read_text().splitlines()
    changed = json.dumps({**json.loads(lines[0]), "id": "other"})
    (arc / "test.jsonl").write_text("\n".join([changed, *lines[1:]]))
    other = rendered("arc_easy", 2, arc)
    assert other.rendering.data != one.rendering.data
    assert other.rendering.yaml == one.rendering.yaml
    assert digest(other) != digest(one)


def digest(items: benchmark_items.RenderedTask) -> str:
    gatherer = Gatherer()
    list(gatherer.lines(items.records()))
    return gatherer.digest


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        ("humaneval", "reads answers by"),
        ("mmlu", "has no task 'mmlu'"),
        ("drop", "a program of its own in process_results"),
        ("gsm8k_cot_self_consistency", "draws 64 answers to each item"),
        ("nonsense", "Name a task, such as hellaswag, a group"),
        ("truthfulqa_mc2", "a program of its own in process_results"),
        ("../hellaswag", "has no task"),
        ("sciq", "needs the split 'test'"),
    ],
)
def test_what_is_not_scored_here_is_refused(documents: Path, task: str, reason: str) -> None:
    with pytest.raises(NotRendered, match=reason):
        rendered(task, data=documents / "hellaswag")


def test_words_and_bytes_of_texts_are_those_that_the_task_counts(documents: Path) -> None:
    """wikitext counts them before it takes its marks out, by a program."""
    done = rendered("wikitext", data=documents / "wikitext")
    first = done.items[0]
    assert first.continuations[0] == " = Trees =\nThe tree-like stone, of 1,000 years.\n"
    page = json.loads((documents / "wikitext" / "test.jsonl").read_text().splitlines()[0])["page"]
    assert first.sizes == {"bytes": len(page.encode()), "words": len(re.split(r"\s+", page))}
    assert done.rendering.text is not None
    assert done.rendering.text > len(page)
    assert item_of(first.record(done.rendering)) == first


def test_texts_have_no_examples_and_are_not_empty(documents: Path, tmp_path: Path) -> None:
    with pytest.raises(NotRendered, match="Leave --shots out"):
        rendered("wikitext", 1, documents / "wikitext")
    (tmp_path / "test.jsonl").write_text(json.dumps({"page": ""}) + "\n")
    with pytest.raises(NotRendered, match="Item 0 of wikitext is empty"):
        rendered("wikitext", data=tmp_path / "test.jsonl")


def test_an_item_among_its_own_examples_is_refused(documents: Path) -> None:
    """lambada_openai has no others, so the harness draws among its items."""
    with pytest.raises(NotRendered, match="one of its own examples"):
        rendered("lambada_openai", 11, documents / "lambada_openai" / "test.jsonl")


def test_items_before_other_items_are_counted(documents: Path, tmp_path: Path) -> None:
    folder = tmp_path / "sharing"
    shutil.copytree(documents / "arc_easy", folder)
    first, second, *_ = (folder / "test.jsonl").read_text().splitlines()
    (folder / "train.jsonl").write_text(f"{first}\n{second}\n")
    assert rendered("arc_easy", 1, folder, limit=2).shown == 2


def test_documents_of_another_form_are_refused(documents: Path) -> None:
    with pytest.raises(NotRendered, match="could not be read"):
        rendered("arc_easy", data=documents / "lambada_openai" / "test.jsonl")


def test_another_version_of_the_harness_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness_files, "VERSION", "0.4.0")
    with pytest.raises(NotRendered, match=r"may write other prompts than 0\.4\.0"):
        rendered("arc_easy")


def test_a_machine_without_the_harness_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "lm_eval.tasks", None)
    with pytest.raises(NotRendered, match=r"Install adaptlab\[benchmarks\]"):
        rendered("arc_easy")
