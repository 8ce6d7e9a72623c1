"""Checks of everything that a worker reports about a job.

A worker computes on another machine, and its token may have been stolen. So a report is only
accepted if it follows from the job's spec: its replicates, seeds, trials, steps, tasks, splits,
sample counts, tensors and maps. Numbers must be within bounds.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Self

from adaptlab.errors import Problem
from adaptlab.plugins.method import Method
from adaptlab.plugins.metric import metrics
from adaptlab.plugins.registry import as_json
from adaptlab.runs import events as results
from adaptlab.runs.bounds import (
    ROUNDING,
    brief,
    count,
    equal,
    is_storable,
    number,
    of_words,
    one_of,
    text,
    texts,
)
from adaptlab.runs.events import LARGEST_LOSS, LEAST_LOSS, curves
from adaptlab.runs.reported_answers import ExpectedAnswers
from adaptlab.runs.reported_attention import ExpectedMaps
from adaptlab.runs.reported_confusions import confusion_problems
from adaptlab.runs.reported_measures import measure_problems
from adaptlab.runs.theory_report import Detail
from adaptlab.specs.curve_steps import CurveSteps
from adaptlab.specs.model_shapes import family_shape, model_shape
from adaptlab.specs.resolved import (
    Resolved,
    ResolvedAdapt,
    ResolvedTheory,
    evaluation_bases,
    scored_tasks,
)

LARGEST_COUNT = 2**53
"""Bytes: the largest whole number that every JSON parser can represent."""
LONGEST_SECONDS = 1e9
MOST_REPORTS = 1000
MOST_DETAILS = 256
"""Details of a theory check, and numbers in one of its lists."""
LARGEST_FIGURE = 1e100
"""A figure of a theory check; ratios of values that should be equal can be large."""
MOST_PROBLEMS = 20
"""Problems in one response, because nobody fixes more of them one by one."""

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Expected:
    """The reports that runs of one job can send.

    Attributes:
        spec: the resolved spec that everything follows from.
        trials: trials per seed; replicate r has seed r // trials and trial r % trials.
        tasks: the complete configurations of the scored tasks.
        curves: the steps at which curves have points, None without training.
        checkpoint_kind: the kind of the checkpoints, None if there are none.
        tensors: the shapes of a checkpoint's tensors.
        dtype: the type of the tensors in safetensors' notation.
        maps: the attention maps, None if none are recorded.
        answers: the shown items of each scored task, empty if none are shown.
        labels: the labels of each scored task, empty if it does not choose among any.
        items: the test items of each scored task.
    """

    spec: Resolved
    trials: int
    tasks: tuple[dict[str, object], ...]
    curves: CurveSteps | None
    checkpoint_kind: str | None
    tensors: Shapes
    dtype: str
    maps: ExpectedMaps | None
    answers: tuple[ExpectedAnswers, ...] = ()
    labels: tuple[tuple[str, ...], ...] = ()
    items: tuple[int, ...] = ()

    @classmethod
    def of(cls, spec: Resolved) -> Self:
        """Return the expected reports of a resolved spec."""
        method = None if spec.method is None else spec.method.kept()
        return cls(
            spec=spec,
            trials=len(spec.trials),
            tasks=tuple(map(as_json, scored_tasks(spec))),
            curves=None if spec.training is None else CurveSteps.of(spec.training),
            checkpoint_kind=spec.checkpoint_kind,
            tensors=_tensors(spec, method),
            dtype="F64" if spec.precision == "float64" else "F32",
            maps=_maps(spec, method),
            answers=_answers(spec),
            labels=tuple(tuple(task.listed_answers()) for task in scored_tasks(spec)),
            items=_items(spec),
        )

    @property
    def replicates(self) -> int:
        """Seeds times trials."""
        return len(self.spec.seeds) * self.trials

    @property
    def steps(self) -> int:
        """The number of training steps, 0 without training."""
        return 0 if self.spec.training is None else self.spec.training.steps

    def problems(self, events: Sequence[results.Event], at: str = "/events") -> tuple[Problem, ...]:
        """Return the problems of a batch of events, at most `MOST_PROBLEMS`."""
        problems = (
            problem
            for place, event in enumerate(events)
            for problem in self._problems_of(f"{at}/{place}", event)
        )
        return tuple(islice(problems, MOST_PROBLEMS))

    def _problems_of(self, at: str, event: results.Event) -> Iterator[Problem]:
        match event:
            case results.Metrics():
                return self._metrics(at, event)
            case results.Progress():
                return self._progress(at, event)
            case results.TrainingSaved():
                return count(f"{at}/step", event.step, 1, self.steps)
            case results.Started():
                return self._started(at, event)
            case results.ReplicatesDecided():
                return self._decided(at, event)
            case results.Evaluated():
                return self._evaluated(at, event)
            case results.NotCarried():
                return self._not_carried(at, event)
            case results.ItemsShown():
                return self._shown(at, event)
            case results.AnswersGiven():
                return self._given(at, event)
            case _:
                return self._of_the_end(at, event)

    def _of_the_end(
        self,
        at: str,
        event: results.AttentionCaptured
        | results.CheckpointWritten
        | results.TheoryChecked
        | results.Finished,
    ) -> Iterator[Problem]:
        match event:
            case results.AttentionCaptured():
                return self._captured(at, event)
            case results.CheckpointWritten():
                return self._written(at, event)
            case results.TheoryChecked():
                return self._theory(at, event)
            case results.Finished():
                return self._finished(at, event)

    def _progress(self, at: str, event: results.Progress) -> Iterator[Problem]:
        if event.phase == "training":
            return count(f"{at}/step", event.step, 0, self.steps)
        return count(f"{at}/step", event.step, 0, event.total)

    def _started(self, at: str, event: results.Started) -> Iterator[Problem]:
        yield from equal(f"{at}/replicates", event.replicates, self.replicates, "replicate count")
        environment = event.environment.model_dump(exclude={"allocation"})
        yield from texts(f"{at}/environment", environment)
        yield from count(f"{at}/environment/threads", event.environment.threads, 0, 2**20)
        if (allocation := event.environment.allocation) is not None:
            where = f"{at}/environment/allocation"
            yield from texts(where, allocation.model_dump())
            yield from count(f"{where}/restart_count", allocation.restart_count, 0, 2**31 - 1)

    def _metrics(self, at: str, event: results.Metrics) -> Iterator[Problem]:
        limits = self._curves()
        names = tuple(limits)
        for place, point in enumerate(event.points):
            here = f"{at}/points/{place}"
            yield from self._replicate(here, point.replicate)
            yield from one_of(f"{here}/name", point.name, names, "curve")
            if self.curves is None or point.step not in self.curves:
                detail = (
                    f"No curve of a training of {self.steps} steps has a point at step "
                    f"{brief(point.step)}."
                )
                yield Problem(f"{here}/step", "no_such_step", detail)
            low, high = limits.get(point.name, (LEAST_LOSS, LARGEST_LOSS))
            yield from number(f"{here}/value", point.value, low, high)

    def _curves(self) -> Mapping[str, tuple[float, float]]:
        """Return the curves of the training, by name, with their limits."""
        task = self.spec.task
        own = None if task is None else task.other_metric()
        others = {metric.name for metric in metrics()} - {own}
        return {
            name: limits
            for name, limits in curves().items()
            if name.partition("_")[2] not in others
        }

    def _decided(self, at: str, event: results.ReplicatesDecided) -> Iterator[Problem]:
        for place, replicate in enumerate(event.replicates):
            yield from self._result(f"{at}/replicates/{place}", replicate)
        yield from self._choice(f"{at}/replicates", event.replicates)

    def _result(self, at: str, result: results.ReplicateResult) -> Iterator[Problem]:
        problems = tuple(self._replicate(at, result.replicate, result.seed))
        yield from problems
        if not problems:
            trial = result.replicate % self.trials
            yield from equal(f"{at}/trial", result.trial, trial, "trial of this replicate")
            for name, value in self.spec.trials[trial]:
                reported = getattr(result, name)
                yield from equal(f"{at}/{name}", reported, value, f"{name} of this trial")
        yield from number(f"{at}/final_loss", result.final_loss, LEAST_LOSS, LARGEST_LOSS)
        yield from number(f"{at}/validation_accuracy", result.validation_accuracy, 0, 1)
        low, high = self._metric_limits()
        yield from number(f"{at}/validation_metric", result.validation_metric, low, high + ROUNDING)
        yield from count(f"{at}/steps", result.steps, 0, self.steps)
        if result.selected and result.status in ("diverged", "eliminated"):
            detail = f"The replicate is {result.status}, so its seed cannot keep it."
            yield Problem(f"{at}/selected", "cannot_be_selected", detail)
        yield from self._prompt(f"{at}/prompt", result)

    def _metric_limits(self) -> tuple[float, float]:
        task = self.spec.task
        metric = None if task is None else task.own_metric()
        return (0.0, 1.0) if metric is None else metric.limits

    def _prompt(self, at: str, result: results.ReplicateResult) -> Iterator[Problem]:
        method, prompt = self.spec.method, result.prompt
        is_found = method is not None and method.reports_tokens() and result.selected
        yield from equal(at, prompt is not None, is_found, "report of a prompt")
        if prompt is None or method is None or not (method.is_search or method.demonstrated()):
            return
        length, shape = method.extra_context_tokens(), model_shape(self.spec)
        if fewest := method.demonstrated():  # they can be shorter than allowed
            yield from count(f"{at}/tokens", len(prompt.tokens), fewest, length)
            length = len(prompt.tokens)
        for name in ("tokens", "words"):
            size = len(getattr(prompt, name))
            yield from equal(f"{at}/{name}", size, length, "number of tokens")
        for token in prompt.tokens[:length]:
            yield from count(f"{at}/tokens", token, 0, shape.vocabulary - 1)
        yield from of_words(f"{at}/words", prompt.words[:length])
        yield from number(f"{at}/log_perplexity", prompt.log_perplexity, 0, LARGEST_LOSS)
        # Demonstrations are chosen, not searched for, whatever is trained beside them.
        forward, backward = method.passes(result.steps, shape) if method.is_search else (0, 0)
        yield from equal(f"{at}/forward_passes", prompt.forward_passes, forward, "passes")
        yield from equal(f"{at}/backward_passes", prompt.backward_passes, backward, "passes")

    def _choice(self, at: str, replicates: Sequence[results.ReplicateResult]) -> Iterator[Problem]:
        """Yield a problem unless every seed keeps at most one of its trials."""
        numbers = [result.replicate for result in replicates]
        if sorted(numbers) != list(range(self.replicates)):
            detail = (
                f"The job's {self.replicates} replicates are decided together, each exactly once, "
                f"but {len(numbers)} were sent."
            )
            yield Problem(at, "not_all_replicates", detail)
        kept = [result.seed for result in replicates if result.selected]
        if len(set(kept)) < len(kept):
            detail = "Several trials of one seed are selected. A seed keeps at most one."
            yield Problem(at, "several_selected", detail)

    def _evaluated(self, at: str, event: results.Evaluated) -> Iterator[Problem]:
        evaluation, at = event.evaluation, f"{at}/evaluation"
        yield from self._replicate(at, evaluation.replicate, evaluation.seed)
        tasks = self.tasks
        if evaluation.base_model is not None:
            yield from self._other_base(at, evaluation.base_model)
            tasks = tasks[: self.carried_tasks]
        if evaluation.task not in tasks:
            named = ", ".join(str(task["name"]) for task in tasks) or "none"
            detail = f"The job does not score {brief(evaluation.task)}. It scores {named}."
            yield Problem(f"{at}/task", "unknown_task", detail)
        yield from one_of(f"{at}/split", evaluation.split, ("test",), "scored split")
        yield from self._attached(at, attached=evaluation.attached)
        if evaluation.task in self.tasks:
            items = self.items[self.tasks.index(evaluation.task)]
            yield from equal(f"{at}/total", evaluation.total, items, "sample count")
        yield from _outcomes(at, evaluation)
        yield from _clusters(at, evaluation)
        yield from number(f"{at}/loss", evaluation.loss, LEAST_LOSS, LARGEST_LOSS)
        if evaluation.task in self.tasks:
            yield from measure_problems(at, evaluation)
        if evaluation.confusion is not None and evaluation.task in self.tasks:
            labels = self.labels[self.tasks.index(evaluation.task)]
            yield from confusion_problems(at, evaluation, evaluation.confusion, labels)

    def _not_carried(self, at: str, event: results.NotCarried) -> Iterator[Problem]:
        yield from self._replicate(at, event.replicate, event.seed)
        yield from self._other_base(at, event.base_model)
        yield from text(f"{at}/reason", event.reason)
        if not is_storable(event.reason):
            detail = "The reason has a character that cannot be stored. Replace it."
            yield Problem(f"{at}/reason", "not_storable", detail)

    def _other_base(self, at: str, name: str) -> Iterator[Problem]:
        names = tuple(other.name for other in evaluation_bases(self.spec))
        yield from one_of(f"{at}/base_model", name, names, "other base model")

    @property
    def carried_tasks(self) -> int:
        """The number of tasks, the first ones, scored on other bases."""
        return 0 if isinstance(self.spec, ResolvedTheory) else len(self.spec.evaluation_tasks)

    def _shown(self, at: str, event: results.ItemsShown) -> Iterator[Problem]:
        expected = self._answers_of(event.task_place)
        if expected is None:
            yield from self._no_such_task(at, event.task_place)
            return
        task = self.tasks[event.task_place]
        yield from equal(f"{at}/task", event.task, task, "task at this place")
        yield from expected.items(f"{at}/items", event.items)

    def _given(self, at: str, event: results.AnswersGiven) -> Iterator[Problem]:
        yield from self._replicate(at, event.replicate, event.seed)
        yield from self._attached(at, attached=event.attached)
        expected = self._answers_of(event.task_place)
        if expected is None:
            yield from self._no_such_task(at, event.task_place)
            return
        yield from expected.answers(f"{at}/answers", event.answers)

    def _answers_of(self, task_place: int) -> ExpectedAnswers | None:
        return self.answers[task_place] if 0 <= task_place < len(self.answers) else None

    def _no_such_task(self, at: str, task_place: int) -> Iterator[Problem]:
        if not self.answers:
            yield Problem(at, "not_asked_for", "The job shows no items.")
            return
        yield from count(f"{at}/task_place", task_place, 0, len(self.answers) - 1)

    def _attached(self, at: str, *, attached: bool) -> Iterator[Problem]:
        if not attached and not isinstance(self.spec, ResolvedAdapt):
            detail = "The job adapts no model, so there is nothing to detach."
            yield Problem(f"{at}/attached", "not_adapted", detail)

    def _captured(self, at: str, event: results.AttentionCaptured) -> Iterator[Problem]:
        at = f"{at}/attention"
        yield from self._replicate(at, event.attention.replicate, event.attention.seed)
        if self.maps is None:
            yield Problem(at, "not_asked_for", "The job records no attention.")
        else:
            yield from self.maps.problems(at, event.attention)

    def _written(self, at: str, event: results.CheckpointWritten) -> Iterator[Problem]:
        checkpoint, at = event.checkpoint, f"{at}/checkpoint"
        yield from self._replicate(at, checkpoint.replicate, checkpoint.seed)
        if self.checkpoint_kind is None:
            yield Problem(at, "not_asked_for", "The job has no checkpoints.")
            return
        yield from equal(f"{at}/kind", checkpoint.kind, self.checkpoint_kind, "kind of checkpoint")
        yield from _same_tensors(f"{at}/tensors", checkpoint.tensors, self.tensors)
        size = sum(map(math.prod, self.tensors.values()))
        yield from equal(f"{at}/parameters", checkpoint.parameters, size, "parameter count")

    def _theory(self, at: str, event: results.TheoryChecked) -> Iterator[Problem]:
        check = event.check
        if not isinstance(self.spec, ResolvedTheory):
            yield Problem(at, "not_asked_for", "The job has no theory checks.")
        yield from count(f"{at}/place", event.place, 0, MOST_REPORTS - 1)
        at = f"{at}/check"
        yield from text(f"{at}/claim", check.claim)
        for name in ("measured", "tolerance"):
            value = getattr(check, name)
            yield from number(f"{at}/{name}", value, -LARGEST_FIGURE, LARGEST_FIGURE)
        yield from count(f"{at}/details", len(check.details), 0, MOST_DETAILS)
        for name, detail in check.details.items():
            yield from text(f"{at}/details", name)
            yield from _detail(f"{at}/details/{name[:40]}", detail)

    def _finished(self, at: str, event: results.Finished) -> Iterator[Problem]:
        usage, at = event.usage, f"{at}/usage"
        for name in ("training_seconds", "evaluation_seconds"):
            yield from number(f"{at}/{name}", getattr(usage, name), 0, LONGEST_SECONDS)
        for name in ("peak_memory_bytes", "base_memory_bytes"):
            yield from count(f"{at}/{name}", getattr(usage, name), 0, LARGEST_COUNT)
        yield from count(f"{at}/training_steps", usage.training_steps, 0, self.steps)
        yield from count(f"{at}/passes", usage.passes, 0, max(1, self.replicates))

    def _replicate(self, at: str, replicate: int, seed: int | None = None) -> Iterator[Problem]:
        """Yield the problems of a replicate's number, and of its seed if reported."""
        if isinstance(self.spec, ResolvedTheory):
            yield Problem(at, "not_asked_for", "Theory checks have no replicates.")
        elif not 0 <= replicate < self.replicates:
            yield from count(f"{at}/replicate", replicate, 0, self.replicates - 1)
        elif seed is not None:
            expected = self.spec.seeds[replicate // self.trials]
            yield from equal(f"{at}/seed", seed, expected, "seed of this replicate")


def _tensors(spec: Resolved, method: Method | None) -> Shapes:
    shape = model_shape(spec)
    tensors = shape.tensors if method is None else method.trained(shape)
    return {name: tensor.shape for name, tensor in tensors.items()}


def _items(spec: Resolved) -> tuple[int, ...]:
    if isinstance(spec, ResolvedTheory):
        return ()
    return tuple(task.at_most("test", spec.evaluation_samples) for task in scored_tasks(spec))


def _answers(spec: Resolved) -> tuple[ExpectedAnswers, ...]:
    if isinstance(spec, ResolvedTheory) or not spec.evaluation_shown:
        return ()
    return tuple(ExpectedAnswers.of(task, spec.evaluation_shown) for task in scored_tasks(spec))


def _maps(spec: Resolved, method: Method | None) -> ExpectedMaps | None:
    if spec.training is None or spec.attention is None:
        return None
    shape, task = family_shape(spec.family), spec.task
    before = spec.family.positions_before_content()
    return ExpectedMaps(
        is_adapted=method is not None,
        samples=len(spec.attention.inputs) or spec.attention.samples,
        layers=shape.layers,
        heads=shape.heads,
        content=spec.family.content_length(task.sequence_length()),
        before=before,
        learned=before + (0 if method is None else method.extra_context_tokens()),
        target_start=spec.family.answer_start(task.input_length()),
        targets=task.target_length(),
        vocabulary=shape.vocabulary,
        are_texts=task.input_problem() is not None,
        choices=len(task.listed_answers()),
    )


def _same_tensors(at: str, reported: Shapes, expected: Shapes) -> Iterator[Problem]:
    if reported.keys() != expected.keys():
        missing, extra = (
            sorted(expected.keys() - reported.keys()),
            sorted(reported.keys() - expected.keys()),
        )
        detail = (
            f"The checkpoint lacks the tensors {brief(missing[:8])} and has {brief(extra[:8])}, "
            "which the job's spec does not declare."
        )
        yield Problem(at, "other_tensors", detail)
        return
    for name, shape in expected.items():
        yield from equal(f"{at}/{name}", reported[name], shape, f"shape of {name}")


def _outcomes(at: str, evaluation: results.Evaluation) -> Iterator[Problem]:
    """Yield a problem unless there is one bit per item and the score agrees."""
    try:
        bits = bytes.fromhex(evaluation.outcomes)
    except ValueError:
        detail = "The outcomes are not hexadecimal. Write two digits per byte."
        yield Problem(f"{at}/outcomes", "not_hexadecimal", detail)
        return
    if len(bits) != -(-evaluation.total // 8):
        detail = (
            f"There are {8 * len(bits)} bits for {brief(evaluation.total)} items. Write one bit "
            "per item, filled up to a whole byte."
        )
        yield Problem(f"{at}/outcomes", "wrong_length", detail)
        return
    packed = int.from_bytes(bits)
    if packed & ((1 << (8 * len(bits) - evaluation.total)) - 1):
        detail = "Bits after the last item are set. Fill up with zeros."
        yield Problem(f"{at}/outcomes", "wrong_length", detail)
    elif packed.bit_count() != evaluation.correct:
        detail = (
            f"{packed.bit_count()} bits are set, but {brief(evaluation.correct)} items are "
            "reported as correct."
        )
        yield Problem(f"{at}/correct", "other_than_outcomes", detail)


def _clusters(at: str, evaluation: results.Evaluation) -> Iterator[Problem]:
    """Yield a problem unless every item of a task with groups has one."""
    at, clusters = f"{at}/clusters", evaluation.clusters
    expected = 0 if evaluation.task.get("cluster") is None else evaluation.total
    if len(clusters) != expected:
        detail = (
            f"There are groups for {len(clusters):,} items instead of {brief(expected)}. Send one "
            "for every item if the task names groups, and none otherwise."
        )
        yield Problem(at, "wrong_length", detail)
        return
    seen = 0
    for number_of_group in clusters:
        if not 0 <= number_of_group <= seen:
            detail = (
                f"The group {brief(number_of_group)} is out of order. Number groups from 0 in the "
                "order of their first items."
            )
            yield Problem(at, "not_in_order", detail)
            return
        seen = max(seen, number_of_group + 1)


def _detail(at: str, detail: Detail) -> Iterator[Problem]:
    if isinstance(detail, str):
        yield from text(at, detail)
        return
    numbers = detail if isinstance(detail, tuple) else (detail,)
    yield from count(at, len(numbers), 0, MOST_DETAILS)
    for value in numbers[:MOST_DETAILS]:
        # Not converted to float, because a whole number can be too large for one.
        if not -LARGEST_FIGURE <= value <= LARGEST_FIGURE:
            limit = f"{LARGEST_FIGURE:g}"
            yield Problem(at, "out_of_range", f"{brief(value)} is outside -{limit} to {limit}.")
