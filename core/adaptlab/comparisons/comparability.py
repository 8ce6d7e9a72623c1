"""Comparability of jobs: the settings in which they differ."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from adaptlab.comparisons.row_names import method_in_sentence
from adaptlab.plugins.metric import Metric, metric_named
from adaptlab.runs.events import Environment
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.statistics.scores import Scores
from adaptlab.values import Value

Weight = Literal["voids", "effort", "note"]

COMPARED_METHOD = frozenset({"method", "budget", "adapter"})
"""The subject of a comparison, in which jobs are expected to differ."""
SCORED_APART = frozenset({
    "seeds", "base_replicates", "evaluation_tasks", "base_tasks", "evaluation_bases",
    "evaluation_shown", "evaluation_groups", "attention", "mode", "dataset_origins",
})  # fmt: skip
"""Seeds are compared one by one; other evaluations and recordings do not affect a score.

Datasets are compared by their digests, from wherever they were fetched.
"""
EXACT = frozenset({"/base_model", "/training/accumulation", "/training/validations"})
"""Settings on which results do not depend; a base model is identified by its digest."""
EFFORT = frozenset({"/training/trials", "/training/halving", "/selection", "/validation_samples"})
"""Effort of the search for good settings, and the rule of selection."""
OF_BASE = ("/base_digest", "/family/")
"""Settings of the base model, among them its tokeniser."""
MAY_LACK = ("/base_replicates", "/environment/")
"""Settings that a job may lack: those of a seed, and of an unrecorded machine."""
ENVIRONMENT: Mapping[str, Weight] = {
    "code_version": "voids",
    "precision": "voids",
    "device": "note",
    "torch_version": "note",
}
"""Settings of the machine. Devices and libraries change rounding, not what is learned."""


SIGNATURE = "/task/metric (signature)"
"""The pointer of a metric's version and library."""


class ComparedJob(Value):
    """A job of a comparison: its label, resolved spec and environment."""

    label: str
    spec: ResolvedSpec
    environment: Environment | None = None


class SettingValue(Value):
    """One value of a setting, as JSON, and the jobs that have it."""

    value: str
    jobs: tuple[str, ...]


class SettingDifference(Value):
    """A setting in which compared jobs differ.

    `pointer` is its JSON pointer in the resolved spec. Settings of the machine are below
    `/environment`. The weight `voids` means that scores of these jobs do not answer the same
    question; `effort` that some were tuned harder or differently; `note` that the difference should
    not matter and is listed nevertheless.
    """

    pointer: str
    weight: Weight
    values: tuple[SettingValue, ...]
    text: str


def comparability(jobs: Sequence[ComparedJob]) -> tuple[SettingDifference, ...]:
    """Return all settings in which jobs differ, except method and budget.

    Settings that void the comparison come first. The resolved specs are walked, so a setting that
    is added later is compared without being listed here. A job that trains nothing has no effort
    that could be unequal. By a metric that compares base models, these may differ.
    """
    crosses = all(metric is not None and metric.compares_bases for metric in map(_metric, jobs))
    settings = {job.label: dict(_settings(job)) for job in jobs}
    pointers = dict.fromkeys(pointer for by_pointer in settings.values() for pointer in by_pointer)
    differences = [
        _difference(pointer, values, "note" if crosses and pointer.startswith(OF_BASE) else None)
        for pointer in pointers
        if len(values := _values(pointer, jobs, settings)) > 1
    ]
    order: list[Weight] = ["voids", "effort", "note"]
    return tuple(sorted(differences, key=lambda difference: order.index(difference.weight)))


def signature_difference(rows: Sequence[Scores]) -> SettingDifference | None:
    """Return the difference between rows whose metric was computed otherwise.

    None if all values of the metric have one signature. A row whose seeds have several counts for
    each.
    """
    values: dict[str, list[str]] = {}
    for row in rows:
        for signature in row.signatures:
            values.setdefault(json.dumps(signature), []).append(row.label)
    return _difference(SIGNATURE, values) if len(values) > 1 else None


def comparable_groups(jobs: Sequence[ComparedJob]) -> tuple[tuple[ComparedJob, ...], ...]:
    """Return the jobs in groups within which no setting voids a comparison.

    Every job joins the first group that it fits, except that a job that trains nothing joins every
    group that it fits. Labels must be distinct.
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
    """Return True if no setting of both jobs voids their comparison."""
    one, other = settings[first.label], settings[second.label]
    if one == other:
        return True
    return all(len(_values(p, (first, second), settings)) < 2 for p in (*one, *other))


def _values(
    pointer: str, jobs: Sequence[ComparedJob], settings: Mapping[str, Mapping[str, str]]
) -> dict[str, list[str]]:
    """Return the jobs by their value of one setting.

    The value is `absent` if task or family lack the knob.
    """
    values: dict[str, list[str]] = {}
    for job in jobs:
        may_lack = pointer.startswith(MAY_LACK) or not _applies(pointer, job)
        value = settings[job.label].get(pointer, None if may_lack else "absent")
        if value is not None:
            values.setdefault(value, []).append(job.label)
    return values


def _metric(job: ComparedJob) -> Metric | None:
    return metric_named((job.spec.task or {}).get("metric"))


def _trains(job: ComparedJob) -> bool:
    return job.spec.budget.trainable_parameters > 0 and job.spec.training.steps > 0


def _applies(pointer: str, job: ComparedJob) -> bool:
    """Return True if the setting affects the job.

    Without training, settings of the training do not.
    """
    return _trains(job) or not (pointer.startswith("/training/") or pointer in EFFORT)


def _settings(job: ComparedJob) -> Iterator[tuple[str, str]]:
    """Yield pointers and JSON values of all settings to compare."""
    spec = job.spec.model_dump(mode="json")
    trials = spec["training"].pop("trials")
    spec["training"]["trials"] = len(trials)
    for pointer, value in _members(spec):
        if pointer not in EXACT and _applies(pointer, job):
            yield pointer, value
    for seed, replicate in zip(job.spec.seeds, job.spec.base_replicates, strict=False):
        yield f"/base_replicates (seed {seed})", json.dumps(replicate)
    if job.environment is not None:
        for name in ENVIRONMENT:
            yield f"/environment/{name}", json.dumps(getattr(job.environment, name))


def _members(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield every member with its JSON pointer, objects by member."""
    for name, value in spec.items():
        if name in COMPARED_METHOD | SCORED_APART:
            continue
        if isinstance(value, dict):
            for knob, setting in cast("dict[str, object]", value).items():
                yield f"/{name}/{knob}", json.dumps(setting, sort_keys=True)
        else:
            yield f"/{name}", json.dumps(value, sort_keys=True)


def _difference(
    pointer: str, values: Mapping[str, Sequence[str]], weight: Weight | None = None
) -> SettingDifference:
    weight = weight or _weight(pointer)
    listed = "; ".join(
        f"{value} in {', '.join(map(method_in_sentence, jobs))}" for value, jobs in values.items()
    )
    consequences = {
        "voids": "the scores are not comparable until the jobs agree on it",
        "effort": "the methods were tuned with unequal effort",
        "note": "this should not change the findings",
    }
    name = "number of trials" if pointer == "/training/trials" else pointer
    return SettingDifference(
        pointer=pointer,
        weight=weight,
        values=tuple(SettingValue(value=v, jobs=tuple(jobs)) for v, jobs in values.items()),
        text=f"{name} differs ({listed}): {consequences[weight]}.",
    )


def _weight(pointer: str) -> Weight:
    if pointer.startswith("/environment/"):
        return ENVIRONMENT[pointer.removeprefix("/environment/")]
    return "effort" if pointer in EFFORT else "voids"
