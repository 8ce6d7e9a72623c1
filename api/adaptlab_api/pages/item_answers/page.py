"""The answers page of a job: its choices, rows and empty states."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode
from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.comparisons.scores import task_labels
from adaptlab.runs.events import AnswerText, Excerpt
from adaptlab_answers.item_answers import AnsweredTask, GivenAnswer, ItemAnswers
from adaptlab_answers.jobs import JobView
from adaptlab_api.pages.rendering.formats import integer, words
from adaptlab_api.pages.rendering.item_pictures import ItemPicture, Pictures
from adaptlab_api.pages.rendering.job_titles import job_title
from adaptlab_services import short_ids
from adaptlab_services.errors import Absent
from adaptlab_services.jobs import jobs
from adaptlab_services.results import given_answers, item_pictures
from adaptlab_services.results.given_answers import AnswerFilter, Outcome

PAGE = 50
LONGEST_UNFOLDED = 240
"""Characters of a prompt that is shown without a click."""
FOLDED_TO = 120
ALL = "all"

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_PICTURES, _DELETE = 0x2400, 0x7F

Option = tuple[str, str]


@dataclass(frozen=True, slots=True)
class AnswersQuery:
    """The choices in the address of the page.

    `seed` is a number, `all`, or empty for the first one.
    """

    task_place: int = 0
    seed: str = ""
    outcome: Outcome | None = None
    differs: bool = False
    other: str = ""
    page_token: str | None = None

    def address(self, **changes: object) -> str:
        """Return the query string with these choices, some of them replaced."""
        chosen = replace(self, **changes)  # pyright: ignore[reportArgumentType] - by name
        members = {
            "task_place": chosen.task_place or "",
            "seed": chosen.seed,
            "outcome": chosen.outcome or "",
            "differs": "true" if chosen.differs else "",
            "with": chosen.other,
            "page_token": chosen.page_token or "",
        }
        return f"?{urlencode({name: value for name, value in members.items() if value != ''})}"

    @property
    def is_filtered(self) -> bool:
        """True if items can be missing because of a filter."""
        return bool(self.outcome or self.differs or self.other)


@dataclass(frozen=True, slots=True)
class ShownText:
    """A text on the page: its start, which is shown at first, and all of it.

    `more` has the number of characters of a text that is not stored whole.
    """

    start: str
    whole: str
    more: str | None

    @property
    def is_folded(self) -> bool:
        """True if only the start is shown at first."""
        return self.start != self.whole

    @classmethod
    def of(cls, excerpt: Excerpt) -> "ShownText":
        """Return the text of an excerpt."""
        whole = visible(excerpt.text)
        is_long = len(whole) > LONGEST_UNFOLDED
        more = integer(excerpt.characters) if excerpt.is_shortened else None
        return cls(whole[:FOLDED_TO] if is_long else whole, whole, more)


@dataclass(frozen=True, slots=True)
class AnswerCell:
    """One answer on the page; `right` is None for the expected one."""

    title: str
    text: ShownText
    label: str | None
    right: bool | None


@dataclass(frozen=True, slots=True)
class ItemRow:
    """One item with its answers; a cell is None if an answer is not stored."""

    item: int
    line: int | None
    seed: int
    prompt: ShownText
    picture: ItemPicture | None
    cells: tuple[AnswerCell | None, ...]


def visible(text: str) -> str:
    """Return a text with control characters as their pictures."""
    return _UNSEEN.sub(_picture, text)


def _picture(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(_PICTURES + (0x21 if code == _DELETE else code))


def answers_page(session: Session, job_id: UUID, asked: AnswersQuery) -> dict[str, object]:
    """Return the values of the template; raise `Absent`."""
    job = jobs.get(session, job_id)
    tasks = given_answers.tasks(session, job_id)
    shown: dict[str, object] = {"job": job, "title": job_title(job), "task": None}
    if not tasks:
        return {**shown, "reason": missing_reason(job)}
    task = next((task for task in tasks if task.task_place == asked.task_place), tasks[0])
    other, fault = _other(session, asked.other)
    seed = _seed(asked.seed, task)
    wanted = AnswerFilter(
        task_place=task.task_place,
        seed=seed,
        outcome=asked.outcome,
        differs=asked.differs,
        other=None if other is None else other.id,
    )
    page = given_answers.page(session, job_id, wanted, PAGE, asked.page_token)
    titles = _titles(job, other)
    with_images = item_pictures.image_tasks(job.resolved_spec)
    pictures = Pictures.find(session, job_id, with_images, task.task_place)
    return {
        **shown,
        "task": task,
        "asked": asked,
        "fault": fault,
        "other": other,
        "other_title": other and job_title(other),
        "titles": titles,
        "rows": tuple(_row(row, titles, pictures, with_other=bool(other)) for row in page.data),
        "no_pictures": pictures and pictures.missing,
        "one_seed": seed is not None,
        "following": page.next_page_token and asked.address(page_token=page.next_page_token),
        "first_page": asked.address(page_token=None),
        "unfiltered": AnswersQuery(task_place=asked.task_place, seed=asked.seed).address(),
        "task_options": _task_options(tasks),
        "seed_options": _seed_options(task),
        "chosen_seed": ALL if seed is None else str(seed),
        "other_options": _other_options(session, job, other),
    }


def missing_reason(job: JobView) -> str:
    """Return the reason why a job has no answers, as a sentence."""
    spec = job.resolved_spec
    if job.kind == "theory":
        return "Theory checks score no test items."
    if not (spec.evaluation_tasks or spec.base_tasks):
        return "This job scores no task, so there are no answers."
    if "evaluation_shown" not in spec.model_fields_set:
        return (
            "This job was created by an earlier version, which recorded scores without answers. "
            "Copy it to a new job to record them."
        )
    if not spec.evaluation_shown:
        return (
            "The spec sets evaluation.shown to 0. Copy the job to a new one with a larger number "
            "to record answers."
        )
    if not job.terminal:
        return "Answers are recorded after training, once the test items have been scored."
    return "The job ended before its answers were recorded."


def _other(session: Session, text: str) -> tuple[JobView | None, str | None]:
    """Return the job to compare with, or the reason why there is none."""
    if not text:
        return None, None
    try:
        return jobs.get(session, short_ids.job_id(session, text)), None
    except Absent:
        return None, f"There is no job {text[:64]!r} to compare with."


def _seed(chosen: str, task: AnsweredTask) -> int | None:
    """Return the chosen seed, by default the first; None for all."""
    if chosen == ALL or not task.seeds:
        return None
    return next((seed for seed in task.seeds if str(seed) == chosen), task.seeds[0])


def _titles(job: JobView, other: JobView | None) -> tuple[str, ...]:
    adapted = ("Base model", "Adapted model") if job.kind == "adapt" else ("Model",)
    return ("Expected", *adapted, *(() if other is None else ("Other job",)))


def _row(
    row: ItemAnswers, titles: Sequence[str], pictures: Pictures | None, *, with_other: bool
) -> ItemRow:
    given = (
        *((row.detached,) if "Base model" in titles else ()),
        row.attached,
        *((row.other,) if with_other else ()),
    )
    expected = AnswerCell(titles[0], ShownText.of(row.expected), _label(row.expected), None)
    cells = (_cell(title, answer) for title, answer in zip(titles[1:], given, strict=True))
    picture = pictures and pictures.at(row.item)
    prompt = ShownText.of(row.prompt)
    return ItemRow(row.item, row.line, row.seed, prompt, picture, (expected, *cells))


def _cell(title: str, given: GivenAnswer | None) -> AnswerCell | None:
    return given and AnswerCell(title, ShownText.of(given), _label(given), given.right)


def _label(answer: AnswerText) -> str | None:
    """Return the label that an answer stands for, if it is not the answer."""
    return None if answer.label == answer.text else answer.label


def _task_options(tasks: Sequence[AnsweredTask]) -> tuple[Option, ...]:
    labels = task_labels([task.task for task in tasks])
    pairs = zip(tasks, labels, strict=True)
    return tuple((str(task.task_place), words(label)) for task, label in pairs)


def _seed_options(task: AnsweredTask) -> tuple[Option, ...]:
    seeds = [(str(seed), str(seed)) for seed in task.seeds]
    return (*seeds, (ALL, "all seeds")) if len(seeds) > 1 else tuple(seeds)


def _other_options(session: Session, job: JobView, other: JobView | None) -> tuple[Option, ...]:
    """Return the jobs to compare with, those of the same base model first."""
    offered = list(given_answers.comparable(session, job))
    if other is not None and other.id not in {one.id for one in offered}:
        offered.insert(0, other)
    offered.sort(key=lambda one: one.base_model != job.base_model)
    return (("", "no other job"), *((str(one.id), _option(one)) for one in offered))


def _option(job: JobView) -> str:
    budget = f"{integer(job.budget.trainable_parameters)} parameters"
    base = f" from {job.base_model}" if job.base_model else ""
    return f"{job_title(job)}{base}, {budget}, job {str(job.id)[:8]}"
