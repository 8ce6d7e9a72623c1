"""Standard tasks of lm-eval, staged beforehand, as tasks that are watched."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, cast

from pydantic import Field, PrivateAttr

from adaptlab.errors import Problem
from adaptlab.plugins.answer_judge import AnswerJudge
from adaptlab.plugins.dataset import Datasets, RecordsReference
from adaptlab.plugins.splits import Split
from adaptlab.plugins.task import TASKS, Task
from adaptlab.plugins.text_task import LONGEST_ITEM, PromptCut, TextTask, TokenLimits
from adaptlab.records.facts import RecordsFacts
from adaptlab.records.file_forms import FileOfServer
from adaptlab.records.generation import Generation
from adaptlab.records.record import Record
from adaptlab.records.rendered_items import (
    ROLLING,
    SPLIT,
    TEXT_METRICS,
    Rendering,
    TextMetric,
    dataset_of,
    generated_by,
    item_of,
    rendering_of,
)
from adaptlab.records.task_groups import MOST_MEMBERS, GroupMember, StagedGroup, staged_group
from adaptlab.text.lengths import BYTES_PER_TOKEN, MeanBytes
from adaptlab.text.splitting import SplitRule, SplitsByField
from adaptlab.text.template import Template, TemplatePiece
from adaptlab.text.tokeniser import BYTES_VOCABULARY
from adaptlab.values import Name, Value

MOST_TASKS = 64
MOST_SHOTS = 64
USUAL_ANSWER = 128
"""The most tokens of a choice, if the spec does not say otherwise."""
OWN_SPLITS = SplitsByField(field="split")

HarnessTask = Annotated[str, Field(min_length=1, max_length=128)]
Score = Annotated[str, Field(min_length=1, max_length=64)]
CHOICE_SCORES = ("acc", "acc_norm", "acc_bytes")
MATCH = "exact_match"
"""The metric of generated answers."""


class BenchmarkLimits(TokenLimits):
    """Limits in tokens of the base model's tokeniser.

    A longer item loses the beginning of its context, as in lm-eval, unless `if_longer` is `refuse`.
    A generated answer has as many tokens as the task says, unless `answer` says otherwise.
    """

    longest: Annotated[int, Field(ge=4, le=LONGEST_ITEM)] = 1024
    answer: Annotated[int, Field(ge=1, lt=LONGEST_ITEM)] | None = None
    if_longer: Literal["refuse", "cut"] = "cut"


@TASKS.register("benchmark")
class Benchmark(TextTask):
    """Answer the items of standard `tasks` of lm-eval.

    They are only evaluated, each task on its own; a group stands for its tasks. Its items are those
    that `adaptlab benchmarks add` has rendered by lm-eval, with `shots` examples. The model's
    log-likelihoods of all choices are compared as lm-eval does: `acc` by their sums, `acc_norm` per
    character of a choice, `acc_bytes` per byte. A task without choices, such as lambada_openai, is
    right where greedy decoding gives the answer. Of a task that generates answers, such as gsm8k,
    `score` names the filter that reads them, by default its first; what it reads is compared as the
    task says. Of a task that reads whole texts, such as wikitext, the log-likelihoods of windows
    of `tokens.longest` are summed: `metric` is what trials are compared by, and bits per byte,
    byte and word perplexity are all measured.

    `limit` is that of the command, for items that were rendered in part. With one task, `dataset`
    can name another dataset of the same task.
    """

    title: ClassVar[str] = "Benchmark"
    summary: ClassVar[str] = "Standard tasks of lm-eval, watched and never trained on."
    reference: ClassVar[str] = "Gao et al. (2024), lm-evaluation-harness"
    ends: ClassVar[bool] = False
    only_watched: ClassVar[bool] = True

    name: Literal["benchmark"] = "benchmark"
    tasks: Annotated[tuple[HarnessTask, ...], Field(min_length=1, max_length=MOST_TASKS)]
    """tasks or groups of lm-eval, one per line"""
    shots: Annotated[int, Field(ge=0, le=MOST_SHOTS)] = 0
    """examples before every item"""
    limit: Annotated[int, Field(ge=1)] | None = None
    """number of rendered items, if only the first were"""
    score: Score = "acc"
    """rule that compares the likelihoods of choices, or filter that reads generated answers"""
    tokens: BenchmarkLimits = BenchmarkLimits()  # pyright: ignore[reportIncompatibleVariableOverride] - frozen
    """most tokens of an item"""
    metric: TextMetric | None = Field(
        default=None,
        exclude_if=lambda metric: metric is None,  # older jobs keep their digests
    )
    """figure of whole texts, by default bits per byte; other items have none"""
    dataset: RecordsReference | Name | FileOfServer | Literal[""] = ""
    """dataset of a single task; by default it follows from its name and shots"""
    splits: SplitRule = OWN_SPLITS
    """all items are test items"""
    rendering: Rendering | None = None
    """origin of the items, which follows from the dataset"""
    generation: Generation | None = Field(
        default=None,
        exclude_if=lambda generation: generation is None,  # older jobs keep their digests
    )
    """how answers are generated and compared, which follows from the dataset"""

    _parts: tuple["Benchmark", ...] = PrivateAttr(default=())
    _group: StagedGroup | None = PrivateAttr(default=None)

    @classmethod
    def has_right_answers(cls, task: Mapping[str, object]) -> bool:
        """Return False for whole texts, which alone have a metric."""
        return task.get("metric") is None

    @classmethod
    def looked_up(cls, choice: Mapping[str, object], datasets: Datasets) -> Iterable[str]:
        """Return the datasets of its tasks, of groups and of the tasks in them."""
        try:
            chosen = cls.model_validate(choice)
        except ValueError:  # of another version
            return ()
        if chosen.dataset:
            return ()
        tasks = (*chosen.tasks, *(task for _, task, _ in chosen._named(datasets)))
        return {dataset_of(task, chosen.shots, chosen.limit) for task in tasks}

    @classmethod
    def own_label(cls, task: Mapping[str, object]) -> str | None:
        """Return `openbookqa (5 shots, first 60)`."""
        tasks, shots, limit = task.get("tasks"), task.get("shots", 0), task.get("limit")
        if not isinstance(tasks, list | tuple):
            return None
        names = ", ".join(map(str, cast("Sequence[object]", tasks)))
        first = f", first {limit}" if limit else ""
        return f"{names} ({shots} shot{'' if shots == 1 else 's'}{first})"

    def scored_as(self) -> tuple[Task, ...]:
        if self._parts or len(self.tasks) == 1:
            return self._parts or (self,)
        return tuple(self.model_copy(update={"tasks": (task,)}) for task in self.tasks)

    def settled(self, datasets: Datasets) -> "Benchmark":
        if problems := tuple(self._own_problems()):
            return self._with_problems(problems)
        if self.dataset:
            return super().settled(datasets)
        named = tuple(self._named(datasets))
        if problems := tuple(_problems_of_groups([task for _, task, _ in named])):
            return self._with_problems(problems)
        parts = tuple(self._part(*one, datasets) for one in named)
        if len(parts) == 1:
            return parts[0]
        whole = self.model_copy()
        whole._parts = parts
        return whole

    def problems(self) -> tuple[Problem, ...]:
        if not self._parts:
            return super().problems()
        return tuple(problem for part in self._parts for problem in part.problems())

    def split_problems(self, splits: tuple[Split, ...]) -> tuple[Problem, ...]:
        if splits == (SPLIT,):
            return ()
        detail = "A benchmark is scored and never trained on. Name it in evaluation.tasks."
        return (Problem("/name", "only_evaluated", detail),)

    def _named(self, datasets: Datasets) -> Iterator[tuple[int, str, StagedGroup | None]]:
        """Yield all tasks with their places; a staged group stands for its tasks."""
        for place, task in enumerate(self.tasks):
            facts = datasets.get(dataset_of(task, self.shots, self.limit))
            group = staged_group(facts, task) if isinstance(facts, RecordsFacts) else None
            yield from ((place, one, group) for one in ((task,) if group is None else group.tasks))

    def _part(
        self, place: int, task: str, group: StagedGroup | None, datasets: Datasets
    ) -> "Benchmark":
        """Return one of the tasks alone, with its dataset looked up."""
        name = dataset_of(task, self.shots, self.limit)
        part = self.model_copy(update={"tasks": (task,), "dataset": name})
        if name not in datasets:
            return part._with_problems((self._not_staged(place, task),))
        settled = super(Benchmark, part).settled(datasets)
        moved = [
            replace(problem, pointer=f"/tasks/{place}")
            if problem.pointer == "/tasks/0"
            else problem
            for problem in settled.problems()
        ]
        part = settled._with_problems(tuple(moved))
        part._group = group
        return part

    def group_member(self) -> GroupMember | None:
        if self._group is None or self.reads_windows():
            return None
        if self.generation is not None:
            return self._group.member(MATCH, self.score)
        return self._group.member(self.score)

    def _not_staged(self, place: int, task: str) -> Problem:
        limit = f" --limit {self.limit}" if self.limit else ""
        shots = f" --shots {self.shots}" if self.shots else ""
        detail = (
            f"The items of {task} with {self.shots} shots are not on this server. Stage them with "
            f"`adaptlab benchmarks add {task}{shots}{limit}`."
        )
        return Problem(f"/tasks/{place}", "not_staged", detail)

    def template(self) -> Template:
        """Return the context, to which an item has no more fields."""
        return Template((TemplatePiece("context", is_field=True),))

    def templates(self) -> Iterator[tuple[str, Template]]:
        """Yield nothing: the fields are those of every rendered dataset."""
        yield from ()

    def is_rendered(self) -> bool:
        return True

    def reads_windows(self) -> bool:
        return self.rendering is not None and self.rendering.output == ROLLING

    def other_metric(self) -> str | None:
        return self.metric

    def shown(self, count: int) -> int:
        """Return no items of whole texts, which nobody asks a question about."""
        return 0 if self.reads_windows() else super().shown(count)

    def typical_length(self, vocabulary: int, mean_bytes: MeanBytes) -> int:
        if self.reads_windows():
            return self.sequence_length()
        return super().typical_length(vocabulary, mean_bytes)

    def size_of(self, choice: str) -> int:
        sizes = {"acc": 1, "acc_norm": len(choice), "acc_bytes": len(choice.encode())}
        return sizes.get(self.score, 1)

    def answer_judge(self) -> AnswerJudge | None:
        return None if self.generation is None else AnswerJudge(self.generation, self.score)

    def answer_text(self, record: Record) -> str:
        item = item_of(record)
        return item.continuations[item.gold]

    def answer_field(self) -> tuple[str, str]:
        return "/dataset", "gold"

    def usual_answer(self) -> int:
        if self.generation is not None:
            return min(self.generation.tokens, self.tokens.longest - 1)
        if self.reads_windows():
            return self.tokens.longest - 1
        # No tokeniser makes more tokens of a choice than it has bytes.
        most = USUAL_ANSWER if self.rendering is None else self.rendering.answer
        return min(USUAL_ANSWER, most, self.tokens.longest - 1)

    def listed_answers(self) -> Mapping[str, str | None]:
        """Return the places of choices, from 1; none without choices."""
        count = self._choices()
        return {str(place): None for place in range(1, count + 1)} if count > 1 else {}

    def passes_of_choices(self) -> int:
        """Return the passes over choices, or over the windows of a mean text."""
        count = self._choices()
        if self.rendering is not None and self.rendering.text is not None:
            return self.rendering.text // BYTES_PER_TOKEN // self.tokens.longest
        return count if count > 1 else 0

    def chance(self) -> float:
        """Return the accuracy of guessing among the choices of every item."""
        if self.reads_windows():
            return 0.0
        if self._choices() > 1 and self.rendering is not None:
            return self.rendering.chance
        return 1 / max(1, self.available(SPLIT))

    def constant_answer(self) -> float:
        """Return the share of the most common place of the right choice."""
        return (self.reference_to_records().majority or 0.0) if self._choices() > 1 else 0.0

    def chance_loss(self) -> float:
        """Return the loss of guessing bytes, per token."""
        return math.log(BYTES_VOCABULARY)

    def longest_demonstration(self, separator: str) -> None:
        """Return None: examples are those of the harness."""

    def fits(self, facts: RecordsFacts) -> Iterator[Problem]:
        """Yield the problems of a dataset that is not that of the task."""
        rendering, generation = rendering_of(facts), generated_by(facts)
        generates = rendering is not None and rendering.output == "generate_until"
        if rendering is None or generates != (generation is not None):
            detail = (
                f"The dataset {facts.name!r} has no rendered items. Stage the task with `adaptlab "
                f"benchmarks add {self.tasks[0]} --shots {self.shots}`."
            )
            yield Problem("/dataset", "not_rendered", detail)
            return
        if (rendering.task, rendering.shots) != (self.tasks[0], self.shots):
            detail = (
                f"The dataset {facts.name!r} has items of {rendering.task} with {rendering.shots} "
                f"shots, not of {self.tasks[0]} with {self.shots}. Name another dataset, or none."
            )
            yield Problem("/tasks/0", "other_task", detail)
        if rendering.output == ROLLING:
            yield from self._misfits_of_texts(rendering.task)
        elif self.metric is not None:
            detail = f"{rendering.task} has items, which `score` compares. Leave `metric` out."
            yield Problem("/metric", "no_texts", detail)
        if generation is not None:
            yield from self._misfits_of_generation(rendering.task, generation)
        elif rendering.output != "multiple_choice" and self.score != "acc":
            detail = f"{rendering.task} has no choices, so only acc is defined. Leave `score` out."
            yield Problem("/score", "no_choices", detail, allowed=("acc",))
        elif self.score not in CHOICE_SCORES:
            allowed = ", ".join(CHOICE_SCORES)
            detail = f"{rendering.task} has the scores {allowed}, not {self.score!r}. Use one."
            yield Problem("/score", "other_score", detail, allowed=CHOICE_SCORES)

    def _misfits_of_texts(self, task: str) -> Iterator[Problem]:
        window = self.tokens.longest - 1
        if self.tokens.answer not in (None, window):
            detail = (
                f"{task} reads whole texts in windows of {window:,} tokens, as `tokens.longest` "
                "says. Leave `tokens.answer` out."
            )
            yield Problem("/tokens/answer", "reads_windows", detail, nearest=(window,))

    def _misfits_of_generation(self, task: str, generation: Generation) -> Iterator[Problem]:
        names = generation.names()
        if self.score not in ("acc", *names):
            detail = (
                f"{task} generates answers, which are read by {', '.join(names)}, not by "
                f"{self.score!r}. Set `score` to one of these, or leave it out for the first."
            )
            yield Problem("/score", "other_score", detail, allowed=names)
        if self.tokens.answer is None and generation.tokens >= self.tokens.longest:
            detail = (
                f"Answers to {task} have up to {generation.tokens:,} tokens, which leaves no room "
                f"for a prompt in {self.tokens.longest:,}. Raise `tokens.longest` up to what the "
                "model can read, or set `tokens.answer` to less."
            )
            nearest = (generation.tokens + 1,)
            yield Problem("/tokens/longest", "no_room_for_prompt", detail, nearest=nearest)

    def found_in(self, facts: RecordsFacts) -> "Benchmark":
        generation, score = generated_by(facts), self.score
        if generation is not None and score not in generation.names():
            score = generation.names()[0]
        rendering, metric = rendering_of(facts), self.metric
        if rendering is not None and rendering.output == ROLLING:
            metric = metric or TEXT_METRICS[0]
        found = {"rendering": rendering, "generation": generation, "score": score, "metric": metric}
        return self.model_copy(update=found)

    def _choices(self) -> int:
        return 1 if self.rendering is None else self.rendering.choices

    def _misfits(self, facts: RecordsFacts) -> Iterator[Problem]:
        yield from self.fits(facts)

    def _known_of(self, facts: RecordsFacts) -> dict[str, Value]:
        answer = self.tokens.answer or self.found_in(facts).usual_answer()
        return {
            **super()._known_of(facts),
            "tokens": self.tokens.model_copy(update={"answer": answer}),
        }

    def _own_problems(self) -> Iterator[Problem]:
        yield from super()._own_problems()
        if self.dataset and len(self.tasks) > 1:
            detail = "A dataset has the items of one task. Name one task, or no dataset."
            yield Problem("/dataset", "several_tasks", detail)
        if len(set(self.tasks)) < len(self.tasks):
            yield Problem("/tasks", "task_twice", "A task occurs twice. Name each once.")
        if self.splits != OWN_SPLITS:
            detail = "All items of a benchmark are test items. Leave `splits` out."
            yield Problem("/splits", "only_evaluated", detail)
        if self.cluster is not None:
            detail = "Items of a benchmark have no groups. Leave `cluster` out."
            yield Problem("/cluster", "no_groups", detail)
        if self.tokens.cut != PromptCut():
            detail = "A longer item loses the beginning of its context. Leave `cut` out."
            yield Problem("/tokens/cut", "cut_on_the_left", detail)


def _problems_of_groups(tasks: Sequence[str]) -> Iterator[Problem]:
    """Yield what is wrong with tasks that may come from groups."""
    if twice := next((task for task, count in Counter(tasks).items() if count > 1), None):
        detail = f"{twice} occurs twice, once in a group. Name it or the group."
        yield Problem("/tasks", "task_twice", detail)
    if len(tasks) > MOST_MEMBERS:
        detail = (
            f"With those of groups, {len(tasks)} tasks are named, and {MOST_MEMBERS} are the limit "
            "of an entry. Put some groups into another entry of evaluation.tasks."
        )
        yield Problem("/tasks", "too_many_tasks", detail, nearest=(MOST_MEMBERS,))
