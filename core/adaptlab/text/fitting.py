"""The task that fits a dataset of records, guessed from its fields."""

from typing import Literal

from pydantic import Field, JsonValue

from adaptlab.records.buckets import BUCKETS
from adaptlab.records.facts import (
    MOST_CONFUSED,
    MOST_WORDS,
    ConversationFacts,
    FieldFacts,
    RecordsFacts,
)
from adaptlab.records.label_cleaning import counted_labels
from adaptlab.text.fields_together import (
    ANSWERS,
    REWRITTEN,
    answered,
    is_no_text,
    options_of,
    read_with,
)
from adaptlab.text.splitting import NAMES_OF_SPLITS
from adaptlab.text.template import LONGEST_WORD, literal
from adaptlab.text.unread_answers import SCALES, several_labels, tags_of_words
from adaptlab.values import Value

LABELS = ("label", "labels", "class", "category", "sentiment", "target", "intent")
"""Usual names of a field with labels, the likeliest first."""

LONGEST_ANSWER = 512
"""Limit in tokens of an answer."""
ASKS = "\nAnswer:"
"""The end of a guessed prompt, so that every answer follows the same text."""
GROUPS = (
    *("document", "document_id", "doc_id", "article", "article_id", "title", "context", "passage"),
    *("paragraph", "user", "user_id", "author", "patient", "patient_id", "speaker", "session"),
    *("session_id", "thread", "thread_id", "conversation_id"),
)
"""Usual names of a field that groups records, the largest groups first."""
LEAST_GROUP, FEWEST_GROUPS = 1.5, 30
"""Records of a group on average, and groups, from which they are proposed: splits need some."""
Proposed = Literal["macro_f1", "token_f1", "perplexity"]
SHORT, LONG_NUMBER = 16, 24
"""Mean bytes up to which values that end with a number are numbers, and up to which JSON is."""
FEW = 20
"""Records per value from which the usual answer of a prompt is a label."""
UNBALANCED = 2
"""Records of the most common label per record of the rarest, above which macro-F1 is proposed."""
LONG_ANSWER = 40
"""Mean bytes of an answer from which token F1 is proposed: exact match would be rare."""
FREE_ANSWER = 200
"""Mean bytes of an answer from which perplexity is proposed.

Two good answers of some 35 words share few of them beside the commonest, and decoding those of the
test items can take as long as the training.
"""


class Roles(Value):
    """Fields by their part in a task.

    Attributes:
        task: the task that fits.
        text: the field that the model reads; images for `image_classification`.
        answer: the field with the label or the completion; for conversations it is `text`.
        split: the field that names splits, None if there is none.
        read: the fields of the prompt in its order, `text` among them.
        choices: the field with the text of a choice by its label, for multiple choice.
    """

    task: Literal[
        "text_classification", "text_completion", "chat_completion", "image_classification"
    ]
    text: str
    answer: str
    split: str | None
    read: tuple[str, ...] = ()
    choices: dict[str, str] = Field(default_factory=dict[str, str])

    @property
    def reads_more(self) -> bool:
        """True if other fields tell records with one text apart."""
        return len(self.read) > 1 or bool(self.choices)

    @property
    def title(self) -> str:
        """The fields that are read, as words."""
        *others, last = self.read or (self.text,)
        return f"{', '.join(others)} and {last}" if others else last


def roles_of(facts: RecordsFacts) -> Roles | None:
    """Return the fields of the task that fits, None if none does.

    A field of conversations that end with the assistant's turn comes first, and then one of images
    of one size beside a label. Then come labels that name fields with choices, and fields with
    usual names of a prompt and its answer. Otherwise the label is the field with the fewest values
    of 2 to 64, usual names first, and the text is the longest other one; without a label two texts
    are a prompt and its answer, unless a number beside them is to be predicted. Fields with several
    labels in a record, and a tag for every word, are no answers.
    """
    split = _split(facts)
    fields = {
        field.name: field
        for field in facts.fields
        if field.name != split and not several_labels(field)
    }
    if tags_of_words(facts.names()):
        return None
    if chat := next((name for name, field in fields.items() if _is_chat(field)), None):
        return Roles(task="chat_completion", text=chat, answer=chat, split=split)
    labels = possible_labels(facts)
    if labels and (images := _images(facts)):
        answer = labels[0].name
        return Roles(task="image_classification", text=images, answer=answer, split=split)
    if chosen := next((one for one in labels if options_of([*fields], labels_of(one))), None):
        return roles_with(facts, chosen.name)
    if usual := answered(fields, ANSWERS):
        answer = fields[usual[1]]
        is_label = answer in labels and FEW * len(labels_of(answer)) <= facts.records
        return roles_with(facts, answer.name) if is_label else _completion(facts, *usual)
    if labels:
        return roles_with(facts, labels[0].name)
    texts = [name for name, field in fields.items() if _is_text(field, facts.records)]
    is_pair = len(texts) == 2 and not any(name.lower() in SCALES for name in scales_of(facts))
    if pair := answered(texts, REWRITTEN) or (tuple(texts) if is_pair else None):
        return _completion(facts, *pair)
    return None


def possible_labels(facts: RecordsFacts) -> list[FieldFacts]:
    """Return the fields that can be the label, the likeliest first."""
    split = _split(facts)
    labels = (
        field
        for field in facts.fields
        if field.name != split and _is_label(field, facts.records) and not several_labels(field)
    )
    return sorted(labels, key=_likelihood)


def scales_of(facts: RecordsFacts) -> list[str]:
    """Return the fields of numbers, too many to be labels."""
    return [
        field.name
        for field in facts.fields
        if _is_number(field, facts.records)
        and not is_no_text(field.name)
        and not _is_label(field, facts.records)
        and _differs(field)
    ]


def roles_with(facts: RecordsFacts, answer: str) -> Roles | None:
    """Return the fields of the task with this answer.

    Conversations are continued. Another answer is a label if it has 2 to 64 values, and otherwise a
    text. The text that the model reads is a field with the usual name, or else the longest other
    one; the result is None if there is none.
    """
    split = _split(facts)
    field = facts.field(answer)
    if field is not None and _is_chat(field):
        return Roles(task="chat_completion", text=answer, answer=answer, split=split)
    texts = [one.name for one in facts.fields if one.name not in (split, answer) and _differs(one)]
    if field is None or answer == split or not texts:
        return None
    images, is_label = _images(facts), _is_label(field, facts.records)
    if images and is_label:
        return Roles(task="image_classification", text=images, answer=answer, split=split)
    choices = options_of(texts, labels_of(field)) if is_label else {}
    texts = [name for name in texts if name not in choices.values()]
    if not texts:
        return None
    usual = next((name for name in texts if name.lower() in ANSWERS), None)
    text = usual or max(texts, key=lambda name: _length(facts, name))
    if not is_label:
        return _completion(facts, text, answer)
    return Roles(
        task="text_classification",
        text=text,
        answer=answer,
        split=split,
        read=read_with(texts, text),
        choices=choices,
    )


def _completion(facts: RecordsFacts, text: str, answer: str) -> Roles:
    split = _split(facts)
    names = [one.name for one in facts.fields if one.name not in (split, answer) and _differs(one)]
    read = read_with([*dict.fromkeys([*names, text])], text)
    return Roles(task="text_completion", text=text, answer=answer, split=split, read=read)


def task_document(
    facts: RecordsFacts, roles: Roles, *, by_head: bool = False
) -> dict[str, JsonValue]:
    """Return the document of a task, without limits in tokens.

    With `by_head`, labels are answered by a trained head and not by words.
    """
    answer = facts.field(roles.answer)
    assert answer is not None
    task: dict[str, JsonValue] = {"name": roles.task, "dataset": facts.name}
    if roles.task == "chat_completion":
        task["messages"] = {"field": roles.text}
    elif roles.task == "image_classification":
        task |= {"image_field": roles.text, "label": {"field": roles.answer}}
    else:
        task["prompt"] = prompt_of(roles, by_head=by_head)
    if roles.task == "text_classification" and by_head:
        task |= {"label": {"field": roles.answer}, "score": "head"}
    elif roles.task == "text_classification":
        words = {value: literal(word_of(value)) for value in labels_of(answer)}
        words |= {label: f" {{{name}}}" for label, name in roles.choices.items()}
        task["label"] = {"field": roles.answer, "words": dict(words)}
    elif roles.task == "text_completion":
        several: dict[str, JsonValue] = {"several": "list"} if answer.answers else {}
        task["answer"] = {"field": roles.answer, **several}
    if metric := proposed_metric(facts, roles):
        task["metric"] = metric
    if cluster := proposed_cluster(facts, roles):
        task["cluster"] = cluster
    task["splits"] = (
        {"field": roles.split}
        if roles.split
        else {"validation": 0.1, "test": 0.2, "by": cluster or _most_varied(facts, roles)}
    )
    return task


def prompt_of(roles: Roles, *, by_head: bool = False) -> str:
    """Return the prompt of a task; a head reads the choices in it."""
    lines = [f"{{{name}}}" for name in roles.read]
    if by_head:
        lines += [f"{literal(label)}. {{{name}}}" for label, name in roles.choices.items()]
    return "\n".join(lines) + ASKS


def _most_varied(facts: RecordsFacts, roles: Roles) -> str:
    """Return the text, or another read field if texts differ too little."""
    sizes: dict[str, float] = {}
    for name in (roles.text, *roles.read):
        field = facts.field(name)
        assert field is not None
        sizes[name] = _group_size(field, facts.records)
    enough = (name for name, size in sizes.items() if facts.records >= FEWEST_GROUPS * size)
    return next(enough, min(sizes, key=lambda name: sizes[name]))


def proposed_cluster(facts: RecordsFacts, roles: Roles) -> str | None:
    """Return the field that groups records by its name and values, if any.

    Splits of the file are kept, and may separate groups, so that none is proposed beside them.
    """
    if roles.split:
        return None
    fields = {field.name.lower(): field for field in facts.fields}
    for name in GROUPS:
        field = fields.get(name)
        if field is None or field.name == roles.answer:
            continue
        size = _group_size(field, facts.records)
        if size >= LEAST_GROUP and facts.records >= FEWEST_GROUPS * size:
            return field.name
    return None


def _group_size(field: FieldFacts, records: int) -> float:
    """Return the mean size of a record's group.

    Unless values are counted, it follows from the buckets: of n records in groups of g, in B
    buckets, the sum of squared counts is n² / B + n g.
    """
    if field.values is not None:
        return sum(entry.count**2 for entry in field.values) / records
    squares = sum(count**2 for count in field.buckets)
    return (squares - records**2 / BUCKETS) / records


def proposed_metric(facts: RecordsFacts, roles: Roles) -> Proposed | None:
    """Return a metric that fits better than the share of right items, if any.

    That is macro-F1 if labels are unbalanced, token F1 if answers are long, and perplexity if they
    are very long. The length of answers in conversations is not known.
    """
    answer = facts.field(roles.answer)
    if answer is None or roles.task == "chat_completion":
        return None
    if roles.task == "text_completion":
        mean = (answer.total_bytes or 0) / facts.records
        if figures := answer.answers:
            mean = figures.total_bytes / max(figures.answers, 1)
        if mean >= FREE_ANSWER and figures is None:
            return "perplexity"
        return "token_f1" if mean >= LONG_ANSWER else None
    counts = counted_labels(answer).values()
    if not 1 < len(counts) <= MOST_CONFUSED or max(counts) <= UNBALANCED * min(counts):
        return None
    return "macro_f1"


def limits_in_bytes(
    facts: RecordsFacts, roles: Roles, fixed: int, most: int
) -> dict[str, JsonValue]:
    """Return limits in tokens of a task, for a model that reads bytes.

    A model that reads larger tokens stays below them.

    Args:
        facts: the facts about the records.
        roles: the fields of the task.
        fixed: bytes of the prompt besides the text.
        most: the most tokens of an item that the model can read.
    """
    text, answer = facts.field(roles.text), facts.field(roles.answer)
    assert text is not None
    assert answer is not None
    if text.conversations is not None:
        # The plain template writes less around a message than JSON does.
        needed = max(8, text.longest)
        own = min(answer_in_bytes(text.conversations), LONGEST_ANSWER, most - 1)
        return {"longest": min(needed, most), "answer": own}
    words = [len(word_of(value).encode()) for value in labels_of(answer)]
    words += [_length_of(facts, name) + 1 for name in roles.choices.values()]
    longest = answer.answers.longest if answer.answers else answer.longest
    own = max(words) if roles.task == "text_classification" else longest + 1
    read = [_length_of(facts, name) for name in roles.read]
    needed = max(4, fixed + sum(read) + len(read) - 1 + own)
    limits: dict[str, JsonValue] = {
        "longest": min(needed, most),
        "answer": min(own, LONGEST_ANSWER, most - 1),
    }
    return limits | ({"if_longer": "cut"} if needed > most else {})


def answer_in_bytes(figures: ConversationFacts) -> int:
    """Return the most tokens of an answer, for a model that reads bytes.

    The plain template writes a space before it, and a token ends it.
    """
    return figures.longest_answer + 2


def word_of(label: str) -> str:
    """Return the label word of a label."""
    return f" {label.strip()}"


def labels_of(field: FieldFacts) -> tuple[str, ...]:
    """Return the labels of a field, each in its most frequent writing.

    Values that mean no label are left out.
    """
    return tuple(counted_labels(field))


def _length_of(facts: RecordsFacts, name: str) -> int:
    """Return the bytes of the longest value of a field."""
    field = facts.field(name)
    assert field is not None
    return field.longest


def _length(facts: RecordsFacts, name: str) -> int:
    """Return the bytes of all values of a field, or of its longest."""
    field = facts.field(name)
    assert field is not None
    return field.longest if field.total_bytes is None else field.total_bytes


def _images(facts: RecordsFacts) -> str | None:
    """Return the first field of images of one size, None if there is none."""
    found = (field for field in facts.fields if field.pictures and not field.pictures.others)
    return next((field.name for field in found), None)


def _is_chat(field: FieldFacts) -> bool:
    return field.conversations is not None and not field.conversations.unanswered


def _split(facts: RecordsFacts) -> str | None:
    return next((field.name for field in facts.fields if _names_splits(field)), None)


def _names_splits(field: FieldFacts) -> bool:
    values = [entry.value.strip().lower() for entry in field.values or ()]
    return len(values) > 1 and NAMES_OF_SPLITS.keys() >= set(values)


def _is_label(field: FieldFacts, records: int) -> bool:
    if (
        field.answers
        and field.name.lower() not in LABELS
        and (field.answers.most > 1 or field.answers.unanswered > field.empty)
    ):
        return False  # several of a list's members can be right, or none
    values = labels_of(field)
    return (
        1 < len(values) <= MOST_WORDS
        and len(field.values or ()) < max(records, 3)
        and max(len(literal(word_of(value))) for value in values) <= LONGEST_WORD
    )


def _is_text(field: FieldFacts, records: int) -> bool:
    """Return True for texts that differ and are no short numbers."""
    return _differs(field) and not _is_number(field, records) and not is_no_text(field.name)


def _is_number(field: FieldFacts, records: int) -> bool:
    missed = {one.form for one in field.missed_forms or ()}
    most = SHORT if "json" in missed else LONG_NUMBER
    return "number" not in missed and (field.total_bytes or 0) <= most * records


def _differs(field: FieldFacts) -> bool:
    return field.values is None or len(field.values) > 1


def _likelihood(field: FieldFacts) -> tuple[int, int]:
    name = field.name.lower()
    place = LABELS.index(name) if name in LABELS else len(LABELS)
    return place, len(field.values or ())
