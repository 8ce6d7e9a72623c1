"""The answer of a study with a question, as its last decision has it."""

import json
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab.questions.passes import ComparisonPlace
from adaptlab.questions.planning import StudyKnowledge
from adaptlab_answers.questions import PassView, QuestionView
from adaptlab_db.tables import Job, Study, StudyDecision, StudyPass


def question_view(session: Session, study: Study) -> QuestionView | None:
    """Return what a study knows, None if it has no question."""
    mine = StudyDecision.study_id == study.id
    last = session.scalars(
        select(StudyDecision).where(mine).order_by(StudyDecision.number.desc()).limit(1)
    ).one_or_none()
    if last is None:
        return None
    found = look_of(last)
    return QuestionView(
        is_open=study.question_open,
        ending=None if study.question_open else found.ending,
        sentence=found.sentence,
        tables=found.tables,
        passes=_passes(session, study.id),
        decisions=last.number,
        decided_at=last.at,
        replicate_steps=found.replicate_steps,
        fixed_replicate_steps=found.fixed_replicate_steps,
    )


def look_of(one: StudyDecision) -> StudyKnowledge:
    """Return what a decision knew and planned."""
    return StudyKnowledge.model_validate_json(json.dumps(one.look))


def _passes(session: Session, study_id: UUID) -> tuple[PassView, ...]:
    rows = session.execute(
        select(StudyPass, Job.state)
        .join(Job, Job.id == StudyPass.job_id)
        .where(StudyPass.study_id == study_id)
        .order_by(StudyPass.number)
    )
    return tuple(
        PassView(
            number=one.number,
            place=ComparisonPlace(base_model=one.base_model, task=one.task, budget=one.budget),
            method=one.method,
            kind=one.kind,  # pyright: ignore[reportArgumentType] - checked by the database
            seeds=tuple(one.seeds),
            rates=tuple(one.rates),
            replicate_steps=one.replicate_steps,
            reason=one.reason,
            state=one.state,  # pyright: ignore[reportArgumentType] - checked by the database
            job=one.job_id,
            job_state=state,
            decision=one.planned_in,
            times_longer=one.times_longer,
        )
        for one, state in rows
    )
