"""How long a job will run and how much memory it will take, from runs that were measured.

`adaptlab.specs.cost` counts what a job computes. A device's rates turn that into seconds, and the
median ratio of measured to counted in the latest similar runs fits it to this installation.
"""

import json
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, fields
from itertools import groupby
from statistics import median
from typing import Any, Self

from pydantic import ValidationError
from sqlalchemy import (
    Boolean,
    ColumnElement,
    Integer,
    Select,
    TableValuedAlias,
    Text,
    cast,
    column,
    func,
    literal,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from adaptlab.errors import AdaptlabError
from adaptlab.measurements.results import Environment, Usage
from adaptlab.plugins.registry import as_json
from adaptlab.specs.cost import Load, Work, work
from adaptlab.specs.resolved import Resolved, readable
from adaptlab.specs.spec import ResolvedSpec
from adaptlab_answers.jobs import Basis, Estimate
from adaptlab_db.tables import Attempt, Job

LATEST_RUNS = 5
LATEST_JOBS = 200
"""Among so many jobs similar runs are looked for; older ones say little of today."""


@dataclass(frozen=True)
class Rates:
    """What a device does in a second, what a run costs besides, and what a process holds idle."""

    flops: float
    traffic_bytes: float
    kernels: float
    overhead_seconds: float
    idle_bytes: int

    def seconds(self, load: Load) -> float:
        """As if nothing overlapped."""
        return (
            load.flops / self.flops
            + load.traffic_bytes / self.traffic_bytes
            + load.kernels / self.kernels
        )


# Fitted to runs on one core of a server; what a GPU does is its data sheet's tenth part.
CPU = Rates(4.8e10, 5e10, 1.1e5, overhead_seconds=1.5, idle_bytes=350 * 2**20)
GPU = Rates(5e12, 3e11, 1e5, overhead_seconds=5.0, idle_bytes=0)


@dataclass(frozen=True)
class _Run:
    """One measured attempt next to what was counted for it; ratios are None where nothing ran."""

    device: str
    training: float | None
    evaluation: float | None
    overhead_seconds: float
    memory: float | None
    idle_bytes: int

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """From what is stored of an attempt."""
        stored, used, environment, started_at, ended_at = row
        spec = readable(ResolvedSpec.model_validate(stored))
        usage = Usage.model_validate(used)
        device = "cpu" if environment is None else Environment.model_validate(environment).device
        rates, counted = _rates(device), work(spec)
        share = 0.0 if spec.training is None else usage.training_steps / spec.training.steps
        measured = usage.training_seconds + usage.evaluation_seconds
        grown = usage.peak_memory_bytes - usage.base_memory_bytes
        return cls(
            device,
            _ratio(usage.training_seconds, rates.seconds(counted.training) * share),
            _ratio(usage.evaluation_seconds, rates.seconds(counted.evaluation)),
            max((ended_at - started_at).total_seconds() - measured, 0.0),
            _ratio(grown, counted.memory_bytes) if usage.passes == 1 else None,
            usage.base_memory_bytes,
        )


def estimate(session: Session, spec: Resolved, queue: str) -> Estimate:
    """What a job of this resolved spec will take on this queue."""
    (found,) = estimate_each(session, [(spec, queue)])
    return found


def estimate_each(session: Session, asked: Sequence[tuple[Resolved, str]]) -> tuple[Estimate, ...]:
    """What each job will take, by resolved spec and queue; more of them cost no more queries."""
    known: dict[_Likeness, list[_Run]] = {}
    ordered = [_most_similar_first(spec, queue) for spec, queue in asked]
    for same_basis in zip(*ordered, strict=True):
        lacking = (
            like
            for like, likenesses in zip(same_basis, ordered, strict=True)
            if not any(known.get(earlier) for earlier in likenesses)
        )
        known |= _latest_runs(session, set(lacking))
    return tuple(
        _estimate(spec, queue, next((one for one in likenesses if known.get(one)), None), known)
        for (spec, queue), likenesses in zip(asked, ordered, strict=True)
    )


def _estimate(
    spec: Resolved,
    queue: str,
    likeness: "_Likeness | None",
    known: Mapping["_Likeness", Sequence[_Run]],
) -> Estimate:
    counted = work(spec)
    if likeness is not None:
        runs = known[likeness]
        explanation = _explanation(likeness.basis, len(runs), spec, queue)
        return _from_runs(counted, likeness.basis, runs, explanation)
    rates = GPU if "gpu" in queue else CPU
    seconds = rates.seconds(counted.training) + rates.seconds(counted.evaluation)
    return Estimate(
        seconds=round(rates.overhead_seconds + seconds, 1),
        memory_bytes=rates.idle_bytes + counted.memory_bytes,
        basis="default",
        runs=0,
        explanation=_explanation("default", 0, spec, queue),
    )


def warnings(estimate: Estimate, max_seconds: int) -> tuple[str, ...]:
    """What to say of a run that would be stopped before its end."""
    if estimate.seconds <= max_seconds:
        return ()
    return (
        f"The run is estimated to take {estimate.seconds:.0f} s, but resources.max_seconds "
        f"stops it after {max_seconds} s. Raise max_seconds, or use fewer steps, seeds or "
        f"trials. {estimate.explanation}",
    )


def _from_runs(counted: Work, basis: Basis, runs: Sequence[_Run], explanation: str) -> Estimate:
    rates = _rates(runs[0].device)
    training = _median([run.training for run in runs])
    evaluation = _median([run.evaluation for run in runs])
    # A warm process may still hold what an earlier run left, which then shows no growth.
    growth = max((run.memory for run in runs if run.memory is not None), default=1.0)
    idle = min(run.idle_bytes for run in runs)
    seconds = (
        median(run.overhead_seconds for run in runs)
        + training * rates.seconds(counted.training)
        + evaluation * rates.seconds(counted.evaluation)
    )
    return Estimate(
        seconds=round(seconds, 1),
        memory_bytes=idle + round(growth * counted.memory_bytes),
        basis=basis,
        runs=len(runs),
        explanation=explanation,
    )


@dataclass(frozen=True)
class _Likeness:
    """What counting runs have in common with a job; what `basis` does not ask for is left empty."""

    basis: Basis
    queue: str
    trains: bool
    family: str = ""
    kind: str = ""
    task: str | None = ""
    method: str | None = ""
    configuration: str = ""
    precision: str = ""


def _most_similar_first(spec: Resolved, queue: str) -> tuple[_Likeness, ...]:
    family, trains = str(spec.family.name), spec.training is not None
    kind = _Likeness(
        basis="kind",
        queue=queue,
        trains=trains,
        family=family,
        kind=spec.kind,
        task=None if spec.task is None else str(spec.task.name),
        method=None if spec.method is None else str(spec.method.name),
        configuration=json.dumps(as_json(spec.family), sort_keys=True),
        precision=spec.precision,
    )
    return kind, _Likeness("family", queue, trains, family), _Likeness("any", queue, trains)


def _latest_runs(session: Session, asked: Set[_Likeness]) -> dict[_Likeness, list[_Run]]:
    """The latest measured runs of such jobs, on the device of the very latest."""
    found: dict[_Likeness, list[_Run]] = {}
    shapes: dict[tuple[Basis, bool, bool], list[_Likeness]] = {}
    for one in asked:  # a comparison with NULL would keep an index from being used
        shapes.setdefault((one.basis, one.task is None, one.method is None), []).append(one)
    for alike in shapes.values():
        rows = session.execute(_latest(alike)).all()
        for place, group in groupby(rows, key=lambda row: row.place):
            runs = list(_readable([row[1:] for row in group]))
            found[alike[place]] = [run for run in runs if run.device == runs[0].device]
    return found


def _latest(alike: Sequence[_Likeness]) -> Select[Any]:
    """The latest runs for each of these, with its place; all are of one basis.

    For each, at most `LATEST_JOBS` are looked at closely, found by the index `ix_jobs_like` alone.
    Measured with 72 jobs: 8 queries for 221, 0.15 to 0.27 s for 0.67 to 1.27 s; with 100,000 jobs
    of which most are of another method, 0.2 to 1.2 s for 24 specs and 4.2 to 4.7 s without it.
    """
    asked = _table_of(alike)
    among, which = _conditions(alike[0], asked.c)
    newest = (Job.created_at.desc(), Job.id.desc())
    jobs = select(Job.id).where(*among).order_by(*newest).limit(LATEST_JOBS)
    found = jobs.correlate(asked).lateral("found")
    measured = (Job.resolved_spec, Attempt.usage, Attempt.environment)
    runs = (
        select(*measured, Attempt.started_at, Attempt.ended_at, Job.created_at, Job.id)
        .join(found, found.c.id == Job.id)
        .join(Attempt, (Attempt.job_id == Job.id) & (Attempt.attempt == Job.attempt))
        .where(Job.state == "succeeded", Job.queue == asked.c.queue, *which)
        .where(Attempt.usage.is_not(None), Attempt.ended_at.is_not(None))
        .order_by(*newest)
        .limit(LATEST_RUNS)
        .correlate(asked)
        .lateral("runs")
    )
    in_order = (asked.c.place, runs.c.created_at.desc(), runs.c.id.desc())
    told = (runs.c[name] for name in _MEASURED)
    return select(asked.c.place, *told).join_from(asked, runs, true()).order_by(*in_order)


def _table_of(alike: Sequence[_Likeness]) -> TableValuedAlias:
    """A row for each, with its place, in one parameter: the statement is always the same."""
    rows = [{"place": place} | asdict(one) for place, one in enumerate(alike)]
    texts = (column(one.name, Text) for one in fields(_Likeness) if one.name != "trains")
    return (
        func.jsonb_to_recordset(literal(rows, JSONB))
        .table_valued(column("place", Integer), column("trains", Boolean), *texts)
        .render_derived("asked", with_types=True)
    )


_MEASURED = ("resolved_spec", "usage", "environment", "started_at", "ended_at")
_Conditions = tuple[ColumnElement[bool], ...]


def _conditions(
    one: _Likeness, asked: ReadOnlyColumnCollection[str, Any]
) -> tuple[_Conditions, _Conditions]:
    """Which jobs are looked at, on indexed columns, and which of these count."""
    trains = (Job.total_steps > 0) == asked.trains
    if one.basis == "any":
        return (), (trains,)
    if one.basis == "family":
        return (), (trains, Job.family == asked.family)
    among = (
        Job.kind == asked.kind,
        Job.task.is_(None) if one.task is None else Job.task == asked.task,
        Job.method.is_(None) if one.method is None else Job.method == asked.method,
    )
    return among, (
        Job.family == asked.family,
        Job.resolved_spec["family"] == cast(asked.configuration, JSONB),
        Job.resolved_spec["training"]["precision"].astext == asked.precision,
    )


def _readable(rows: Sequence[Sequence[Any]]) -> Iterator[_Run]:
    """The runs whose specs today's plug-ins still understand."""
    for row in rows:
        try:
            yield _Run.of(row)
        except (AdaptlabError, ValidationError):
            continue


def _explanation(basis: Basis, runs: int, spec: Resolved, queue: str) -> str:
    family = spec.family.name
    what = family if spec.method is None else spec.method.name
    count = "the latest run" if runs == 1 else f"the latest {runs} runs"
    sentences: dict[Basis, str] = {
        "kind": f"Estimated from {count} of this kind on the queue {queue!r}.",
        "family": (
            f"Estimated from {count} of {family} on the queue {queue!r}, because "
            "no run of this kind has been measured."
        ),
        "any": (
            f"Estimated from {count} of other jobs on the queue {queue!r}, because no run of "
            f"{family} has been measured."
        ),
        "default": (
            f"Guessed: no run of {what}, or of any other job, has been measured on the queue "
            f"{queue!r}. The guess can be wrong by several times."
        ),
    }
    early = (
        " Early stopping may end it sooner."
        if spec.training and spec.training.early_stopping
        else ""
    )
    return sentences[basis] + early


def _rates(device: str) -> Rates:
    return GPU if device.startswith("cuda") else CPU


def _ratio(measured: float, counted: float) -> float | None:
    return max(measured, 0.0) / counted if counted > 0 else None


def _median(ratios: Sequence[float | None]) -> float:
    known = [ratio for ratio in ratios if ratio is not None]
    return median(known) if known else 1.0
