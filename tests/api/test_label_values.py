"""Labels that are missing or written twice, and guessed tasks."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.errors import InvalidSpec
from adaptlab.inspection.file_inspection import inspected
from adaptlab.records.gathering import Gatherer
from adaptlab.records.reading import read_records
from adaptlab.records.record import Record
from adaptlab.specs.choices import resolve_task
from adaptlab.specs.spec import Choice
from adaptlab.text.fitting import roles_of, task_document
from adaptlab_services.models.datasets import fitting_task


def facts_of(records: Sequence[Record]) -> Any:
    gatherer = Gatherer()
    for record in records:
        gatherer.add(record)
    return gatherer.facts("reviews", gatherer.digest)


def labelled(*labels: str) -> list[Record]:
    return [
        {"text": f"a text with the number {place}", "label": label}
        for place, label in enumerate(labels * 6)
    ]


def task(**label: object) -> Choice:
    head = {"score": "head"} if "words" not in label else {}
    return Choice.model_validate(
        {"name": "text_classification", "dataset": "reviews", "prompt": "{text}",
         "label": {"field": "label", **label}, **head}
    )  # fmt: skip


MISSING = ["", " ", "NaN", "nan", "NA", "null", "None", "N/A"]
TWICE = [("1", "1.0"), ("0.0", "0"), ("pos", "pos "), ("Pos", "pos"), ("true", "True"), ("1", "01")]


@pytest.mark.parametrize("value", MISSING)
def test_a_missing_label_is_no_class(value: str) -> None:
    facts = facts_of(labelled("pos", "neg", value))
    with pytest.raises(InvalidSpec, match=r"6 records have the value .* means no label") as refused:
        resolve_task(task(), "/task", {"reviews": facts})
    assert [problem.code for problem in refused.value.problems] == ["missing_label"]
    roles = roles_of(facts)
    assert roles is not None
    document: Any = task_document(facts, roles)
    assert list(document["label"]["words"]) == ["neg", "pos"]


def test_a_value_that_the_task_names_is_a_label() -> None:
    facts = facts_of(labelled("NA", "EU"))
    named = {"NA": " Africa", "EU": " Europe"}
    assert resolve_task(task(words=named), "/task", {"reviews": facts})
    assert resolve_task(task(classes=["NA", "EU"]), "/task", {"reviews": facts})
    assert resolve_task(task(), "/task", {"reviews": facts_of(labelled("none", "refund"))})


@pytest.mark.parametrize("pair", TWICE)
def test_one_label_in_two_writings_is_refused_with_both(pair: tuple[str, str]) -> None:
    facts = facts_of(labelled(*pair, "other"))
    with pytest.raises(InvalidSpec, match=r"one label in several writings: .* \(6\)") as refused:
        resolve_task(task(), "/task", {"reviews": facts})
    assert [problem.code for problem in refused.value.problems] == ["label_in_two_writings"]


def test_a_head_has_hundreds_of_classes_and_words_do_not() -> None:
    facts = facts_of(labelled(*(f"class {place}" for place in range(300))))
    resolved: Any = resolve_task(task(), "/task", {"reviews": facts})
    assert resolved.classes() == 300
    assert roles_of(facts) is None


def rows(*lines: str) -> list[Record]:
    return list(read_records(["\n".join(lines).encode()], "csv"))


def test_a_first_line_that_is_a_record_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="first line has no names of fields but values: 'a good"):
        rows("a good film,pos", "a bad film,neg", "another good one,pos")
    with pytest.raises(InvalidSpec, match="first line has no names of fields"):
        rows("3,yes", "5,no", "6,yes")
    with pytest.raises(InvalidSpec, match="Line 3: the line repeats the names of the fields"):
        rows("text,label", "a good film,pos", "text,label", "a bad film,neg")


def test_a_column_that_is_named_as_one_of_its_values_is_kept() -> None:
    assert len(rows("message,spam", "buy now,spam", "hello,ham")) == 2


INSTRUCTION = {"instruction": "Add.", "input": "1 and 2", "output": "3"}


@pytest.mark.parametrize(
    ("record", "prompt"),
    [
        (INSTRUCTION, "{instruction}\n{input}\nAnswer:"),
        ({"question": "Who?", "context": "Ada wrote.", "answer": "Ada"},
         "{question}\n{context}\nAnswer:"),
        ({"prompt": "Say yes", "completion": "yes"}, "{prompt}\nAnswer:"),
    ],
)  # fmt: skip
def test_what_belongs_to_a_text_is_in_the_prompt(record: Record, prompt: str) -> None:
    facts = facts_of([{name: f"{value} {n}" for name, value in record.items()} for n in range(70)])
    roles = roles_of(facts)
    assert roles is not None
    assert task_document(facts, roles)["prompt"] == prompt


OTHERS = [{"short": "ab" * n, "long": "x", "label": "pn"[n % 2]} for n in range(1, 9)]


@pytest.mark.parametrize("records", [labelled("pos", "neg"), OTHERS])
def test_page_and_command_line_guess_one_task(
    records: list[Record], api: TestClient, sessions: sessionmaker[Session], tmp_path: Path
) -> None:
    made = api.post("/v1/datasets", json={"name": "reviews", "records": records})
    assert made.status_code == 201
    file = tmp_path / "reviews.jsonl"
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    with sessions() as session:
        on_page = fitting_task(session, "reviews")
    spec: Any = inspected(file, "jsonl").spec
    assert on_page is not None
    assert {**on_page, "tokens": 0} == {**spec["task"], "tokens": 0}


def test_forms_of_published_datasets_are_read() -> None:
    shared = [
        {"from": "system", "value": "Be brief."},
        {"from": "human", "value": "Hi"},
        {"from": "gpt", "value": "Hello"},
    ]
    squad = {
        "context": "Ada wrote.",
        "question": "Who?",
        "answers": {"text": ["Ada", "Ada L."], "answer_start": [0, 0]},
    }
    (chat,) = read_records([json.dumps({"conversations": shared}).encode()], "jsonl")
    assert chat["conversations"] == (
        '[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"},'
        '{"role":"assistant","content":"Hello"}]'
    )
    (record,) = read_records([json.dumps(squad).encode()], "jsonl")
    assert record["answers"] == '["Ada", "Ada L."]'
    facts = facts_of([{name: f"{value} {n}" for name, value in record.items()} for n in range(70)])
    roles = roles_of(facts)
    assert roles is not None
    assert (roles.text, roles.answer) == ("question", "answers")
    assert task_document(facts, roles)["prompt"] == "{question}\n{context}\nAnswer:"


@pytest.mark.parametrize(
    ("records", "of_one", "field", "proposed"),
    [
        (600, 4, "context", "context"),
        (600, 1, "context", None),
        (600, 300, "context", None),  # two groups make no three splits
        (600, 4, "remark", None),  # the name says nothing
        (9000, 3, "User", "User"),  # more values than are counted one by one
        (9000, 1, "User", None),
    ],
)
def test_records_that_belong_together_are_proposed_as_groups(
    records: int, of_one: int, field: str, proposed: str | None
) -> None:
    facts = facts_of(
        [
            {"question": f"Q {n}?", field: f"Text {n // of_one}.", "answer": f"a{n}"}
            for n in range(records)
        ]
    )
    roles = roles_of(facts)
    assert roles is not None
    task = task_document(facts, roles)
    assert task.get("cluster") == proposed
    by = proposed or "question"
    assert task["splits"] == {"validation": 0.1, "test": 0.2, "by": by}


def test_no_groups_are_proposed_beside_the_splits_of_a_file() -> None:
    splits = ("train", "validation", "test")
    rows = [
        {
            "question": f"Q {n}?",
            "context": f"T {n // 4}.",
            "answer": f"a{n}",
            "split": splits[n % 3],
        }
        for n in range(600)
    ]
    facts = facts_of(rows)
    roles = roles_of(facts)
    assert roles is not None
    task = task_document(facts, roles)
    assert "cluster" not in task
    assert task["splits"] == {"field": "split"}


def test_a_role_that_nobody_has_is_named() -> None:
    turns = [{"from": "tool", "value": "x"}]
    with pytest.raises(InvalidSpec, match="has a role 'tool' in message 1"):
        list(read_records([json.dumps({"conversations": turns}).encode()], "jsonl"))
