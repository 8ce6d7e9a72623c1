"""The stored results that answer a recommendation's question."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, literal, select, true
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from adaptlab.code_version import code_version
from adaptlab.comparisons.comparability import ComparedJob, comparability, comparable_groups
from adaptlab.comparisons.comparison import (
    Comparison,
    ComparisonRow,
    compare,
    corrected_choice,
)
from adaptlab.comparisons.comparison_warnings import imported_base
from adaptlab.comparisons.verdict import LEAST_SEEDS, Verdict
from adaptlab.plugins.method import METHODS
from adaptlab.plugins.registry import as_json
from adaptlab.plugins.task import Task
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.spec import Choice
from adaptlab.statistics import ChosenBest, Interval, Scores
from adaptlab.values import AUTO
from adaptlab_answers.models import MethodAnswer
from adaptlab_db.tables import AttemptRow, BaseModel, Job
from adaptlab_services.comparisons.comparison_groups import tables_of_jobs
from adaptlab_services.comparisons.comparison_rows import ComparedRow, alone_of, compared_jobs
from adaptlab_services.people.access import own_jobs
from adaptlab_services.results.scored_jobs import ScoredJob, scored_jobs

MOST_JOBS = 200
"""Limit on the runs that are considered, the latest first."""
MOST_ROWS = 32
"""Limit on compared configurations, because every pair is tested."""


@dataclass(frozen=True, slots=True)
class ResolvedQuestion:
    """A question with its base model, task and budget resolved.

    `solutions` are the solver's answers at the budget for all methods that are considered.
    """

    base: BaseModelFacts
    choice: Choice
    task: Task
    limit: int
    max_seconds: float | None
    methods: tuple[Choice, ...]
    solutions: tuple[MethodAnswer, ...]

    def fitting(self) -> tuple[str, ...]:
        """Return the methods within the budget that are worth a run.

        Searches for tokens are left out unless the question names them: a soft prompt of as many
        positions is their bound. So are methods with demonstrations, which not every task has.
        """
        fitting = dict.fromkeys(solution.name for solution in self.solutions if solution.feasible)
        return tuple(name for name in fitting if self.methods or not _is_for_some(name))


def _is_for_some(name: str) -> bool:
    """Return True if a method is proposed only to those who name it."""
    method = METHODS.get(name)
    return method.is_search or method.moves_content


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A job's requested spec, its queue, and its duration in seconds."""

    spec: Mapping[str, Any]  # Any: a spec as JSON, whose members are of many types
    queue: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class ReadRuns:
    """Runs that can answer a question, with all measurements.

    The runs are read in one unit of work.
    """

    runs: Mapping[UUID, RunFacts]
    scored: tuple[ScoredJob, ...]


@dataclass(frozen=True, slots=True)
class RecommendationEvidence:
    """Comparable runs of a base model and task, as rows from best to worst.

    A row is one configuration with all its seeds. `too_slow` are rows that took longer than
    requested, `other_settings` the jobs that are not comparable with these, and `left_out` counts
    the rows above the limit. `base_alone` is the accuracy of the base model without adaptation,
    None if it was not measured.
    """

    rows: tuple[ComparedRow, ...]
    comparison: Comparison
    runs: Mapping[UUID, RunFacts]
    too_slow: tuple[ComparedRow, ...]
    other_settings: tuple[ScoredJob, ...]
    left_out: int
    base_alone: float | None

    def works(self, row: ComparedRow) -> bool:
        """Return True if most seeds of the row beat the floor."""
        failing = self.entry(row).failing
        return 2 * failing.ok > failing.seeds

    def score(self, row: ComparedRow) -> Interval:
        """Return the row's score."""
        return self.entry(row).score

    def entry(self, row: ComparedRow) -> ComparisonRow:
        """Return the row of the comparison."""
        return next(one for one in self.comparison.cells[0].rows if one.label == row.label)

    @property
    def recommended(self) -> ComparedRow:
        """The leader of the best set, or the first of it that works."""
        cell = self.comparison.cells[0]
        best = [row for row in self.rows if row.label in cell.best] or [*self.rows]
        few = {row.label for row in self.rows if len(row.evaluations()) < LEAST_SEEDS}
        best.sort(key=lambda row: (row.label in few, row.label != cell.leader))
        return next((row for row in best if self.works(row)), best[0])

    @property
    def chosen(self) -> ChosenBest | None:
        """The recommended score, corrected for its selection as the highest."""
        rows = [*map(_alone, self.rows)]
        return corrected_choice(rows, self.recommended.label, self.comparison.level)

    @property
    def runner_up(self) -> ComparedRow | None:
        """The first row of another method that works, if any."""
        name = name_of(self.recommended)
        others = (row for row in self.rows if name_of(row) != name)
        return next((row for row in others if self.works(row)), None)

    def verdict(self, first: ComparedRow, second: ComparedRow) -> Verdict | None:
        """Return the verdict on two rows, or None if they cannot be paired."""
        labels = {first.label, second.label}
        verdicts = self.comparison.cells[0].verdicts
        return next((v for v in verdicts if {v.pair.first, v.pair.second} == labels), None)

    def seconds(self, row: ComparedRow) -> float | None:
        """Return the duration of the row's longest job, if known."""
        return longest(row, self.runs)

    @property
    def older_code(self) -> str | None:
        """The code version of the runs, or None if it is the current one."""
        environments = [job.environment for row in self.rows for job in row.jobs if job.environment]
        version = environments[0].code_version if environments else code_version()
        return None if version == code_version() else version


@dataclass(frozen=True, slots=True)
class NoEvidence:
    """The lack of comparable results; `too_slow` took longer than requested."""

    too_slow: tuple[ComparedRow, ...] = ()


def name_of(row: ComparedRow) -> str:
    """Return the name of the row's method, without budget and knobs."""
    return str((row.jobs[0].spec.method or {})["name"])


def longest(row: ComparedRow, runs: Mapping[UUID, RunFacts]) -> float | None:
    """Return the duration of the row's longest job in seconds, if known."""
    durations = [runs[job.id].seconds for job in row.jobs]
    return max((seconds for seconds in durations if seconds is not None), default=None)


def read_runs(
    session: Session, question: ResolvedQuestion, *, include_shared: bool = False
) -> ReadRuns:
    """Read the runs within the budget, of own projects or also shared ones."""
    runs = _runs(session, question, true() if include_shared else own_jobs(session))
    scored = scored_jobs(session, runs)
    return ReadRuns(runs, tuple(scored.values()))


def evidence_of(question: ResolvedQuestion, read: ReadRuns) -> RecommendationEvidence | NoEvidence:
    """Compute the evidence from these runs; call it outside a unit of work."""
    scored = [j for j in read.scored if j.evaluations and _has_knobs(j, question.methods)]
    if not scored:
        return NoEvidence()
    group = _most_telling(scored)
    rows, too_slow = _rows(group, read.runs, question.max_seconds)
    if not rows:
        return NoEvidence(too_slow)
    compared = _at_most(rows, MOST_ROWS)
    comparable = {job.id for job in group}
    return RecommendationEvidence(
        rows=compared,
        comparison=_comparison(compared, question),
        runs=read.runs,
        too_slow=too_slow,
        other_settings=tuple(job for job in scored if job.id not in comparable),
        left_out=len(rows) - len(compared),
        base_alone=alone_of(compared),
    )


def _runs(
    session: Session, question: ResolvedQuestion, which: ColumnElement[bool]
) -> dict[UUID, RunFacts]:
    """Return the latest runs on this base model and task within the budget.

    Imported adapters are none: how much they were tuned is unknown.
    """
    latest = (AttemptRow.job_id == Job.id) & (AttemptRow.attempt == Job.attempt)
    rows = session.execute(
        select(Job.id, Job.spec, Job.queue, AttemptRow.started_at, AttemptRow.ended_at)
        .join(AttemptRow, latest)
        .where(which, Job.kind == "adapt", Job.state == "succeeded", Job.task == question.task.name)
        .where(Job.trainable_parameters <= question.limit, Job.total_steps > 0)
        .where(Job.resolved_spec["task"] == literal(as_json(question.task), JSONB))
        .where(Job.base_model.in_(_names(session, question.base.digest)))
        .where(Job.resolved_spec["base_digest"].astext == question.base.digest)
        .where(Job.method.in_([solution.name for solution in question.solutions]))
        .order_by(Job.created_at.desc(), Job.id.desc())
        .limit(MOST_JOBS)
    )
    return {
        job_id: RunFacts(
            spec, queue, None if ended is None else round((ended - started).total_seconds(), 1)
        )
        for job_id, spec, queue, started, ended in rows
    }


def _names(session: Session, digest: str) -> Sequence[str]:
    """Return the names of base models with this digest; names are indexed."""
    maker = select(BaseModel.name).join(Job, Job.id == BaseModel.job_id)
    return session.scalars(maker.where(Job.spec_digest == digest)).all()


def _has_knobs(job: ScoredJob, methods: Sequence[Choice]) -> bool:
    """Return True if the job has the knobs that the question gives, if any."""
    resolved = job.spec.method or {}
    wanted = [choice.model_dump(mode="json") for choice in methods]
    return not wanted or any(
        all(value in (AUTO, resolved.get(knob)) for knob, value in choice.items())
        for choice in wanted
    )


def _most_telling(jobs: Sequence[ScoredJob]) -> tuple[ScoredJob, ...]:
    """Return the group of comparable jobs that contains the highest score.

    Ties are decided by the number of methods, then current code, then seeds. The score comes first,
    because many methods that have not learned the task are worth less than one that has.
    """
    by_label = {str(job.id): job for job in _not_superseded(jobs)}
    compared = [
        ComparedJob(label=label, spec=job.spec, environment=job.environment)
        for label, job in by_label.items()
    ]
    groups = [tuple(by_label[job.label] for job in group) for group in comparable_groups(compared)]
    return max(groups, key=_weight)


def _weight(group: Sequence[ScoredJob]) -> tuple[float, int, bool, int]:
    names = {str((job.spec.method or {})["name"]) for job in group}
    seeds = sum(len(job.evaluations) for job in group)
    return max(map(_mean, group)), len(names), all(map(_is_current, group)), seeds


def _not_superseded(jobs: Sequence[ScoredJob]) -> list[ScoredJob]:
    """Return the jobs without old runs that the current code has repeated."""
    current = {job.spec.model_dump_json() for job in jobs if _is_current(job)}
    return [job for job in jobs if _is_current(job) or job.spec.model_dump_json() not in current]


def _is_current(job: ScoredJob) -> bool:
    return job.environment is None or job.environment.code_version == code_version()


def _mean(job: ScoredJob) -> float:
    return fmean(evaluation.accuracy for evaluation in job.evaluations)


def _rows(
    jobs: Sequence[ScoredJob], runs: Mapping[UUID, RunFacts], max_seconds: float | None
) -> tuple[tuple[ComparedRow, ...], tuple[ComparedRow, ...]]:
    """Return the rows in time, best first, and those that took too long."""
    (table,) = tables_of_jobs(jobs)
    in_time: list[ComparedRow] = []
    too_slow: list[ComparedRow] = []
    for row in table.rows:
        seconds = longest(row, runs)
        is_late = max_seconds is not None and seconds is not None and seconds > max_seconds
        (too_slow if is_late else in_time).append(row)
    return tuple(sorted(in_time, key=_order)), tuple(too_slow)


def _order(row: ComparedRow) -> tuple[bool, float, int, str]:
    """Return the sort key: three seeds or more, higher mean, smaller size."""
    evaluations = row.evaluations()
    mean = sum(e.correct / e.total for e in evaluations) / len(evaluations)
    return len(evaluations) < LEAST_SEEDS, -mean, row.parameters, row.label


def _at_most(rows: Sequence[ComparedRow], most: int) -> tuple[ComparedRow, ...]:
    """Return at most `most` rows, the largest of every method first.

    This avoids a selection by score.
    """
    of_method: dict[str, list[ComparedRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (-row.parameters, row.label)):
        of_method[name_of(row)].append(row)
    turns = [(place, row.label) for own in of_method.values() for place, row in enumerate(own)]
    labels = {label for _, label in sorted(turns)[:most]}
    return tuple(row for row in rows if row.label in labels)


def _comparison(rows: Sequence[ComparedRow], question: ResolvedQuestion) -> Comparison:
    """Compare all rows in one cell, because all are within the budget."""
    scores = tuple(_alone(row) for row in rows)
    differences = comparability(compared_jobs(rows))
    chance = question.task.chance()
    of_bases = () if question.base.folder is None else (imported_base(question.base.name),)
    return compare(
        str(question.task.name),
        scores,
        differences=differences,
        chance=chance,
        alone=alone_of(rows),
        constant=question.task.constant_answer(),
        of_bases=of_bases,
    )


def _alone(row: ComparedRow) -> Scores:
    scores = replace(row, method=row.label, budget=None).scores()
    assert scores is not None, "only jobs with scores are gathered"
    return scores
