"""Decoding of answers whose drafts have been scored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

import torch
from torch import Tensor
from torch.nn import functional

from adaptlab.engine.items.item_texts import ItemTexts, expected_tokens, without_end
from adaptlab.engine.items.items import Answer, Items
from adaptlab.engine.kernels.grouped import lifted
from adaptlab.engine.measuring.drawn_tokens import DrawnBy, Draws, Pick, likeliest
from adaptlab.engine.models.key_cache import Begun
from adaptlab.engine.tensors import Bool, Float, Int

STOPS_SOUGHT = 8
"""Stop sequences are looked for once in so many tokens, because answers become texts for it."""
LEAST_FINISHED = 4
"""Answers are put together again, which copies the cache, once one in so many is finished."""


IsOver = Callable[[Sequence[int]], bool]


@dataclass(frozen=True, slots=True)
class Ending:
    """What ends an answer before its limit.

    Attributes:
        token: the token that ends it, None if there is none.
        is_over: returns True if tokens contain a stop sequence.
    """

    token: int | None = None
    is_over: IsOver | None = None

    def after(self, token: Int[Tensor, "A C"]) -> Bool[Tensor, "A C"]:
        """Return a mask of the tokens that end answers."""
        return token == (-1 if self.token is None else self.token)


@dataclass(frozen=True)
class Decoding:
    """Decoding of the items at some places of a split.

    Attributes:
        texts: the texts of the split.
        places: the places of the items.
        items: the items, with the right answers as drafts.
        answer: computes the logits of items' answers.
        begun: what has been read of the items; None where nothing is kept.
        rule: what draws depend on.
        is_over: returns True if tokens contain a stop sequence; None if there is none. An answer is
            still read up to its limit where nothing is kept.
    """

    texts: ItemTexts
    places: Int[Tensor, "B"]
    items: Items
    answer: Answer
    begun: Begun | None
    rule: DrawnBy
    is_over: "IsOver | None" = None

    @property
    def logits(self) -> Float[Tensor, "A B M V"]:
        """The logits of the right answers."""
        return self.answer(self.items) if self.begun is None else self.begun.logits

    def told(
        self, predicted: Int[Tensor, "A B M"], is_right: Bool[Tensor, "R B"]
    ) -> list[list[list[list[int]]]]:
        """Return the tokens of answers without the end, by row, item and sample.

        `predicted` are the likeliest tokens after the drafts.
        """
        draws = self.rule.draws(len(predicted), self.places)
        if draws is None:
            return [[[one] for one in row] for row in self._greedy(predicted, is_right)]
        room = self.texts.room(self.places)
        drawn = self._drawn(draws, room)
        rows: list[list[list[list[int]]]] = lifted(drawn, len(is_right)).tolist()
        return [
            [
                [without_end(one[: int(most)], self.texts.end) for one in answers]
                for answers, most in zip(row, room, strict=True)
            ]
            for row in rows
        ]

    def _drawn(self, draws: Draws, room: Int[Tensor, "B"]) -> Int[Tensor, "A B S M"]:
        if self.begun is not None:
            first = self.begun.logits[:, :, 0]
            return sampled(self.begun, draws, first, room, self._ending)
        every = torch.arange(len(room))
        samples = map(draws.of_sample, range(draws.samples))
        return torch.stack([self._of_drafts(room, every, pick) for pick in samples], 2)

    def _greedy(
        self, predicted: Int[Tensor, "A B M"], is_right: Bool[Tensor, "R B"]
    ) -> list[list[list[int]]]:
        """Return the tokens of greedy decoding without the end, by row and item.

        Right answers are known, and not decoded.
        """
        texts, is_right = self.texts, is_right.cpu()
        expected = [expected_tokens(self.items, place) for place in range(len(self.places))]
        told = [[without_end(each, texts.end) for each in expected] for _ in is_right]
        if bool(is_right.all()):
            return told
        room = texts.room(self.places)
        tokens = self._tokens(predicted, room, ~is_right)
        rows: list[list[list[int]]] = lifted(tokens, len(told)).tolist()
        for row, place in (~is_right).nonzero().tolist():
            told[row][place] = without_end(rows[row][place][: int(room[place])], texts.end)
        return told

    def _tokens(self, predicted: Tensor, room: Tensor, is_open: Tensor) -> Int[Tensor, "A B M"]:
        if self.begun is not None:
            draft = lifted(self.items.targets, len(predicted))
            return token_by_token(self.begun, draft, predicted, room, self._ending, is_open)
        wrong = is_open.any(0).nonzero().flatten()
        found = self._of_drafts(room, wrong)
        tokens = found.new_zeros(len(found), len(room), found.shape[-1])
        tokens[:, wrong.to(found.device)] = found
        return tokens

    @property
    def _ending(self) -> "Ending":
        return Ending(self.texts.end, self.is_over)

    def _of_drafts(self, room: Tensor, some: Tensor, pick: Pick | None = None) -> Tensor:
        """Return the tokens [A, C, M] of some answers, decoded without a cache."""
        asked = self.items.each(lambda tensor: tensor[:, some.to(tensor.device)])
        draft = functional.pad(asked.targets, (0, self.texts.width - asked.targets.shape[-1]))
        logits_of = partial(self._logits_of_drafts, self.places[some], asked)
        return decoded(logits_of, draft, room[some], self.texts.end, pick or likeliest)

    def _logits_of_drafts(
        self, places: Tensor, items: Items, answers: Tensor, some: Tensor
    ) -> Tensor:
        asked = items.each(lambda tensor: tensor[:, some])
        return self.answer(self.texts.drafted(places[some.cpu()], asked, answers))


def token_by_token(
    begun: Begun,
    draft: Int[Tensor, "A B M"],
    predicted: Int[Tensor, "A B M"],
    room: Int[Tensor, "B"],
    ending: Ending,
    is_open: Bool[Tensor, "R B"],
) -> Int[Tensor, "A B M2"]:
    """Return the tokens of greedy decoding, one per answer at a time.

    They are valid up to the first end token, or the first `room` of them. Up to the first token
    that differs from its draft, an answer is settled by the pass that has read the draft, and so is
    this token. There are A rows, which divide R; answers that are open in no replicate of a row
    stay empty.
    """
    rows, items, width = predicted.shape
    device, room = predicted.device, room.to(predicted.device)
    unfinished = is_open.to(device).unflatten(0, (rows, -1)).any(1)
    settled = (predicted == draft).cumprod(-1).sum(-1).clamp(max=width - 1)
    begun.cache.settle(settled)
    tokens = functional.pad(predicted, (0, max(0, int(room.max()) - width)))
    following = predicted.gather(-1, settled.unsqueeze(-1)).squeeze(-1)
    column = torch.arange(items, device=device).expand(rows, -1)
    started = _Started(tokens, following, column, settled, unfinished)
    return _continued(begun, started, room, ending, likeliest)


def sampled(
    begun: Begun,
    draws: Draws,
    first: Float[Tensor, "A B V"],
    room: Int[Tensor, "B"],
    ending: Ending,
) -> Int[Tensor, "A B S M"]:
    """Return the tokens of drawn answers, S to an item.

    They are valid up to the first end token, or the first `room` of them. `first` are the logits of
    answers' first tokens.
    """
    (rows, items, _), device = first.shape, first.device
    samples, room = draws.samples, room.to(device).repeat_interleave(draws.samples)
    column = torch.arange(items * samples, device=device).expand(rows, -1)
    begun.cache.keep(column // samples)
    place = torch.zeros_like(column)
    following = draws.pick(first.repeat_interleave(samples, 1), column, place)
    tokens = following.new_zeros(*following.shape, int(room.max()))
    tokens[..., 0] = following
    started = _Started(tokens, following, column, place, torch.ones_like(column, dtype=torch.bool))
    found = _continued(begun, started, room, ending, draws.pick)
    return found.unflatten(1, (items, samples))


@dataclass(frozen=True)
class _Started:
    """Answers that have a first token to go on from.

    Attributes:
        tokens: the tokens of all answers, [A, B, M].
        following: the last known token of each unfinished answer, [A, C].
        column: the places of these answers, [A, C].
        place: the places of their last known tokens, [A, C].
        unfinished: a mask of those that may go on, [A, C].
    """

    tokens: Tensor
    following: Tensor
    column: Tensor
    place: Tensor
    unfinished: Tensor


def _continued(
    begun: Begun, started: _Started, room: Int[Tensor, "B"], ending: Ending, pick: Pick
) -> Int[Tensor, "A B M"]:
    """Return the tokens of answers, read and picked one at a time."""
    tokens, following, column = started.tokens, started.following, started.column
    place, unfinished = started.place, started.unfinished
    replicate = torch.arange(len(tokens), device=tokens.device).unsqueeze(1)
    for step in count():
        is_over = (room[column] <= place + 1) | ending.after(following)
        if ending.is_over is not None and step % STOPS_SOUGHT == 0:
            is_over = is_over | _stopped(tokens, column, place, unfinished & ~is_over, ending)
        unfinished = unfinished & ~is_over
        most = int(unfinished.sum(1).max())
        if not most:
            return tokens
        if LEAST_FINISHED * most <= (LEAST_FINISHED - 1) * unfinished.shape[1]:
            kept = unfinished.long().argsort(dim=1, descending=True, stable=True)[:, :most]
            begun.cache.keep(kept)
            column, place, following, unfinished = (
                each[replicate, kept] for each in (column, place, following, unfinished)
            )
        place = place + 1
        following = pick(begun.after(following), column, place)
        is_told = unfinished.nonzero(as_tuple=True)
        tokens[is_told[0], column[is_told], place[is_told]] = following[is_told]
    return tokens


def _stopped(
    tokens: Int[Tensor, "A B M"],
    column: Int[Tensor, "A C"],
    place: Int[Tensor, "A C"],
    unfinished: Bool[Tensor, "A C"],
    ending: Ending,
) -> Bool[Tensor, "A C"]:
    """Return a mask of the unfinished answers that contain a stop sequence.

    The token that ends answers is put behind these.
    """
    assert ending.is_over is not None
    found = torch.zeros_like(unfinished)
    for row, at in unfinished.nonzero().tolist():
        answer, last = int(column[row, at]), int(place[row, at])
        if not ending.is_over(tokens[row, answer, : last + 1].tolist()):
            continue
        found[row, at] = True
        if ending.token is not None:
            tokens[row, answer, last + 1] = ending.token
    return found


def decoded(
    logits_of: Callable[[Int[Tensor, "A C M"], Int[Tensor, "C"]], Tensor],
    draft: Int[Tensor, "A B M"],
    room: Int[Tensor, "B"],
    end: int | None,
    pick: Pick = likeliest,
) -> Int[Tensor, "R B M"]:
    """Return the tokens of answers, of greedy decoding by default.

    They are valid up to the first end token, or the first `room` of them. `logits_of` computes the
    logits [R, C, M, V] of drafts of some items, given the places of these items. `pick` depends on
    nothing but logits and place, so drawn tokens are settled as the likeliest ones are.

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
        column = open_items.view(1, -1, 1)
        predicted = pick(logits_of(before, open_items), column, place)
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
