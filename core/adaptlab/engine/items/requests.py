"""Items whose answer is the likeliest of their own rendered requests."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from adaptlab.engine.items.items import Answer, Items, spans
from adaptlab.engine.kernels.grouped import lifted
from adaptlab.engine.tensors import Bool, Float, Int


@dataclass(frozen=True)
class ItemRequests:
    """The requests of all records, one after the other.

    A request is a prompt with an answer. Records have different numbers of them.

    Attributes:
        prompts: the tokens of prompts; requests can share one.
        starts: the place of the first token of each request's prompt.
        asked: tokens of each prompt.
        answers: the tokens of all answers.
        answer_starts: the place of the first token of each answer.
        answered: tokens of each answer.
        places: the place of each answer among the choices of its record.
        sizes: what each log-likelihood is divided by before it is compared.
        counts: requests of each record.
        first: the first request of each record.
    """

    prompts: Int[Tensor, "N"]
    starts: Int[Tensor, "Q"]
    asked: Int[Tensor, "Q"]
    answers: Int[Tensor, "N2"]
    answer_starts: Int[Tensor, "Q"]
    answered: Int[Tensor, "Q"]
    places: Int[Tensor, "Q"]
    sizes: Int[Tensor, "Q"]
    counts: Int[Tensor, "W"]
    first: Int[Tensor, "W"]

    def of_records(self, records: Int[Tensor, "B"]) -> tuple[Int[Tensor, "Q2"], Int[Tensor, "Q2"]]:
        """Return the numbers of the records' requests, and the record of each.

        Records are counted from the first one given.
        """
        counts = self.counts[records]
        owners = torch.arange(len(records)).repeat_interleave(counts)
        behind = torch.arange(len(owners)) - (counts.cumsum(0) - counts)[owners]
        return self.first[records][owners] + behind, owners

    def prompts_of(
        self, numbers: Int[Tensor, "Q2"]
    ) -> tuple[Int[Tensor, "N"], Int[Tensor, "1 Q2"], Int[Tensor, "1 Q2"]]:
        """Return prompts as spans of tokens: where each starts, and its length."""
        return self.prompts, self.starts[numbers].unsqueeze(0), self.asked[numbers].unsqueeze(0)

    def answers_of(
        self, numbers: Int[Tensor, "Q2"]
    ) -> tuple[Int[Tensor, "1 Q2 M"], Int[Tensor, "1 Q2"]]:
        """Return padded answers, and their numbers of tokens."""
        lengths = self.answered[numbers].unsqueeze(0)
        starts = self.answer_starts[numbers].unsqueeze(0)
        return spans(self.answers, starts, lengths, int(lengths.max())), lengths

    def tokens_of(self, record: int, place: int) -> tuple[int, ...]:
        """Return the tokens of one choice of a record."""
        first = int(self.first[record])
        places: list[int] = self.places[first : first + int(self.counts[record])].tolist()
        number = first + places.index(place)
        start, length = int(self.answer_starts[number]), int(self.answered[number])
        return tuple(self.answers[start : start + length].tolist())


@dataclass(frozen=True)
class RequestItems(Items):
    """Items with all their requests, for one seed.

    Attributes:
        requests: the requests of all items, in passes.
        owners: the item of each request.
        places: the place of each request's answer among the choices of its item.
        sizes: what each log-likelihood is divided by.
        labels: the places of the right choices.
    """

    requests: tuple[Items, ...] = ()
    owners: Int[Tensor, "Q"] | None = None
    places: Int[Tensor, "Q"] | None = None
    sizes: Int[Tensor, "Q"] | None = None
    labels: Int[Tensor, "1 B"] | None = None

    def on(self, device: torch.device) -> "RequestItems":
        """Return the items on a device."""

        def there(tensor: Tensor) -> Tensor:
            return tensor.to(device)

        assert self.owners is not None
        assert self.places is not None
        assert self.sizes is not None
        assert self.labels is not None
        return replace(
            self.each(there),
            requests=tuple(part.each(there) for part in self.requests),
            owners=there(self.owners),
            places=there(self.places),
            sizes=there(self.sizes),
            labels=there(self.labels),
        )

    def right(
        self, logits: Float[Tensor, "A B M V"], answer: Answer | None = None
    ) -> Bool[Tensor, "A B"]:
        """Return a mask of the items whose right choice is the likeliest."""
        assert answer is not None
        return self.choose(answer) == self.labels

    def choose(
        self, answer: Answer, logits: Float[Tensor, "A B M V"] | None = None
    ) -> Int[Tensor, "A B"]:
        """Return the places of the likeliest choices, of equal ones the first."""
        return self.compared(answer, logits)[0]

    def compared(
        self, answer: Answer, logits: Float[Tensor, "A B M V"] | None = None
    ) -> tuple[Int[Tensor, "A B"], Float[Tensor, "A B"]]:
        """Return the places of the likeliest choices, and how far each is ahead.

        An item with one choice is infinitely far ahead.
        """
        assert self.owners is not None
        assert self.places is not None
        assert self.sizes is not None
        losses = self.losses(answer) / self.sizes
        shape = len(losses), self.tokens.shape[1], int(self.places.max()) + 1
        compared = losses.new_full(shape, torch.inf)
        compared[:, self.owners, self.places] = losses
        if compared.shape[-1] == 1:
            return compared.argmin(-1), torch.full_like(compared[..., 0], torch.inf)
        best = compared.topk(2, dim=-1, largest=False).values
        return compared.argmin(-1), best[..., 1] - best[..., 0]

    def losses(self, answer: Answer) -> Float[Tensor, "A Q"]:
        """Return minus the log-likelihood of every request."""
        each = [part.token_losses(answer(part)).sum(-1) for part in self.requests]
        rows = max(map(len, each))
        return torch.cat([lifted(one, rows) for one in each], -1)
