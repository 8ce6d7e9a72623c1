"""The same plan on the CPU and on a GPU."""

from dataclasses import replace
from pathlib import Path

import torch
from tests.engine.making import Remembering, base_tensors, trainables
from torch import Tensor

from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.training.step_graph import _stream as recording_stream
from adaptlab.engine.training.train import Training

CUDA = torch.device("cuda")
CLOSE = 1e-8
"""Far above what float64 sums in another order differ by after a few steps, far below any step."""


def warm_up() -> None:
    """Allocate what the library of products keeps.

    It keeps 32 MiB on a Hopper for every stream and thread: those of plain and of recorded steps,
    forward and backward. A test that measures memory must not depend on which tests ran before.
    """
    card = torch.device("cuda", torch.cuda.current_device())
    for stream in (torch.cuda.current_stream(), recording_stream(card)):
        with torch.cuda.stream(stream):
            for dtype in (torch.float32, torch.float64):
                x = torch.ones(4, 8, 8, dtype=dtype, device=CUDA, requires_grad=True)
                (x @ x @ x[0]).sum().backward()
    torch.cuda.synchronize()


def on_gpu(plan: Plan) -> Plan:
    return replace(plan, device=CUDA)


def trained(
    plan: Plan, scratch: Path, groups: int = 1, memory_bytes: int | None = None
) -> tuple[Tensor, Training]:
    """The weights [R, N] after the training, on the CPU, and the training."""
    base = {name: tensor.to(plan.device) for name, tensor in base_tensors(plan, groups).items()}
    allocated = trainables(plan, base)
    model = Model(plan, base, allocated.tensors)
    training = Training(plan, model, allocated, Remembering(), memory_bytes)
    training.run(scratch)
    assert allocated.flat.device.type == plan.device.type
    return allocated.flat.cpu(), training


def furthest(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max())
