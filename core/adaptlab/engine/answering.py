"""Answers that models give to the first test items, as text."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.evaluate import scored_parts
from adaptlab.engine.grouped import lifted
from adaptlab.engine.item_texts import ItemTexts, expected_tokens, item_texts, without_end
from adaptlab.engine.items import Items
from adaptlab.engine.model import Model
from adaptlab.engine.tensors import Bool, Float, Int
from adaptlab.engine.token_by_token import token_by_token
from adaptlab.measurements.results import AnswersGiven, AnswerText, ItemsShown, ReplicateResult
from adaptlab.plugins.task import Task

Given = list[list[AnswerText]]
"""Answers by replicate and item."""


def shown_answers(
    model: Model, chosen: Sequence[ReplicateResult]
) -> Iterator[ItemsShown | AnswersGiven]:
    """Yield the shown items of every scored task, then the answers to them.

    `chosen` are the rows of the model, of which the first answers. As in scoring, an adaptation
    answers twice: attached and detached.
    """
    count, chosen = model.plan.evaluation_shown, chosen[:1]
    if not count or not chosen:
        return
    model = model.rows([0])
    for place, task in enumerate(model.plan.evaluation_tasks()):
        texts = item_texts(task)
        document = task.model_dump(mode="json")
        yield ItemsShown(task_place=place, task=document, items=texts.shown(count))
        given = given_answers(model, task, count, len(chosen))
        yield from _reports(place, chosen, given, attached=True)
        if model.plan.method is not None:
            alone = replace(model, trained={})
            given = given_answers(alone, task, count, len(chosen), attached=False)
            yield from _reports(place, chosen, given, attached=False)


def _reports(
    task_place: int, chosen: Sequence[ReplicateResult], given: Given, *, attached: bool
) -> Iterator[AnswersGiven]:
    for result, answers in zip(chosen, given, strict=True):
        yield AnswersGiven(
            task_place=task_place,
            replicate=result.replicate,
            seed=result.seed,
            attached=attached,
            answers=tuple(answers),
        )


@torch.no_grad()
def given_answers(
    model: Model, task: Task, count: int, replicates: int, *, attached: bool = True
) -> Given:
    """Return the answers to the first `count` test items, by replicate.

    Where a task chooses from a list, this is the choice that scoring compares, otherwise the answer
    of greedy decoding. Without `attached`, the base model answers alone.
    """
    texts = item_texts(task)
    given: dict[tuple[int, int], AnswerText] = {}
    decoding = Decoding(model, task, texts, attached=attached)
    for places, items in scored_parts(model, task, "test", count, replicates):
        written = _answers(decoding, places, items)
        for row in range(replicates):
            # Replicates whose answers cannot differ share rows, as in `lifted`.
            row_of_all = row * len(written) // replicates
            for place, text in zip(places.tolist(), written[row_of_all], strict=True):
                given[row, place] = text
    return [[given[row, place] for place in range(count)] for row in range(replicates)]


def _answers(decoding: "Decoding", places: Tensor, items: Items) -> Given:
    texts = decoding.texts
    choice = items.choose(decoding.answer)
    if choice is not None:
        return [
            [texts.choice(item, place) for item, place in zip(places.tolist(), row, strict=True)]
            for row in choice.tolist()
        ]
    is_right = items.right(decoding.answer(items))
    answers = decoding.tokens(places, items, is_right)
    return [[texts.answer(tokens) for tokens in row] for row in answers]


@dataclass(frozen=True)
class Decoding:
    """Greedy decoding of answers to items of one split of a task.

    Without `attached`, the base model answers alone.
    """

    model: Model
    task: Task
    texts: ItemTexts
    attached: bool = True

    def answer(self, items: Items) -> Float[Tensor, "A B M V"]:
        """Return the logits of items' answers."""
        return self.model.answers(items, task=self.task, attached=self.attached)

    def tokens(
        self, places: Int[Tensor, "B"], items: Items, is_right: Bool[Tensor, "R B"]
    ) -> list[list[list[int]]]:
        """Return the tokens of answers without the end, by row and item.

        `places` are those of the items in the split of `texts`. Right answers are known, and not
        decoded.
        """
        texts, wrong = self.texts, (~is_right).any(0).nonzero().flatten()
        expected = [expected_tokens(items, place) for place in range(len(places))]
        told = [[without_end(each, texts.end) for each in expected] for _ in is_right]
        if not len(wrong):
            return told
        room = texts.room(places[wrong.cpu()])
        asked = items.each(lambda tensor: tensor[:, wrong])
        begun = self.model.begun(asked, room, task=self.task, attached=self.attached)
        if begun is None:
            draft = functional.pad(asked.targets, (0, texts.width - asked.targets.shape[-1]))
            logits_of = partial(self._logits_of_drafts, places[wrong.cpu()], asked)
            tokens = greedy(logits_of, draft, room, texts.end)
        else:
            tokens = token_by_token(begun, room, texts.end, ~is_right[:, wrong])
        rows: list[list[list[int]]] = lifted(tokens, len(told)).tolist()
        for row, answers in enumerate(rows):
            for place, answer, most in zip(wrong.tolist(), answers, room.tolist(), strict=True):
                if not is_right[row, place]:
                    told[row][place] = without_end(answer[:most], texts.end)
        return told

    def _logits_of_drafts(
        self, places: Tensor, items: Items, answers: Tensor, some: Tensor
    ) -> Tensor:
        asked = items.each(lambda tensor: tensor[:, some])
        return self.answer(self.texts.drafted(places[some.cpu()], asked, answers))


def greedy(
    logits_of: Callable[[Int[Tensor, "A C M"], Int[Tensor, "C"]], Tensor],
    draft: Int[Tensor, "A B M"],
    room: Int[Tensor, "B"],
    end: int | None,
) -> Int[Tensor, "R B M"]:
    """Return the tokens of greedy decoding.

    They are valid up to the first end token, or the first `room` of them. `logits_of` computes the
    logits [R, C, M, V] of drafts of some items, given the places of these items.

    Every pass predicts all positions of the unfinished items from a draft. Up to the first position
    that differs from the draft, the prediction is that of decoding token by token, so each pass
    settles one more token or many; the prediction is the next draft. From a right draft, one pass
    is enough.

    Source: Santilli et al. (ACL 2023), Jacobi decoding.
    """
    room = room.to(draft.device)
    place = torch.arange(draft.shape[-1], device=draft.device)
    open_items = torch.arange(draft.shape[1], device=draft.device)
    for _ in place:
        before = draft[:, open_items]
        predicted = logits_of(before, open_items).argmax(-1)
        agrees = predicted == lifted(before, len(predicted))
        settled = agrees.cumprod(-1).sum(-1, keepdim=True) + 1
        draft = lifted(draft, len(predicted)).clone()
        draft[:, open_items] = predicted
        is_end = (predicted == -1 if end is None else predicted == end) & (place < settled)
        is_done = (settled.squeeze(-1) >= room[open_items]) | is_end.any(-1)
        open_items = open_items[~is_done.all(0)]
        if not len(open_items):
            break
    return draft
