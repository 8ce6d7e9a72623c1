"""Items whose answer is the likeliest of several words."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from adaptlab.engine.items.accepted import AcceptedItems
from adaptlab.engine.items.items import Answer, Items
from adaptlab.engine.items.passages import PassageItems
from adaptlab.engine.items.requests import RequestItems
from adaptlab.engine.kernels.grouped import lifted
from adaptlab.engine.tensors import Bool, Float, Int


@dataclass(frozen=True)
class ChoiceItems(Items):
    """Items whose answer is one of K words of W tokens, by a single pass.

    That is possible for words of one token, and for masks, which are all filled in at once. `empty`
    is the empty prompt, if scores are calibrated by it. Its pass is that of one short item
    per batch.
    """

    choices: Int[Tensor, "K W"] | None = None
    empty: Items | None = None

    def right(
        self, logits: Float[Tensor, "A B M V"], answer: Answer | None = None
    ) -> Bool[Tensor, "A B"]:
        """Return a mask of the items whose word is the likeliest of all choices."""
        assert self.choices is not None
        chosen = self.choices[self._likeliest(logits, answer)]
        return (chosen == self.targets[..., : chosen.shape[-1]]).all(-1)

    def choose(
        self, answer: Answer, logits: Float[Tensor, "A B M V"] | None = None
    ) -> Int[Tensor, "A B"]:
        """Return the places of the likeliest words among all choices."""
        return self._likeliest(answer(self) if logits is None else logits, answer)

    def _likeliest(self, logits: Tensor, answer: Answer | None) -> Tensor:
        # At each place, the normalising sum is the same for all choices.
        scores = self._sums(logits)
        if self.empty is not None:
            assert answer is not None
            scores = difference(scores, self._sums(answer(self.empty)))
        return scores.argmax(-1)

    def _sums(self, logits: Float[Tensor, "A B M V"]) -> Float[Tensor, "A B K"]:
        """Return the sum of the logits of each word's tokens at their places."""
        assert self.choices is not None
        place = torch.arange(self.choices.shape[-1], device=logits.device)
        return logits[:, :, place, self.choices].sum(-1)


@dataclass(frozen=True)
class Alone:
    """Words after the empty prompt, each different word once.

    They cost the passes of as many short items in every batch: K if all items have the same words,
    otherwise at most K times the items of the batch.

    Attributes:
        items: the empty prompt with each of N words.
        places: the place of every choice of some other items among them.
    """

    items: Items
    places: Int[Tensor, "S B K"]

    def losses(self, answer: Answer, at_once: int) -> Float[Tensor, "A B K"]:
        """Return minus the log-probabilities of choices after the empty prompt.

        At most `at_once` words share a pass.
        """
        count = self.items.tokens.shape[1]
        parts = [
            self.items.part(slice(first, first + at_once)) for first in range(0, count, at_once)
        ]
        losses = torch.cat([part.token_losses(answer(part)).sum(-1) for part in parts], -1)
        places = lifted(self.places, len(losses))
        chosen = lifted(losses, len(places)).gather(1, places.flatten(1))
        return chosen.view(places.shape)


@dataclass(frozen=True)
class WordItems(Items):
    """Items whose answer is one of some words of several tokens.

    `others` are the same prompts with each word as the answer, `labels` the places of the right
    ones among them. `alone` are the words after the empty prompt, if scores are calibrated by it.
    """

    others: tuple[Items, ...] = ()
    labels: Int[Tensor, "S B"] | None = None
    alone: Alone | None = None

    def each(self, change: Callable[[Tensor], Tensor]) -> "WordItems":
        """Return the items with the same change made to every tensor."""
        assert self.labels is not None
        labels = change(self.labels.unsqueeze(-1)).squeeze(-1)
        others = tuple(other.each(change) for other in self.others)
        plain = Items(*members_of(self)).each(change)
        alone = self.alone and replace(self.alone, places=change(self.alone.places))
        return WordItems(*members_of(plain), others=others, labels=labels, alone=alone)

    def right(
        self, logits: Float[Tensor, "A B M V"], answer: Answer | None = None
    ) -> Bool[Tensor, "A B"]:
        """Return a mask of the items whose word is the likeliest of all words."""
        assert answer is not None
        return self.choose(answer) == self.labels

    def choose(
        self, answer: Answer, logits: Float[Tensor, "A B M V"] | None = None
    ) -> Int[Tensor, "A B"]:
        """Return the places of the likeliest words."""
        each = [other.token_losses(answer(other)).sum(-1) for other in self.others]
        losses = torch.stack(each, -1)
        if self.alone is not None:
            losses = difference(losses, self.alone.losses(answer, self.tokens.shape[1]))
        return losses.argmin(-1)


def difference(x: Float[Tensor, "A B K"], y: Float[Tensor, "A2 B2 K"]) -> Float[Tensor, "A3 B K"]:
    """Return x - y.

    A row of the one with fewer rows serves several of the other.
    """
    rows = max(len(x), len(y))
    return lifted(x, rows) - lifted(y, rows)


def members_of(
    items: Items,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None, int, int, Tensor | None]:
    """Return the members that all items of texts have, in order."""
    return (
        items.tokens,
        items.targets,
        items.counted,
        items.answer_rows,
        items.first,
        items.length,
        items.read,
    )


def moved(items: Items, device: torch.device) -> Items:
    """Return items on a device."""
    if device.type == "cpu":
        return items
    if isinstance(items, AcceptedItems | RequestItems | PassageItems):
        return items.on(device)
    there = items.each(lambda tensor: tensor.to(device))
    if isinstance(there, ChoiceItems) and there.choices is not None:
        empty = there.empty and moved(there.empty, device)
        return replace(there, choices=there.choices.to(device), empty=empty)
    if isinstance(there, WordItems) and there.alone is not None:
        return replace(there, alone=replace(there.alone, items=moved(there.alone.items, device)))
    return there
