"""Whether jobs may be compared: the settings in which they differ, and what that means."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from adaptlab.measurements.results import Environment
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.values import Value

Weight = Literal["voids", "effort", "note"]

COMPARED_METHOD = frozenset({"method", "budget"})
"""What a comparison is about; jobs are expected to differ in it."""
SCORED_APART = frozenset(
    {"seeds", "base_replicates", "evaluation_tasks", "base_tasks", "attention"}
)
"""Seeds are compared one by one; further evaluations and captures do not touch a score."""
EXACT = frozenset({"/base_model", "/training/accumulation", "/training/validations"})
"""Settings of which results do not depend; a base model is known by its digest, not its name."""
EFFORT = frozenset({"/training/trials", "/training/halving", "/selection", "/validation_samples"})
"""How much was tried to find good settings, and how the winner was chosen."""
MAY_LACK = ("/base_replicates", "/environment/")
"""Settings that not every job has: those of a seed, and of a machine that is not known."""
ENVIRONMENT: Mapping[str, Weight] = {
    "code_version": "voids",
    "precision": "voids",
    "device": "note",
    "torch_version": "note",
}
"""What of the machine is compared. Devices and libraries change roundings, not what is learned."""


class ComparedJob(Value):
    """A job of a comparison: how it is called there, what it ran and where."""

    label: str
    spec: ResolvedSpec
    environment: Environment | None = None


class SettingValue(Value):
    """One value of a setting, as JSON, and the jobs that have it."""

    value: str
    jobs: tuple[str, ...]


class SettingDifference(Value):
    """A setting in which compared jobs differ, at `pointer` in the resolved spec.

    Below `/environment` it is one of the machine. `voids` means that scores of these jobs do not
    answer the same question; `effort` that some were tuned harder or otherwise; `note` that the
    difference should not matter and is told all the same.
    """

    pointer: str
    weight: Weight
    values: tuple[SettingValue, ...]
    text: str


def comparability(jobs: Sequence[ComparedJob]) -> tuple[SettingDifference, ...]:
    """Every setting, other than method and budget, in which `jobs` differ; what voids comes first.

    Settings are found by walking the resolved specs, so that one added later is compared without
    being named here. A job that trains nothing has no effort that could be unequal.
    """
    settings = {job.label: dict(_settings(job)) for job in jobs}
    pointers = dict.fromkeys(pointer for found in settings.values() for pointer in found)
    found = [
        _difference(pointer, values)
        for pointer in pointers
        if len(values := _values(pointer, jobs, settings)) > 1
    ]
    order: list[Weight] = ["voids", "effort", "note"]
    return tuple(sorted(found, key=lambda one: order.index(one.weight)))


def comparable_groups(jobs: Sequence[ComparedJob]) -> tuple[tuple[ComparedJob, ...], ...]:
    """The jobs in groups of which no two differ in a setting that voids a comparison.

    Every job joins the first group that it fits, but one that trains nothing joins all of them.
    Labels must be distinct.
    """
    settings = {job.label: _voiding(job) for job in jobs}
    groups: list[list[ComparedJob]] = []
    for job in sorted(jobs, key=_trains, reverse=True):
        fitting = [
            group for group in groups if all(_agree(job, other, settings) for other in group)
        ]
        for group in fitting[:1] if _trains(job) else fitting:
            group.append(job)
        if not fitting:
            groups.append([job])
    return tuple(map(tuple, groups))


def _voiding(job: ComparedJob) -> dict[str, str]:
    return {pointer: v for pointer, v in _settings(job) if _weight(pointer) == "voids"}


def _agree(
    first: ComparedJob, second: ComparedJob, settings: Mapping[str, Mapping[str, str]]
) -> bool:
    """Whether nothing that is asked of both voids their comparison."""
    one, other = settings[first.label], settings[second.label]
    if one == other:
        return True
    return all(len(_values(p, (first, second), settings)) < 2 for p in (*one, *other))


def _values(
    pointer: str, jobs: Sequence[ComparedJob], settings: Mapping[str, Mapping[str, str]]
) -> dict[str, list[str]]:
    """Who has which value of one setting; a task or family that lacks the knob has `absent`."""
    values: dict[str, list[str]] = {}
    for job in jobs:
        may_lack = pointer.startswith(MAY_LACK) or not _is_asked(pointer, job)
        value = settings[job.label].get(pointer, None if may_lack else "absent")
        if value is not None:
            values.setdefault(value, []).append(job.label)
    return values


def _trains(job: ComparedJob) -> bool:
    return job.spec.budget.trainable_parameters > 0


def _is_asked(pointer: str, job: ComparedJob) -> bool:
    """Whether a setting means anything to the job: one that trains nothing has no training."""
    return _trains(job) or not (pointer.startswith("/training/") or pointer in EFFORT)


def _settings(job: ComparedJob) -> Iterator[tuple[str, str]]:
    """Pointers and values, as JSON, of all that should be the same in compared jobs."""
    spec = job.spec.model_dump(mode="json")
    trials = spec["training"].pop("trials")
    spec["training"]["trials"] = len(trials)
    for pointer, value in _members(spec):
        if pointer not in EXACT and _is_asked(pointer, job):
            yield pointer, value
    for seed, replicate in zip(job.spec.seeds, job.spec.base_replicates, strict=False):
        yield f"/base_replicates (seed {seed})", json.dumps(replicate)
    if job.environment is not None:
        for name in ENVIRONMENT:
            yield f"/environment/{name}", json.dumps(getattr(job.environment, name))


def _members(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every member, and of objects each of theirs, under its JSON pointer."""
    for name, value in spec.items():
        if name in COMPARED_METHOD | SCORED_APART:
            continue
        if isinstance(value, dict):
            for knob, setting in cast("dict[str, object]", value).items():
                yield f"/{name}/{knob}", json.dumps(setting, sort_keys=True)
        else:
            yield f"/{name}", json.dumps(value, sort_keys=True)


def _difference(pointer: str, values: Mapping[str, Sequence[str]]) -> SettingDifference:
    weight = _weight(pointer)
    told = "; ".join(f"{value} in {', '.join(jobs)}" for value, jobs in values.items())
    ends = {
        "voids": "the scores are not comparable until the jobs agree on it",
        "effort": "the methods were not tuned with the same effort",
        "note": "this should not change what is found",
    }
    name = "number of trials" if pointer == "/training/trials" else pointer
    return SettingDifference(
        pointer=pointer,
        weight=weight,
        values=tuple(SettingValue(value=v, jobs=tuple(jobs)) for v, jobs in values.items()),
        text=f"{name} differs ({told}): {ends[weight]}.",
    )


def _weight(pointer: str) -> Weight:
    if pointer.startswith("/environment/"):
        return ENVIRONMENT[pointer.removeprefix("/environment/")]
    return "effort" if pointer in EFFORT else "voids"
