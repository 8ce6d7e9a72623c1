"""Answers of a random map, computed from counters on demand."""

import torch
from torch import Tensor

from adaptlab.engine.kernels.counter import constant, random_bits, stream
from adaptlab.engine.plugins import ENGINE_TASKS
from adaptlab.tasks.lookup import Lookup


@ENGINE_TASKS.register("lookup")
def answer(task: Lookup, inputs: Tensor, draws: Tensor) -> Tensor:
    """Return random digits, a function of the question and the map's seed."""
    start, seed = (constant(n, inputs.device) for n in (stream("lookup"), task.map_seed))
    places = torch.arange(task.answer_length, device=inputs.device)
    digits = (digit.unsqueeze(-1) for digit in inputs.unbind(-1))
    return (random_bits(start, seed, *digits, places) >> 20) % task.alphabet
