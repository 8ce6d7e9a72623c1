"""Lists of messages as values of records."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.chats import CHAT, chats, conversation
from tests.texts import stored, without

from adaptlab.errors import InvalidSpec
from adaptlab.records.buckets import bucket_of
from adaptlab.records.content import read_content
from adaptlab.records.conversations import conversation_in
from adaptlab.records.reading import read_records
from adaptlab.specs.choices import resolve_task
from adaptlab.specs.spec import Choice


def read(*values: Any) -> list[Any]:
    lines = "".join(json.dumps({"messages": value}) + "\n" for value in values)
    return [dict(record) for record in read_records([lines.encode()], "jsonl")]


def test_messages_become_canonical_text_that_is_read_back(tmp_path: Path):
    value = [
        {"content": 'Ça "va"?', "role": "user"},
        {"role": "assistant", "content": "Oui\n"},
    ]
    (record,) = read(value)
    text = '[{"role":"user","content":"Ça \\"va\\"?"},{"role":"assistant","content":"Oui\\n"}]'
    assert record == {"messages": text}
    data = stored(tmp_path, [record])
    with data.path.open("rb") as file:
        (again,) = read_content(file, data.facts.digest)
    messages = conversation_in(again["messages"]) or ()
    assert [message._asdict() for message in messages] == value
    assert conversation_in(text.replace(",", ", ")) is None, "only the canonical text is one"


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ([{"role": "tool", "content": "x"}], "a role 'tool' in message 1"),
        ([{"role": "function", "content": "x"}], "write a call into the assistant's content"),
        ([*conversation("a"), {"role": "assistant", "content": None, "tool_calls": []}],
         "'tool_calls' in message 2. Tool calls and their results are not read. Leave"),
        ([{"role": "user", "content": "x", "name": "Bo"}], "'name' in message 1"),
        ([{"role": "user"}], "no 'content' in message 1"),
        ([{"role": "user", "content": " "}], "an empty content in message 1"),
        ([{"role": "user", "content": [{"text": "x"}]}], "a content that is not text"),
        ([{"role": "assistant", "content": "x"}], "the role 'assistant' in message 1"),
        (conversation("a", "b") * 2 + [{"role": "system", "content": "c"}], "where user has"),
        ([{"role": "system", "content": "x"}], "a system message only"),
        ([{"role": "user", "content": "x"}, "y"], "a message 2 that is not an object"),
        (conversation("a", "b") * 129, "has 258 messages, more than 256"),
        ([{"role": "user", "content": "a\0"}], "a NUL character"),
    ],
)  # fmt: skip
def test_what_is_no_conversation_is_refused_with_its_line(value: Any, wrong: str):
    with pytest.raises(InvalidSpec) as caught:
        read(conversation("a", "b"), value)
    (problem,) = caught.value.problems
    assert problem.detail.startswith("Line 2: the value of 'messages' ")
    assert wrong in problem.detail


def test_facts_count_conversations(tmp_path: Path):
    system = [{"role": "system", "content": "s"}]
    values = read(conversation("a", "b", "c", "déjà"), [*system, *conversation("a", "b")])
    figures = stored(tmp_path, values).facts.fields[0].conversations
    assert figures is not None
    assert figures.model_dump() == {
        "messages": 7,
        "longest": 4,
        "with_system": 1,
        "unanswered": 0,
        "longest_answer": 6,
    }
    other = stored(tmp_path, [*values, {"messages": "hello"}])
    assert other.facts.fields[0].conversations is None


def test_conversations_with_equal_prompts_share_a_bucket():
    first, second, other = read(
        conversation("Hi", "a", "Who?", "me"),
        conversation("hi!", "A", "who", "somebody else"),
        conversation("Hi", "b", "Who?", "me"),
    )
    assert bucket_of(first["messages"]) == bucket_of(second["messages"])
    assert bucket_of(first["messages"]) != bucket_of(other["messages"])


@pytest.mark.parametrize(
    ("changes", "pointer", "wrong"),
    [
        ({"messages": {"field": "other"}}, "/task/messages/field", "no field 'other'"),
        ({"messages": {"field": "text"}}, "/task/messages/field", "not a list of messages"),
        ({"messages": {"field": "open"}}, "/task/messages/field", "60 conversations of 'chats'"),
        ({"tokens": {"if_longer": "cut"}}, "/task/tokens/if_longer", "are not cut"),
        ({"tokens": {"cut": {"field": "messages"}}}, "/task/tokens/cut/field", "not cut"),
        ({"tokens": {"longest": 20}}, "/task/tokens/longest", "no room for a prompt"),
        ({"prompt": "{messages}"}, "/task/prompt", ""),
        ({"answer": {"field": "messages"}}, "/task/answer", ""),
    ],
)
def test_a_task_that_does_not_fit_is_refused(
    changes: Any, pointer: str, wrong: str, tmp_path: Path
):
    data = stored(tmp_path, chats(60), "chats")
    with pytest.raises(InvalidSpec) as caught:
        resolve_task(Choice.model_validate(without(CHAT, **changes)), "/task", data.datasets)
    (problem,) = caught.value.problems
    assert problem.pointer == pointer
    assert wrong in problem.detail
