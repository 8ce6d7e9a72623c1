"""Planning of studies with a question: the next passes are created.

A decision and the jobs that it plans are written in one unit of work, and a decision follows from
the passes seen alone. A planner that dies at any moment has therefore decided nothing or all of it,
and any other one continues.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ColumnElement, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert as insert_or_not
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.questions.passes import PassState
from adaptlab.questions.planning import NextPass, StudyKnowledge, look
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import spec_digest, write_resolved
from adaptlab.specs.spec import AdaptSpec, TrainingSpec, TuningSpec
from adaptlab.studies.study import QuestionSpec, StudySpec, base_names
from adaptlab.studies.study_expansion import expand
from adaptlab.studies.study_plan import Cell, PlannedJob, StudyPlan
from adaptlab.values import AUTO
from adaptlab_db.job_states import TERMINAL_STATES, UNCLAIMED_STATES
from adaptlab_db.session import allow_pauses, one_by_one
from adaptlab_db.tables import Job, Study, StudyDecision, StudyJob, StudyPass, User
from adaptlab_services.jobs import study_lock
from adaptlab_services.jobs.rows import NewJob, insert_jobs
from adaptlab_services.lifecycle import webhook_events
from adaptlab_services.lifecycle.transitions import Change, move
from adaptlab_services.models import base_models, datasets
from adaptlab_services.people import access
from adaptlab_services.people.tokens import Principal
from adaptlab_services.results.scored_jobs import ScoredJob
from adaptlab_services.studies import study_jobs
from adaptlab_services.studies.question_tables import History, history, place_of, tables
from adaptlab_services.studies.study_rows import spec_of

LONGEST_COMPUTING = "15s"
"""Longest time for computing a look between two statements."""
UNNEEDED = Change("cancelled", "cancelled_by_user", data={"by": "question"})

log = logging.getLogger(__name__)


def due(session: Session) -> tuple[UUID, ...]:
    """Return the studies of which a pass has ended that no decision has seen."""
    return tuple(session.scalars(select(Study.id).where(_is_due()).order_by(Study.created_at)))


@dataclass(frozen=True, slots=True)
class Planned:
    """Queues with new work, and studies that could not be planned now."""

    queues: tuple[str, ...]
    failed: frozenset[UUID]


def plan_due(
    sessions: sessionmaker[Session], most_jobs: int, without: Collection[UUID] = ()
) -> Planned:
    """Decide what follows in every study that is due.

    Those of `without` are left as they are. `sessions` are the program's own, which see all
    projects. A study that cannot be planned now is logged, and the others are planned.
    """
    with one_by_one(sessions) as session:
        studies = [study_id for study_id in due(session) if study_id not in without]
    queues: dict[str, None] = {}
    failed: set[UUID] = set()
    for study_id in studies:
        try:
            with sessions.begin() as session:
                queues |= dict.fromkeys(plan_next(session, study_id, most_jobs))
        except Exception:
            log.exception("study %s could not be planned; it will be tried again", study_id)
            failed.add(study_id)
    return Planned(tuple(queues), frozenset(failed))


def plan_next(session: Session, study_id: UUID, most_jobs: int) -> tuple[str, ...]:
    """See which passes have ended, and plan the next ones.

    Returns the queues with new work. Does nothing if no pass has ended since the last decision.
    """
    study_lock.take(session)
    query = select(Study).where(Study.id == study_id, _is_due()).with_for_update()
    study = session.execute(query).scalar_one_or_none()
    if study is None:
        return ()
    owner = session.execute(select(User.name).where(User.id == study.owner_id)).scalar_one()
    principal = Principal(user_id=study.owner_id, name=owner, token_id=0, scopes=())
    with access.inside(session, study.project_id):
        spec = spec_of(study)
        bases = [base_models.facts(session, name) for name in base_names(spec)]
        allow_computing(session)
        plan = expand(spec, bases, most_jobs, datasets.known(session))
        return decide(session, principal, study, plan, bases)


def decide(
    session: Session,
    principal: Principal,
    study: Study,
    plan: StudyPlan,
    bases: Sequence[BaseModelFacts],
) -> tuple[str, ...]:
    """Take the next decision of a study, with its jobs.

    Returns the queues with new work. The study's row is locked, and the unit of work is inside its
    project.
    """
    spec = spec_of(study)
    question = spec.question
    assert question is not None, "only a study with a question has decisions"
    past = history(session, study.id)
    seen = _ended(past)
    states: dict[int, PassState] = {**past.states, **seen}
    hours = _hours(session, study)
    allow_computing(session)
    found = look(question, tables(question, plan, past, states), hours)
    number = _write_decision(session, study, states, hours, found)
    dropped = _drop(session, study.id, found.unneeded)
    _write_states(session, study.id, {**seen, **dict.fromkeys(dropped, "dropped")})
    first = max(states, default=-1) + 1
    queues = _create(
        session, principal, study.id, _Plan(plan, spec, bases), found.passes, (number, first)
    )
    if found.ending is not None:
        study.question_open = False
        webhook_events.study_changed(session, study.id)
    session.flush()
    return queues


def first_passes(question: QuestionSpec, plan: StudyPlan) -> tuple[NextPass, ...]:
    """Return the passes with which a study begins."""
    return look(question, tables(question, plan, History((), {}), {})).passes


def reopen(session: Session, study: Study) -> None:
    """Continue a study after an extension: failed passes are planned again."""
    session.execute(
        update(StudyPass)
        .where(StudyPass.study_id == study.id, StudyPass.state == "failed")
        .values(state="dropped")
        .execution_options(synchronize_session=False)
    )
    study.question_open = True
    session.flush()


def allow_computing(session: Session) -> None:
    """Let the unit of work compute longer than usual between two statements."""
    allow_pauses(session, LONGEST_COMPUTING)


class _Plan:
    """The study's plan, from which the specs of passes are made."""

    def __init__(self, plan: StudyPlan, spec: StudySpec, bases: Sequence[BaseModelFacts]) -> None:
        self.spec = spec
        self.bases = {base.name: base for base in bases}
        self._jobs = {job.digest: job for job in plan.jobs}
        self._cells = {(place_of(cell), cell.method): cell for cell in plan.cells}

    def of(self, wanted: NextPass) -> tuple[Cell, PlannedJob]:
        cell = self._cells[wanted.place, wanted.method]
        return cell, self._jobs[cell.digest]


def _is_due() -> ColumnElement[bool]:
    ended = exists().where(
        StudyPass.study_id == Study.id,
        StudyPass.state == "open",
        Job.id == StudyPass.job_id,
        Job.state.in_(TERMINAL_STATES),
    )
    is_waiting = exists().where(StudyPass.study_id == Study.id, StudyPass.state == "open")
    return (
        Study.question_open
        & Study.cancelled_at.is_(None)
        # One without any open pass was extended, or a pass of it is to be run again.
        & or_(ended, ~is_waiting)
    )


def _ended(past: History) -> Mapping[int, PassState]:
    """Return the passes that have ended since the last decision."""
    open_ = [(row, past.results[row.job_id]) for row in past.rows if row.state == "open"]
    return {
        row.number: "done" if _counts(row, job) else "failed"
        for row, job in open_
        if job.state in TERMINAL_STATES
    }


def _counts(row: StudyPass, job: ScoredJob) -> bool:
    """Return True if a pass has a result; that all seeds diverged is one."""
    all_diverged = job.reason == "diverged" and row.kind == "evidence"
    return job.state == "succeeded" or all_diverged


def _hours(session: Session, study: Study) -> float:
    age = func.extract("epoch", func.clock_timestamp() - study.created_at)
    return round(float(session.execute(select(age)).scalar_one()) / 3600, 4)


def _write_decision(
    session: Session,
    study: Study,
    states: Mapping[int, PassState],
    hours: float,
    found: StudyKnowledge,
) -> int:
    """Write a decision, and return its number."""
    mine = StudyDecision.study_id == study.id
    last = session.scalars(
        select(StudyDecision.number).where(mine).order_by(StudyDecision.number.desc()).limit(1)
    ).one_or_none()
    number = (last or 0) + 1
    session.add(
        StudyDecision(
            study_id=study.id,
            number=number,
            hours=hours,
            question=study.spec["question"],
            states={str(one): state for one, state in states.items()},
            look=found.model_dump(mode="json"),
        )
    )
    session.flush()
    return number


def _drop(session: Session, study_id: UUID, numbers: Sequence[int]) -> tuple[int, ...]:
    """Cancel the jobs of unneeded passes that no worker has begun.

    Returns the numbers of these passes. A job that another study has too is only given up. One that
    runs is waited for.
    """
    if not numbers:
        return ()
    rows = session.execute(
        select(StudyPass.number, StudyPass.job_id)
        .join(Job, Job.id == StudyPass.job_id)
        .where(StudyPass.study_id == study_id, StudyPass.number.in_(numbers))
        .where(Job.state.in_(UNCLAIMED_STATES))
        .order_by(Job.id)
        .with_for_update(of=Job)
    ).all()
    jobs = {row.job_id: row.number for row in rows}
    others = set(
        session.scalars(
            select(StudyJob.job_id).where(
                StudyJob.job_id.in_(jobs),
                or_(StudyJob.study_id != study_id, StudyJob.reused),
            )
        )
    )
    own = [job_id for job_id in jobs if job_id not in others]
    move(session, [Job.id.in_(own), Job.state.in_(UNCLAIMED_STATES)], UNNEEDED)
    session.execute(
        study_jobs.unlink(study_id, [*jobs]), execution_options={"synchronize_session": False}
    )
    return tuple(jobs.values())


def _write_states(session: Session, study_id: UUID, states: Mapping[int, str]) -> None:
    for state in dict.fromkeys(states.values()):
        numbers = [number for number, new in states.items() if new == state]
        session.execute(
            update(StudyPass)
            .where(StudyPass.study_id == study_id, StudyPass.number.in_(numbers))
            .values(state=state)
            .execution_options(synchronize_session=False)
        )


def _create(
    session: Session,
    principal: Principal,
    study_id: UUID,
    plan: _Plan,
    wanted: Sequence[NextPass],
    numbers: tuple[int, int],
) -> tuple[str, ...]:
    """Create the jobs of passes, or reuse equal ones, and link them.

    `numbers` are those of the decision and of the first pass.
    """
    if not wanted:
        return ()
    decision, first = numbers
    known = datasets.known(session)
    placed = [(one, *plan.of(one)) for one in wanted]
    specs = [_spec(one, job, plan.bases[cell.base_model]) for one, cell, job in placed]
    resolved = [
        resolve(spec, plan.bases[cell.base_model], known)
        for spec, (_, cell, _) in zip(specs, placed, strict=True)
    ]
    digests = [spec_digest(one) for one in resolved]
    queues = {spec.resources.queue for spec in specs}
    others = study_jobs.equal_jobs(session, digests, queues)
    ready = {name: base_models.is_ready(session, name) for name in plan.bases}
    new = {
        digest: NewJob(spec, write_resolved(one), digest, ready[one.base_model])
        for spec, one, digest in zip(specs, resolved, digests, strict=True)
        if digest not in others
    }
    made = dict(zip(new, insert_jobs(session, principal, [*new.values()]), strict=True))
    rows = [
        (one, cell, made.get(digest) or others[digest])
        for (one, cell, _), digest in zip(placed, digests, strict=True)
    ]
    for number, (one, cell, job_id) in enumerate(rows, first):
        session.add(_pass_row(study_id, number, decision, one, job_id))
        reused = job_id in others.values()
        session.execute(
            insert_or_not(StudyJob)
            .values(_link(study_id, one, cell, job_id, reused=reused))
            .on_conflict_do_nothing()
        )
    session.flush()
    return tuple(sorted({job.spec.resources.queue for job in new.values() if job.is_ready}))


def _spec(wanted: NextPass, job: PlannedJob, base: BaseModelFacts) -> AdaptSpec:
    """Return the spec of a pass: some seeds and rates of a cell's job."""
    spec = job.spec
    changes: dict[str, object] = {
        "seeds": wanted.seeds,
        "base_replicates": tuple(seed % base.replicates for seed in wanted.seeds),
    }
    training = spec.training
    if wanted.times_longer > 1:
        training = _with(training, steps=wanted.times_longer * training.steps)
        changes["training"] = training
    if len(wanted.rates) == 1:
        changes["training"] = _with(training, learning_rate=wanted.rates[0])
        changes["tuning"] = TuningSpec(validation_samples=spec.tuning.validation_samples)
    elif wanted.rates:
        changes["training"] = _with(training, learning_rate=AUTO)
        changes["tuning"] = TuningSpec(
            learning_rates=wanted.rates,
            selection="pooled",
            validation_samples=spec.tuning.validation_samples,
        )
    return spec.model_copy(update=changes)


def _with(training: TrainingSpec, **changes: object) -> TrainingSpec:
    return training.model_copy(update=changes)


def _pass_row(
    study_id: UUID, number: int, decision: int, wanted: NextPass, job_id: UUID
) -> StudyPass:
    return StudyPass(
        study_id=study_id,
        number=number,
        base_model=wanted.place.base_model,
        task=wanted.place.task,
        method=wanted.method,
        budget=wanted.place.budget,
        kind=wanted.kind,
        seeds=list(wanted.seeds),
        rates=list(wanted.rates),
        replicate_steps=wanted.replicate_steps,
        reason=wanted.reason,
        job_id=job_id,
        planned_in=decision,
        times_longer=wanted.times_longer,
    )


def _link(
    study_id: UUID, wanted: NextPass, cell: Cell, job_id: UUID, *, reused: bool
) -> dict[str, object]:
    return {
        "study_id": study_id,
        "job_id": job_id,
        "base_model": cell.base_model,
        "task": cell.task,
        "method": cell.method,
        "budget": cell.budget,
        "role": cell.role if wanted.kind == "evidence" else "sweep",
        "over_budget": cell.over_budget,
        "reused": reused,
    }
