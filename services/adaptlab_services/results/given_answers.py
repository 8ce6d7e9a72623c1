"""Test items of a job's latest attempt, with the answers that models gave."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab.runs.events import AnswerText, Excerpt
from adaptlab_answers.item_answers import AnsweredTask, GivenAnswer, ItemAnswers
from adaptlab_answers.jobs import JobView
from adaptlab_answers.paging import Page
from adaptlab_answers.results import Outcomes
from adaptlab_db.tables import EvaluationRow, GivenAnswers, ItemOutcome, Job, ShownItems
from adaptlab_services import paging
from adaptlab_services.jobs import lists
from adaptlab_services.paging import Cursor
from adaptlab_services.results.results import latest_attempt

Outcome = Literal["right", "wrong"]
_Key = tuple[int, int, bool]  # place of the task, replicate, attached
MOST_OTHERS = 50
"""Jobs that are offered for comparison."""


@dataclass(frozen=True, slots=True)
class AnswerFilter:
    """Conditions on items and answers; None matches all.

    Attributes:
        task: the name of the task.
        task_place: its place among the scored tasks, which distinguishes tasks of one name.
        seed: the seed of the replicate.
        outcome: that of the attached answer.
        differs: the attached and the detached answer differ.
        other: another job; only items that it has answered for the same seed, and otherwise.
    """

    task: str | None = None
    task_place: int | None = None
    seed: int | None = None
    outcome: Outcome | None = None
    differs: bool = False
    other: UUID | None = None

    def bound(self, job_id: UUID) -> tuple[str, ...]:
        """Return the members that a page token is bound to."""
        members = (self.task, self.task_place, self.seed, self.outcome, self.differs, self.other)
        return ("answers", str(job_id), *map(repr, members))


def page(
    session: Session,
    job_id: UUID,
    wanted: AnswerFilter = AnswerFilter(),
    page_size: int = paging.DEFAULT_PAGE_SIZE,
    page_token: str | None = None,
) -> Page[ItemAnswers]:
    """Return one page of items with their answers.

    They are sorted by task, item and replicate.

    Raises:
        Absent: there is no such job, or no such other job.
        InvalidSpec: the page token is invalid.
    """
    most, bound = paging.page_limit(page_size) - 1, wanted.bound(job_id)
    after = None if page_token is None else _place_in(paging.read(page_token, *bound))
    rows = (row for row in _rows(session, job_id, wanted) if after is None or _place(row) > after)
    read = list(islice(rows, most + 1))
    shown, token = read[:most], None
    if len(read) > most:
        token = paging.written(Cursor("", json.dumps(_place(shown[-1]))), *bound)
    return Page(data=tuple(shown), next_page_token=token)


def tasks(session: Session, job_id: UUID) -> tuple[AnsweredTask, ...]:
    """Return the tasks whose items are shown, with the seeds that answered."""
    attempt = latest_attempt(session, job_id)
    rows = session.execute(
        select(GivenAnswers.task_place, GivenAnswers.seed)
        .where(GivenAnswers.job_id == job_id, GivenAnswers.attempt == attempt)
        .order_by(GivenAnswers.replicate)
    )
    seeds: dict[int, dict[int, None]] = {}
    for place, seed in rows:
        seeds.setdefault(place, {})[seed] = None
    return tuple(
        AnsweredTask(
            task_place=row.task_place,
            task=row.task,
            shown=len(row.items),
            seeds=tuple(seeds.get(row.task_place, ())),
        )
        for row in _shown(session, job_id, attempt)
    )


def comparable(session: Session, job: JobView) -> tuple[JobView, ...]:
    """Return the newest succeeded jobs with answers to the job's own task."""
    task = job.resolved_spec.task
    if task is None:
        return ()
    holds = (
        Job.task == str(task["name"]),
        Job.state == "succeeded",
        Job.id != job.id,
        Job.resolved_spec["task"] == task,
        Job.resolved_spec["evaluation_shown"].as_integer() > 0,
    )
    return lists.newest(session, holds, MOST_OTHERS)


@dataclass(frozen=True, slots=True)
class _Answered:
    """The answers of one replicate to the items of one task, with outcomes."""

    seed: int
    answers: Sequence[Mapping[str, Any]]  # Any: members of stored JSON
    outcomes: tuple[bool, ...]

    def at(self, item: int) -> GivenAnswer | None:
        """Return the answer to an item, if there is one."""
        if item >= len(self.answers):
            return None
        right = self.outcomes[item] if item < len(self.outcomes) else None
        return GivenAnswer(**self.answers[item], right=right)


@dataclass(frozen=True, slots=True)
class _Replicate:
    """The answers of one seed: attached, detached, and those of another job."""

    replicate: int
    seed: int
    attached: _Answered | None
    detached: _Answered | None
    other: _Answered | None

    def row(self, shown: ShownItems, item: int) -> ItemAnswers:
        """Return an item with these answers."""
        texts = shown.items[item]
        return ItemAnswers(
            task_place=shown.task_place,
            task_name=str(shown.task["name"]),
            item=item,
            line=texts.get("line"),
            prompt=Excerpt(**texts["prompt"]),
            expected=AnswerText(**texts["expected"]),
            replicate=self.replicate,
            seed=self.seed,
            attached=self.attached and self.attached.at(item),
            detached=self.detached and self.detached.at(item),
            other=self.other and self.other.at(item),
        )


def _rows(session: Session, job_id: UUID, wanted: AnswerFilter) -> Iterator[ItemAnswers]:
    attempt = latest_attempt(session, job_id)
    shown = _shown(session, job_id, attempt)
    answered = _answered(session, job_id, attempt, shown, wanted.seed)
    others = _of_other(session, wanted.other, shown, wanted.seed)
    for row in shown:
        if wanted.task_place not in (None, row.task_place):
            continue
        if wanted.task not in (None, row.task["name"]):
            continue
        replicates = tuple(_replicates(row.task_place, answered, others))
        for item in range(len(row.items)):
            for replicate in replicates:
                if _matches(found := replicate.row(row, item), wanted):
                    yield found


def _replicates(
    task_place: int,
    answered: Mapping[_Key, _Answered],
    others: Mapping[tuple[int, int], _Answered],
) -> Iterator[_Replicate]:
    """Yield the replicates with answers to a task, in order."""
    numbers = sorted({number for place, number, _ in answered if place == task_place})
    for number in numbers:
        attached = answered.get((task_place, number, True))
        detached = answered.get((task_place, number, False))
        seed = next(one.seed for one in (attached, detached) if one is not None)
        other = others.get((task_place, seed))
        yield _Replicate(number, seed, attached, detached, other)


def _matches(row: ItemAnswers, wanted: AnswerFilter) -> bool:
    right = None if row.attached is None else row.attached.right
    if wanted.outcome is not None and right is not (wanted.outcome == "right"):
        return False
    if wanted.differs and not _differ(row.attached, row.detached):
        return False
    return wanted.other is None or _differ(row.attached, row.other)


def _differ(one: GivenAnswer | None, other: GivenAnswer | None) -> bool:
    return one is not None and other is not None and one != other


def _of_other(
    session: Session, job_id: UUID | None, shown: Sequence[ShownItems], seed: int | None
) -> Mapping[tuple[int, int], _Answered]:
    """Return another job's attached answers, by task and seed.

    The result is empty without another job.
    """
    if job_id is None:
        return {}
    attempt = latest_attempt(session, job_id)
    theirs = _shown(session, job_id, attempt)
    places = {
        other.task_place: ours.task_place
        for other in theirs
        for ours in shown
        if other.task == ours.task
    }
    answered = _answered(session, job_id, attempt, theirs, seed)
    return {
        (places[place], one.seed): one
        for (place, _, attached), one in answered.items()
        if attached and place in places
    }


def _shown(session: Session, job_id: UUID, attempt: int) -> Sequence[ShownItems]:
    return session.scalars(
        select(ShownItems)
        .where(ShownItems.job_id == job_id, ShownItems.attempt == attempt)
        .order_by(ShownItems.task_place)
    ).all()


def _answered(
    session: Session, job_id: UUID, attempt: int, shown: Sequence[ShownItems], seed: int | None
) -> Mapping[_Key, _Answered]:
    query = select(GivenAnswers).where(
        GivenAnswers.job_id == job_id, GivenAnswers.attempt == attempt
    )
    if seed is not None:
        query = query.where(GivenAnswers.seed == seed)
    outcomes = _outcomes(session, job_id, attempt)
    tasks_by_place = {row.task_place: _text(row.task) for row in shown}
    return {
        (row.task_place, row.replicate, row.attached): _Answered(
            row.seed,
            row.answers,
            outcomes.get((tasks_by_place.get(row.task_place), row.replicate, row.attached), ()),
        )
        for row in session.scalars(query)
    }


def _outcomes(
    session: Session, job_id: UUID, attempt: int
) -> Mapping[tuple[str | None, int, bool], tuple[bool, ...]]:
    """Return the outcomes by task, replicate and attachment."""
    row = EvaluationRow
    rows = session.execute(
        select(row.id, row.task, row.replicate, row.attached, row.total, ItemOutcome.bits)
        .join(ItemOutcome, ItemOutcome.evaluation_id == row.id)
        .where(row.job_id == job_id, row.attempt == attempt, row.split == "test")
        .where(row.base_model == "")
    )
    return {
        (_text(task), replicate, attached): Outcomes(
            evaluation_id=evaluation_id, total=total, bits=bits
        ).booleans()
        for evaluation_id, task, replicate, attached, total, bits in rows
    }


def _text(task: object) -> str:
    return json.dumps(task, sort_keys=True)


def _place(row: ItemAnswers) -> tuple[int, int, int]:
    return row.task_place, row.item, row.replicate


def _place_in(cursor: Cursor) -> tuple[int, int, int]:
    try:
        task_place, item, replicate = json.loads(cursor.id)
    except (ValueError, TypeError) as error:
        raise paging.bad_token("It belongs to another list.") from error
    place = (task_place, item, replicate)
    if not all(type(number) is int for number in place):
        raise paging.bad_token("It belongs to another list.")
    return place
