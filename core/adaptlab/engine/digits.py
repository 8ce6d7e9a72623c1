"""Items of the digit tasks, made on the device from counters, and their stable splits."""

from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.counter import mixed, random_bits, stream
from adaptlab.engine.plugins import ENGINE_TASKS
from adaptlab.errors import InvalidSpec, Problem
from adaptlab.results import Split
from adaptlab.task import DigitTask

FEW = 5  # distinct digits that the sampling rule of the paper never rejects
ATTEMPTS_AT_ONCE = 4
ATTEMPTS_LIMIT = 4096
SIXTEENTHS: dict[Split, range] = {
    "test": range(4),
    "validation": range(4, 5),
    "train": range(5, 16),
}


@dataclass(frozen=True)
class Items:
    """Questions with their answers: tokens [S, B, T] that the model is fed, targets [S, B, M]."""

    tokens: Tensor
    targets: Tensor


def make_items(task: DigitTask, split: Split, seeds: Tensor, first: int, count: int) -> Items:
    """Items `first` to `first + count` of a split, for every seed in seeds [S]."""
    index = torch.arange(first, first + count, device=seeds.device)
    digits = _accepted_digits(task, split, seeds.unsqueeze(1), index.unsqueeze(0))
    return items_of(task, digits)


def items_of(task: DigitTask, inputs: Tensor) -> Items:
    """The items that ask the given inputs [S, B, N]."""
    targets = ENGINE_TASKS.get(task.name)(task, inputs)
    return Items(torch.cat([inputs, targets[..., :-1]], -1), targets)


def target_rows(task: DigitTask) -> slice:
    """The positions whose logits answer the question."""
    return slice(task.input_length() - 1, task.sequence_length())


def split_of(digits: Tensor) -> Tensor:
    """The stable hash of inputs [..., N] modulo 16, which decides their split."""
    value = torch.zeros_like(digits[..., 0])
    for position in range(digits.shape[-1]):
        value = mixed(value ^ digits[..., position])
    return value & 15


def _accepted_digits(task: DigitTask, split: Split, seeds: Tensor, index: Tensor) -> Tensor:
    """The first attempt of every sample that the sampling rule and the split accept; [S, B, N]."""
    shape = torch.broadcast_shapes(seeds.shape, index.shape)
    chosen = torch.zeros(*shape, task.length, dtype=torch.int64, device=seeds.device)
    pending = torch.ones(shape, dtype=torch.bool, device=seeds.device)
    for start in range(0, ATTEMPTS_LIMIT, ATTEMPTS_AT_ONCE):
        digits, accepted = _attempts(task, split, seeds, index, start)
        first = accepted.to(torch.uint8).argmax(-1)[..., None, None]
        found = digits.gather(-2, first.expand(*shape, 1, task.length)).squeeze(-2)
        hit = pending & accepted.any(-1)
        chosen = torch.where(hit.unsqueeze(-1), found, chosen)
        pending = pending & ~hit
        if not pending.any():
            return chosen
    raise InvalidSpec(
        Problem(
            pointer="/task",
            code="empty_split",
            detail=f"{task.name} has no {split} items at length {task.length} "
            f"over {task.alphabet} digits; make it longer.",
        )
    )


def _attempts(
    task: DigitTask, split: Split, seeds: Tensor, index: Tensor, start: int
) -> tuple[Tensor, Tensor]:
    """Digits [S, B, A, N] of some attempts, and which of them [S, B, A] are accepted."""
    device = seeds.device
    counters = (
        torch.tensor(stream(f"digits/{split}"), device=device),
        seeds[..., None, None],
        index[..., None, None],
        torch.arange(start, start + ATTEMPTS_AT_ONCE, device=device).unsqueeze(1),
        torch.arange(task.length + 1, device=device),
    )
    bits = random_bits(*counters)
    digits = (bits[..., : task.length] >> 20) % task.alphabet
    part = SIXTEENTHS[split]
    sixteenth = split_of(digits)
    accepted = (sixteenth >= part.start) & (sixteenth < part.stop)
    if task.few_distinct:
        ordered = digits.sort(-1).values
        distinct = 1 + (ordered[..., 1:] != ordered[..., :-1]).sum(-1)
        coin = (bits[..., task.length] >> 40) & 1
        accepted = accepted & ((coin == 0) | (distinct <= FEW))
    return digits, accepted
