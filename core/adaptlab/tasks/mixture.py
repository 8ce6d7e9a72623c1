"""Items of several tasks, with or without a cue to the task."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, cast

from pydantic import Field

from adaptlab.errors import Problem
from adaptlab.figures import counted
from adaptlab.plugins.dataset import AnyReference, Datasets, WordList
from adaptlab.plugins.inner_tasks import InnerTask, inner_problems
from adaptlab.plugins.splits import Split
from adaptlab.plugins.task import TASKS, DigitTask, QuestionLaw, Task

FEWEST = 2
Weight = Annotated[float, Field(gt=0, le=1e6)]


@TASKS.register("mixture")
class Mixture(DigitTask):
    """Ask questions of several `tasks`, without a cue unless they are `cued`.

    The task of an item is drawn with probabilities proportional to `weights`, which are equal by
    default. It depends only on the item's number, seed and split. An item is correct if the answer
    is that of its task. Without a cue, no model can answer all items correctly: a model that always
    answers for one task scores about that task's share, or more where tasks agree.

    All tasks must draw their questions from the same distribution, which would otherwise be a cue,
    and answer with the same number of tokens. The vocabulary is the largest. Cues are those of all
    tasks, each another one, or of none.
    """

    title: ClassVar[str] = "Mixture"
    summary: ClassVar[str] = (
        "Weighted items of several tasks, without a cue to the task unless they are cued."
    )
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
        json_schema_extra={"minItems": FEWEST},  # checked in `_counts`, on valid tasks
    )
    """tasks of the mixture, one per line, as names or JSON"""
    weights: tuple[Weight, ...] | None = None
    """share of each task among the items"""

    def parts(self) -> tuple[Task, ...]:
        return self.tasks

    def shares(self) -> tuple[float, ...]:
        """Return the probability of every task."""
        weights = self.weights or (1.0,) * len(self.tasks)
        return tuple(weight / sum(weights) for weight in weights)

    def cues(self) -> tuple[int, ...]:
        return tuple(cue for task in self.tasks for cue in task.cues())

    def input_alphabet(self) -> int:
        return max((self.questions().alphabet - 1, *self.cues())) + 1

    def input_error(self, tokens: Sequence[int]) -> str | None:
        """Return the reason why tokens are no question; with cues, none are."""
        if not self.cues():
            return super().input_error(tokens)
        return "An input of this mixture has the cue of a task. Name that task instead."

    def questions(self) -> QuestionLaw:
        return self.tasks[0].questions()

    def split_problems(self, splits: tuple[Split, ...]) -> tuple[Problem, ...]:
        problems = self.tasks[0].split_problems(splits)
        return tuple(replace(problem, pointer=f"/tasks/0{problem.pointer}") for problem in problems)

    def asker(self) -> DigitTask:
        """Return the task that draws the questions of all tasks."""
        return self.tasks[0].asker()

    def settled(self, datasets: Datasets) -> Task:
        return self._with(lambda task: task.settled(datasets))

    def datasets(self) -> tuple[AnyReference, ...]:
        return tuple(dataset for task in self.tasks for dataset in task.datasets())

    def with_words(self, lists: Mapping[str, WordList]) -> Task:
        return self._with(lambda task: task.with_words(lists))

    def _with(self, change: Callable[[DigitTask], Task]) -> Task:
        return self.model_copy(update={"tasks": tuple(change(task) for task in self.tasks)})

    def answer_alphabet(self) -> int:
        return max(task.answer_alphabet() for task in self.tasks)

    def vocabulary(self) -> int:
        """Return the largest vocabulary of the tasks."""
        return max(task.vocabulary() for task in self.tasks)

    def target_length(self) -> int:
        return self.tasks[0].target_length()

    def end_token(self) -> int | None:
        """Return the end token that all tasks have in common.

        The counted tokens of an item follow from its own task.
        """
        ends = {task.end_token() for task in self.tasks}
        return ends.pop() if len(ends) == 1 else None

    def chance(self) -> float:
        """Return the mean chance level of the tasks, for guesses with known tasks."""
        parts = zip(self.shares(), self.tasks, strict=True)
        return sum(share * task.chance() for share, task in parts)

    def chance_loss(self) -> float:
        """Return the mean chance loss of the tasks, weighted by their shares."""
        parts = zip(self.shares(), self.tasks, strict=True)
        return sum(share * task.chance_loss() for share, task in parts)

    def counted_length(self) -> float:
        """Return the mean counted length of the tasks."""
        parts = zip(self.shares(), self.tasks, strict=True)
        return sum(share * task.counted_length() for share, task in parts)

    def problems(self) -> tuple[Problem, ...]:
        inner = {f"/tasks/{index}": task for index, task in enumerate(self.tasks)}
        counts = tuple(self._counts())
        return counts or inner_problems(inner, with_cues=True) or tuple(self._misfits())

    def _counts(self) -> Iterator[Problem]:
        count = len(self.tasks)
        if count < FEWEST:
            detail = f"A mixture has at least {FEWEST} tasks, not {count}. Add tasks."
            yield Problem("/tasks", "too_few_tasks", detail, nearest=(FEWEST,))
        if self.weights is not None and len(self.weights) != count:
            weights = counted(len(self.weights), "weight")
            detail = f"The spec has {weights} for {counted(count, 'task')}. Give one per task."
            yield Problem("/weights", "weights_do_not_match", detail, nearest=(count,))

    def _misfits(self) -> Iterator[Problem]:
        """Yield the differences of tasks from the first task."""
        yield from self._cue_problems()
        wanted = _form(self.tasks[0])
        listed = self.questions().listed
        for index, task in enumerate(self.tasks):
            if (other := task.questions().listed) != listed:
                detail = (
                    f"{task.name} has questions from {other or 'drawn digits'}, but "
                    f"{self.tasks[0].name} from {listed or 'drawn digits'}. All tasks of a mixture "
                    "need the same questions."
                )
                yield Problem(f"/tasks/{index}", "tasks_differ", detail)
                continue
            for knob, value in _form(task).items():
                if value == wanted[knob]:
                    continue
                detail = (
                    f"{task.name} has the {knob} {value}, but {self.tasks[0].name} has "
                    f"{wanted[knob]}, which would be a cue to the task. Use {wanted[knob]}."
                )
                place = f"/tasks/{index}{'/task' if task.cues() else ''}/{knob}"
                yield Problem(place, "tasks_differ", detail, nearest=(wanted[knob],))

    def _cue_problems(self) -> Iterator[Problem]:
        """Yield the tasks that lack a cue, or have that of an earlier one."""
        cues = [task.cues() for task in self.tasks]
        for index, cue in enumerate(cues):
            if any(cues) and not cue:
                detail = "Other tasks of this mixture have a cue. Give one to all or to none."
                yield Problem(f"/tasks/{index}", "tasks_differ", detail)
            elif cue and cue in cues[:index]:
                detail = f"An earlier task has the cue {cue[0]}, too. Give every task its own."
                yield Problem(f"/tasks/{index}/cue", "tasks_differ", detail)


def _form(task: DigitTask) -> dict[str, int]:
    """Return the settings that the tasks of a mixture must have in common."""
    law = task.questions()
    return {
        "length": law.length,
        "alphabet": law.alphabet,
        "few_distinct": law.few_distinct,
        "held_out": law.held_out,
        "answer_length": task.target_length(),
    }
