"""Episodes of demonstrations and a query, and their answers."""

import torch
from torch import Tensor

from adaptlab.engine.items.digits import is_in_split
from adaptlab.engine.kernels.counter import constant, random_bits, stream
from adaptlab.engine.plugins import ENGINE_DRAWS, ENGINE_TASKS
from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.splits import Split
from adaptlab.tasks.episodes import Episodes

ATTEMPTS_AT_ONCE = 8
ATTEMPTS_LIMIT = 8192
SHARES = 2**32


@ENGINE_DRAWS.register("episodes")
def drawn(task: Episodes, split: Split, seeds: Tensor, index: Tensor) -> Tensor:
    """Return the episodes [S, B, N] of items.

    What is drawn for an item depends neither on its labels nor on the number of items.
    """
    seeds, index = torch.broadcast_tensors(seeds, index)
    seen = _Drawing(split, seeds, index)
    kinds, labels = _pairs(task, seen)  # S, B, ways
    query = seen.below("query", task.ways).unsqueeze(-1)
    phrases = seen.phrases(task, kinds.gather(-1, query), split, "queries")
    end = torch.full_like(query, task.separator)
    asked = torch.cat([phrases[..., 0, :], end], -1)
    if not task.shots:
        return asked
    slots = torch.arange(task.demonstrations, device=seeds.device) % task.ways
    order = seen.bits("order", len(slots)).argsort(stable=True, dim=-1)
    ways = slots[order]  # S, B, D
    told = ways
    if task.labels == "permuted":
        shuffle = seen.bits("shuffle", len(slots)).argsort(stable=True, dim=-1)
        told = ways.gather(-1, shuffle)
    shown = seen.phrases(task, kinds.gather(-1, ways), "train", "demonstrations")
    beside = torch.full_like(ways, task.separator)
    parts = (beside, labels.gather(-1, told), torch.full_like(ways, task.line_break))
    demonstrations = torch.cat([shown, torch.stack(parts, -1)], -1)
    return torch.cat([demonstrations.flatten(-2), asked], -1)


@ENGINE_TASKS.register("episodes")
def answer(task: Episodes, inputs: Tensor, draws: Tensor) -> Tensor:
    """Return the label of each query; a random one if labels are permuted.

    Shuffled labels say nothing about the query's class, so a random label of the episode is
    distributed like the label that its class had before the shuffle.
    """
    kind = inputs[..., -2] // task.words
    if task.labels == "fixed":
        kinds, labels = fixed_pairs(task, inputs.device)
        return _matching(kind, kinds.expand(*kind.shape, -1), labels.expand(*kind.shape, -1))
    episode = inputs[..., : -task.phrase - 1].unflatten(-1, (task.demonstrations, -1))
    told = episode[..., task.phrase + 1]
    if task.labels == "random":
        return _matching(kind, episode[..., 0] // task.words, told)
    different = told.sort(-1).values[..., :: task.shots]
    return different.gather(-1, ((draws >> 20) % task.ways).unsqueeze(-1))


def fixed_pairs(task: Episodes, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the classes and labels [ways] that `map_seed` draws."""
    seed = constant(task.map_seed, device)
    places = torch.arange(task.kinds, device=device)
    kinds, labels = (
        random_bits(constant(stream(f"episodes/fixed/{name}"), device), seed, places).argsort(
            stable=True
        )[: task.ways]
        for name in ("kinds", "labels")
    )
    return kinds, labels + task.first_label


class _Drawing:
    """Random numbers of the items [S, B] of a split."""

    def __init__(self, split: Split, seeds: Tensor, index: Tensor) -> None:
        self.split, self.seeds, self.index = split, seeds, index

    def bits(self, purpose: str, count: int) -> Tensor:
        """Return `count` random integers [S, B, count] of each item."""
        device = self.seeds.device
        return random_bits(
            constant(stream(f"episodes/{purpose}/{self.split}"), device),
            self.seeds.unsqueeze(-1),
            self.index.unsqueeze(-1),
            torch.arange(count, device=device),
        )

    def below(self, purpose: str, limit: int) -> Tensor:
        """Return a random number below a limit for each item, [S, B]."""
        return (self.bits(purpose, 1)[..., 0] >> 20) % limit

    def phrases(self, task: Episodes, kinds: Tensor, split: Split, purpose: str) -> Tensor:
        """Return phrases [S, B, D, phrase] of these classes [S, B, D].

        Each is the first of random ones that, with its separator, belongs to `split`.
        """
        device, count = kinds.device, kinds.shape[-1]
        start = constant(stream(f"episodes/{purpose}/{self.split}"), device)
        places = torch.arange(count, device=device)
        seeds, index, places = (
            counter.expand_as(kinds).flatten()
            for counter in (self.seeds.unsqueeze(-1), self.index.unsqueeze(-1), places)
        )
        offsets = kinds.flatten() * task.words
        chosen = torch.zeros(len(offsets), task.phrase, dtype=torch.int64, device=device)
        pending = torch.arange(len(offsets), device=device)
        for first in range(0, ATTEMPTS_LIMIT, ATTEMPTS_AT_ONCE):
            counters = (seeds[pending], index[pending], places[pending])
            bits = random_bits(
                start,
                *(counter[:, None, None] for counter in counters),
                torch.arange(first, first + ATTEMPTS_AT_ONCE, device=device).unsqueeze(1),
                torch.arange(task.phrase, device=device),
            )
            words = offsets[pending, None, None] + (bits >> 20) % task.words
            ends = torch.full_like(words[..., :1], task.separator)
            fits = is_in_split(torch.cat([words, ends], -1), split)
            best = fits.to(torch.uint8).argmax(-1)
            chosen[pending] = words[torch.arange(len(pending), device=device), best]
            pending = pending[~fits.any(-1)]  # their choice so far is overwritten
            if not len(pending):
                return chosen.view(*kinds.shape, task.phrase)
        detail = f"{task.name} has almost no {split} phrases of some class. Use more words."
        raise InvalidSpec(Problem("/task/words", "empty_split", detail))


def _pairs(task: Episodes, seen: _Drawing) -> tuple[Tensor, Tensor]:
    """Return the classes and labels [S, B, ways] of episodes."""
    shape = (*seen.index.shape, task.ways)
    if task.labels == "fixed":
        kinds, labels = fixed_pairs(task, seen.index.device)
        return kinds.expand(shape), labels.expand(shape)
    kinds, labels = (
        seen.bits(name, task.kinds).argsort(stable=True, dim=-1)[..., : task.ways]
        for name in ("kinds", "labels")
    )
    if seen.split == "train" and task.labels == "random":
        is_natural = (seen.bits("natural", 1) >> 31) < int(task.natural_share * SHARES)
        is_natural &= seen.index.unsqueeze(-1) < task.natural_items
        labels = torch.where(is_natural, kinds, labels)
    return kinds, labels + task.first_label


def _matching(kind: Tensor, kinds: Tensor, labels: Tensor) -> Tensor:
    """Return the label [..., 1] of the first class that is the query's."""
    is_own = kinds == kind.unsqueeze(-1)
    if not bool(is_own.any(-1).all()):
        detail = "No demonstration of an input has the class of its query. Add one."
        raise InvalidSpec(Problem("/capture/attention/inputs", "no_demonstration", detail))
    return labels.gather(-1, is_own.to(torch.uint8).argmax(-1, keepdim=True))
