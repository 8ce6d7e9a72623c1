"""The plan of a resolved spec: its plug-ins, replicates and tensors."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import torch
from torch import Tensor

from adaptlab.engine.tensors import Float, Int
from adaptlab.errors import AdaptlabError
from adaptlab.plugins.dataset import WordList
from adaptlab.plugins.family import Family
from adaptlab.plugins.method import Method
from adaptlab.plugins.metric import Metric
from adaptlab.plugins.shapes import ModelShape, TensorShape
from adaptlab.plugins.task import Task
from adaptlab.specs.model_shapes import model_shape
from adaptlab.specs.quantised import quantised_sites
from adaptlab.specs.resolved import Resolved, ResolvedTheory, Trained, scored_tasks
from adaptlab.specs.spec import EarlyStopping, Precision, ResolvedTraining
from adaptlab.specs.stopping import stopping_metric
from adaptlab.text.source import TextSource
from adaptlab.text.tokeniser import Tokeniser


@dataclass(frozen=True)
class Plan:
    """The replicates of a job: r is seed r // trials, trial r % trials."""

    spec: Resolved
    shape: ModelShape
    own_task: Task | None
    method: Method | None
    device: torch.device
    dtype: torch.dtype
    lists: Mapping[str, WordList] = field(default_factory=dict[str, WordList])
    """The word lists of the tasks' datasets, by digest."""

    texts: Mapping[str, TextSource] = field(default_factory=dict[str, TextSource])
    """The records of the tasks' datasets, by digest."""

    tokeniser: Tokeniser | None = None
    """The base model's tokeniser, if the method starts with a text."""

    chosen: Precision | None = None
    """The precision that was chosen for `auto`; None before it is."""

    @property
    def precision(self) -> Precision:
        """The precision of the arithmetic, as chosen if the spec leaves it open."""
        return self.spec.precision if self.chosen is None else self.chosen

    @property
    def family(self) -> Family:
        """The family of the model."""
        return self.spec.family

    @property
    def trained(self) -> Trained:
        """The spec of a job that trains; `AdaptlabError` for any other."""
        if self.spec.training is None:
            raise AdaptlabError(f"A job of the kind {self.spec.kind} trains nothing.")
        return self.spec

    @property
    def training(self) -> ResolvedTraining:
        """The training's settings; `AdaptlabError` for a job that trains nothing."""
        return self.trained.training

    @property
    def early_stopping(self) -> EarlyStopping | None:
        """The rule by which the weights of the best validation are kept, if any.

        A method that keeps its best anyway never stops early by it.
        """
        rule, validations = self.training.early_stopping, self.training.validations
        if rule is not None or self.method is None or not self.method.keeps_best or not validations:
            return rule
        return EarlyStopping(patience=validations)

    @property
    def stopping_metric(self) -> Metric | None:
        """The metric that early stopping follows; None if it follows the loss."""
        return stopping_metric(self.training, self.task)

    @property
    def task(self) -> Task:
        """The task that is trained; `AdaptlabError` for an import."""
        if self.own_task is None:
            raise AdaptlabError("An imported model has no task of its own; name one to score.")
        return self.own_task

    @property
    def training_dtype(self) -> torch.dtype:
        """The dtype of steps; weights, optimiser and evaluation have `dtype`."""
        return torch.bfloat16 if self.precision == "bfloat16" else self.dtype

    @property
    def rounds_products(self) -> bool:
        """True if steps round the factors of matrix products to TF32."""
        return self.precision == "tf32"

    @property
    def quantised(self) -> frozenset[str]:
        """The base's matrices that are held in four bits."""
        sites = quantised_sites(self.shape) if self.spec.quantises else ()
        return frozenset(f"{site.name}.weight" for site in sites)

    @property
    def trials(self) -> int:
        """The number of trials per seed."""
        return len(self.spec.trials)

    @property
    def replicates(self) -> int:
        """The number of replicates: seeds times trials."""
        return len(self.spec.seeds) * self.trials

    @property
    def trained_shapes(self) -> dict[str, TensorShape]:
        """The declared trainable tensors."""
        return self.shape.tensors if self.method is None else self.method.trained(self.shape)

    @property
    def seeds(self) -> Int[Tensor, "S"]:
        """The seeds."""
        return torch.tensor(self.spec.seeds, dtype=torch.int64, device=self.device)

    @property
    def replicate_seeds(self) -> Int[Tensor, "R"]:
        """The seed of every replicate."""
        return self.seeds.repeat_interleave(self.trials)

    @property
    def replicate_rates(self) -> Float[Tensor, "R"]:
        """The peak learning rate of every replicate."""
        return self._of_trials([trial.learning_rate for trial in self.spec.trials])

    @property
    def replicate_decays(self) -> Float[Tensor, "R"]:
        """The weight decay of every replicate."""
        return self._of_trials([trial.weight_decay for trial in self.spec.trials])

    @property
    def replicate_scales(self) -> Float[Tensor, "R"]:
        """The factor on the random initial values of every replicate."""
        return self._of_trials([trial.initial_scale for trial in self.spec.trials])

    def _of_trials(self, values: list[float]) -> Tensor:
        return torch.tensor(values, dtype=self.dtype, device=self.device).repeat(
            len(self.spec.seeds)
        )

    def items_of(self, task: Task) -> int:
        """Return the test items of a task; `AdaptlabError` for theory checks."""
        if isinstance(self.spec, ResolvedTheory):
            raise AdaptlabError("Theory checks score no test items.")
        return task.at_most("test", self.spec.evaluation_samples)

    def shown_of(self, task: Task) -> int:
        """Return the test items of a task whose texts are recorded."""
        shown = 0 if isinstance(self.spec, ResolvedTheory) else self.spec.evaluation_shown
        return task.shown(shown)

    def evaluation_tasks(self) -> tuple[Task, ...]:
        """Return the tasks to score after training, including the base's own."""
        return tuple(_ready_task(task, self.lists, self.texts) for task in scored_tasks(self.spec))


def make_plan(
    spec: Resolved,
    device: str,
    lists: Mapping[str, WordList] = MappingProxyType({}),
    texts: Mapping[str, TextSource] = MappingProxyType({}),
    tokeniser: Tokeniser | None = None,
) -> Plan:
    """Return the plan of a resolved spec on a device.

    The device `auto` is a GPU if there is one.

    `lists` and `texts` are the words and the records of the datasets that its tasks need, by
    digest, and `tokeniser` reads the text with which a method starts.
    """
    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    return Plan(
        spec=spec,
        shape=model_shape(spec),
        own_task=None if spec.task is None else _ready_task(spec.task, lists, texts),
        method=spec.method,
        device=torch.device(chosen),
        dtype=torch.float64 if spec.precision == "float64" else torch.float32,
        lists=lists,
        texts=texts,
        tokeniser=tokeniser,
    )


def _ready_task(task: Task, lists: Mapping[str, WordList], texts: Mapping[str, TextSource]) -> Task:
    """Return the task with the content of its datasets, ready for items."""
    return task.with_words(lists).with_texts(texts)
