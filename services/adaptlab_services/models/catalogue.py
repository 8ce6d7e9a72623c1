"""The catalogue: the registered methods, tasks and families."""

from functools import cache
from typing import TypedDict, TypeVar

from adaptlab.plugins.family import FAMILIES, Family
from adaptlab.plugins.method import GROUPS, LARGE_BASE, METHODS, Method
from adaptlab.plugins.registry import Registry
from adaptlab.plugins.task import TASKS, Task
from adaptlab_answers.models import (
    Families,
    FamilyEntry,
    LargeBaseRates,
    MethodEntry,
    Methods,
    PlugIn,
    Tasks,
)
from adaptlab_services.errors import Absent

E = TypeVar("E", bound=type[Method] | type[Task] | type[Family])


def methods() -> Methods:
    """Return every registered method, by group, the most used first."""
    return Methods(data=tuple(map(method, method_names())))


def method_names() -> tuple[str, ...]:
    """Return the names of all methods in the order of `methods`."""

    def order(name: str) -> tuple[int, int, str]:
        entry = METHODS.get(name)
        return GROUPS.index(entry.group), entry.place, entry.title

    return tuple(sorted(METHODS.names(), key=order))


def grouped_methods() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the names of the methods of each group that has any."""
    names = method_names()
    groups = ((g, tuple(n for n in names if METHODS.get(n).group == g)) for g in GROUPS)
    return tuple(group for group in groups if group[1])


def method(name: str) -> MethodEntry:
    """Return one method; raises `Absent`."""
    entry = _find(METHODS, name)
    return MethodEntry(
        **_description(name, entry),
        group=entry.group,
        formula=entry.formula,
        first_layer_attention=entry.first_layer_attention,
        size_knob=entry.size_knob,
        is_reference=entry.is_reference,
        default_learning_rate=entry.default_learning_rate,
        learning_rate_range=entry.learning_rate_range,
        large_base_rates=_large_base_rates(entry),
        default_weight_decay=entry.default_weight_decay,
    )


def _large_base_rates(entry: type[Method]) -> LargeBaseRates | None:
    rates = entry.large_base_rates
    if rates is None:
        return None
    return LargeBaseRates(
        from_parameters=LARGE_BASE,
        default_learning_rate=rates.default,
        learning_rate_range=rates.limits,
    )


def tasks() -> Tasks:
    """Return every registered task."""
    return Tasks(data=tuple(task(name) for name in TASKS.names()))


def task(name: str) -> PlugIn:
    """Return one task; raises `Absent`."""
    return PlugIn(**_description(name, _find(TASKS, name)))


def families() -> Families:
    """Return every registered family."""
    return Families(data=tuple(family(name) for name in FAMILIES.names()))


def family(name: str) -> FamilyEntry:
    """Return one family; raises `Absent`."""
    entry = _find(FAMILIES, name)
    return FamilyEntry(
        **_description(name, entry),
        default_learning_rate=entry.default_learning_rate,
        default_weight_decay=entry.default_weight_decay,
    )


class _Description(TypedDict):
    name: str
    title: str
    summary: str
    reference: str
    knobs: dict[str, object]


def _find(registry: Registry[E], name: str) -> E:
    if name not in registry.names():
        raise Absent(registry.kind, name, registry.names())
    return registry.get(name)


def _description(name: str, entry: type[Method] | type[Task] | type[Family]) -> _Description:
    return {
        "name": name,
        "title": entry.title,
        "summary": entry.summary,
        "reference": entry.reference,
        "knobs": _knobs(entry),
    }


@cache  # it depends on the code alone, and took a quarter of a form's time
def _knobs(entry: type[Method] | type[Task] | type[Family]) -> dict[str, object]:
    """Return the schema of a plug-in, which nobody may change."""
    return entry.model_json_schema()
