"""Items of several tasks without a cue to which one is meant."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, cast

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.plugins.dataset import DatasetReference, Datasets, WordList
from adaptlab.plugins.inner_tasks import InnerTask, inner_problems
from adaptlab.plugins.splits import Split
from adaptlab.plugins.task import TASKS, DigitTask, QuestionLaw, Task

FEWEST = 2
Weight = Annotated[float, Field(gt=0, le=1e6)]


@TASKS.register("mixture")
class Mixture(DigitTask):
    """Ask questions that belong to one of several `tasks`, which one the question does not say.

    The task of an item is drawn with probabilities proportional to `weights`, equal ones without
    them, from the item's number, seed and split alone. An item is right when the answer is that
    of its own task. As there is no cue, no model is right on all items: one that always answers
    for one task scores about that task's share, more only where tasks agree.

    All tasks draw their questions by one law, else the law would be a cue, and answer with
    equally many tokens; the vocabulary is the largest.
    """

    title: ClassVar[str] = "Mixture"
    summary: ClassVar[str] = "Items of several tasks, weighted, without a cue to which is meant."
    reference: ClassVar[str] = "Petrov, Torr, Bibi (ICLR 2024), section 5.2, pretraining"

    name: Literal["mixture"] = "mixture"
    tasks: tuple[InnerTask, ...] = Field(
        default=cast(
            "tuple[DigitTask, ...]",
            (
                {"name": "sort_ascending"},
                {"name": "sort_descending"},
                {"name": "add", "k": 1},
                {"name": "add", "k": 2},
            ),
        ),
        validate_default=True,
        max_length=16,
        json_schema_extra={"minItems": FEWEST},  # checked where a faulty task does not count
    )
    weights: tuple[Weight, ...] | None = None

    def parts(self) -> tuple[Task, ...]:
        return self.tasks

    def shares(self) -> tuple[float, ...]:
        """The probability of every task."""
        weights = self.weights or (1.0,) * len(self.tasks)
        return tuple(weight / sum(weights) for weight in weights)

    def questions(self) -> QuestionLaw:
        return self.tasks[0].questions()

    def split_problems(self, splits: tuple[Split, ...]) -> tuple[Problem, ...]:
        faults = self.tasks[0].split_problems(splits)
        return tuple(replace(fault, pointer=f"/tasks/0{fault.pointer}") for fault in faults)

    def asker(self) -> DigitTask:
        """That of any of its tasks, which all ask the same."""
        return self.tasks[0].asker()

    def settled(self, datasets: Datasets) -> Task:
        return self._with(lambda task: task.settled(datasets))

    def datasets(self) -> tuple[DatasetReference, ...]:
        return tuple(one for task in self.tasks for one in task.datasets())

    def with_words(self, lists: Mapping[str, WordList]) -> Task:
        return self._with(lambda task: task.with_words(lists))

    def _with(self, change: Callable[[DigitTask], Task]) -> Task:
        return self.model_copy(update={"tasks": tuple(change(task) for task in self.tasks)})

    def answer_alphabet(self) -> int:
        return max(task.answer_alphabet() for task in self.tasks)

    def vocabulary(self) -> int:
        """As many tokens as any of the tasks needs."""
        return max(task.vocabulary() for task in self.tasks)

    def target_length(self) -> int:
        return self.tasks[0].target_length()

    def end_token(self) -> int | None:
        """The one that all tasks have; which targets count, every item's own task says."""
        ends = {task.end_token() for task in self.tasks}
        return ends.pop() if len(ends) == 1 else None

    def chance(self) -> float:
        """The mean of the tasks' own chances: of guessing with the task of each item known."""
        parts = zip(self.shares(), self.tasks, strict=True)
        return sum(share * task.chance() for share, task in parts)

    def chance_loss(self) -> float:
        """The mean of the tasks' own, as if their answers were of one length."""
        parts = zip(self.shares(), self.tasks, strict=True)
        return sum(share * task.chance_loss() for share, task in parts)

    def counted_length(self) -> float:
        """The mean of the tasks' own."""
        parts = zip(self.shares(), self.tasks, strict=True)
        return sum(share * task.counted_length() for share, task in parts)

    def problems(self) -> tuple[Problem, ...]:
        inner = {f"/tasks/{index}": task for index, task in enumerate(self.tasks)}
        return tuple(self._counts()) or inner_problems(inner) or tuple(self._misfits())

    def _counts(self) -> Iterator[Problem]:
        count = len(self.tasks)
        if count < FEWEST:
            detail = f"A mixture has at least {FEWEST} tasks, not {count}."
            yield Problem("/tasks", "too_few_tasks", detail, nearest=(FEWEST,))
        if self.weights is not None and len(self.weights) != count:
            detail = f"There are {len(self.weights)} weights for {count} tasks."
            yield Problem("/weights", "weights_do_not_match", detail, nearest=(count,))

    def _misfits(self) -> Iterator[Problem]:
        """Tasks that draw or answer unlike the first."""
        wanted = _form(self.tasks[0])
        listed = self.questions().listed
        for index, task in enumerate(self.tasks):
            if (other := task.questions().listed) != listed:
                detail = (
                    f"{task.name} asks {other or 'drawn digits'}, and {self.tasks[0].name} "
                    f"{listed or 'drawn digits'}: a mixture asks one question of all its tasks."
                )
                yield Problem(f"/tasks/{index}", "tasks_differ", detail)
                continue
            for knob, value in _form(task).items():
                if value == wanted[knob]:
                    continue
                detail = (
                    f"{task.name} has the {knob} {value}, and {self.tasks[0].name} "
                    f"{wanted[knob]}: a mixture is of one form, or it would give a cue."
                )
                nearest = (wanted[knob],)
                yield Problem(f"/tasks/{index}/{knob}", "tasks_differ", detail, nearest=nearest)


def _form(task: DigitTask) -> dict[str, int]:
    """What the tasks of a mixture have to share, by the knobs that decide it."""
    law = task.questions()
    return {
        "length": law.length,
        "alphabet": law.alphabet,
        "few_distinct": law.few_distinct,
        "held_out": law.held_out,
        "answer_length": task.target_length(),
    }
