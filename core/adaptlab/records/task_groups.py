"""Groups of standard tasks, and how a harness averages over them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from adaptlab.records.facts import LONGEST_VALUE, RecordsFacts
from adaptlab.records.rendered_items import SPLIT, only_value
from adaptlab.values import Value

NO_FILTER = "none"
"""The harness's name of the filter that changes nothing."""

MEASURED = ("acc", "acc_norm", "acc_bytes", "exact_match")
"""The harness's metrics that are measured here."""


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

    Raises:
        ValueError: `metrics` are too many to be kept.
    """
    known = tuple(one for one in metrics if one.metric in MEASURED)
    averaged = _METRICS.dump_json(known, exclude_defaults=True).decode()
    if len(averaged) > LONGEST_VALUE:
        raise ValueError(f"{group} has too many metrics to be averaged.")
    more = {"averaged": averaged} if known else {}
    return ({"group": group, "subtask": task, "split": SPLIT, **more} for task in tasks)


def staged_group(facts: RecordsFacts, group: str) -> StagedGroup | None:
    """Return the group that a dataset lists, its tasks sorted.

    It is None if it is another dataset.
    """
    field = facts.field("subtask")
    if field is None or field.values is None or only_value(facts, "group") != group:
        return None
    try:
        metrics = _METRICS.validate_json(only_value(facts, "averaged") or "[]")
    except ValidationError:
        metrics = ()
    return StagedGroup(group, tuple(one.value for one in field.values), metrics)
