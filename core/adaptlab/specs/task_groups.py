"""The groups of standard tasks that a job is scored on."""

from collections import defaultdict
from collections.abc import Sequence

from adaptlab.plugins.task import Task
from adaptlab.records.task_groups import GroupMember
from adaptlab.specs.spec import TaskGroup


def task_groups(tasks: Sequence[Task]) -> tuple[TaskGroup, ...]:
    """Return the groups of which all tasks have the metric that is averaged."""
    places: dict[GroupMember, list[int]] = defaultdict(list)
    for place, task in enumerate(tasks):
        if (member := task.group_member()) is not None:
            places[member].append(place)
    return tuple(
        TaskGroup(
            name=member.group.name,
            metric=member.metric,
            weight_by_size=member.weight_by_size,
            tasks=tuple(of_member),
        )
        for member, of_member in places.items()
        if len(of_member) == len(member.group.tasks)
    )
