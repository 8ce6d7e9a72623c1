"""Items and answers of jobs: filters, pages, and two jobs side by side."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.making import (
    a_base_model,
    a_claim,
    a_job,
    a_ledger,
    an_adapt_spec,
    an_evaluation,
    answers_given,
    base_facts,
    items_shown,
)

from adaptlab.errors import InvalidSpec
from adaptlab.runs import events as results
from adaptlab.runs.events import AnswerText, Excerpt, ShownItem
from adaptlab.runs.reported_answers import ExpectedAnswers
from adaptlab_answers.item_answers import ItemAnswers
from adaptlab_services.jobs import jobs
from adaptlab_services.results import given_answers
from adaptlab_services.results.given_answers import AnswerFilter

Sessions = sessionmaker[Session]


def score(replicate: int, right: int, **changes: Any) -> results.Evaluated:
    """The first `right` of 16 items right."""
    bits = f"{(2**right - 1) << (16 - right):04x}"
    told = an_evaluation(replicate, correct=right, outcomes=bits, **changes)
    return results.Evaluated(evaluation=told)


def answered(sessions: Sessions, right: Iterable[int] = (12, 10), **changes: Any) -> UUID:
    """A finished job, with so many right answers per seed; the bases have 4."""
    with sessions.begin() as session:
        job_id = a_job(session, an_adapt_spec(**changes))
    ledger = a_ledger(sessions)
    claim = a_claim(ledger)
    assert claim.job_id == job_id
    events: list[results.Event] = [items_shown()]
    for seed, count in enumerate(right):
        events += [score(seed, count), answers_given(seed, count)]
        detached = {"attached": False}
        events += [score(seed, 4, **detached), answers_given(seed, 4, **detached)]
    ledger.record(claim, events)
    ledger.finish(claim)
    return job_id


@pytest.fixture
def job_id(sessions: Sessions) -> UUID:
    with sessions.begin() as session:
        a_base_model(session)
    return answered(sessions)


def found(sessions: Sessions, job_id: UUID, **conditions: Any) -> tuple[ItemAnswers, ...]:
    with sessions() as session:
        return given_answers.page(session, job_id, AnswerFilter(**conditions), 200).data


def places(rows: Iterable[ItemAnswers]) -> list[tuple[int, int]]:
    return [(row.item, row.seed) for row in rows]


CONDITIONS: list[Any] = [
    ({"seed": 0}, [(item, 0) for item in range(16)]),
    ({"seed": 0, "outcome": "wrong"}, [(item, 0) for item in range(12, 16)]),
    ({"seed": 1, "outcome": "right"}, [(item, 1) for item in range(10)]),
    ({"seed": 1, "differs": True}, [(item, 1) for item in range(4, 10)]),
    ({"seed": 0, "differs": True, "outcome": "wrong"}, []),
    ({"seed": 7}, []),
    (
        {"task": "sort_descending", "seed": 1, "outcome": "wrong"},
        [(item, 1) for item in range(10, 16)],
    ),
    ({"task": "add"}, []),
    ({"task_place": 1}, []),
]


def test_conditions_choose_items(sessions: Sessions, job_id: UUID) -> None:
    for conditions, expected in CONDITIONS:
        assert places(found(sessions, job_id, **conditions)) == expected


def test_another_job_is_compared_by_seed_where_it_answers_otherwise(
    sessions: Sessions, job_id: UUID
) -> None:
    other = answered(sessions, (10, 10, 10), seeds=3)
    rows = found(sessions, job_id, other=other)
    assert places(rows) == [(10, 0), (11, 0)]
    assert rows[0].other is not None
    assert (rows[0].other.text, rows[0].other.right) == ("3 3 2", False)
    assert found(sessions, job_id, other=other, outcome="wrong") == ()
    back = found(sessions, other, other=job_id)
    assert places(back) == [(10, 0), (11, 0)], "the third seed has no counterpart"


def test_a_job_on_another_task_has_no_items_in_common(sessions: Sessions, job_id: UUID) -> None:
    with sessions.begin() as session:
        task = {"name": "sort_descending", "length": 3, "alphabet": 3}
        other = a_job(session, an_adapt_spec(task=task))
    claim = a_claim(ledger := a_ledger(sessions))
    task = claim.resolved_spec.evaluation_tasks[0]
    ledger.record(claim, [items_shown(task=task), answers_given(0, 3)])
    assert found(sessions, job_id, other=other) == ()


def test_pages_follow_one_another_without_gap(sessions: Sessions, job_id: UUID) -> None:
    wanted, read, token = AnswerFilter(outcome="right"), list[tuple[int, int]](), None
    with sessions() as session:
        for _ in range(4):
            page = given_answers.page(session, job_id, wanted, 7, token)
            read += places(page.data)
            token = page.next_page_token
        assert token is None
        assert read == places(found(sessions, job_id, outcome="right"))
        first = given_answers.page(session, job_id, wanted, 7)
        with pytest.raises(InvalidSpec, match="another filter"):
            given_answers.page(session, job_id, AnswerFilter(), 7, first.next_page_token)


def test_a_new_attempt_starts_without_answers(sessions: Sessions, job_id: UUID) -> None:
    with sessions.begin() as session:
        again = a_job(session, an_adapt_spec())
    claim = a_claim(ledger := a_ledger(sessions))
    ledger.record(claim, [items_shown(), answers_given(0)])
    assert len(found(sessions, again)) == 16
    ledger.release(claim, "preempted")
    assert a_claim(ledger).attempt == 2
    assert found(sessions, again) == ()
    with sessions() as session:
        assert given_answers.tasks(session, again) == ()


def test_tasks_are_listed_with_their_seeds(sessions: Sessions, job_id: UUID) -> None:
    with sessions() as session:
        (task,) = given_answers.tasks(session, job_id)
    assert (task.task_place, task.shown, task.seeds) == (0, 16, (0, 1))
    assert task.task["name"] == "sort_descending"


def test_jobs_on_the_same_task_are_offered_for_comparison(sessions: Sessions, job_id: UUID) -> None:
    other = answered(sessions, (10, 10), method={"name": "lora", "rank": 1}, budget={})
    task = {"name": "sort_descending", "length": 3, "alphabet": 3}
    with sessions.begin() as session:
        a_job(session, an_adapt_spec(task=task), state="succeeded")
        a_job(session, an_adapt_spec(evaluation={"shown": 0}), state="succeeded")
        a_job(session, an_adapt_spec(), state="failed")
    with sessions() as session:
        offered = given_answers.comparable(session, jobs.get(session, job_id))
    assert [job.id for job in offered] == [other]


CHOICE = ExpectedAnswers(1, 40, {"neg": " bad", "pos": " good"})


def problems_of(label: str | None, text: str, line: int | None = 40) -> list[str]:
    expected = AnswerText(text=text, characters=len(text), label=label)
    prompt = Excerpt(text="It is", characters=5)
    item = ShownItem(item=0, line=line, prompt=prompt, expected=expected)
    found = [*CHOICE.items("", [item]), *CHOICE.answers("/given", [expected])]
    return [problem.pointer for problem in found]


def test_a_label_has_its_word_and_a_record_its_line() -> None:
    assert problems_of("pos", " good") == []
    assert problems_of("pos", " bad") == ["/0/expected/text", "/given/0/text"]
    assert problems_of("nil", " bad") == ["/0/expected/label", "/given/0/label"]
    assert problems_of(None, " bad") == ["/0/expected/label", "/given/0/label"]
    assert problems_of("pos", " good", line=41) == ["/0/line"]
    assert problems_of("pos", " good", line=0) == ["/0/line"]
    assert problems_of("pos", " good", line=None) == ["/0/line"]


def test_no_more_items_are_shown_than_are_scored() -> None:
    from adaptlab.specs.resolve import resolve

    def shown(**changes: Any) -> int:
        return resolve(an_adapt_spec(**changes), base_facts()).evaluation_shown

    assert shown(evaluation={}) == 4
    assert shown(evaluation={"samples": 3}) == 3, "as many as are scored"
    assert shown(evaluation={"shown": 0}) == 0
    many = {"evaluation": {"samples": 400, "shown": 200}}
    assert shown(**many) == 200
    assert shown(**many, seeds=64) == 200, "one replicate answers"
