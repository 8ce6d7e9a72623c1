"""The engine's halves of methods, tasks and families, found by the name of the declaration."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from adaptlab.engine.attachments import Attachments
from adaptlab.engine.dropout import TrainingStep
from adaptlab.plugins.registry import Registry
from adaptlab.plugins.shapes import ModelShape

# The declaration's own class is narrower than Method or Task; each file names the one it serves.
Attach = Callable[[Any, ModelShape, Mapping[str, Tensor]], Attachments]
"""From a method, the model's shape and the trainable tensors [R, ...] to what they attach."""

Fold = Callable[[Any, ModelShape, Mapping[str, Tensor]], dict[str, Tensor]]
"""From a method, the model's shape and the trained tensors [R, ...] to those of its `kept()`."""

Answer = Callable[[Any, Tensor, Tensor], Tensor]
"""From a task and inputs [..., input_length] to the right answers [..., target_length].

A random whole number [...] below 2⁶³ for every item comes with them, for a task whose answer the
input alone does not decide.
"""


Questions = Callable[[Any, torch.device], Tensor]
"""From a task and a device to all its questions [W, input_length], which nothing else decides."""

Mask = Callable[[Any, Tensor, Tensor], Tensor | None]
"""From a task, targets [..., M] and the items' random numbers [...] to the targets that count.

None where all do.
"""


class PatternRecorder(Protocol):
    """Takes the attention patterns of one layer."""

    def record(self, layer: int, pattern: Tensor, relative: Tensor) -> None:
        """Take a layer's softmax over all keys and its softmax over content alone.

        `pattern` is [R, B, H, T, P+T], `relative` is [R, B, H, T, T].
        """
        ...


class Forward(Protocol):
    """The forward pass of a family."""

    def __call__(
        self,
        family: Any,
        weights: Mapping[str, Tensor],
        tokens: Tensor,
        attachments: Attachments,
        rows: slice,
        recorder: PatternRecorder | None = None,
        training: TrainingStep | None = None,
    ) -> Tensor:
        """Logits [R, B, rows, V] for tokens [R, B, T] from weights [G, ...].

        Only the positions in `rows` are computed where that saves work; a recorder gets the
        patterns of all positions. Dropout, where a family has it, acts in the `training` step
        given, and not at all without one.
        """
        ...


ENGINE_METHODS: Registry[Attach] = Registry("engine method", "adaptlab.engine.methods")
ENGINE_FOLDS: Registry[Fold] = Registry("engine fold", "adaptlab.engine.methods")
"""Only of methods that keep less than they train."""

ENGINE_TASKS: Registry[Answer] = Registry("engine task", "adaptlab.engine.tasks")
ENGINE_QUESTIONS: Registry[Questions] = Registry("engine questions", "adaptlab.engine.tasks")
"""Only of tasks that take their questions from a list."""

ENGINE_MASKS: Registry[Mask] = Registry("engine mask", "adaptlab.engine.tasks")
"""Only of tasks in which the end token alone does not tell which targets count."""

ENGINE_FAMILIES: Registry[Forward] = Registry("engine family", "adaptlab.engine.families")
