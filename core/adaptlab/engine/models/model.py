"""A forward pass bound to base weights, method and trained tensors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from adaptlab.engine.items.items import Items
from adaptlab.engine.models import nf4
from adaptlab.engine.models.attachments import NOTHING_ATTACHED, Attachments
from adaptlab.engine.models.context import Context, answering_rows
from adaptlab.engine.models.dropout import TrainingStep
from adaptlab.engine.models.key_cache import Begun
from adaptlab.engine.models.label_words import LabelWords
from adaptlab.engine.models.nearest import NearestContext
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.plugins import (
    ENGINE_BEGINNINGS,
    ENGINE_FAMILIES,
    ENGINE_FOLDS,
    ENGINE_METHODS,
    PatternRecorder,
)
from adaptlab.engine.tensors import Float, Int
from adaptlab.plugins.family import Family
from adaptlab.plugins.shapes import HEAD_SITE
from adaptlab.plugins.task import Task
from adaptlab.specs.scoring_pass import items_at_once


@dataclass(frozen=True)
class Model:
    """R replicates of an adapted model, or of a plain one in pretraining.

    `base` holds the frozen tensors, empty in pretraining; `trained` those that the job trains.
    `context` has tokens that the adapted model reads before every item of the job's own task. With
    `recomputes`, a training step keeps little more than the inputs of blocks.
    """

    plan: Plan
    base: Mapping[str, Float[Tensor, "G ..."]]
    trained: Mapping[str, Float[Tensor, "R ..."]]
    context: Context | NearestContext | None = None
    recomputes: bool = False

    @property
    def attachments(self) -> Attachments:
        """The method's attachments to the base."""
        method = self.plan.method
        if method is None:
            return Attachments(weights=self.trained)
        attached = ENGINE_METHODS.get(method.name)(method, self.plan.shape, self._of_method)
        return replace(attached, weights={**attached.weights, **self._class_head})

    @property
    def _class_head(self) -> dict[str, Tensor]:
        """The trained head for classes; empty if there is none."""
        head = self.plan.shape.class_head
        return {name: tensor for name, tensor in self.trained.items() if name in head}

    @property
    def _of_method(self) -> dict[str, Tensor]:
        """The trained tensors of the method itself, and their frozen companions."""
        shape, method = self.plan.shape, self.plan.method
        own = {n: tensor for n, tensor in self.trained.items() if n not in shape.class_head}
        frozen = () if method is None else method.companions(shape)
        return own | {name: self.base[name] for name in frozen}

    def rows(self, rows: Sequence[int]) -> Self:
        """Return the model of some replicates, in this order."""
        chosen = list(rows)
        return replace(
            self,
            base={name: t if len(t) == 1 else t[chosen] for name, t in self.base.items()},
            trained={name: tensor[chosen] for name, tensor in self.trained.items()},
            context=None if self.context is None else self.context.rows(chosen),
        )

    def for_training(self) -> Self:
        """Return the model in the precision that training computes in.

        Gradients reach this model's own tensors, which keep the precision of the plan.
        """
        dtype = self.plan.training_dtype
        if dtype == self.plan.dtype:
            return self
        trained = {name: tensor.to(dtype) for name, tensor in self.trained.items()}
        return replace(self, base=self._rounded_base, trained=trained)

    @cached_property
    def _rounded_base(self) -> Mapping[str, Tensor]:
        return nf4.in_dtype(self.base, self.plan.training_dtype)

    def logits(
        self,
        tokens: Int[Tensor, "A B T"],
        rows: slice,
        recorder: PatternRecorder | None = None,
        training: TrainingStep | None = None,
        *,
        task: Task | None = None,
        answer_rows: Int[Tensor, "A B M"] | None = None,
        read: Int[Tensor, "A B"] | None = None,
        label_words: LabelWords | None = None,
    ) -> Float[Tensor, "R B Q V"]:
        """Return logits at the given rows with the adaptation attached.

        A row is that of the token before the one it predicts, wherever the model predicts it.
        Each row of tokens may serve R/A consecutive replicates, which saves time. If nothing
        depends on the replicate, the logits have A rows as well. `task`, by default the plan's own,
        determines where in the tokens the answer starts. With `answer_rows`, only these rows of
        each item have logits; they are counted from the first of `rows`. `read` is the number of
        tokens of each item without padding, for a task that is answered by a head for classes or
        by filling in masks behind texts.
        `label_words` are those of demonstrations among the tokens.
        """
        attached = replace(
            self.attachments,
            replicates=self._replicates,
            answer_rows=answer_rows,
            read=read,
            label_words=label_words,
            recomputes=self.recomputes,
        )
        return self._forward(tokens, attached, rows, recorder, training, task)

    def answers(
        self,
        items: Items,
        training: TrainingStep | None = None,
        *,
        task: Task | None = None,
        attached: bool = True,
    ) -> Float[Tensor, "R B M V"]:
        """Return logits of the items' answers.

        Without `attached`, the base model answers alone; a head for classes that was never trained
        prefers none, whatever the model computes, so nothing is computed.
        """
        if not attached and self.plan.shape.classes is not None:
            shape = (*items.targets.shape, self.plan.shape.classes)
            return torch.zeros(shape, dtype=self.plan.dtype, device=items.tokens.device)
        items, words = self._in_context(items, task, attached=attached)
        tokens, rows, each, read = items.tokens, items.span, items.answer_rows, items.read
        if not attached:
            return self.base_logits(tokens, rows, task=task, answer_rows=each, read=read)
        return self.logits(
            tokens, rows, None, training, task=task, answer_rows=each, read=read, label_words=words
        )

    def begun(
        self,
        items: Items,
        room: Int[Tensor, "B"],
        *,
        task: Task | None = None,
        attached: bool = True,
    ) -> Begun | None:
        """Read items, whose answers are drafts, and have up to `room` tokens.

        Without `attached`, the base model answers alone. None if the answers cannot be decoded from
        kept keys and values; see `plugins.Beginning`.
        """
        family, scored = self.plan.family, task or self.plan.task
        is_fixed = items.read is not None or scored.classes() is not None or family.fills_in()
        if is_fixed or family.name not in ENGINE_BEGINNINGS.names():
            return None
        items, _ = self._in_context(items, task, attached=attached)
        lengths = answering_rows(items)[..., 0] + 1
        longest = int((lengths + room.to(lengths.device)).max()) - 1  # the last token is not read
        attachments = self.attachments if attached else NOTHING_ATTACHED
        attachments = replace(
            attachments,
            replicates=self._replicates if attached else 1,
            answer_start=family.answer_start(scored.input_length()),
            answer_rows=items.answer_rows,
        )
        begin = ENGINE_BEGINNINGS.get(family.name)
        return begin(family, self.base, items.tokens, attachments, items.span, lengths, longest)

    def _in_context(
        self, items: Items, task: Task | None, *, attached: bool
    ) -> tuple[Items, LabelWords | None]:
        """Return items behind their context, and the label words in it."""
        is_own = task is None or task == self.plan.own_task
        context = self.context if attached and is_own else None
        if context is None:
            return items, None
        if isinstance(context, Context):
            items = context.before(items)
            return items, context.label_words(items)
        return context.before(items, self.question_states), None

    @property
    def _replicates(self) -> int:
        return max((len(tensor) for tensor in self.trained.values()), default=1)

    @torch.no_grad()
    def question_states(self, items: Items) -> Float[Tensor, "G N C"]:
        """Return the base model's states where the answers of items begin.

        They are those that its head reads. Where answers begin does not depend on the answers.
        """
        last = answering_rows(items)[..., 0]
        width = self.plan.shape.sites[HEAD_SITE].inputs
        reading = torch.eye(width, dtype=self.plan.dtype, device=items.tokens.device).unsqueeze(0)
        at_once = items_at_once(self.plan.shape, len(last), items.tokens.shape[-1], 1)
        weights = {f"{HEAD_SITE}.weight": reading}
        if f"{HEAD_SITE}.bias" in self.base:
            weights[f"{HEAD_SITE}.bias"] = torch.zeros_like(reading[:, 0])
        states: list[Tensor] = []
        for start in range(0, last.shape[1], at_once):
            some = slice(start, start + at_once)
            rows = last[:, some].unsqueeze(-1)
            attached = Attachments(weights=weights, answer_rows=rows)
            tokens = items.tokens[:, some]
            states.append(self._forward(tokens, attached, slice(None), None, None, None)[:, :, 0])
        return torch.cat(states, 1)

    def kept(self) -> Self:
        """Return the model as stored: tensors that only help training folded."""
        method = self.plan.method
        if method is None or method.name not in ENGINE_FOLDS.names():
            return self
        folded = ENGINE_FOLDS.get(method.name)(method, self.plan.shape, self._of_method)
        folded = {**folded, **self._class_head}
        return replace(self, plan=replace(self.plan, method=method.kept()), trained=folded)

    def base_logits(
        self,
        tokens: Int[Tensor, "A B T"],
        rows: slice,
        recorder: PatternRecorder | None = None,
        *,
        task: Task | None = None,
        answer_rows: Int[Tensor, "A B M"] | None = None,
        read: Int[Tensor, "A B"] | None = None,
    ) -> Float[Tensor, "R B Q V"]:
        """Return logits with the adaptation detached."""
        attached = replace(NOTHING_ATTACHED, answer_rows=answer_rows, read=read)
        return self._forward(tokens, attached, rows, recorder, None, task)

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
        task = task or self.plan.task
        asked = task.input_length()
        has_classes = task.classes() is not None
        start = family.answer_start(asked)
        attached = replace(attachments, answer_start=start, has_classes=has_classes)
        if has_classes:
            return forward(family, self.base, tokens, attached, rows, recorder, training)
        # Texts, whose answers start at different places, have their masks already.
        seen = tokens if task.needs_tokeniser else shown(family, tokens, asked)
        if family.predicts_in_place():
            rows = slice((rows.start or 0) + 1, None if rows.stop is None else rows.stop + 1)
        return forward(family, self.base, seen, attached, rows, recorder, training)


def shown(family: Family, tokens: Int[Tensor, "*A T"], asked: int) -> Int[Tensor, "*A T2"]:
    """Return tokens, with the answer masked if the model fills it in.

    The answer follows `asked` tokens.
    """
    if not family.fills_in():
        return tokens
    masked = family.content_length(tokens.shape[-1]) - asked
    mask = tokens.new_full((*tokens.shape[:-1], masked), family.mask_token())
    return torch.cat([tokens[..., :asked], mask], -1)
