"""Answers and cues of a mixture, by the task drawn for each item."""

from itertools import accumulate

import torch
from torch import Tensor

from adaptlab.engine.items.digits import answer_to
from adaptlab.engine.items.items import counted_targets
from adaptlab.engine.plugins import ENGINE_CUES, ENGINE_MASKS, ENGINE_TASKS
from adaptlab.tasks.mixture import Mixture

DRAWS = 2**63


@ENGINE_TASKS.register("mixture")
def answer(task: Mixture, inputs: Tensor, draws: Tensor) -> Tensor:
    """Return the answer of each item's own task."""
    answers = torch.stack([answer_to(part, inputs, draws) for part in task.tasks], -2)
    return _of_own(task, answers, draws)


@ENGINE_MASKS.register("mixture")
def counted(task: Mixture, targets: Tensor, draws: Tensor) -> Tensor | None:
    """Return the targets that each item's own task counts."""
    masks = [counted_targets(part, targets, draws) for part in task.tasks]
    if all(mask is None for mask in masks):
        return None
    every = torch.ones_like(targets, dtype=torch.bool)
    stacked = torch.stack([every if mask is None else mask for mask in masks], -2)
    return _of_own(task, stacked, draws)


@ENGINE_CUES.register("mixture")
def cue(task: Mixture, draws: Tensor) -> Tensor:
    """Return the cue of each item's own task."""
    return torch.tensor(task.cues(), device=draws.device)[drawn_tasks(task, draws)].unsqueeze(-1)


def _of_own(task: Mixture, values: Tensor, draws: Tensor) -> Tensor:
    """Select each item's own task from values [..., P, M]; [..., M]."""
    chosen = drawn_tasks(task, draws)[..., None, None].expand_as(values[..., :1, :])
    return values.gather(-2, chosen).squeeze(-2)


def drawn_tasks(task: Mixture, draws: Tensor) -> Tensor:
    """Return the index of each item's task, from draws [...]."""
    ends = [min(int(end * DRAWS), DRAWS - 1) for end in accumulate(task.shares()[:-1])]
    return torch.bucketize(draws.contiguous(), torch.tensor(ends, device=draws.device), right=True)
