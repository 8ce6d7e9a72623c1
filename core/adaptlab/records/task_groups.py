"""Groups of standard tasks, and how a harness averages over them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from adaptlab.records.facts import LONGEST_VALUE, MOST_WORDS, RecordsFacts
from adaptlab.records.rendered_items import SPLIT, only_value
from adaptlab.values import Value

NO_FILTER = "none"
"""The harness's name of the filter that changes nothing."""

MEASURED = ("acc", "acc_norm", "acc_bytes", "exact_match")
"""The harness's metrics that are measured here."""

MOST_MEMBERS = 128
"""The most tasks of a group, and of a job with those of its groups."""


GROUP_FIELD = "subtask"
"""The field of a group's dataset that lists its tasks."""


class GroupMetric(Value):
    """A metric that a group averages over all its tasks.

    Attributes:
        metric: its name in the harness, such as `acc`.
        filters: those whose answers count, None for each that all tasks have.
        weight_by_size: whether tasks weigh by their items; otherwise they are equal.
    """

    metric: str
    filters: tuple[str, ...] | None = None
    weight_by_size: bool = True

    def is_of(self, metric: str, filtered: str) -> bool:
        """Return True if it averages a metric behind a filter."""
        return self.metric == metric and (self.filters is None or filtered in self.filters)


@dataclass(frozen=True, eq=False)
class StagedGroup:
    """A group as it is staged; one that is named twice is two groups."""

    name: str
    tasks: tuple[str, ...]
    metrics: tuple[GroupMetric, ...]

    def member(self, metric: str, filtered: str = NO_FILTER) -> "GroupMember | None":
        """Return one of its tasks, None if its metric is not averaged."""
        averaged = next((one for one in self.metrics if one.is_of(metric, filtered)), None)
        if averaged is None:
            return None
        name = metric if filtered == NO_FILTER else f"{metric},{filtered}"
        return GroupMember(self, name, averaged.weight_by_size)


@dataclass(frozen=True)
class GroupMember:
    """A task of a group, with the metric that the group averages.

    All tasks of a group that can be averaged are equal members.
    """

    group: StagedGroup
    metric: str
    weight_by_size: bool


_METRICS: TypeAdapter[tuple[GroupMetric, ...]] = TypeAdapter(tuple[GroupMetric, ...])


def group_records(
    group: str, tasks: Iterable[str], metrics: Sequence[GroupMetric] = ()
) -> Iterator[dict[str, str]]:
    """Yield the records of a dataset that lists the tasks of a group.

    A record has several names behind the place of the first, so that the values of a large group
    are few and the order of the harness is known.

    Raises:
        ValueError: tasks or `metrics` are too many to be kept.
    """
    known = tuple(one for one in metrics if one.metric in MEASURED)
    averaged = _METRICS.dump_json(known, exclude_defaults=True).decode()
    listed = tuple(_listed(tasks))
    if len(averaged) > LONGEST_VALUE or len(listed) > MOST_WORDS:
        raise ValueError(f"{group} has too many tasks, or too many metrics to be averaged.")
    more = {"averaged": averaged} if known else {}
    return ({"group": group, GROUP_FIELD: names, "split": SPLIT, **more} for names in listed)


def _listed(tasks: Iterable[str]) -> Iterator[str]:
    """Yield texts of a place and the names from there on, in sorted order."""
    text = ""
    for place, task in enumerate(tasks):
        if text and len(text) + len(task) < LONGEST_VALUE:
            text += f" {task}"
            continue
        if text:
            yield text
        text = f"{place:03} {task}"
    if text:
        yield text


def staged_group(facts: RecordsFacts, group: str) -> StagedGroup | None:
    """Return the group that a dataset lists, None if it is another dataset.

    The tasks of one that an earlier version staged, one per record, are sorted.
    """
    field = facts.field(GROUP_FIELD)
    if field is None or field.values is None or only_value(facts, "group") != group:
        return None
    try:
        metrics = _METRICS.validate_json(only_value(facts, "averaged") or "[]")
    except ValidationError:
        metrics = ()
    listed = [one.value.split(" ") for one in field.values]
    tasks = tuple(task for names in listed for task in (names[1:] or names))
    return StagedGroup(group, tasks, metrics)
