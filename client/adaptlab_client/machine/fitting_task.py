"""The task that fits a file of records, guessed from its fields."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from pydantic import JsonValue

from adaptlab.figures import counted
from adaptlab.plugins.text_task import LONGEST_ITEM, TextTask
from adaptlab.records.facts import FieldFacts, RecordsFacts
from adaptlab.specs.resolve import resolve_task
from adaptlab.specs.spec import Choice
from adaptlab.text.splitting import NAMES_OF_SPLITS, SplitCounts
from adaptlab.values import Value
from adaptlab_answers.documents import JsonObject
from adaptlab_client.machine.columns import Column
from adaptlab_client.machine.token_counts import TokenCounter

LABELS = ("label", "labels", "class", "category", "sentiment", "target", "intent")
"""Usual names of a field with labels, the likeliest first."""

ANSWERS: Mapping[str, tuple[str, ...]] = {
    "prompt": ("completion", "response", "answer", "output", "target"),
    "instruction": ("output", "response", "completion", "answer"),
    "question": ("answer", "answers", "response"),
    "input": ("output", "response", "target"),
}
"""Usual names of a prompt and of its answer."""

LONGEST_LABEL = 99
"""Characters of a label that, after a space, can be a label word."""

LONGEST = 256
"""Tokens of an item without a tokeniser, as the task's own default."""

LONGEST_ANSWER = 512
MULTIPLE = 8


class Roles(Value):
    """Fields by their part in a task.

    Attributes:
        task: the task that fits.
        text: the field that the model reads.
        answer: the field with the label or the completion.
        split: the field that names splits, None if there is none.
    """

    task: Literal["text_classification", "text_completion"]
    text: str
    answer: str
    split: str | None


class Fit(NamedTuple):
    """A part of a spec, and what to know before using it."""

    spec: JsonObject
    notes: tuple[str, ...]


def roles_of(facts: RecordsFacts, medians: Mapping[str, int]) -> Roles | None:
    """Return the fields of the task that fits, None if none does.

    Fields with usual names are taken for a prompt and its answer. Otherwise the label is the field
    with the fewest values of 2 to 64, usual names first, and the text is the longest other one.

    Args:
        facts: the facts about the records.
        medians: the median length of each field in bytes.
    """
    split = next((field.name for field in facts.fields if _names_splits(field)), None)
    fields = {field.name: field for field in facts.fields if field.name != split}
    for prompt, answers in ANSWERS.items():
        answer = next((name for name in answers if name in fields), None)
        if prompt in fields and answer is not None:
            return Roles(task="text_completion", text=prompt, answer=answer, split=split)
    labels = [field for field in fields.values() if _is_label(field, facts.records)]
    label = min(labels, key=_likelihood).name if labels else None
    texts = [name for name, field in fields.items() if name != label and _differs(field)]
    if label is None or not texts:
        return None
    text = max(texts, key=lambda name: medians[name])
    return Roles(task="text_classification", text=text, answer=label, split=split)


def spec_of(
    facts: RecordsFacts,
    roles: Roles,
    columns: Mapping[str, Column],
    counter: TokenCounter | None,
) -> Fit:
    """Return the part of a spec with the task, and notes on it."""
    answer = facts.field(roles.answer)
    assert answer is not None
    task: dict[str, JsonValue] = {"name": roles.task, "dataset": facts.name}
    task["prompt"] = f"{{{roles.text}}}\n"
    notes: list[str] = []
    if roles.task == "text_classification":
        words = {entry.value: _word(entry.value) for entry in answer.values or ()}
        task["label"] = {"field": roles.answer, "words": dict(words)}
        notes += _notes_on_words(words, counter)
        lengths = [len(counter.tokens(word)) for word in words.values()] if counter else []
    else:
        task["answer"] = {"field": roles.answer}
        tokens = columns[roles.answer].tokens
        lengths = [tokens.most] if tokens else []
        if answer.empty:
            records = counted(answer.empty, "record")
            notes.append(f"The answer of {records} is empty. Give every record an answer.")
    task["tokens"] = _tokens(columns[roles.text], max(lengths, default=0), notes)
    task["splits"] = (
        {"field": roles.split}
        if roles.split
        else {"validation": 0.1, "test": 0.2, "by": roles.text}
    )
    return Fit({"task": task}, tuple(notes))


def splits_of(task: JsonObject, facts: RecordsFacts) -> SplitCounts:
    """Return the sizes of the splits of a task.

    Raises:
        InvalidSpec: the records do not allow the task.
    """
    resolved = resolve_task(Choice.model_validate(task), "/task", {facts.name: facts})
    assert isinstance(resolved, TextTask)
    return resolved.reference_to_records().splits


def _tokens(text: Column, answer: int, notes: list[str]) -> dict[str, JsonValue]:
    """Return limits that no item exceeds, as far as they are known."""
    if text.tokens is None:
        notes.append("Lengths in tokens are not known: give --tokenizer with the base model's.")
        return {"longest": LONGEST}
    # One more for a token at the end, or for other tokens beside the prompt than alone.
    limits: dict[str, JsonValue] = {"answer": min(answer + 1, LONGEST_ANSWER)}
    # Three more for the line feed, and for tokens at both ends that the tokeniser adds.
    needed = text.tokens.most + answer + 4
    longest = min(-(-needed // MULTIPLE) * MULTIPLE, LONGEST_ITEM)
    if needed > LONGEST_ITEM:
        limits["if_longer"] = "cut"
        notes.append(
            f"The longest item has {needed:,} tokens; what is above {LONGEST_ITEM:,} is cut."
        )
    return {"longest": longest} | limits


def _notes_on_words(words: Mapping[str, str], counter: TokenCounter | None) -> Sequence[str]:
    notes: list[str] = []
    if all(value.lstrip("-").isdigit() for value in words):
        example = next(iter(words))
        notes.append(
            f"The labels are numbers. Write words that say what they mean, such as {example!r}: "
            "' negative'."
        )
    if counter is None:
        return notes
    first: dict[int, str] = {}
    for word in words.values():
        token = counter.tokens(word)[:1]
        if token and (other := first.setdefault(token[0], word)) != word:
            notes.append(f"The words {other!r} and {word!r} begin with the same token.")
            break
    return notes


def _word(label: str) -> str:
    return f" {label.strip()}" if label.strip() else " none"


def _names_splits(field: FieldFacts) -> bool:
    values = [entry.value.strip().lower() for entry in field.values or ()]
    return len(values) > 1 and NAMES_OF_SPLITS.keys() >= set(values)


def _is_label(field: FieldFacts, records: int) -> bool:
    values = [entry.value for entry in field.values or ()]
    words = {_word(value) for value in values}
    return (
        1 < len(values) < max(records, 3)
        and len(words) == len(values)
        and max(map(len, values)) <= LONGEST_LABEL
    )


def _differs(field: FieldFacts) -> bool:
    return field.values is None or len(field.values) > 1


def _likelihood(field: FieldFacts) -> tuple[int, int]:
    name = field.name.lower()
    place = LABELS.index(name) if name in LABELS else len(LABELS)
    return place, len(field.values or ())
