"""Tasks that are guessed read all fields that belong together."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.texts import stored

from adaptlab.records.facts import RecordsFacts
from adaptlab.text.fields_together import options_of, read_with
from adaptlab.text.fitting import roles_of, roles_with, task_document

COUNT = 200


def facts_of(folder: Path, *fields: str, **labels: str) -> RecordsFacts:
    """Return the facts of records with texts and labels."""
    records = [
        {name: f"the {name} of case number {n} here" for name in fields}
        | {name: values.split()[n % len(values.split())] for name, values in labels.items()}
        for n in range(COUNT)
    ]
    return stored(folder, records).facts


def task_of(facts: RecordsFacts) -> Any:  # JSON of many kinds
    roles = roles_of(facts)
    return roles and task_document(facts, roles)


@pytest.mark.parametrize(
    ("fields", "labels", "prompt"),
    [
        ("sentence1 sentence2", {"label": "0 1"}, "{sentence1}\n{sentence2}"),
        ("qid1 qid2 question1 question2", {"is_duplicate": "0 1"}, "{question1}\n{question2}"),
        ("text_a text_b", {"same": "a b"}, "{text_a}\n{text_b}"),
        ("hypothesis premise", {"gold": "yes no"}, "{premise}\n{hypothesis}"),
        ("id subject body", {"queue": "hr it"}, "{subject}\n{body}"),
        ("description Title", {"label": "x y"}, "{Title}\n{description}"),
        ("passage question", {"answer": "true false"}, "{question}\n{passage}"),
        ("text", {"label": "x y"}, "{text}"),
    ],
)
def test_a_classification_reads_all_its_texts(
    fields: str, labels: Mapping[str, str], prompt: str, tmp_path: Path
) -> None:
    task = task_of(facts_of(tmp_path, *fields.split(), **labels))
    (label,) = labels
    assert task["prompt"] == f"{prompt}\nAnswer:"
    assert task["label"]["field"] == label
    assert "{" not in "".join(task["label"]["words"].values())


@pytest.mark.parametrize(
    ("fields", "prompt", "answer"),
    [
        ("instruction input output", "{instruction}\n{input}", "output"),
        ("id context question answers", "{question}\n{context}", "answers"),
        ("Question Answer", "{Question}", "Answer"),
        ("prompt chosen rejected", "{prompt}", "chosen"),
        ("id article highlights", "{article}", "highlights"),
        ("en de", "{en}", "de"),
        ("url summary text", "{text}", "summary"),
    ],
)
def test_a_completion_reads_all_its_texts(
    fields: str, prompt: str, answer: str, tmp_path: Path
) -> None:
    task = task_of(facts_of(tmp_path, *fields.split()))
    assert (task["prompt"], task["answer"]) == (f"{prompt}\nAnswer:", {"field": answer})


@pytest.mark.parametrize(
    ("fields", "labels", "words"),
    [
        ("question A B C", {"answer": "A B C"}, "A B C"),
        ("question option_a option_b", {"answer": "a b"}, "option_a option_b"),
        ("sent1 ending0 ending1 ending2", {"label": "0 1 2"}, "ending0 ending1 ending2"),
        ("goal sol1 sol2", {"label": "0 1"}, "sol1 sol2"),
        ("sentence option1 option2", {"answer": "1 2"}, "option1 option2"),
    ],
)
def test_choices_that_are_fields_are_the_words(
    fields: str, labels: Mapping[str, str], words: str, tmp_path: Path
) -> None:
    facts = facts_of(tmp_path, *fields.split(), **labels)
    task = task_of(facts)
    assert task["prompt"] == f"{{{fields.split()[0]}}}\nAnswer:"
    assert [*task["label"]["words"].values()] == [f" {{{word}}}" for word in words.split()]
    roles = roles_of(facts)
    assert roles is not None
    by_head = task_document(facts, roles, by_head=True)["prompt"]
    assert all(f"{{{word}}}" in str(by_head) for word in words.split())


def test_a_pair_with_a_third_is_none() -> None:
    assert read_with(["text1", "text2", "text3"], "text2") == ("text2",)
    assert options_of(["a1", "a2", "x"], ["0", "1"]) == {}
    assert options_of(["note0", "note1", "note2"], ["0", "1", "3"]) == {}


def test_numbers_and_names_of_records_are_no_answers(tmp_path: Path) -> None:
    records = [{"id": f"case {n}", "text": f"some text {n}", "score": f"0.{n}"} for n in range(99)]
    assert task_of(stored(tmp_path, records).facts) is None


def test_splits_go_by_a_text_that_differs(tmp_path: Path) -> None:
    records = [
        {"instruction": f"Task {n % 3}", "input": f"text {n}", "output": f"answer {n}"}
        for n in range(COUNT)
    ]
    facts = stored(tmp_path, records).facts
    task = task_of(facts)
    assert task["splits"]["by"] == "input"
    chosen = roles_with(facts, "output")
    assert chosen is not None
    assert chosen.title == "instruction and input"
