"""Predicted cost of a job: arithmetic, memory traffic, kernels and memory.

The counts follow the engine. All replicates go through the model in one pass, and values that the
trials of a seed share are computed once. The last layer computes the answer's rows only. There is
no gradient for frozen weights, and none below the first trained tensor. Small terms are left out,
so the counts are proportional to the real cost; an earlier run of the same kind gives the factor.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from adaptlab.plugins.demonstrations import POOL
from adaptlab.plugins.shapes import ModelShape
from adaptlab.plugins.task import Task
from adaptlab.specs.forward_pass import (
    MOVED_LOGITS,
    SCORED_LOGITS,
    Batch,
    Part,
    PassSums,
    Route,
    model_pass,
)
from adaptlab.specs.halving import Stage, stages
from adaptlab.specs.model_shapes import model_shape
from adaptlab.specs.quantised import base_bytes, exact_scalars, largest_matrix, quantised_sites
from adaptlab.specs.resolved import (
    Resolved,
    ResolvedAdapt,
    ResolvedImport,
    ResolvedPretrain,
    ResolvedTheory,
    Trained,
    scored_tasks,
)
from adaptlab.specs.scoring_pass import items_at_once, items_kept_at_once, kept_scalars
from adaptlab.specs.stopping import stopping_metric
from adaptlab.specs.stored_files import saved_bytes, stored_bytes
from adaptlab.specs.trainable import Trainable, trainable_by_itself, trainable_with
from adaptlab.text.lengths import MeanBytes, unknown
from adaptlab.values import Value

KERNELS_PER_LAYER = 30
"""Kernels of a forward pass in one layer; a backward pass starts twice as many."""
KERNELS_PER_PASS = 40
"""Kernels of a forward pass outside its layers, with half of those that draw a batch."""
KERNELS_PER_STEP = 80
"""Kernels of the optimiser, the loss and the bookkeeping of one training step."""
KERNELS_PER_TENSOR = 5
"""Kernels that one tensor of a method adds to a forward pass."""
OPTIMISER_COPIES = 4
"""Scalars in memory per trained scalar: the value, two moments and the gradient."""
OPTIMISER_PASSES = 16
"""Reads and writes of a training step per trained scalar."""
FLOAT64_BYTES = 8
RESTORED_COPIES = 3
"""Scalars in memory per scalar of a four-bit matrix while a product reads it as floats."""
VALIDATED_SAMPLES = 256
"""Items of a validation during training; see `adaptlab.engine.training.train`."""


class Load(Value):
    """Load on a device: operations, bytes to move and kernels to start."""

    flops: int = 0
    traffic_bytes: int = 0
    kernels: int = 0

    def __add__(self, other: "Load") -> "Load":
        return Load(
            flops=self.flops + other.flops,
            traffic_bytes=self.traffic_bytes + other.traffic_bytes,
            kernels=self.kernels + other.kernels,
        )

    def __mul__(self, times: int) -> "Load":
        return Load(
            flops=self.flops * times,
            traffic_bytes=self.traffic_bytes * times,
            kernels=self.kernels * times,
        )


class Work(Value):
    """Cost of one job.

    `training` covers all steps and the validations between them, `evaluation` the selection of
    trials and the final scores, those on other base models included. `memory_bytes` is the peak:
    weights, trained tensors, and the largest of a training step (optimiser state and activations),
    a pass of scoring, and the copy in float64 whose attention is recorded. `stored_bytes` is the
    size of the checkpoints of all seeds, and `saved_bytes` that of a saved state of the training,
    which is kept until the job ends.
    """

    replicates: int
    training: Load
    evaluation: Load
    memory_bytes: int
    stored_bytes: int
    saved_bytes: int


def work(spec: Resolved, mean_bytes: MeanBytes = unknown) -> Work:
    """Return the cost of the job of a resolved spec.

    With the mean lengths of a dataset's fields, its texts are as long as usual in time, and as long
    as allowed in memory; without them, as long as allowed in both.
    """
    return _Job.of(spec, mean_bytes).work()


@dataclass(frozen=True)
class _Job:
    spec: Resolved
    shape: ModelShape
    trainable: Trainable
    mean_bytes: MeanBytes

    @classmethod
    def of(cls, spec: Resolved, mean_bytes: MeanBytes) -> "_Job":
        shape, method = model_shape(spec), spec.method
        if method is None:
            is_pretraining = isinstance(spec, ResolvedPretrain)
            trainable = trainable_by_itself(shape.tensors if is_pretraining else {}, shape)
        else:
            trainable = trainable_with(spec.family, shape.classes, method)  # pyright: ignore[reportArgumentType] - frozen, and so hashable
        return cls(spec, shape, trainable, mean_bytes)

    @property
    def scalar_bytes(self) -> int:
        """Bytes of a scalar; bfloat16 jobs keep weights and state in float32."""
        return FLOAT64_BYTES if self.spec.precision == "float64" else 4

    @property
    def trials(self) -> int:
        return len(self.spec.trials)

    @property
    def replicates(self) -> int:
        return len(self.spec.seeds) * self.trials

    @property
    def bases(self) -> int:
        """Copies of the base: one for all or one per seed, 0 in pretraining."""
        if self.spec.method is None:
            return 0
        return 1 if len(set(self.spec.base_replicates)) == 1 else len(self.spec.seeds)

    def work(self) -> Work:
        return Work(
            replicates=self.replicates,
            training=self._training(),
            evaluation=self._evaluation(),
            memory_bytes=self._memory(),
            stored_bytes=stored_bytes(self.spec),
            saved_bytes=saved_bytes(self.spec),
        )

    def _training(self) -> Load:
        """Return the load of all steps and validations."""
        spec = self.spec
        is_drawn = spec.method is not None and not spec.method.trains
        if spec.training is None or not spec.trains or is_drawn or not self.trainable.scalars:
            return Load()
        total = Load()
        for stage in stages(spec.training):
            fewer = _with_trials(spec, stage.trials)
            job = self if fewer is spec else replace(self, spec=fewer)
            total += job._staged(fewer, stage)
        return total

    def _staged(self, spec: Trained, stage: Stage) -> Load:
        """Return the load of a stage, with the comparison at its end."""
        task, training, samples = spec.task, spec.training, spec.validation_samples
        count = training.validations
        validated = (-(-training.steps * part // count) for part in range(1, count + 1))
        validations = sum(stage.first < step <= stage.last for step in validated)
        few = min(VALIDATED_SAMPLES, samples)
        decodes = stopping_metric(training, task) is not None
        validate = self._compared if decodes else self._scored
        total = self._step(spec) * (stage.last - stage.first)
        total += validate(task, few, self.replicates) * validations
        if stage.last < training.steps:
            total += self._compared(task, samples, self.replicates)
        return total

    def _step(self, spec: Trained) -> Load:
        """Return the load of one training step of all replicates."""
        accumulated = spec.training.accumulation
        forward = self._pass(self._batch(spec, self._usual_lengths(spec.task)))
        kernels = self._kernels() * (forward.parts + 2 * forward.returned) // forward.parts
        tried = self._tried(spec)
        return Load(
            flops=accumulated
            * (forward.flops + forward.backward_flops + int(tried * forward.flops)),
            traffic_bytes=self.scalar_bytes
            * (
                accumulated * (forward.moved + 2 * self._read_as_floats())
                + OPTIMISER_PASSES * self._trained_scalars()
            ),
            kernels=accumulated * (kernels + int(tried * self._kernels())) + KERNELS_PER_STEP,
        )

    def _tried(self, spec: Trained) -> float:
        """Return the forward passes per step that compare prompts."""
        if spec.method is None or not spec.method.is_search:
            return 0.0
        steps = spec.training.steps
        return spec.method.passes(steps, self.shape).forward / steps - 1

    def _batch(self, spec: Trained, lengths: tuple[int, int]) -> Batch:
        """Return the batch of one pass of training, with items of these lengths."""
        items = -(-spec.training.batch_size // spec.training.accumulation)
        return Batch(items, self.replicates, self.trials, *self._placed(lengths))

    def _usual_lengths(self, task: Task) -> tuple[int, int]:
        """Return the lengths of an item of a usual batch; see `_lengths`."""
        family, vocabulary = self.spec.family, self.shape.vocabulary
        length = task.typical_length(vocabulary, self.mean_bytes)
        return self._shown(task) + task.content_length(family, length), task.target_length()

    def _shown(self, task: Task) -> int:
        """Return the tokens of demonstrations before the items of a task.

        The base alone reads none, which is not considered.
        """
        method = self.spec.method
        is_before = method is not None and method.moves_content and task == self.spec.task
        return method.extra_context_tokens() if method is not None and is_before else 0

    def _lengths(self, task: Task) -> tuple[int, int]:
        """Return the positions of the longest item, and of its answer."""
        return self._shown(task) + task.content_length(self.spec.family), task.target_length()

    def _evaluation(self) -> Load:
        """Return the load of selecting trials and of all final scores."""
        spec, seeds = self.spec, len(self.spec.seeds)
        total = Load()
        if self.trials > 1 and spec.training is not None:
            *_, last = stages(spec.training)
            total = self._compared(spec.task, spec.validation_samples, seeds * last.trials)
        total += self._final_scores()
        for other in self._others:
            total += other._final_scores()
        return total

    def _compared(self, task: Task, samples: int, replicates: int) -> Load:
        """Return the load of scores by the task's metric on validation items."""
        return self._scored(task, samples, replicates) * (1 + task.passes_of_decoding())

    def _final_scores(self) -> Load:
        """Return the load of the scores on all tasks, of adapted and base model."""
        total = Load()
        for task, samples in _evaluated(self.spec):
            passes = 1 + task.passes_of_decoding()
            total += self._scored(task, samples, len(self.spec.seeds)) * passes
            total += self._chosen(task, samples)
            if self.spec.method is not None:
                total += self._scored(task, samples, self.bases) * passes
        return total

    @cached_property
    def _others(self) -> tuple["_Job", ...]:
        """The job on every other base model that what it finds is carried to."""
        if not isinstance(self.spec, ResolvedAdapt):
            return ()
        moved = map(self.spec.on, self.spec.evaluation_bases)
        return tuple(_Job.of(spec, self.mean_bytes) for spec in moved)

    def _scored(self, task: Task, samples: int, replicates: int) -> Load:
        """Return the load of scoring `samples` items, the same for all replicates."""
        return self._read(task, samples, replicates, self._usual_lengths(task)) * (
            1 + task.passes_of_choices()
        )

    def _chosen(self, task: Task, samples: int) -> Load:
        """Return the load of choosing the nearest demonstrations for items.

        The base reads every item alone, and once what each seed chooses from.
        """
        method = self.spec.method
        if method is None or not method.is_chosen_by_item() or task != self.spec.task:
            return Load()
        tokens, answers = self._usual_lengths(task)
        alone = tokens - self._shown(task), answers
        pool = min(POOL, task.available("train") or POOL)
        base = replace(self, trainable=trainable_by_itself({}, self.shape))
        questions = base._read(task, samples, self.bases, alone) * (1 + task.passes_of_choices())
        return questions + base._read(task, pool, 1, alone) * len(self.spec.seeds)

    def _read(self, task: Task, samples: int, replicates: int, lengths: tuple[int, int]) -> Load:
        """Return the load of one forward pass of items of these lengths."""
        batch = self._scoring(samples, replicates, lengths)
        forward = self._pass(batch)
        passes = -(-samples // self._at_once(task, replicates))
        return Load(
            flops=forward.flops,
            traffic_bytes=self.scalar_bytes
            * (2 * forward.values + passes * self._read_as_floats()),
            kernels=passes * self._kernels(),
        )

    def _trained_scalars(self) -> int:
        return self.replicates * self.trainable.scalars

    def _kernels(self) -> int:
        """Return the kernels of a forward pass, for any number of replicates."""
        layers = 1 + max(
            (s.layer for s in self.shape.linear_sites if s.layer is not None), default=-1
        )
        added = 0 if self.spec.method is None else KERNELS_PER_TENSOR * self.trainable.tensors
        return KERNELS_PER_PASS + KERNELS_PER_LAYER * layers + added

    def _memory(self) -> int:
        """Return the peak memory in bytes; see `Work`."""
        copies = self.bases or int(isinstance(self.spec, ResolvedImport))
        training = 0
        if self.spec.training is not None and self.spec.trains and self.trainable.scalars:
            longest = self._lengths(self.spec.task)
            kept = self._pass(self._batch(self.spec, longest)).kept
            decays = self.trainable.scalars  # where they apply, for all replicates
            training = (OPTIMISER_COPIES - 1) * self._trained_scalars() + decays + kept
        scoring = max((self._scored_at_once(task) for task in self._tasks()), default=0)
        at_once = self.scalar_bytes * (max(training, scoring) + self._restored())
        base = copies * base_bytes(self.shape, self.scalar_bytes, is_quantised=self.spec.quantises)
        trained = self.scalar_bytes * self._trained_scalars()
        own = base + trained + max(at_once, self._captured(copies))
        return max((own, *(other._scoring_memory() for other in self._others)))

    def _read_as_floats(self) -> int:
        """Return the scalars that a forward pass moves to read four-bit matrices."""
        sites = quantised_sites(self.shape) if self.spec.quantises else ()
        return 2 * RESTORED_COPIES * sum(site.inputs * site.outputs for site in sites)

    def _restored(self) -> int:
        """Return the scalars of the four-bit matrix that is read as floats."""
        return RESTORED_COPIES * largest_matrix(self.shape) if self.spec.quantises else 0

    def _scoring_memory(self) -> int:
        """Return the peak memory in bytes of a model that is only scored."""
        scores = [(task, n, len(self.spec.seeds)) for task, n in _evaluated(self.spec)]
        held = max(map(self._scored_at_once, scores), default=0)
        return self.scalar_bytes * (self.shape.parameters * self.bases + held)

    def _captured(self, copies: int) -> int:
        """Return the bytes of the copy in float64 whose attention is recorded."""
        if self.spec.attention is None or self.scalar_bytes == FLOAT64_BYTES:
            return 0
        weights = exact_scalars(self.shape) if self.spec.quantises else self.shape.parameters
        copied = copies * weights + len(self.spec.seeds) * self.trainable.scalars
        return FLOAT64_BYTES * (copied + self._restored())

    def _tasks(self) -> Iterator[tuple[Task, int, int]]:
        """Yield every scored task with its items and replicates."""
        spec = self.spec
        if spec.training is not None and (self.trials > 1 or spec.training.validations):
            yield spec.task, spec.validation_samples, self.replicates
        for task, samples in _evaluated(spec):
            yield task, samples, len(spec.seeds)

    def _scored_at_once(self, scored: tuple[Task, int, int]) -> int:
        """Return the scalars of the largest layer in a pass of scoring."""
        task, most, replicates = scored
        items = min(most, self._at_once(task, replicates))
        lengths, kept = self._lengths(task), 0
        if samples := task.passes_of_decoding():
            answers = replicates * samples
            items = min(items, items_kept_at_once(self.shape, answers, lengths[0]))
            kept = kept_scalars(self.shape) * lengths[0] * items * answers
        held = self._pass(self._scoring(items, replicates, lengths)).held
        head = held.get(None, 0) * SCORED_LOGITS // MOVED_LOGITS
        layers = (values for layer, values in held.items() if layer is not None)
        return kept + max(head, *layers, 0)

    def _at_once(self, task: Task, replicates: int) -> int:
        """Return the items that one pass of scoring takes."""
        return items_at_once(self.shape, replicates, *self._lengths(task))

    def _scoring(self, items: int, replicates: int, lengths: tuple[int, int]) -> Batch:
        """Return a batch of scoring, the same items for all replicates of a base."""
        sharing = replicates // self.bases if self.bases else 1
        return Batch(items, replicates, max(1, sharing), *self._placed(lengths))

    def _placed(self, lengths: tuple[int, int]) -> tuple[int, int]:
        """Return lengths with the learned positions that stand in every item."""
        positions, answers = lengths
        return positions + self.trainable.learned * self.spec.family.places_learned(), answers

    def _pass(self, batch: Batch) -> PassSums:
        """Return the cost of a forward pass through the model with its method."""
        if batch not in self._passes:
            model = model_pass(self._route, batch)
            self._passes[batch] = model.with_part(self._adaptation(batch))
        return self._passes[batch]

    def _adaptation(self, batch: Batch) -> Part:
        """Return the part that the method adds to the tokens of a batch."""
        if self.spec.method is None:
            return Part(0, 0, follows=False)
        tokens, trainable = batch.replicates * batch.items * batch.tokens, self.trainable
        flops = tokens * trainable.extra_flops
        values, kept = tokens * trainable.hooked, tokens * trainable.kept_hooked
        return Part(flops, values, follows=True, trained=True, kept=kept)

    @cached_property
    def _route(self) -> Route:
        trainable = self.trainable
        return Route(
            self.spec.family,
            self.shape.classes,
            trainable.first,
            trainable.matrices,
            0 if self.spec.family.places_learned() else trainable.learned,
        )

    @cached_property
    def _passes(self) -> dict[Batch, PassSums]:
        """A cache of the forward passes that have been counted."""
        return {}


def _with_trials(spec: Trained, trials: int) -> Trained:
    """Return the spec with the first `trials` trials per seed."""
    training = spec.training
    if trials == len(training.trials):
        return spec
    fewer = training.model_copy(update={"trials": training.trials[:trials]})
    return spec.model_copy(update={"training": fewer})


def _evaluated(spec: Resolved) -> Iterator[tuple[Task, int]]:
    """Yield every task that is scored at the end, with its items."""
    if not isinstance(spec, ResolvedTheory):
        for task in scored_tasks(spec):
            yield task, task.at_most("test", spec.evaluation_samples)
