"""The decisions of studies with a question, their replay, and its cost."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab.questions.passes import PassState
from adaptlab.questions.planning import fixed_cost, least_cost, look, most_cost
from adaptlab.studies.study import QuestionSpec, base_names
from adaptlab.studies.study_expansion import expand
from adaptlab.studies.study_plan import StudyPlan
from adaptlab_answers.paging import Page
from adaptlab_answers.questions import DecisionView, QuestionCost
from adaptlab_db.tables import Study, StudyDecision
from adaptlab_services import paging
from adaptlab_services.jobs.estimates import estimate_each
from adaptlab_services.models import base_models, datasets
from adaptlab_services.paging import Cursor
from adaptlab_services.people import access
from adaptlab_services.studies.question_plans import allow_computing
from adaptlab_services.studies.question_tables import History, history, tables
from adaptlab_services.studies.question_views import look_of
from adaptlab_services.studies.study_rows import spec_of, study_row

NOTHING_RUN = History((), {})


def decisions(
    session: Session,
    study: str,
    *,
    page_size: int = paging.DEFAULT_PAGE_SIZE,
    page_token: str | None = None,
    replay: bool = False,
    most_jobs: int,
) -> Page[DecisionView]:
    """Return a page of a study's decisions, the first one first.

    With `replay`, each is taken again from the passes that it saw, and compared.
    """
    row = study_row(session, study)
    question = ("decisions", str(row.id))
    after = 0 if page_token is None else paging.read(page_token, *question).row()
    limit = paging.page_limit(page_size)
    rows = session.scalars(
        select(StudyDecision)
        .where(StudyDecision.study_id == row.id, StudyDecision.number >= after)
        .order_by(StudyDecision.number)
        .limit(limit + 1)
    ).all()
    earlier = rows[0] if after and rows and rows[0].number == after else None
    new = [one for one in rows if one.number > after]
    shown = new[: limit - 1]
    token = None
    if len(new) > len(shown):
        token = paging.written(Cursor("", str(shown[-1].number)), *question)
    again: Mapping[int, bool] = {}
    if replay:
        again = _replayed(session, row, shown, most_jobs)
    before: Mapping[str, str] = {} if earlier is None else _states(earlier)
    views: list[DecisionView] = []
    for one in shown:
        views.append(_decision(one, before, again.get(one.number)))
        before = _states(one)
    return Page(data=tuple(views), next_page_token=token)


def question_cost(session: Session, question: QuestionSpec, plan: StudyPlan) -> QuestionCost:
    """Return what a study with a question should cost."""
    states = tables(question, plan, NOTHING_RUN, {})
    least, most = least_cost(question, states), most_cost(question, states)
    jobs = [(job.resolved, job.spec.resources.queue) for job in plan.jobs]
    seconds = sum(estimate.seconds for estimate in estimate_each(session, jobs))
    steps = sum(job.replicates * job.resolved.training.steps for job in plan.jobs)
    each = seconds / max(1, steps)
    return QuestionCost(
        least_replicate_steps=least,
        most_replicate_steps=most,
        fixed_replicate_steps=fixed_cost(question, states),
        least_seconds=round(least * each, 1),
        most_seconds=round(most * each, 1),
    )


def _decision(one: StudyDecision, before: Mapping[str, str], replayed: bool | None) -> DecisionView:
    found = look_of(one)
    seen = (
        int(number)
        for number, state in _states(one).items()
        if state in ("done", "failed") and before.get(number, "open") == "open"
    )
    return DecisionView(
        number=one.number,
        at=one.at,
        seen=tuple(sorted(seen)),
        planned=found.passes,
        unneeded=found.unneeded,
        ending=found.ending,
        sentence=found.sentence,
        replayed=replayed,
    )


def _replayed(
    session: Session, study: Study, rows: Sequence[StudyDecision], most_jobs: int
) -> Mapping[int, bool]:
    """Take decisions again; return whether each is the same."""
    with access.inside(session, study.project_id):
        spec = spec_of(study)
        bases = [base_models.facts(session, name) for name in base_names(spec)]
        allow_computing(session)
        plan = expand(spec, bases, most_jobs, datasets.known(session))
        past = history(session, study.id)
    return dict(_again(plan, past, rows))


def _again(
    plan: StudyPlan, past: History, rows: Sequence[StudyDecision]
) -> Iterator[tuple[int, bool]]:
    for one in rows:
        question = QuestionSpec.model_validate_json(json.dumps(one.question))
        states = {int(number): state for number, state in _states(one).items()}
        found = look(
            question,
            tables(question, plan, past, cast("Mapping[int, PassState]", states)),
            one.hours,
        )
        yield one.number, found.model_dump(mode="json") == look_of(one).model_dump(mode="json")


def _states(one: StudyDecision) -> Mapping[str, str]:
    return cast("Mapping[str, str]", one.states)
