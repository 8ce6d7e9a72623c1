"""What the checks of one job measure: a base model, and adaptations of it, in float64."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from adaptlab.engine.attachments import Attachments
from adaptlab.engine.checkpoint import read_tensors
from adaptlab.engine.counter import normal, stream
from adaptlab.engine.digits import make_items
from adaptlab.engine.evaluate import ITEM_SEED
from adaptlab.engine.model import shown
from adaptlab.engine.plan import as_digit_task
from adaptlab.engine.plugins import ENGINE_METHODS
from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.adaptation import AdapterFile
from adaptlab.plugins.family import Family
from adaptlab.plugins.task import Task
from adaptlab.plugins.theory_check import Measured
from adaptlab.theory.observation import FrozenBase

MOST_ELEMENTS = 2**24
"""Of attention patterns that are held at once: 128 MiB in float64."""


@dataclass(frozen=True)
class Adapted:
    """One replicate of an adaptation: the base that it started from and what is attached to it."""

    measured: Measured
    place: int
    seed: int
    base: FrozenBase
    trained: Mapping[str, Tensor]
    attached: Attachments

    def random(self) -> Attachments:
        """The same method with random tensors, each with the root mean square of the trained one.

        They depend on the seed and the place of the adaptation alone.
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
        """The first test items of its task, as the model is given them, [1, samples, T]."""
        return tokens_of(self.base.family, self.measured.task, samples)

    def parts(self, samples: int) -> Iterator[Tensor]:
        """The same tokens, in parts whose attention patterns are not too large together."""
        tokens = self.tokens(samples)
        shape, length = self.base.family.shape(), tokens.shape[-1]
        keys = 2 * length + self.measured.method.extra_context_tokens()
        each = shape.layers * (shape.heads or 64) * length * keys
        yield from tokens.split(max(1, MOST_ELEMENTS // each), 1)


@dataclass(frozen=True)
class Subject:
    """A base model, None where the checks need none, and the `adaptations` of it.

    `seed` draws what is random. Every replicate is read anew from its one of `files` when it is
    asked for, so that many of them need no more memory than one; `bases` are their base replicates
    by number.
    """

    base: FrozenBase | None
    seed: int
    adaptations: tuple[Measured, ...] = ()
    files: tuple[AdapterFile, ...] = ()
    bases: Mapping[int, FrozenBase] = field(default_factory=dict[int, FrozenBase])

    @cached_property
    def measured_base(self) -> FrozenBase:
        """The base model, of a check that declares that it needs one."""
        assert self.base is not None
        return self.base

    def by_adaptation(self) -> Iterator[tuple[str, tuple[AdapterFile, ...]]]:
        """The files of each adaptation, with what its reports are called beside others'.

        Raises `InvalidSpec` for an adaptation none of whose seeds could be trained.
        """
        for place, one in enumerate(self.adaptations):
            files = tuple(file for file in self.files if file.adaptation == place)
            if not files:
                detail = f"No seed of job {one.job} that is measured was trained."
                raise InvalidSpec(Problem("/adaptation", "nothing_trained", detail))
            yield ("" if len(self.adaptations) == 1 else f".adaptation-{place}"), files

    def load(self, file: AdapterFile) -> Adapted:
        """The replicate of a file; raises `BadCheckpoint`."""
        measured = self.adaptations[file.adaptation]
        base = self.bases[measured.base_replicates[measured.seeds.index(file.seed)]]
        shapes = measured.method.tensors(base.family.shape())
        found = read_tensors(file.path, {name: tensor.shape for name, tensor in shapes.items()})
        trained = {name: tensor.double().unsqueeze(0) for name, tensor in found.items()}
        return Adapted(
            measured=measured,
            place=file.adaptation,
            seed=file.seed,
            base=base,
            trained=trained,
            attached=_attached(measured, base, trained),
        )


def _attached(measured: Measured, base: FrozenBase, tensors: Mapping[str, Tensor]) -> Attachments:
    """The method of an adaptation with these tensors, on its base."""
    method = measured.method
    attached = ENGINE_METHODS.get(method.name)(method, base.family.shape(), tensors)
    return replace(attached, answer_start=measured.task.input_length() - 1)


def tokens_of(family: Family, task: Task, samples: int) -> Tensor:
    """The first test items of a task, as a model of the family is given them, [1, samples, T]."""
    digits = as_digit_task(task)
    items = make_items(digits, "test", torch.tensor([ITEM_SEED]), 0, samples)
    return shown(family, items.tokens, digits.input_length())
