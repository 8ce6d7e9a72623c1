"""The subject of a job's theory checks, in float64."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from adaptlab.engine.items.digits import make_items
from adaptlab.engine.items.task_items import ITEM_SEED, as_digit_task
from adaptlab.engine.kernels.counter import normal, stream
from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.models.checkpoint import read_tensors
from adaptlab.engine.models.model import shown
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.engine.training.decomposed import companions_of
from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.family import Family
from adaptlab.plugins.task import Task
from adaptlab.plugins.theory_check import MeasuredAdaptation
from adaptlab.runs.inputs import PlacedAdapterFile
from adaptlab.theory.observation import FrozenBase

MOST_ELEMENTS = 2**24
"""Elements of attention patterns in memory at once: 128 MiB in float64."""


@dataclass(frozen=True)
class Adapted:
    """One replicate of an adaptation: its base and its attachments."""

    measured: MeasuredAdaptation
    place: int
    seed: int
    base: FrozenBase
    trained: Mapping[str, Tensor]
    attached: Attachments

    def random(self) -> Attachments:
        """Return the method with random tensors of the trained root mean squares.

        They depend only on the seed and the adaptation's place.
        """
        drawn = {
            name: tensor.square().mean().sqrt()
            * normal(
                torch.tensor(stream(f"control/{self.place}/{name}")),
                torch.tensor(self.seed),
                torch.arange(tensor.numel()),
            ).view_as(tensor)
            for name, tensor in self.trained.items()
        }
        return _attached(self.measured, self.base, drawn)

    @property
    def last_of_question(self) -> int:
        """The content position that produces the first answer token."""
        return self.measured.task.input_length() - 1

    def tokens(self, samples: int) -> Tensor:
        """Return the model's input for test items, [1, samples, T]."""
        return tokens_of(self.base.family, self.measured.task, samples)

    def parts(self, samples: int) -> Iterator[Tensor]:
        """Yield these tokens in parts whose attention patterns fit in memory."""
        tokens = self.tokens(samples)
        shape, length = self.base.family.shape(), tokens.shape[-1]
        keys = 2 * length + self.measured.method.extra_context_tokens()
        elements = shape.layers * (shape.heads or 64) * length * keys
        yield from tokens.split(max(1, MOST_ELEMENTS // elements), 1)


@dataclass(frozen=True)
class Subject:
    """The measured replicates of a base model, and the adaptations.

    There are no replicates if the checks need no base. `seed` seeds all draws. The replicate of an
    adaptation is read from its file each time it is loaded, so that many need no more memory than
    one. `bases` are their base replicates by number.
    """

    replicates: tuple[FrozenBase, ...]
    seed: int
    adaptations: tuple[MeasuredAdaptation, ...] = ()
    files: tuple[PlacedAdapterFile, ...] = ()
    bases: Mapping[int, FrozenBase] = field(default_factory=dict[int, FrozenBase])

    @property
    def measured_base(self) -> FrozenBase:
        """The first replicate, for a check that declares that it needs a base."""
        return self.replicates[0]

    def by_adaptation(self) -> Iterator[tuple[str, tuple[PlacedAdapterFile, ...]]]:
        """Yield each adaptation's files, with a suffix for report names.

        Raises:
            InvalidSpec: if no seed of an adaptation could be trained.
        """
        for place, adaptation in enumerate(self.adaptations):
            files = tuple(file for file in self.files if file.adaptation == place)
            if not files:
                detail = f"No seed of job {adaptation.job} that is measured was trained."
                raise InvalidSpec(Problem("/adaptation", "nothing_trained", detail))
            yield ("" if len(self.adaptations) == 1 else f".adaptation-{place}"), files

    def load(self, file: PlacedAdapterFile) -> Adapted:
        """Load the replicate of a file; may raise `BadCheckpoint`."""
        measured = self.adaptations[file.adaptation]
        base = self.bases[measured.base_replicates[measured.seeds.index(file.seed)]]
        shapes = measured.method.tensors(base.family.shape())
        tensors = read_tensors(
            file.tensors.path, {name: tensor.shape for name, tensor in shapes.items()}
        )
        trained = {name: tensor.double().unsqueeze(0) for name, tensor in tensors.items()}
        return Adapted(
            measured=measured,
            place=file.adaptation,
            seed=file.seed,
            base=base,
            trained=trained,
            attached=_attached(measured, base, trained),
        )


def _attached(
    measured: MeasuredAdaptation, base: FrozenBase, tensors: Mapping[str, Tensor]
) -> Attachments:
    """Attach an adaptation's method with these tensors to its base."""
    method = measured.method
    shape = base.family.shape()
    own = {**tensors, **companions_of(method, shape, base.weights)}
    attached = ENGINE_METHODS.get(method.name)(method, shape, own)
    return replace(attached, answer_start=base.family.answer_start(measured.task.input_length()))


def tokens_of(family: Family, task: Task, samples: int) -> Tensor:
    """Return a family's input for a task's test items, [1, samples, T]."""
    digits = as_digit_task(task)
    items = make_items(digits, "test", torch.tensor([ITEM_SEED]), 0, samples)
    return shown(family, items.tokens, digits.input_length())
