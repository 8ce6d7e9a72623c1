"""Labels of records, as answers of a task."""

from collections.abc import Iterator, Sequence

from adaptlab.errors import Problem
from adaptlab.records.facts import MOST_VALUES, RecordsFacts
from adaptlab.text.metrics import MOST_CONFUSED


def problem_of_macro_f1(labels: int) -> Iterator[Problem]:
    """Yield the problem of too many labels for macro-F1, if there is one."""
    if labels > MOST_CONFUSED:
        detail = (
            f"There are {labels} labels. Macro-F1 follows from the counts of given labels by right "
            f"label, which are kept of at most {MOST_CONFUSED}. Use accuracy."
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
    """
    field = facts.field(name)
    assert field is not None
    if field.values is None:
        detail = (
            f"The field {name!r} has more than {MOST_VALUES} values. Choose a field with "
            f"labels{otherwise}."
        )
        yield Problem("/label/field", "too_many_labels", detail)
        return
    present = [entry.value for entry in field.values]
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
