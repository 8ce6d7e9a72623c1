"""Estimates of a job's time and memory.

They are based on earlier runs that were measured. `adaptlab.specs.cost` counts the operations of a
job. A device's rates convert them to seconds, and the median ratio of measured to counted in the
latest similar runs corrects for this installation.
"""

import json
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache, partial
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
from adaptlab.plugins.registry import as_json
from adaptlab.runs.events import Environment, Usage
from adaptlab.specs.cost import Load, Work, work
from adaptlab.specs.resolved import Resolved, readable
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.text.lengths import MeanBytes
from adaptlab_answers.jobs import Basis, Estimate
from adaptlab_db.tables import AttemptRow, Job
from adaptlab_services.jobs.measured_machines import measured_machine
from adaptlab_services.models import datasets

LATEST_RUNS = 5
LATEST_JOBS = 200
"""Number of jobs among which similar runs are searched; older ones say little about today."""


@dataclass(frozen=True)
class Rates:
    """Speed of a device, fixed cost of a run, and idle memory.

    The speed is in units per second, and the memory is that of an idle process.
    """

    flops: float
    traffic_bytes: float
    kernels: float
    overhead_seconds: float
    idle_bytes: int

    def seconds(self, load: Load) -> float:
        """Return the seconds that a load takes if nothing overlaps."""
        return (
            load.flops / self.flops
            + load.traffic_bytes / self.traffic_bytes
            + load.kernels / self.kernels
        )


# Fitted to runs on one core of a server, and to half of what an H100 did: most cards are slower.
CPU = Rates(4.8e10, 5e10, 1.1e5, overhead_seconds=1.5, idle_bytes=350 * 2**20)
GPU = Rates(2e13, 1e12, 1.3e5, overhead_seconds=1.0, idle_bytes=100 * 2**20)


@dataclass(frozen=True)
class _Run:
    """Ratios of measured to counted for one attempt; None where nothing ran."""

    device: str
    training: float | None
    evaluation: float | None
    overhead_seconds: float
    memory: float | None
    idle_bytes: int

    @classmethod
    def of(cls, row: Sequence[Any], mean_bytes: MeanBytes) -> Self:
        """Read a row of `_latest`, without its place."""
        stored, used, environment, started_at, ended_at = row
        spec = readable(ResolvedSpec.model_validate(stored))
        usage = Usage.model_validate(used)
        device = "cpu" if environment is None else Environment.model_validate(environment).device
        rates, counted = _rates(device), work(spec, mean_bytes)
        trained = spec.training if spec.trains else None
        share = 0.0 if trained is None else usage.training_steps / trained.steps
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
    """Estimate the time and memory of a resolved spec on a queue."""
    (result,) = estimate_each(session, [(spec, queue)])
    return result


def estimate_each(session: Session, jobs: Sequence[tuple[Resolved, str]]) -> tuple[Estimate, ...]:
    """Estimate jobs, given as resolved spec and queue.

    More jobs need no more queries.
    """
    runs: dict[_Likeness, list[_Run]] = {}
    mean_bytes = datasets.mean_bytes(session)
    ordered = [_most_similar_first(spec, queue) for spec, queue in jobs]
    for same_basis in zip(*ordered, strict=True):
        lacking = (
            like
            for like, likenesses in zip(same_basis, ordered, strict=True)
            if not any(runs.get(earlier) for earlier in likenesses)
        )
        runs |= _latest_runs(session, set(lacking), mean_bytes)
    machine = lru_cache(partial(measured_machine, session))
    return tuple(
        _estimate(work(spec, mean_bytes), spec, like, runs.get(like, ()), machine)
        for (spec, _), likenesses in zip(jobs, ordered, strict=True)
        for like in [next((one for one in likenesses if runs.get(one)), likenesses[-1])]
    )


def _estimate(
    counted: Work,
    spec: Resolved,
    like: "_Likeness",
    runs: Sequence[_Run],
    machine: Callable[[str, str], Environment | None],
) -> Estimate:
    """Return an estimate from runs like it, else from products, else guessed."""
    if like.basis == "any":
        measured = machine(like.queue, str(spec.family.name))
        if measured is not None and measured.product_gflops:
            rates = replace(CPU, flops=measured.product_gflops * 1e9)
            return _guess(counted, rates, "products", spec, like.queue)
    if runs:
        return _from_runs(counted, like, runs, spec)
    return _guess(counted, GPU if "gpu" in like.queue else CPU, "default", spec, like.queue)


def _guess(counted: Work, rates: Rates, basis: Basis, spec: Resolved, queue: str) -> Estimate:
    seconds = rates.seconds(counted.training) + rates.seconds(counted.evaluation)
    return Estimate(
        seconds=round(rates.overhead_seconds + seconds, 1),
        memory_bytes=rates.idle_bytes + counted.memory_bytes,
        stored_bytes=counted.stored_bytes,
        saved_bytes=counted.saved_bytes,
        basis=basis,
        runs=0,
        explanation=_explanation(basis, 0, spec, queue),
    )


def warnings(estimate: Estimate, max_seconds: int) -> tuple[str, ...]:
    """Return a warning if the run would be stopped before its end."""
    if estimate.seconds <= max_seconds:
        return ()
    return (
        f"The run is estimated to take {estimate.seconds:.0f} s, but resources.max_seconds "
        f"stops it after {max_seconds} s. Raise max_seconds, or use fewer steps, seeds or "
        f"trials. {estimate.explanation}",
    )


def _from_runs(counted: Work, like: "_Likeness", runs: Sequence[_Run], spec: Resolved) -> Estimate:
    rates = _rates(runs[0].device)
    training = _median([run.training for run in runs])
    evaluation = _median([run.evaluation for run in runs])
    # The memory of a warm process may not grow, because it still holds that of an earlier run.
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
        stored_bytes=counted.stored_bytes,
        saved_bytes=counted.saved_bytes,
        basis=like.basis,
        runs=len(runs),
        explanation=_explanation(like.basis, len(runs), spec, like.queue),
    )


@dataclass(frozen=True)
class _Likeness:
    """Members that a run has in common with a job.

    Those that `basis` ignores are empty.
    """

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
    family, trains = str(spec.family.name), spec.trains
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


def _latest_runs(
    session: Session, likenesses: Set[_Likeness], mean_bytes: MeanBytes
) -> dict[_Likeness, list[_Run]]:
    """The latest measured runs of such jobs, on the device of the very latest."""
    latest: dict[_Likeness, list[_Run]] = {}
    shapes: dict[tuple[Basis, bool, bool], list[_Likeness]] = {}
    for like in likenesses:  # a comparison with NULL would keep an index from being used
        shapes.setdefault((like.basis, like.task is None, like.method is None), []).append(like)
    for alike in shapes.values():
        rows = session.execute(_latest(alike)).all()
        for place, group in groupby(rows, key=lambda row: row.place):
            runs = list(_readable([row[1:] for row in group], mean_bytes))
            latest[alike[place]] = [run for run in runs if run.device == runs[0].device]
    return latest


def _latest(alike: Sequence[_Likeness]) -> Select[Any]:
    """Select the latest runs for each likeness, with its place.

    All likenesses have the same basis. The index `ix_jobs_like` alone finds the at most
    `LATEST_JOBS` per likeness that are read. Measured with 72 jobs: 8 queries instead of 221, and
    0.15 to 0.27 s instead of 0.67 to 1.27 s. With 100,000 jobs, most of another method, 24 specs
    take 0.2 to 1.2 s, without the index 4.2 to 4.7 s.
    """
    wanted = _table_of(alike)
    among, which = _conditions(alike[0], wanted.c)
    newest = (Job.created_at.desc(), Job.id.desc())
    jobs = select(Job.id).where(*among).order_by(*newest).limit(LATEST_JOBS)
    candidates = jobs.correlate(wanted).lateral("candidates")
    measured = (Job.resolved_spec, AttemptRow.usage, AttemptRow.environment)
    runs = (
        select(*measured, AttemptRow.started_at, AttemptRow.ended_at, Job.created_at, Job.id)
        .join(candidates, candidates.c.id == Job.id)
        .join(AttemptRow, (AttemptRow.job_id == Job.id) & (AttemptRow.attempt == Job.attempt))
        .where(Job.state == "succeeded", Job.queue == wanted.c.queue, *which)
        .where(AttemptRow.usage.is_not(None), AttemptRow.ended_at.is_not(None))
        .order_by(*newest)
        .limit(LATEST_RUNS)
        .correlate(wanted)
        .lateral("runs")
    )
    in_order = (wanted.c.place, runs.c.created_at.desc(), runs.c.id.desc())
    columns = (runs.c[name] for name in _MEASURED)
    return select(wanted.c.place, *columns).join_from(wanted, runs, true()).order_by(*in_order)


def _table_of(alike: Sequence[_Likeness]) -> TableValuedAlias:
    """Return a table with a row per likeness, with its place.

    It is one parameter, so that the statement is always the same.
    """
    rows = [{"place": place} | asdict(like) for place, like in enumerate(alike)]
    texts = (column(field.name, Text) for field in fields(_Likeness) if field.name != "trains")
    return (
        func.jsonb_to_recordset(literal(rows, JSONB))
        .table_valued(column("place", Integer), column("trains", Boolean), *texts)
        .render_derived("wanted", with_types=True)
    )


_MEASURED = ("resolved_spec", "usage", "environment", "started_at", "ended_at")
_Conditions = tuple[ColumnElement[bool], ...]


def _conditions(
    like: _Likeness, wanted: ReadOnlyColumnCollection[str, Any]
) -> tuple[_Conditions, _Conditions]:
    """Return conditions on the jobs to read and on those that count.

    The first are by indexed columns; the second apply to the jobs that are read.
    """
    trains = (Job.total_steps > 0) == wanted.trains
    if like.basis == "any":
        return (), (trains,)
    if like.basis == "family":
        return (), (trains, Job.family == wanted.family)
    among = (
        Job.kind == wanted.kind,
        Job.task.is_(None) if like.task is None else Job.task == wanted.task,
        Job.method.is_(None) if like.method is None else Job.method == wanted.method,
    )
    return among, (
        trains,  # an imported adapter tells nothing about training its method
        Job.family == wanted.family,
        Job.resolved_spec["family"] == cast(wanted.configuration, JSONB),
        Job.resolved_spec["training"]["precision"].astext == wanted.precision,
    )


def _readable(rows: Sequence[Sequence[Any]], mean_bytes: MeanBytes) -> Iterator[_Run]:
    """The runs whose specs the installed plug-ins can read."""
    for row in rows:
        try:
            yield _Run.of(row, mean_bytes)
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
        "products": (
            f"Guessed from the speed of a product that the latest run of {family} on the queue "
            f"{queue!r} measured, because none has trained there. The guess can be wrong by two "
            "times."
        ),
        "default": (
            f"Guessed: no run of {what}, or of any other job, has been measured on the queue "
            f"{queue!r}. The guess can be wrong by several times."
        ),
    }
    early = (
        " Early stopping may end it earlier."
        if spec.training and spec.training.early_stopping
        else ""
    )
    return sentences[basis] + early


def _rates(device: str) -> Rates:
    return GPU if device.startswith("cuda") else CPU


def _ratio(measured: float, counted: float) -> float | None:
    return max(measured, 0.0) / counted if counted > 0 else None


def _median(ratios: Sequence[float | None]) -> float:
    measured = [ratio for ratio in ratios if ratio is not None]
    return median(measured) if measured else 1.0
