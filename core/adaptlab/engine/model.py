"""A family's forward pass bound to base weights, a method and its trained tensors."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from adaptlab.engine.attachments import NOTHING_ATTACHED, Attachments
from adaptlab.engine.dropout import TrainingStep
from adaptlab.engine.plan import Plan
from adaptlab.engine.plugins import ENGINE_FAMILIES, ENGINE_FOLDS, ENGINE_METHODS, PatternRecorder
from adaptlab.plugins.family import Family
from adaptlab.plugins.task import Task


@dataclass(frozen=True)
class Model:
    """R replicates of an adapted (or, in pretraining, of a plain) model.

    `base` holds the frozen tensors [G, ...], empty in pretraining; `trained` the tensors
    [R, ...] that the job trains.
    """

    plan: Plan
    base: Mapping[str, Tensor]
    trained: Mapping[str, Tensor]

    @property
    def attachments(self) -> Attachments:
        """What the method hangs onto the base."""
        method = self.plan.method
        if method is None:
            return Attachments(weights=self.trained)
        return ENGINE_METHODS.get(method.name)(method, self.plan.shape, self.trained)

    def for_training(self) -> Self:
        """The same model in the precision that training computes in.

        Gradients reach this model's own tensors, which stay in the precision of the plan.
        """
        dtype = self.plan.training_dtype
        if dtype == self.plan.dtype:
            return self
        trained = {name: tensor.to(dtype) for name, tensor in self.trained.items()}
        return replace(self, base=self._rounded_base, trained=trained)

    @cached_property
    def _rounded_base(self) -> Mapping[str, Tensor]:
        return {name: tensor.to(self.plan.training_dtype) for name, tensor in self.base.items()}

    def logits(
        self,
        tokens: Tensor,
        rows: slice,
        recorder: PatternRecorder | None = None,
        training: TrainingStep | None = None,
        *,
        task: Task | None = None,
    ) -> Tensor:
        """Logits [R, B, rows, V] for tokens [R, B, T], with the adaptation attached.

        Tokens [A, B, T] that each R/A consecutive replicates share give the same logits for less;
        where nothing depends on the replicate, the logits are shared as well.
        `task` says where in the tokens the answer starts; the plan's own without it.
        """
        replicates = max((len(tensor) for tensor in self.trained.values()), default=1)
        attached = replace(self.attachments, replicates=replicates)
        return self._forward(tokens, attached, rows, recorder, training, task)

    def kept(self) -> Self:
        """The same model from what is stored of it: tensors that only help training are folded."""
        method = self.plan.method
        if method is None or method.name not in ENGINE_FOLDS.names():
            return self
        folded = ENGINE_FOLDS.get(method.name)(method, self.plan.shape, self.trained)
        return replace(self, plan=replace(self.plan, method=method.kept()), trained=folded)

    def base_logits(
        self,
        tokens: Tensor,
        rows: slice,
        recorder: PatternRecorder | None = None,
        *,
        task: Task | None = None,
    ) -> Tensor:
        """Logits for the same tokens with the adaptation detached."""
        return self._forward(tokens, NOTHING_ATTACHED, rows, recorder, None, task)

    def _forward(
        self,
        tokens: Tensor,
        attachments: Attachments,
        rows: slice,
        recorder: PatternRecorder | None,
        training: TrainingStep | None,
        task: Task | None,
    ) -> Tensor:
        forward, family = ENGINE_FAMILIES.get(self.plan.family.name), self.plan.family
        asked = (task or self.plan.task).input_length()
        attached = replace(attachments, answer_start=asked - 1)
        seen = shown(family, tokens, asked)
        return forward(family, self.base, seen, attached, rows, recorder, training)


def shown(family: Family, tokens: Tensor, asked: int) -> Tensor:
    """What a model is given of tokens [..., T]: without the answer, if it fills that in itself.

    The answer follows on `asked` tokens.
    """
    if not family.fills_in():
        return tokens
    mask = torch.full_like(tokens[..., asked:], family.shape().vocabulary)
    return torch.cat([tokens[..., :asked], mask], -1)
