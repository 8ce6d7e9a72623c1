"""Labels of records, as answers of a task."""

from collections.abc import Iterator, Sequence

from adaptlab.errors import Problem
from adaptlab.plugins.metric import metric_named
from adaptlab.records.facts import MOST_CONFUSED, MOST_VALUES, FieldFacts, RecordsFacts
from adaptlab.records.label_cleaning import missing_of
from adaptlab.records.label_values import alike


def problem_of_metric(name: str | None, labels: int) -> Iterator[Problem]:
    """Yield the problem of too many labels for a task's metric."""
    metric = metric_named(name)
    if metric is not None and labels > MOST_CONFUSED:
        detail = (
            f"There are {labels} labels. {metric.title} follows from the counts of given labels by "
            f"right label, which are kept of at most {MOST_CONFUSED}. Use accuracy."
        )
        yield Problem("/metric", "too_many_labels", detail, allowed=("accuracy",))


def problems_of_labels(
    facts: RecordsFacts,
    name: str,
    named: Sequence[str] | None,
    *,
    noun: str,
    place: str,
    otherwise: str = "",
    most: int = MOST_VALUES,
) -> Iterator[Problem]:
    """Yield what a field with labels does not allow.

    Pointers are below the task.

    Args:
        facts: the facts about the records.
        name: the field, which exists.
        named: the labels that the task names; None if they are those of the field.
        noun: what the task has for each label.
        place: the member below `/label` that names them.
        otherwise: what can be done instead where there are too many.
        most: the most labels.
    """
    field = facts.field(name)
    assert field is not None
    if field.values is None or len(field.values) > most:
        detail = (
            f"The field {name!r} has more than {most:,} values, or texts. Choose a field with "
            f"labels{otherwise}."
        )
        yield Problem("/label/field", "too_many_labels", detail)
        return
    present = [entry.value for entry in field.values]
    if unclear := tuple(_unclear_values(facts, field, named or ())):
        yield from unclear
        return
    if len(present) < 2:
        detail = f"All records have the label {present[0]!r}. There must be two labels or more."
        yield Problem("/label/field", "one_label", detail)
    if named is None:
        return
    pointer = f"/label/{place}"
    missing = [value for value in present if value not in named]
    if missing and len(present) > 1:
        listed = ", ".join(map(repr, missing[:8]))
        detail = f"The label {listed} of {facts.name!r} has no {noun}. Give one for each."
        yield Problem(pointer, f"label_without_{noun}", detail, allowed=tuple(present))
    if absent := [value for value in named if value not in present]:
        listed = ", ".join(map(repr, absent[:8]))
        detail = f"No record of {facts.name!r} has the label {listed}. Leave its {noun} out."
        yield Problem(pointer, "no_such_label", detail, allowed=tuple(present))


def _unclear_values(
    facts: RecordsFacts, field: FieldFacts, named: Sequence[str]
) -> Iterator[Problem]:
    """Yield values that are no labels, or one in several writings.

    A value that the task names is a label as it is written; only an empty one never is.
    """
    counts = {entry.value: entry.count for entry in field.values or ()}
    missing = {entry.value for entry in missing_of(field)}
    for value, count in counts.items():
        if value in missing and (not value.strip() or value not in named):
            records = f"{count:,} record{' has' if count == 1 else 's have'}"
            name = "" if not value.strip() else f", or name {value!r} in the task if it is a label"
            detail = (
                f"{records} the value {value!r} in the field {field.name!r} of {facts.name!r}, "
                f"which means no label. Leave these records out of the dataset, as "
                f"`drop_empty` does{name}."
            )
            yield Problem("/label/field", "missing_label", detail)
    for group in alike(counts):
        if not all(value in named for value in group):
            listed = ", ".join(f"{value!r} ({counts[value]:,})" for value in group[:8])
            detail = (
                f"The field {field.name!r} of {facts.name!r} has one label in several writings: "
                f"{listed}. Write it in one way, as `merge_labels` of a dataset does, or name "
                "each in the task if they differ."
            )
            yield Problem("/label/field", "label_in_two_writings", detail)
