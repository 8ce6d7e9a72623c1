"""Exact-match scores on fresh items.

Greedy generation answers an item correctly exactly if the model, given the correct answer so far,
ranks the correct token first at every answer position. So one forward pass scores all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.items.item_texts import ItemTexts, item_texts
from adaptlab.engine.items.items import Items
from adaptlab.engine.items.task_items import right_places, scored_items
from adaptlab.engine.kernels.grouped import lifted
from adaptlab.engine.measuring.drawn_tokens import DrawnBy
from adaptlab.engine.measuring.phase_progress import Advance, untold
from adaptlab.engine.measuring.token_by_token import Decoding, IsOver
from adaptlab.engine.models.model import Model
from adaptlab.engine.tensors import Bool, Float, Int
from adaptlab.plugins.task import Task
from adaptlab.records.facts import MOST_CONFUSED
from adaptlab.runs.events import Confusion, Split
from adaptlab.specs.scoring_pass import items_at_once, items_kept_at_once


@dataclass(frozen=True)
class Judged:
    """Answers to the first items of a split.

    Attributes:
        right: a mask of the correct ones.
        given: the places of the chosen labels, None if the task does not choose from a list.
        expected: the places of the right labels, likewise.
        losses: the cross-entropy of all counted tokens of each item in nats; None if it was not
            asked for.
        counted: the counted tokens of each item, likewise.
        ahead: how far the best of an item's own choices is ahead; None without such choices.
        told: the tokens of decoded answers without the end, by replicate, item and sample; empty if
            they were not asked for.
    """

    right: Bool[Tensor, "R N"]
    given: Int[Tensor, "R N"] | None = None
    expected: Int[Tensor, "N"] | None = None
    losses: Float[Tensor, "R N"] | None = None
    counted: Float[Tensor, "N"] | None = None
    ahead: Float[Tensor, "R N"] | None = None
    told: Sequence[Sequence[Sequence[list[int]]]] = ()

    @property
    def loss(self) -> Float[Tensor, "R"] | None:
        """The mean loss in nats per token; None if it was not asked for."""
        if self.losses is None or self.counted is None:
            return None
        return self.losses.sum(1) / self.counted.sum()

    def rows(self, rows: Sequence[int]) -> "Judged":
        """Return the answers of some replicates, in this order."""
        given = None if self.given is None else self.given[rows]
        losses = None if self.losses is None else self.losses[rows]
        told = [self.told[row] for row in rows] if self.told else ()
        ahead = None if self.ahead is None else self.ahead[rows]
        return Judged(self.right[rows], given, self.expected, losses, self.counted, ahead, told)


@torch.no_grad()
def judged(
    model: Model,
    task: Task,
    split: Split,
    samples: int,
    replicates: int,
    *,
    attached: bool = True,
    with_loss: bool = True,
    with_answers: bool = False,
    seeds: Sequence[int] = (),
    advance: Advance = untold,
) -> Judged:
    """Return the answers to the first `samples` items.

    Without `attached`, the base model answers alone. Without `with_loss`, no loss is computed. If
    `with_answers`, those that are not chosen from a list are decoded, as are those of a task that
    judges them by their texts; `seeds`, by replicate, decide what is drawn, and are 0 by default.
    `advance` is told how many answers are judged, after each pass.
    """
    shape, device = (replicates, samples), model.plan.device
    rule = DrawnBy(task.answer_decoding(), seeds or [0] * replicates)
    expected = right_places(task, split, samples)
    # A mask of the right ones, or the places of the chosen ones if the task has a list.
    found = torch.zeros(shape, dtype=torch.bool if expected is None else torch.int64, device=device)
    losses = torch.zeros(shape, dtype=torch.float64, device=device) if with_loss else None
    counted = None if losses is None else torch.zeros_like(losses[0])
    ahead = torch.full(shape, torch.nan, dtype=torch.float64)

    def answer(items: Items) -> Tensor:
        return model.answers(items, task=task, attached=attached)

    decodes = (with_answers or task.answer_judge() is not None) and expected is None
    texts = item_texts(task, split) if decodes else None
    told: list[list[list[list[int]]]] = [[[] for _ in range(samples)] for _ in range(replicates)]
    for places, items in scored_parts(model, task, split, samples, replicates, keeps=decodes):
        if texts is not None:
            begun = model.begun(items, texts.room(places), task=task, attached=attached)
            decoding = Decoding(texts, places, items, answer, begun, rule, _is_over(task, texts))
            del begun  # so that what is kept goes before the next items are read
            logits, found[:, places] = _decoded(decoding, told, task)
            del decoding
        elif expected is None:
            logits = answer(items)
            found[:, places] = lifted(items.right(logits, answer), replicates)
        else:
            logits = answer(items) if with_loss else None
            chosen, lead = items.compared(answer, logits)
            found[:, places] = lifted(chosen, replicates)
            _keep_lead(ahead, places, lead)
        if losses is not None and counted is not None and logits is not None:
            losses[:, places] = lifted(items.item_losses(logits, answer), replicates)
            counted[places] = items.counted_tokens().double()
        advance(len(places) * replicates)
    return (
        Judged(found, losses=losses, counted=counted, told=told if decodes else ())
        if expected is None
        else Judged(found == expected.to(device), found, expected, losses, counted, _known(ahead))
    )


def _keep_lead(
    ahead: Float[Tensor, "R N"], places: Int[Tensor, "B"], lead: Float[Tensor, "A B"] | None
) -> None:
    """Keep how far the best choices of some items are ahead, if it is known."""
    if lead is not None:
        ahead[:, places] = lifted(lead, len(ahead)).double().cpu()


def _known(ahead: Float[Tensor, "R N"]) -> Float[Tensor, "R N"] | None:
    return None if bool(ahead.isnan().any()) else ahead


def _decoded(
    decoding: Decoding, told: Sequence[list[list[list[int]]]], task: Task
) -> tuple[Float[Tensor, "A B M V"], Bool[Tensor, "R B"]]:
    """Decode answers into `told`, by replicate and item of the split.

    Returns the logits of the right answers, and a mask of the items that are answered correctly.
    """
    logits = decoding.logits
    right = lifted(decoding.items.right(logits, decoding.answer), len(told))
    # What is right by a further answer is decoded, because that may be any of several.
    known = lifted(Items.right(decoding.items, logits), len(told))
    if task.answer_judge() is not None:
        known = torch.zeros_like(known)  # an answer can go on behind its tokens
    for row, answers in zip(told, decoding.told(logits.argmax(-1), known), strict=True):
        for place, tokens in zip(decoding.places.tolist(), answers, strict=True):
            row[place] = tokens
    if task.answer_judge() is not None:
        right = _judged_texts(decoding, told, task).to(right.device)
    return logits, right


def _judged_texts(
    decoding: Decoding, told: Sequence[list[list[list[int]]]], task: Task
) -> Bool[Tensor, "R B"]:
    """Return a mask of the items whose first sample is right as a text."""
    judge, texts = task.answer_judge(), decoding.texts
    assert judge is not None
    places: list[int] = decoding.places.tolist()
    return torch.tensor(
        [
            [
                judge.is_right(judge.cut(texts.written(row[place][0])), texts.targets(place))
                for place in places
            ]
            for row in told
        ]
    )


def _is_over(task: Task, texts: ItemTexts) -> IsOver | None:
    """Return a function that looks for stop sequences, None without them."""
    if task.answer_judge() is None and not task.answer_decoding().stop:
        return None

    def is_over(tokens: Sequence[int]) -> bool:
        text = texts.written(tokens)
        return texts.is_stopped(tokens) or task.without_stop(text) != text

    return is_over


def confusion_of(task: Task, answers: Judged, row: int) -> Confusion | None:
    """Return the counts of labels of one replicate.

    None unless the task has few labels.
    """
    labels = tuple(task.listed_answers())
    if answers.given is None or answers.expected is None or not 2 <= len(labels) <= MOST_CONFUSED:
        return None
    cells = answers.expected * len(labels) + answers.given[row].cpu()
    counts: list[list[int]] = (
        cells.bincount(minlength=len(labels) ** 2).view(len(labels), -1).tolist()
    )
    return Confusion(labels=labels, counts=tuple(map(tuple, counts)))


def scored_parts(
    model: Model, task: Task, split: Split, samples: int, replicates: int, *, keeps: bool = False
) -> Iterator[tuple[Tensor, Items]]:
    """Yield items [1, B, ...] with their places, as many as fit in one pass.

    If the pass `keeps` keys and values, they have to fit as well.
    """
    shape, device = model.plan.shape, model.plan.device
    before = 0 if model.context is None else model.context.longest
    lengths = before + task.sequence_length(), task.target_length()
    at_once = items_at_once(shape, replicates, *lengths)
    if keeps:
        answers = replicates * task.answer_decoding().samples
        at_once = min(at_once, items_kept_at_once(shape, answers, lengths[0]))
    yield from scored_items(task, split, samples, at_once, device)
