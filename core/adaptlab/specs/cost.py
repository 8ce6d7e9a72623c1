"""What a job computes, before it runs: arithmetic, traffic and kernels in time, bytes in memory.

The counts follow the engine: replicates in one pass, what the trials of a seed share once, the
last layer on the answer's rows only, no gradient below the first thing trained and none for frozen
weights. They leave out what is small beside these, so they are proportional to the truth, not
equal to it; what a run of the same kind measured gives the factor.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from adaptlab.plugins.family import Family
from adaptlab.plugins.method import Method
from adaptlab.plugins.shapes import ModelShape, Site, TensorShape
from adaptlab.plugins.task import Task
from adaptlab.specs.halving import Stage, stages
from adaptlab.specs.resolve import family_shape
from adaptlab.specs.resolved import (
    Resolved,
    ResolvedImport,
    ResolvedPretrain,
    ResolvedTheory,
    Trained,
    scored_tasks,
)
from adaptlab.values import Value

KERNELS_A_LAYER = 30
"""Calls of a forward pass through one layer; a backward pass makes twice as many."""
KERNELS_A_PASS = 40
"""Calls of a forward pass outside its layers, and half of those that make a batch of items."""
KERNELS_A_STEP = 80
"""Calls of the optimiser, the loss and the bookkeeping of one training step."""
KERNELS_A_TENSOR = 5
"""Calls that one tensor of a method adds to a forward pass."""
OPTIMISER_COPIES = 4
"""What training holds of every trained scalar: itself, two moments and its gradient."""
OPTIMISER_PASSES = 16
"""How often a training step reads or writes a scalar for every one that it trains."""
EVALUATED_TOKENS = 2**16
"""Tokens of one pass of an evaluation; see `adaptlab.engine.evaluate`."""
VALIDATED_SAMPLES = 256
"""Items of a validation on the way; see `adaptlab.engine.train`."""


class Load(Value):
    """What a device has to do: floating-point operations, bytes to move, kernels to start."""

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
    """What one job computes.

    `training` covers all steps and the validations on the way, `evaluation` the choice of trials
    and the scores at the end; `memory_bytes` are held at the same time: weights and trained
    tensors, and the larger of what a step of training holds (the optimiser's state and what is
    kept for the backward pass) and what one pass of scoring does.
    """

    replicates: int
    training: Load
    evaluation: Load
    memory_bytes: int


@dataclass(frozen=True)
class _Batch:
    """Items that pass through the model together: those of one replicate, and its lengths.

    Of `sharing` replicates that read the same items, one computes what depends on none of them.
    """

    items: int
    replicates: int
    sharing: int
    tokens: int
    answers: int


@dataclass(frozen=True)
class _Part:
    """One matrix product or attention of a pass, over all replicates.

    `values` are the scalars that it leaves behind. `follows` says whether its input depends on
    what is trained, `trained` whether its own weights are.
    """

    flops: int
    values: int
    follows: bool
    trained: bool = False
    layer: int | None = None


@dataclass(frozen=True)
class _Pass:
    """The parts of one forward pass, added up.

    `backward_flops` are those of the way back, on which `returned` of the `parts` lie. `kept` are
    the values that it needs, `moved` how often any value is read or written on both ways, and
    `held` the values by layer.
    """

    parts: int
    returned: int
    flops: int
    backward_flops: int
    values: int
    kept: int
    moved: int
    held: Mapping[int | None, int]

    @classmethod
    def of(cls, parts: Iterable[_Part]) -> "_Pass":
        total = _Pass(0, 0, 0, 0, 0, 0, 0, {})
        for part in parts:
            total = total.with_part(part)
        return total

    def with_part(self, part: _Part) -> "_Pass":
        returns = part.follows or part.trained
        return _Pass(
            parts=self.parts + 1,
            returned=self.returned + returns,
            flops=self.flops + part.flops,
            backward_flops=self.backward_flops + part.flops * (part.follows + part.trained),
            values=self.values + part.values,
            kept=self.kept + part.values * returns,
            moved=self.moved + part.values * (2 + 4 * returns),
            held={**self.held, part.layer: self.held.get(part.layer, 0) + part.values},
        )


@dataclass(frozen=True)
class _Fitted:
    """A method on a model, which together decide what training changes."""

    family: Family
    method: Method


@dataclass(frozen=True, slots=True)
class _Change:
    """What training changes of a model, by its numbers; a method's shape alone decides it.

    `first` is the first place, counted along the sites, whose output depends on what is trained,
    and `matrices` are the trained weights of the model. `scalars` and `tensors` count what is
    trained, `tensors` without copies of the model's. `hooked` are the scalars that a token leaves
    behind at the linear sites that the method changes, `extra_flops` what it adds for every token,
    and `learned` its learned positions.
    """

    scalars: int
    tensors: int
    first: int
    matrices: frozenset[str]
    hooked: int = 0
    extra_flops: int = 0
    learned: int = 0


@dataclass(frozen=True)
class _Route:
    """What a forward pass through the base model depends on, apart from its batch.

    `first` and `matrices` are the first place that depends on what is trained and the trained
    weights of the model, `learned` counts learned positions.
    """

    family: Family
    first: int
    matrices: frozenset[str]
    learned: int


def work(spec: Resolved) -> Work:
    """What the job of a resolved spec computes, and what it holds in memory while it does."""
    return _Job.of(spec).work()


@dataclass(frozen=True)
class _Job:
    spec: Resolved
    shape: ModelShape
    change: _Change

    @classmethod
    def of(cls, spec: Resolved) -> "_Job":
        shape, method = family_shape(spec.family), spec.method
        if method is None:
            is_made = isinstance(spec, ResolvedPretrain)
            change = _of_model(shape.tensors if is_made else {}, shape)
        else:
            change = _of_method(_Fitted(spec.family, method))
        return cls(spec, shape, change)

    @property
    def scalar_bytes(self) -> int:
        """Of the arithmetic; with bfloat16 as with float32, because weights and state stay so."""
        return 8 if self.spec.precision == "float64" else 4

    @property
    def trials(self) -> int:
        return len(self.spec.trials)

    @property
    def replicates(self) -> int:
        return len(self.spec.seeds) * self.trials

    @property
    def bases(self) -> int:
        """Copies of the base: one that all share, or one for each seed; none in pretraining."""
        if self.spec.method is None:
            return 0
        return 1 if len(set(self.spec.base_replicates)) == 1 else len(self.spec.seeds)

    def work(self) -> Work:
        return Work(
            replicates=self.replicates,
            training=self._training(),
            evaluation=self._evaluation(),
            memory_bytes=self._memory(),
        )

    def _training(self) -> Load:
        """All steps and the validations on the way; nothing for what trains nothing."""
        spec = self.spec
        if spec.training is None or not self.change.scalars:
            return Load()
        total = Load()
        for stage in stages(spec.training):
            fewer = _with_trials(spec, stage.trials)
            job = self if fewer is spec else replace(self, spec=fewer)
            total += job._staged(fewer, stage)
        return total

    def _staged(self, spec: Trained, stage: Stage) -> Load:
        """Steps and validations of a stage, and the comparison of trials at its end, if any."""
        task, training, samples = spec.task, spec.training, spec.validation_samples
        count = training.validations
        validated = (-(-training.steps * part // count) for part in range(1, count + 1))
        validations = sum(stage.first < step <= stage.last for step in validated)
        few = min(VALIDATED_SAMPLES, samples)
        total = self._step(spec) * (stage.last - stage.first)
        total += self._scored(task, few, self.replicates) * validations
        if stage.last < training.steps:
            total += self._scored(task, samples, self.replicates)
        return total

    def _step(self, spec: Trained) -> Load:
        """Forward, backward and the optimiser's step of one batch for every replicate."""
        accumulated = spec.training.accumulation
        once = self._pass(self._batch(spec))
        kernels = self._kernels() * (once.parts + 2 * once.returned) // once.parts
        return Load(
            flops=accumulated * (once.flops + once.backward_flops),
            traffic_bytes=self.scalar_bytes
            * (accumulated * once.moved + OPTIMISER_PASSES * self._trained_scalars()),
            kernels=accumulated * kernels + KERNELS_A_STEP,
        )

    def _batch(self, spec: Trained) -> _Batch:
        """What goes through the model at once in training."""
        items = -(-spec.training.batch_size // spec.training.accumulation)
        return _Batch(items, self.replicates, self.trials, *_lengths(spec.task))

    def _evaluation(self) -> Load:
        """The choice of trials, and every task with the adaptation attached and detached."""
        spec, seeds = self.spec, len(self.spec.seeds)
        total = Load()
        if self.trials > 1 and spec.training is not None:
            *_, last = stages(spec.training)
            total = self._scored(spec.task, spec.validation_samples, seeds * last.trials)
        for task, samples in _evaluated(spec):
            total += self._scored(task, samples, seeds)
            if spec.method is not None:
                total += self._scored(task, samples, self.bases)
        return total

    def _scored(self, task: Task, samples: int, replicates: int) -> Load:
        """Exact match on `samples` items that all replicates read alike."""
        batch = self._scoring(task, samples, replicates)
        once = self._pass(batch)
        passes = -(-samples * replicates * batch.tokens // EVALUATED_TOKENS)
        return Load(
            flops=once.flops,
            traffic_bytes=self.scalar_bytes * 2 * once.values,
            kernels=passes * self._kernels(),
        )

    def _trained_scalars(self) -> int:
        return self.replicates * self.change.scalars

    def _kernels(self) -> int:
        """Calls of a forward pass: as many for one replicate as for all of them."""
        layers = 1 + max(
            (s.layer for s in self.shape.linear_sites if s.layer is not None), default=-1
        )
        added = 0 if self.spec.method is None else KERNELS_A_TENSOR * self.change.tensors
        return KERNELS_A_PASS + KERNELS_A_LAYER * layers + added

    def _memory(self) -> int:
        """The weights, and what a step of training or a pass of scoring holds, if that is more."""
        weights = self.shape.parameters * (self.bases or isinstance(self.spec, ResolvedImport))
        training = 0
        if self.spec.training is not None and self.change.scalars:
            kept = self._pass(self._batch(self.spec)).kept
            training = (OPTIMISER_COPIES - 1) * self._trained_scalars() + kept
        scoring = max((self._scored_at_once(task) for task in self._tasks()), default=0)
        return self.scalar_bytes * (weights + self._trained_scalars() + max(training, scoring))

    def _tasks(self) -> Iterator[tuple[Task, int, int]]:
        """Every task that is scored, with its items and replicates."""
        spec = self.spec
        if spec.training is not None and (self.trials > 1 or spec.training.validations):
            yield spec.task, spec.validation_samples, self.replicates
        for task, samples in _evaluated(spec):
            yield task, samples, len(spec.seeds)

    def _scored_at_once(self, scored: tuple[Task, int, int]) -> int:
        """Scalars of the largest layer in one pass of scoring; no other is kept."""
        task, samples, replicates = scored
        items = max(1, EVALUATED_TOKENS // (replicates * task.sequence_length()))
        batch = self._scoring(task, min(samples, items), replicates)
        return max(self._pass(batch).held.values(), default=0)

    def _scoring(self, task: Task, items: int, replicates: int) -> _Batch:
        """Items that all replicates of a base read alike."""
        sharing = replicates // self.bases if self.bases else 1
        return _Batch(items, replicates, max(1, sharing), *_lengths(task))

    def _pass(self, batch: _Batch) -> _Pass:
        """One forward pass: what the model computes, and what the method adds."""
        if batch not in self._known_passes:
            model = _model_pass(self._route, batch)
            self._known_passes[batch] = model.with_part(self._adaptation(batch))
        return self._known_passes[batch]

    def _adaptation(self, batch: _Batch) -> _Part:
        """What the method itself adds to every token of a replicate."""
        if self.spec.method is None:
            return _Part(0, 0, follows=False)
        tokens, change = batch.replicates * batch.items * batch.tokens, self.change
        flops = tokens * change.extra_flops
        return _Part(flops, tokens * change.hooked, follows=True, trained=True)

    @cached_property
    def _route(self) -> _Route:
        change = self.change
        return _Route(self.spec.family, change.first, change.matrices, change.learned)

    @cached_property
    def _known_passes(self) -> dict[_Batch, _Pass]:
        """The forward passes that were counted already."""
        return {}


def _of_model(trained: Mapping[str, TensorShape], shape: ModelShape) -> _Change:
    """What is trained without a method: all of the model, or nothing of it."""
    return _Change(
        scalars=sum(tensor.size for tensor in trained.values()),
        tensors=len(trained),
        first=_first(trained, shape),
        matrices=frozenset(trained),
    )


@lru_cache(maxsize=1024)  # jobs of a study that differ in task or training alone share them
def _of_method(fitted: _Fitted) -> _Change:
    shape, method = family_shape(fitted.family), fitted.method
    trained = method.tensors(shape)
    copies = {name for name, tensor in trained.items() if tensor.initialiser.kind == "base"}
    return _Change(
        scalars=sum(tensor.size for tensor in trained.values()),
        tensors=len(trained) - len(copies),
        first=_first(method.kept().tensors(shape), shape),
        matrices=frozenset(trained[name].initialiser.source for name in copies),
        hooked=_hooked(trained.keys() - copies, shape),
        extra_flops=method.extra_flops_per_token(shape),
        learned=method.extra_context_tokens(),
    )


def _first(attached: Mapping[str, TensorShape], shape: ModelShape) -> int:
    return min((_place(shape, *named) for named in attached.items()), default=len(shape.sites))


def _hooked(own: Set[str], shape: ModelShape) -> int:
    touched = {
        site.name
        for name in own
        for site in _sites_in(shape, name)
        if site.kind in ("linear", "sublayer")
    }
    return sum(12 * shape.sites[name].outputs for name in touched)


@lru_cache(maxsize=1024)  # jobs of a study that differ in the method's size alone share them
def _model_pass(route: _Route, batch: _Batch) -> _Pass:
    """What one forward pass computes in the base model."""
    return _Pass.of(_model_parts(family_shape(route.family), route, batch))


def _model_parts(shape: ModelShape, route: _Route, batch: _Batch) -> Iterator[_Part]:
    """Yield the large parts of that pass, in forward order."""
    last = max((site.layer or 0 for site in shape.sites.values()), default=0)
    for index, site in enumerate(shape.sites.values()):
        follows = index > route.first
        own = _weight(shape, site) in route.matrices
        each = batch.replicates if follows or own else batch.replicates // batch.sharing
        rows = each * batch.items * _rows(site, last, batch)
        if site.kind == "linear":
            yield _product(site, rows, follows, own)
        elif site.kind == "attention_mix":
            yield _attention(shape, site, rows, batch.tokens + route.learned, follows)
        elif site.kind == "sublayer":  # norm and residual stream
            values = 4 * rows * site.outputs
            yield _Part(2 * values, values, follows, layer=site.layer)


def _product(site: Site, rows: int, follows: bool, own: bool) -> _Part:
    flops = 2 * rows * site.inputs * site.outputs
    # A bias or an activation keeps the result once more, the loss of the answer several times.
    copies = 2 if site.layer is not None else 12
    return _Part(flops, copies * rows * site.outputs, follows, own, site.layer)


def _attention(shape: ModelShape, site: Site, rows: int, keys: int, follows: bool) -> _Part:
    """Scores, softmax and weighted sums of `rows` queries over `keys` positions."""
    scores = max(shape.heads, 1) * rows * keys
    values = 3 * scores + rows * site.inputs
    return _Part(4 * rows * keys * site.inputs, values, follows, layer=site.layer)


def _weight(shape: ModelShape, site: Site) -> str:
    """The name of a linear site's matrix, or of the one that it is tied to."""
    weight = f"{site.name}.weight"
    return shape.tied.get(weight, weight)


def _rows(site: Site, last: int, batch: _Batch) -> int:
    """Positions of an item at which a site computes: the answer's once keys are made."""
    sees_all = site.layer is not None and site.layer < last
    makes_keys = site.name.endswith((".k", ".v"))
    return batch.tokens if sees_all or makes_keys else batch.answers


def _with_trials(spec: Trained, trials: int) -> Trained:
    """The same with so many trials a seed."""
    training = spec.training
    if trials == len(training.trials):
        return spec
    fewer = training.model_copy(update={"trials": training.trials[:trials]})
    return spec.model_copy(update={"training": fewer})


def _evaluated(spec: Resolved) -> Iterator[tuple[Task, int]]:
    """Every task that is scored at the end, with its items."""
    if not isinstance(spec, ResolvedTheory):
        for task in scored_tasks(spec):
            yield task, spec.evaluation_samples


def _lengths(task: Task) -> tuple[int, int]:
    """The positions of an item, and those that answer."""
    return task.sequence_length(), task.target_length()


def _place(shape: ModelShape, name: str, tensor: TensorShape) -> int:
    """The first of the sites, in forward order, at which a trained tensor can change anything."""
    sites = list(shape.sites.values())
    if tensor.role in ("norm_scale", "norm_shift"):
        below = f"{name.rsplit('.norm.', 1)[0]}."
        return next((i for i, s in enumerate(sites) if below.endswith(_block(s))), len(sites)) - 1
    found = _sites_in(shape, name)
    if not found:
        return -1  # the embedding of tokens or positions
    site = found[-1]
    if site.kind in ("attention_input", "attention_keys_values"):
        # Learned positions leave the content's own queries, keys and values alone.
        mixes = (
            i for i, s in enumerate(sites) if s.kind == "attention_mix" and s.layer == site.layer
        )
        return next(mixes, sites.index(site)) - 1
    return sites.index(site) - (site.kind == "embedding")


def _block(site: Site) -> str:
    return f"{site.name.rsplit('.', 1)[0]}."


def _sites_in(shape: ModelShape, name: str) -> list[Site]:
    """The sites whose dotted name is part of a tensor's, shortest first."""
    parts = name.split(".")
    spans = (".".join(parts[start:stop]) for stop in range(len(parts) + 1) for start in range(stop))
    return sorted(
        (shape.sites[span] for span in spans if span in shape.sites), key=lambda s: len(s.name)
    )
