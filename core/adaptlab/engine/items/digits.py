"""Items of the digit tasks, generated from counters, and their splits."""

import torch
from torch import Tensor

from adaptlab.engine.items.items import Items, counted_targets
from adaptlab.engine.kernels.counter import constant, mixed, random_bits, stream
from adaptlab.engine.plugins import ENGINE_CUES, ENGINE_DRAWS, ENGINE_QUESTIONS, ENGINE_TASKS
from adaptlab.engine.tensors import Bool, Int
from adaptlab.errors import InvalidSpec, Problem
from adaptlab.plugins.splits import SIXTEENTHS, Split
from adaptlab.plugins.task import DigitTask, QuestionLaw, Task

FEW = 5  # distinct digits that the sampling rule of the paper never rejects
FIRST_ATTEMPTS = 2
"""Attempts drawn at once for every sample. Samples without an accepted one get twice as many next,
and so on."""
MOST_ATTEMPTS = 64
ATTEMPTS_LIMIT = 4096


def make_items(
    task: DigitTask, split: Split, seeds: Int[Tensor, "S"], first: int, count: int
) -> Items:
    """Generate items `first` to `first + count` of a split, for every seed."""
    index = torch.arange(first, first + count, device=seeds.device).unsqueeze(0)
    inputs = _questions(task, split, seeds.unsqueeze(1), index)
    draws = _draws(split, seeds.unsqueeze(1), index)
    return _answered(task, _with_cues(task, inputs, draws), draws)


def items_of(task: DigitTask, inputs: Int[Tensor, "S B N"]) -> Items:
    """Return the items with the given inputs.

    Draws besides the question are those of the test item at the same index, of seed 0.
    """
    index = torch.arange(inputs.shape[-2], device=inputs.device)
    draws = _draws("test", torch.zeros_like(index), index)
    return _answered(task, inputs, draws.expand(inputs.shape[:-1]))


def target_rows(task: Task) -> slice:
    """Return the positions whose logits predict the answer.

    The items of the task have one length.
    """
    return slice(task.input_length() - 1, task.sequence_length())


def answer_to(
    task: DigitTask, inputs: Int[Tensor, "*S N"], draws: Int[Tensor, "*S"]
) -> Int[Tensor, "*S M"]:
    """Return the correct answers to inputs, given the items' random draws."""
    return ENGINE_TASKS.get(task.name)(task, inputs, draws)


def split_of(digits: Int[Tensor, "*S N"]) -> Int[Tensor, "*S"]:
    """Return the stable hash of inputs modulo 16, which decides the split."""
    return hash_of(digits) & 15


def hash_of(digits: Int[Tensor, "*S N"]) -> Int[Tensor, "*S"]:
    """Return a stable int64 hash of inputs."""
    value = torch.zeros_like(digits[..., 0])
    for position in range(digits.shape[-1]):
        value = mixed(value ^ digits[..., position])
    return value


def _questions(task: DigitTask, split: Split, seeds: Tensor, index: Tensor) -> Tensor:
    """Return the questions [S, B, N] of items."""
    asker = task.asker()
    if asker.name in ENGINE_DRAWS.names():
        return ENGINE_DRAWS.get(asker.name)(asker, split, seeds, index)
    if task.questions().listed is None:
        return _accepted_digits(task, split, seeds, index)
    return _listed(task, split, seeds, index)


def _with_cues(task: DigitTask, questions: Tensor, draws: Tensor) -> Tensor:
    """Return the questions with the cues of their tasks before them."""
    if not task.cues():
        return questions
    return torch.cat([ENGINE_CUES.get(task.name)(task, draws), questions], -1)


def _answered(task: DigitTask, inputs: Tensor, draws: Tensor) -> Items:
    questions = inputs[..., 1:] if task.cues() else inputs
    targets = answer_to(task, questions, draws)
    tokens = torch.cat([inputs, targets[..., :-1]], -1)
    return Items(tokens, targets, counted_targets(task, targets, draws))


def _draws(split: Split, seeds: Tensor, index: Tensor) -> Tensor:
    """Draw an integer below 2⁶³ per item.

    It is independent of the draws of the item's question.
    """
    return random_bits(constant(stream(f"draw/{split}"), seeds.device), seeds, index)


def _listed(task: DigitTask, split: Split, seeds: Tensor, index: Tensor) -> Tensor:
    """Return questions [S, B, N] of a list."""
    asker = task.asker()
    listed = ENGINE_QUESTIONS.get(asker.name)(asker, seeds.device)
    if task.questions().held_out:
        listed = listed[is_in_split(listed, split)]
    if not len(listed):
        detail = (
            f"None of the {task.questions().listed} is in the {split} split. Use longer inputs or "
            "more of them."
        )
        raise InvalidSpec(Problem("/task", "empty_split", detail))
    return listed[listed_places(split, seeds, index, len(listed))]


def listed_places(
    split: Split, seeds: Int[Tensor, "S 1"], index: Int[Tensor, "1 B"], count: int
) -> Int[Tensor, "S B"]:
    """Return the places of items in a list of `count`.

    They are drawn for training, and in order, cyclically, otherwise.
    """
    if split == "train":
        drawn = constant(stream("listed/train"), seeds.device)
        return (random_bits(drawn, seeds, index) >> 20) % count
    return index.expand(torch.broadcast_shapes(seeds.shape, index.shape)) % count


def _accepted_digits(task: DigitTask, split: Split, seeds: Tensor, index: Tensor) -> Tensor:
    """Return each sample's first accepted attempt, [S, B, N]."""
    law = task.questions()
    shape = torch.broadcast_shapes(seeds.shape, index.shape)
    seeds, index = (counter.expand(shape).flatten() for counter in (seeds, index))
    chosen = torch.zeros(len(index), law.length, dtype=torch.int64, device=seeds.device)
    pending = torch.arange(len(index), device=seeds.device)
    start, count = 0, FIRST_ATTEMPTS
    while start < ATTEMPTS_LIMIT:
        numbers = range(start, start + count)
        start, count = numbers.stop, min(2 * count, MOST_ATTEMPTS)
        digits, accepted = _attempts(law, split, seeds[pending], index[pending], numbers)
        first = accepted.to(torch.uint8).argmax(-1)
        chosen[pending] = digits[torch.arange(len(pending), device=seeds.device), first]
        pending = pending[~accepted.any(-1)]  # their choice so far is overwritten
        if not len(pending):
            return chosen.view(*shape, law.length)
    raise InvalidSpec(
        Problem(
            pointer="/task",
            code="empty_split",
            detail=f"{task.name} has no {split} items at length {law.length} "
            f"over {law.alphabet} digits; make it longer.",
        )
    )


def _attempts(
    law: QuestionLaw, split: Split, seeds: Tensor, index: Tensor, numbers: range
) -> tuple[Tensor, Tensor]:
    """Return digits [..., A, N] of these attempts, and a mask of the accepted."""
    device = seeds.device
    counters = (
        constant(stream(f"digits/{split}"), device),
        seeds[..., None, None],
        index[..., None, None],
        torch.arange(numbers.start, numbers.stop, device=device).unsqueeze(1),
        torch.arange(law.length + 1, device=device),
    )
    bits = random_bits(*counters)
    digits = (bits[..., : law.length] >> 20) % law.alphabet
    accepted = is_in_split(digits, split) if law.held_out else torch.ones_like(bits[..., 0]) > 0
    if law.few_distinct:
        ordered = digits.sort(-1).values
        distinct = 1 + (ordered[..., 1:] != ordered[..., :-1]).sum(-1)
        coin = (bits[..., law.length] >> 40) & 1
        accepted = accepted & ((coin == 0) | (distinct <= FEW))
    return digits, accepted


def is_in_split(digits: Int[Tensor, "*S N"], split: Split) -> Bool[Tensor, "*S"]:
    """Return a mask of the inputs that belong to a split."""
    part, sixteenth = SIXTEENTHS[split], split_of(digits)
    return (sixteenth >= part.start) & (sixteenth < part.stop)
