"""Registries of the engine's halves of plug-ins, by declaration name."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from adaptlab.engine.models.attachments import Attachments
from adaptlab.engine.models.dropout import TrainingStep
from adaptlab.engine.models.key_cache import Begun
from adaptlab.engine.tensors import Float, Int
from adaptlab.plugins.registry import Registry
from adaptlab.plugins.shapes import ModelShape
from adaptlab.plugins.splits import Split

# `Any`, because each plug-in takes its declaration's class, narrower than Method or Task.
Attach = Callable[[Any, ModelShape, Mapping[str, Tensor]], Attachments]
"""From a method, the model's shape and the trainable tensors [R, ...] to what they attach."""

Fold = Callable[[Any, ModelShape, Mapping[str, Tensor]], dict[str, Tensor]]
"""From a method, the model's shape and the trained tensors [R, ...] to the tensors of `kept()`."""

Answer = Callable[[Any, Tensor, Tensor], Tensor]
"""From a task, inputs [..., input_length] and draws [...] to the answers [..., target_length].

A draw is a random integer below 2⁶³ per item, for tasks whose input alone does not determine the
answer.
"""


Cue = Callable[[Any, Tensor], Tensor]
"""From a task with cues and draws [...] to the token before each question [..., 1]."""

Questions = Callable[[Any, torch.device], Tensor]
"""From a task and a device to all its questions [W, input_length]."""

Draw = Callable[[Any, Split, Tensor, Tensor], Tensor]
"""From a task, a split, seeds [S, 1] and places [1, B] to questions [S, B, input_length]."""

Mask = Callable[[Any, Tensor, Tensor], Tensor | None]
"""From a task, targets [..., M] and the items' draws [...] to a mask of the counted targets.

None if all count.
"""


class PatternRecorder(Protocol):
    """A receiver of attention patterns, layer by layer."""

    def record(
        self,
        layer: int,
        pattern: Float[Tensor, "R B H T P+T"],
        relative: Float[Tensor, "R B H T T"],
    ) -> None:
        """Receive a layer's softmax over all keys and that over content."""
        ...


class Forward(Protocol):
    """The forward pass of a family."""

    def __call__(
        self,
        family: Any,
        weights: Mapping[str, Float[Tensor, "G ..."]],
        tokens: Int[Tensor, "R B T"],
        attachments: Attachments,
        rows: slice,
        recorder: PatternRecorder | None = None,
        training: TrainingStep | None = None,
    ) -> Float[Tensor, "R B Q V"]:
        """Return logits at the given rows for tokens.

        Other positions are skipped where that saves work, but a recorder receives the patterns of
        all. Without a `training` step there is no dropout.
        """
        ...


class Beginning(Protocol):
    """The first pass of decoding with a cache."""

    def __call__(
        self,
        family: Any,
        weights: Mapping[str, Float[Tensor, "G ..."]],
        tokens: Int[Tensor, "A B T"],
        attachments: Attachments,
        rows: slice,
        lengths: Int[Tensor, "A B"],
        room: int,
    ) -> Begun | None:
        """Read tokens, and keep what attention reads of them.

        Prompts are the first `lengths` tokens; with answers they have at most `room` positions.
        Logits are at the given rows, as in `Forward`. None where answers cannot be decoded from
        kept keys and values: where a later token changes what earlier positions give, and where
        attention is changed between certain tokens.
        """
        ...


TokenStates = Callable[[Any, Mapping[str, Tensor], Tensor], dict[str, Tensor]]
"""From a family, base weights [1, ...] and embeddings [1, P, C] to the activations of all layers.

The embeddings pass as virtual tokens, without content. `….input` [1, P, C] is what attention
reads, `….kv.keys` and `….kv.values` [1, P, K] what it makes of that. Rotary keys are turned as at
the positions 0 to P-1.
"""

ENGINE_METHODS: Registry[Attach] = Registry("engine method", "adaptlab.engine.methods")
ENGINE_FOLDS: Registry[Fold] = Registry("engine fold", "adaptlab.engine.methods")
"""Only methods that keep less than they train have one."""

ENGINE_SEARCHES: Registry[Any] = Registry("engine search", "adaptlab.engine.methods")
"""Classes of `TokenSearch`; only methods that search for tokens have one."""

ENGINE_TASKS: Registry[Answer] = Registry("engine task", "adaptlab.engine.tasks")
ENGINE_QUESTIONS: Registry[Questions] = Registry("engine questions", "adaptlab.engine.tasks")
"""Only tasks that take their questions from a list have them."""

ENGINE_DRAWS: Registry[Draw] = Registry("engine draws", "adaptlab.engine.tasks")
"""Only tasks whose questions are neither digits nor those of a list have them."""

ENGINE_MASKS: Registry[Mask] = Registry("engine mask", "adaptlab.engine.tasks")
"""Only tasks whose counted targets do not follow from the end token alone have one."""

ENGINE_CUES: Registry[Cue] = Registry("engine cue", "adaptlab.engine.tasks")
"""Only tasks that put a cue before their questions have one."""

ENGINE_FAMILIES: Registry[Forward] = Registry("engine family", "adaptlab.engine.families")
ENGINE_BEGINNINGS: Registry[Beginning] = Registry("engine beginning", "adaptlab.engine.families")
"""Only families that can decode with a cache have one."""

ENGINE_TOKEN_STATES: Registry[TokenStates] = Registry(
    "engine token states", "adaptlab.engine.families"
)
"""Only families with attention have one."""
