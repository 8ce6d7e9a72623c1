"""Problems and oddities of a file of records, with their effect."""

from collections.abc import Iterator, Mapping
from typing import Literal

from adaptlab.figures import counted, listed, percent
from adaptlab.inspection.columns import Column, differing
from adaptlab.records.facts import RecordsFacts
from adaptlab.records.file_reading import TITLES, Reading
from adaptlab.records.label_cleaning import missing_of, writings_of
from adaptlab.text.fitting import LABELS, Roles, possible_labels, scales_of
from adaptlab.text.unread_answers import several_labels, tags_of_words
from adaptlab.values import Value

MOST_NAMED = 6
LONGEST_SHOWN = 40
Option = Literal["drop_empty", "merge_labels", "encoding"]


class FileFinding(Value):
    """Something that a person should know about a file.

    Attributes:
        code: a stable word for programs.
        detail: what is there, and what it does.
        option: the option of reading that mends it, None if none does.
    """

    code: str
    detail: str
    option: Option | None = None


def findings_of(
    facts: RecordsFacts,
    roles: Roles | None,
    columns: Mapping[str, Column],
    reading: Reading,
    foreign: str = "",
) -> tuple[FileFinding, ...]:
    """Return what is wrong or odd in the records of a file.

    Args:
        facts: the facts about the records.
        roles: the fields of the task that fits.
        columns: the figures of every field.
        reading: how the file was read.
        foreign: the first value beyond ASCII.
    """
    found = [*_of_reading(reading, foreign), *_of_names(facts, columns)]
    found += _of_answers(facts, roles)
    if roles is not None and roles.text != roles.answer:
        found += _of_labels(facts, roles)
        if not roles.reads_more:
            found += _of_copies(facts, roles, columns)
    commas = [name for name, column in columns.items() if column.has_decimal_commas]
    if commas:
        detail = (
            f"{', '.join(commas)}: numbers with a decimal comma. Values stay as they are written."
        )
        found.append(FileFinding(code="decimal_comma", detail=detail))
    return tuple(found)


def _of_reading(reading: Reading, foreign: str) -> Iterator[FileFinding]:
    if reading.cleaning is not None:
        cleaning = reading.cleaning
        if cleaning.dropped:
            detail = f"{counted(cleaning.dropped, 'record')} without {cleaning.label} left out."
            yield FileFinding(code="dropped", detail=detail)
        if cleaning.merged:
            pairs = [f"{_shown(one)} as {_shown(kept)}" for one, kept in cleaning.merged.items()]
            detail = f"{cleaning.label}: {_listed(pairs)} written in one way."
            yield FileFinding(code="merged", detail=detail)
    encoding = reading.encoding
    if foreign and encoding is not None and not encoding.startswith("utf-"):
        title = TITLES.get(encoding, encoding)
        detail = f"Read as {title}, for example {_shown(foreign)}."
        yield FileFinding(code="other_encoding", detail=detail, option="encoding")


def _of_names(facts: RecordsFacts, columns: Mapping[str, Column]) -> Iterator[FileFinding]:
    repeated = [name for name in facts.names() if hash(name) in columns[name].values]
    if repeated:
        detail = (
            f"The first line may be data and not names: {_listed(map(_shown, repeated))} is also a "
            "value of its column. If so, put a line such as text,label before it."
        )
        yield FileFinding(code="names_are_values", detail=detail)


def _of_answers(facts: RecordsFacts, roles: Roles | None) -> Iterator[FileFinding]:
    """Yield fields that look like answers and are not read as such."""
    several = {field.name: labels for field in facts.fields if (labels := several_labels(field))}
    for name, labels in several.items():
        detail = (
            f"{name} has several labels in a record ({_listed([*labels])}). A task has one: write "
            "a column with yes and no for each label, and study one column."
        )
        yield FileFinding(code="several_labels", detail=detail)
    if tags := tags_of_words(facts.names()):
        detail = f"{tags} has a tag for every word. No task tags words."
        yield FileFinding(code="tagged_words", detail=detail)
    elif roles is None:
        for name in scales_of(facts):
            detail = (
                f"{name} has too many different numbers to be labels. No task predicts a number on "
                "a scale: write a column with classes, such as low and high."
            )
            yield FileFinding(code="scale", detail=detail)
    if (
        roles is None
        or not roles.task.endswith("_classification")
        or roles.answer.lower() in LABELS
    ):
        return
    used = {roles.answer, roles.text, *roles.read, *roles.choices.values()}
    if others := [one.name for one in possible_labels(facts) if one.name not in used]:
        verb = "is" if len(others) == 1 else "are"
        detail = f"{listed(others)} {verb} not read, and could be the label instead."
        yield FileFinding(code="other_label", detail=detail)


def _of_labels(facts: RecordsFacts, roles: Roles) -> Iterator[FileFinding]:
    field = facts.field(roles.answer)
    if field is None or not roles.task.endswith("_classification"):
        return
    if missing := missing_of(field):
        count = sum(one.count for one in missing)
        values = _listed(f"{_shown(one.value)} {one.count:,}" for one in missing)
        verb = "has" if count == 1 else "have"
        detail = (
            f"{counted(count, 'record')} of {facts.records:,} {verb} no {roles.answer} ({values}), "
            "and stop a study."
        )
        yield FileFinding(code="missing_label", detail=detail, option="drop_empty")
    counts = {one.value: one.count for one in field.values or ()}
    groups = [
        " and ".join(f"{_shown(one)} {counts[one]:,}" for one in (group.kept, *group.others))
        for group in writings_of(field)
    ]
    if groups:
        detail = f"{roles.answer} has labels in several writings, which stop a study: "
        yield FileFinding(
            code="label_in_two_writings",
            detail=f"{detail}{'; '.join(groups[:MOST_NAMED])}.",
            option="merge_labels",
        )


def _of_copies(
    facts: RecordsFacts, roles: Roles, columns: Mapping[str, Column]
) -> Iterator[FileFinding]:
    field = facts.field(roles.answer)
    missing = [hash(one.value) for one in missing_of(field)] if field else []
    texts, share = differing(columns[roles.text].values, columns[roles.answer].values, missing)
    if texts:
        verb = "occurs" if texts == 1 else "occur"
        detail = (
            f"{counted(texts, roles.text)} {verb} twice or more with different values of "
            f"{roles.answer}: at most {percent(share)} of answers can be right."
        )
        yield FileFinding(code="different_labels", detail=detail)


def _listed(parts: "Iterator[str] | list[str]") -> str:
    names = [*parts]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _shown(value: str) -> str:
    if not value.strip():
        return "empty" if not value else "spaces"
    return repr(value if len(value) <= LONGEST_SHOWN else f"{value[: LONGEST_SHOWN - 1]}…")
