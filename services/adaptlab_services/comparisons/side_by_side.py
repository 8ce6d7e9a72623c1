"""Chosen jobs side by side: settings, scores, differences and items."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast
from uuid import UUID

import numpy as np
from sqlalchemy.orm import Session

from adaptlab.statistics import PairedDifference, Scores, paired_difference
from adaptlab.statistics.intervals import Interval, mean_interval
from adaptlab.statistics.pairs import shared_seeds
from adaptlab_services.comparisons.comparison_rows import ComparedRow
from adaptlab_services.results.scored_jobs import ScoredJob, scored_jobs

MOST_COLUMNS = 8
MOST_ITEMS = 5
_LEFT_OUT = frozenset({"spec_version", "kind", "base_digest"})
"""Members of resolved specs that say nothing to a reader."""
_COMPUTED = frozenset(
    f"budget.{name}"
    for name in ("tensors", "gap", "stored_bits", "stored_bytes", "flops_per_token")
)
"""Members that follow from the others."""


@dataclass(frozen=True, slots=True)
class JobColumn:
    """One job; `difference` is that from the baseline, None for the baseline.

    `reason` says why another job has no difference.
    """

    id: UUID
    method: str | None
    state: str
    interval: Interval | None
    difference: PairedDifference | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting with its value in every job; None where a job lacks it."""

    name: str
    values: tuple[str | None, ...]

    @property
    def differs(self) -> bool:
        """True if not all jobs have the same value."""
        return len(set(self.values)) > 1


@dataclass(frozen=True, slots=True)
class Disagreement:
    """An item with the numbers of shared seeds that answered it correctly."""

    item: int
    baseline: int
    other: int


@dataclass(frozen=True, slots=True)
class PairItems:
    """The items on which a job and the baseline disagree most.

    `disagreeing` is the number of items with different numbers of right seeds.
    """

    other: UUID
    method: str | None
    seeds: int
    items: int
    disagreeing: int
    largest: tuple[Disagreement, ...]


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Jobs in the order of the request; `baseline` is one of them."""

    baseline: UUID
    columns: tuple[JobColumn, ...]
    settings: tuple[SettingRow, ...]
    pairs: tuple[PairItems, ...]


def side_by_side(
    session: Session, job_ids: Sequence[UUID], baseline: UUID | None
) -> SideBySide | None:
    """Return the first jobs side by side, or None for less than two.

    The baseline is the first job unless one of them is given.
    """
    shown = job_ids[:MOST_COLUMNS]
    if baseline is not None and baseline in job_ids and baseline not in shown:
        shown = [baseline, *shown[:-1]]
    jobs = scored_jobs(session, shown)
    ordered = [jobs[job_id] for job_id in shown if job_id in jobs]
    if len(ordered) < 2:
        return None
    first = next((job for job in ordered if job.id == baseline), ordered[0])
    scores = {job.id: _scores(job) for job in ordered}
    return SideBySide(
        baseline=first.id,
        columns=tuple(_column(job, first, scores) for job in ordered),
        settings=tuple(_settings(ordered)),
        pairs=tuple(_pairs(ordered, first, scores)),
    )


def _method(job: ScoredJob) -> str | None:
    return None if job.spec.method is None else str(job.spec.method["name"])


def _scores(job: ScoredJob) -> Scores | None:
    return ComparedRow(str(job.id), None, "method", (job,)).scores() if job.evaluations else None


def _column(job: ScoredJob, baseline: ScoredJob, scores: Mapping[UUID, Scores | None]) -> JobColumn:
    ours, theirs = scores[job.id], scores[baseline.id]
    reason = None if job is baseline else _why_not(job, baseline, ours, theirs)
    difference = None
    if job is not baseline and reason is None and ours is not None and theirs is not None:
        difference = paired_difference(ours, theirs)
    interval = None if ours is None else mean_interval(ours)
    return JobColumn(job.id, _method(job), job.state, interval, difference, reason)


def _why_not(
    job: ScoredJob, baseline: ScoredJob, ours: Scores | None, theirs: Scores | None
) -> str | None:
    """Return why two jobs have no difference, or None if they have one."""
    if ours is None or theirs is None:
        return "no scores"
    if job.spec.task != baseline.spec.task:
        return "another task"
    return None if ours.items == theirs.items else "other test items"


def _pairs(
    jobs: Sequence[ScoredJob], baseline: ScoredJob, scores: Mapping[UUID, Scores | None]
) -> Iterator[PairItems]:
    theirs = scores[baseline.id]
    for job in jobs:
        ours = scores[job.id]
        if job is baseline or _why_not(job, baseline, ours, theirs) is not None:
            continue
        assert ours is not None
        assert theirs is not None
        shared = shared_seeds(theirs, ours)
        if shared:
            yield _items(job, ours, theirs, shared)


def _items(job: ScoredJob, ours: Scores, theirs: Scores, shared: Sequence[int]) -> PairItems:
    # Unsigned bytes would wrap around.
    other, baseline = (one.bits(shared).sum(axis=0, dtype=np.int64) for one in (ours, theirs))
    gaps = np.abs(other - baseline)
    order = np.argsort(-gaps, kind="stable")[:MOST_ITEMS]
    largest = (
        Disagreement(int(item), int(baseline[item]), int(other[item]))
        for item in order
        if gaps[item]
    )
    disagreeing = int(np.count_nonzero(gaps))
    return PairItems(job.id, _method(job), len(shared), ours.items, disagreeing, tuple(largest))


def _settings(jobs: Sequence[ScoredJob]) -> Iterator[SettingRow]:
    """Yield every setting, those that differ first."""
    members = [dict(_leaves("", job.spec.model_dump(mode="json"))) for job in jobs]
    names = dict.fromkeys(name for job in members for name in job)
    rows = [SettingRow(name, tuple(job.get(name) for job in members)) for name in names]
    yield from sorted(rows, key=lambda row: not row.differs)


def _leaves(place: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield the settings below a place, as text; lists are one setting."""
    if place in _COMPUTED or value in (None, []):
        return
    if not isinstance(value, dict):
        yield place, _written(value)
        return
    for name, member in cast("dict[str, object]", value).items():
        if name not in _LEFT_OUT:
            yield from _leaves(f"{place}.{name}" if place else name, member)


def _written(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        members = cast("list[object]", value)
        if all(not isinstance(member, dict | list) for member in members):
            return ", ".join(map(_written, members))
        return "; ".join(_knobs(member) for member in members)
    return json.dumps(value, ensure_ascii=False)


def _knobs(value: object) -> str:
    if not isinstance(value, dict):
        return _written(value)
    knobs = cast("dict[str, object]", value).items()
    return ", ".join(f"{name.replace('_', ' ')} {_written(knob)}" for name, knob in knobs)
