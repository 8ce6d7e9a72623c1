"""The task that fits a file of records, with limits in tokens."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

from pydantic import JsonValue

from adaptlab.figures import counted
from adaptlab.inspection.columns import Column, LengthSpread
from adaptlab.inspection.token_counts import TokenCounter
from adaptlab.plugins.text_task import LONGEST_ITEM
from adaptlab.records.facts import ConversationFacts, FieldFacts, RecordsFacts
from adaptlab.records.label_cleaning import counted_labels
from adaptlab.records.label_values import are_codes
from adaptlab.specs.choices import resolve_task
from adaptlab.specs.spec import Choice
from adaptlab.text.fitting import (
    ASKS,
    LONGEST_ANSWER,
    Roles,
    answer_in_bytes,
    proposed_cluster,
    proposed_metric,
    task_document,
)
from adaptlab.text.splitting import EVERY_SPLIT, SplitCounts

SpecPart = dict[str, object]
"""A part of a spec, as JSON."""
LONGEST = 256
"""Tokens of an item without a tokeniser, as the task's own default."""

MULTIPLE = 8

SYSTEM_TOKENS = 40
"""Room for a system message that a chat template adds of its own."""

CHAT_NOTE = (
    "Limits are estimates: the job writes conversations by the base model's chat template, and "
    "fails before its first step if one is longer."
)


class Fit(NamedTuple):
    """A part of a spec, and what to know before using it."""

    spec: SpecPart
    notes: tuple[str, ...]


def spec_of(
    facts: RecordsFacts,
    roles: Roles,
    columns: Mapping[str, Column],
    counter: TokenCounter | None,
    longest: int | None = None,
    *,
    by_head: bool = False,
    context: int = LONGEST_ITEM,
) -> Fit:
    """Return the part of a spec with the task, and notes on it.

    Args:
        facts: the facts about the records.
        roles: the fields of the task.
        columns: the figures of every field.
        counter: the base model's tokeniser, None if it is not known.
        longest: the most tokens of an item on a base model that reads bytes; None if it does not.
        by_head: whether labels are answered by a trained head, as encoders need it.
        context: the most tokens of an item on a base model that reads tokens.
    """
    if roles.task == "image_classification":
        notes = (*_notes_on_metric(facts, roles), *_notes_on_groups(facts, roles))
        return Fit({"task": task_document(facts, roles)}, notes)
    answer = facts.field(roles.answer)
    assert answer is not None
    whole = task_document(facts, roles, by_head=by_head)
    notes = [*_notes_on_metric(facts, roles), *_notes_on_groups(facts, roles)]
    lengths: list[int] = []
    if roles.task == "text_classification" and not by_head:
        words = cast("Mapping[str, Mapping[str, str]]", whole["label"])["words"]
        notes += () if roles.choices else _notes_on_words(words, counter)
        lengths = [_length(word, counter, longest) for word in words.values()]
        spreads = _spreads(columns, roles.choices.values(), in_bytes=longest is not None)
        lengths = [one.most + 1 for one in spreads] if roles.choices else lengths
    elif roles.task == "text_completion":
        column = columns[roles.answer]
        tokens = column.tokens if longest is None else column.bytes
        # An answer has no more tokens than bytes, and its list has more of both.
        lengths = [tokens.most] if tokens else []
        lengths = [min([*lengths, answer.answers.longest])] if answer.answers else lengths
        notes += _notes_on_answers(answer)
    text = columns[roles.text]
    spread = text.tokens if longest is None else text.bytes
    if answer.conversations is not None:
        limits = _tokens_of_chat(spread, answer.conversations, longest, notes)
    else:
        more = _beside(roles, columns, in_bytes=longest is not None)
        limits = _tokens(spread, more, max(lengths, default=0), longest or context, notes)
    if whole.get("score") == "head":
        limits.pop("answer", None)
    return Fit({"task": _with_limits(whole, limits)}, tuple(notes))


def _with_limits(
    task: Mapping[str, JsonValue], limits: dict[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return a task with its limits in tokens, which come before the splits."""
    before = {name: member for name, member in task.items() if name != "splits"}
    return {**before, "tokens": limits, "splits": task["splits"]}


def _beside(roles: Roles, columns: Mapping[str, Column], *, in_bytes: bool) -> int:
    """Return the most tokens of a prompt besides its text."""
    others = [name for name in roles.read if name != roles.text]
    spreads = _spreads(columns, others, in_bytes=in_bytes)
    return len(ASKS) + sum(one.most + 1 for one in spreads)  # each on a line


def _spreads(
    columns: Mapping[str, Column], names: Iterable[str], *, in_bytes: bool
) -> list[LengthSpread]:
    """Return the lengths of fields, as far as they are known."""
    spreads = (columns[name].bytes if in_bytes else columns[name].tokens for name in names)
    return [one for one in spreads if one is not None]


def splits_of(task: SpecPart, facts: RecordsFacts) -> SplitCounts:
    """Return the sizes of the splits of a task.

    Raises:
        InvalidSpec: the records do not allow the task.
    """
    resolved = resolve_task(Choice.model_validate(task), "/task", {facts.name: facts})
    return SplitCounts(**{split: resolved.available(split) or 0 for split in EVERY_SPLIT})


def _length(word: str, counter: TokenCounter | None, longest: int | None) -> int:
    """Return the tokens of a label word, as far as they are known."""
    if longest is not None:
        return len(word.encode())
    return len(counter.tokens(word)) if counter else 0


def _tokens(
    text: LengthSpread | None, more: int, answer: int, most: int, notes: list[str]
) -> dict[str, JsonValue]:
    """Return limits that no item exceeds, as far as they are known.

    `more` are the tokens of the prompt besides the text, at most.
    """
    if text is None:
        notes.append("Lengths in tokens are not known: give --tokenizer with the base model's.")
        return {"longest": min(LONGEST, most)}
    # One more for a token at the end, or for other tokens beside the prompt than alone.
    limits: dict[str, JsonValue] = {"answer": min(answer + 1, LONGEST_ANSWER, most - 1)}
    # Three more for line feeds, and for tokens at both ends that the tokeniser adds.
    needed = text.most + more + answer + 4
    longest = min(-(-needed // MULTIPLE) * MULTIPLE, most)
    if needed > most:
        limits["if_longer"] = "cut"
        notes.append(f"The longest item has {needed:,} tokens; what is above {most:,} is cut.")
    return {"longest": longest} | limits


def _tokens_of_chat(
    text: LengthSpread | None, figures: ConversationFacts, bytes_read: int | None, notes: list[str]
) -> dict[str, JsonValue]:
    """Return limits that conversations are not expected to exceed.

    Their stored text has about as much around a message as chat templates write, and more than the
    plain one of models of bytes, which read `bytes_read` at most.
    """
    most, added = bytes_read or LONGEST_ITEM, 0 if bytes_read else SYSTEM_TOKENS
    notes.append(CHAT_NOTE)
    if text is None:
        return {"longest": LONGEST}
    needed = -(-(text.most + added) // MULTIPLE) * MULTIPLE
    if text.most > most:
        notes.append(
            f"The longest conversation has about {text.most:,} tokens, and items have at most "
            f"{most:,}. Conversations are not cut: leave long ones out."
        )
    longest = min(needed, most)
    return {
        "longest": longest,
        "answer": min(answer_in_bytes(figures), LONGEST_ANSWER, longest - MULTIPLE),
    }


def _notes_on_groups(facts: RecordsFacts, roles: Roles) -> tuple[str, ...]:
    """Return why a field that groups records is proposed, if one is."""
    cluster = proposed_cluster(facts, roles)
    if cluster is None:
        return ()
    return (
        f"Several records have one {cluster!r}, so they are not independent. The task has "
        f"`cluster: {cluster}`: splits keep such records together, and intervals count by group.",
    )


def _notes_on_metric(facts: RecordsFacts, roles: Roles) -> tuple[str, ...]:
    """Return why a metric is proposed, if one is."""
    match proposed_metric(facts, roles):
        case "macro_f1":
            answer = facts.field(roles.answer)
            assert answer is not None
            counts = sorted((count, label) for label, count in counted_labels(answer).items())
            (rare, rarest), (many, common) = counts[0], counts[-1]
            return (
                f"Labels are unbalanced: {common!r} has {many:,} records, {rarest!r} {rare:,}. So "
                "the task has `metric: macro_f1`, by which trials are chosen, beside accuracy.",
            )
        case "token_f1":
            return (
                "Answers are long, so few will be exactly right. The task has `metric: token_f1`, "
                "by which trials are chosen, beside exact match; answers are decoded for it, which "
                "takes time.",
            )
        case "perplexity":
            return (
                "Answers are so long that none will be exactly right. The task has `metric: "
                "perplexity`, by which trials are chosen, beside exact match. If good answers have "
                "the same words, as translations have, `metric: token_f1` says more, but takes "
                "longer: answers are decoded for it.",
            )
        case None:
            return ()


def _notes_on_answers(answer: FieldFacts) -> tuple[str, ...]:
    """Return notes on records with several right answers or none."""
    figures, notes = answer.answers, ()
    if figures is not None:
        most = counted(figures.most, "right answer")
        notes = (
            f"Records have up to {most}. Training reads the first of each, and scores count any.",
        )
        if without := figures.unanswered - answer.empty:
            records = counted(without, "record")
            notes += (f"In {records} there is none, so the empty answer is the right one.",)
    if answer.empty:
        records = counted(answer.empty, "record")
        return (*notes, f"The answer of {records} is empty. Give every record an answer.")
    return notes


def _notes_on_words(words: Mapping[str, str], counter: TokenCounter | None) -> Sequence[str]:
    notes: list[str] = []
    if are_codes(words):
        example = next(iter(words))
        kind = "numbers" if any(map(str.isdigit, "".join(words))) else "true and false"
        notes.append(
            f"The labels are {kind}. Write words that say what they mean, such as {example!r}: "
            "' negative', or train a head: `score: head`, with the label's field alone."
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
