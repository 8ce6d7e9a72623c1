"""Answers of the task that is drawn for each item of a mixture."""

from itertools import accumulate

import torch
from torch import Tensor

from adaptlab.engine.digits import answer_to
from adaptlab.engine.plugins import ENGINE_TASKS
from adaptlab.tasks.mixture import Mixture

DRAWS = 2**63


@ENGINE_TASKS.register("mixture")
def answer(task: Mixture, inputs: Tensor, draws: Tensor) -> Tensor:
    """The answer of every item's own task."""
    answers = torch.stack([answer_to(part, inputs, draws) for part in task.tasks], -2)
    chosen = drawn_tasks(task, draws)[..., None, None].expand_as(answers[..., :1, :])
    return answers.gather(-2, chosen).squeeze(-2)


def drawn_tasks(task: Mixture, draws: Tensor) -> Tensor:
    """The place in the mixture of the task of every item with draws [...]; [...]."""
    ends = [min(int(end * DRAWS), DRAWS - 1) for end in accumulate(task.shares()[:-1])]
    return torch.bucketize(draws.contiguous(), torch.tensor(ends, device=draws.device), right=True)
