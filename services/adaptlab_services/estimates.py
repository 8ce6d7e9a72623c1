"""How long a job will run and how much memory it will take, from runs that were measured.

`adaptlab.cost` counts what a job computes; a device's rates make seconds of it, and the median
ratio of measured to counted in the latest similar runs makes those right for this installation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal, Self

from pydantic import ValidationError
from sqlalchemy import ColumnElement, Row, select, true
from sqlalchemy.orm import Session

from adaptlab.cost import Load, Work, work
from adaptlab.errors import AdaptlabError
from adaptlab.results import Environment, Usage
from adaptlab.spec import ResolvedSpec
from adaptlab.values import Value
from adaptlab_db.tables import Attempt, Job

LATEST_RUNS = 5
LATEST_JOBS = 200
"""Among so many jobs similar runs are looked for; older ones say little of today."""

Basis = Literal["kind", "family", "any", "default"]


class Estimate(Value):
    """What a run will take; `seconds` count from a worker's claim to the end of the attempt.

    `memory_bytes` is the largest memory of the trainer on a CPU and of its tensors on a GPU.
    `basis` says which earlier runs decided it, most similar first: of this kind (family and its
    configuration, method, task, precision, queue), of the family, any on the queue, or none but
    rates that are guessed; `runs` how many. `explanation` says the same in a sentence.
    """

    seconds: float
    memory_bytes: int
    basis: Basis
    runs: int
    explanation: str


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
    def of(cls, row: Row[Any, Any, Any, Any, Any]) -> Self:
        """From what is stored of an attempt."""
        stored, used, environment, started_at, ended_at = row
        spec, usage = ResolvedSpec.model_validate(stored), Usage.model_validate(used)
        device = "cpu" if environment is None else Environment.model_validate(environment).device
        rates, counted = _rates(device), work(spec)
        share = usage.training_steps / max(spec.training.steps, 1)
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


def estimate(session: Session, spec: ResolvedSpec, queue: str) -> Estimate:
    """What a job of this resolved spec will take on this queue."""
    counted = work(spec)
    for similar in _most_similar_first(spec):
        if runs := _runs(session, queue, similar):
            explanation = _explanation(similar.basis, len(runs), spec, queue)
            return _from_runs(counted, similar.basis, runs, explanation)
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
        f"The run is estimated at {estimate.seconds:.0f} s, and resources.max_seconds stops it "
        f"after {max_seconds} s; allow more, or ask for fewer steps, seeds or trials. "
        f"{estimate.explanation}",
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
class _Similar:
    """Which runs count: the newest jobs of which `among` holds are looked at, `which` decides.

    The first asks indexed columns only, so that a long history costs no more than a short one.
    """

    basis: Basis
    among: ColumnElement[bool]
    which: ColumnElement[bool]


def _most_similar_first(spec: ResolvedSpec) -> Iterator[_Similar]:
    task = None if spec.task is None else str(spec.task["name"])
    method = None if spec.method is None else str(spec.method["name"])
    family = Job.family == str(spec.family["name"])
    configured = Job.resolved_spec["family"] == spec.family
    precision = Job.resolved_spec["training"]["precision"].astext == spec.training.precision
    columns = (Job.kind == spec.kind) & (Job.task == task) & (Job.method == method)  # or IS NULL
    yield _Similar("kind", columns, family & configured & precision)
    trains = (Job.total_steps > 0) == (spec.training.steps > 0)
    yield _Similar("family", true(), family & trains)
    yield _Similar("any", true(), trains)


def _runs(session: Session, queue: str, similar: _Similar) -> list[_Run]:
    """The latest measured runs of such jobs, on the device of the very latest."""
    newest = (Job.created_at.desc(), Job.id.desc())
    among = select(Job.id).where(similar.among).order_by(*newest).limit(LATEST_JOBS).subquery()
    rows = session.execute(
        select(
            Job.resolved_spec,
            Attempt.usage,
            Attempt.environment,
            Attempt.started_at,
            Attempt.ended_at,
        )
        .join(among, among.c.id == Job.id)
        .join(Attempt, (Attempt.job_id == Job.id) & (Attempt.attempt == Job.attempt))
        .where(Job.state == "succeeded", Job.queue == queue, similar.which)
        .where(Attempt.usage.is_not(None), Attempt.ended_at.is_not(None))
        .order_by(*newest)
        .limit(LATEST_RUNS)
    ).all()
    runs = list(_readable(rows))
    return [run for run in runs if run.device == runs[0].device]


def _readable(rows: Sequence[Row[Any, Any, Any, Any, Any]]) -> Iterator[_Run]:
    """The runs whose specs today's plug-ins still understand."""
    for row in rows:
        try:
            yield _Run.of(row)
        except (AdaptlabError, ValidationError):
            continue


def _explanation(basis: Basis, runs: int, spec: ResolvedSpec, queue: str) -> str:
    what = str((spec.method or spec.family)["name"])
    count = "the latest run" if runs == 1 else f"the latest {runs} runs"
    sentences: dict[Basis, str] = {
        "kind": f"From {count} of this kind on the queue {queue!r}.",
        "family": f"From {count} of {spec.family['name']} on the queue {queue!r}, because none of "
        "this kind has been measured.",
        "any": f"From {count} of anything on the queue {queue!r}, because none of "
        f"{spec.family['name']} has been measured.",
        "default": f"Guessed: no run of {what} or anything else on the queue {queue!r} has been "
        "measured; it can be several times off.",
    }
    early = " Early stopping may end it sooner." if spec.training.early_stopping else ""
    return sentences[basis] + early


def _rates(device: str) -> Rates:
    return GPU if device.startswith("cuda") else CPU


def _ratio(measured: float, counted: float) -> float | None:
    return max(measured, 0.0) / counted if counted > 0 else None


def _median(ratios: Sequence[float | None]) -> float:
    known = [ratio for ratio in ratios if ratio is not None]
    return median(known) if known else 1.0
