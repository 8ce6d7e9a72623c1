"""The operations of a training step, counted on the CPU.

On a GPU every operation that is no view is at least one kernel, started by the processor, unless
the step is recorded; and some operations wait until all earlier ones are computed. Both would grow
unnoticed, because no GPU runs these tests.
"""

import ctypes
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch
from tests.engine.making import SMALL_OF_EACH, adaptation, base_tensors, sized, trainables
from torch.utils._python_dispatch import TorchDispatchMode

from adaptlab.engine.items.task_items import make_items
from adaptlab.engine.kernels import fused_dropout
from adaptlab.engine.kernels.cuda_kernels import CudaKernel
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.training.descent import Descent
from adaptlab.engine.training.optim import AdamW
from adaptlab.families.minigpt import MiniGPT

MOST_KERNELS = {0.0: 340, 0.1: 366}
"""Of a step with four layers, by the rate of dropout. It was 1,370 with dropout."""
WAITS = frozenset({
    *("_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "_unique2"),
    *("unique_dim", "repeat_interleave"),
})  # fmt: skip
"""Operations that wait for a GPU. Copies from the CPU do as well, but all is on the CPU here."""


ASKED = {
    ("transformers", method): {"_local_scalar_dense": 1} for method in ("lora", "full_finetuning")
}
"""The library asks of a decoder without learned positions whether its sequences are packed.

It does not ask while a graph is recorded."""


class Counting(TorchDispatchMode):
    """Counts operations that compute, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Compute, and count unless it is a view or only allocates."""
        name = func._schema.name.removeprefix("aten::")
        if not func.is_view and "empty" not in name and name not in ("detach", "_unsafe_view"):
            self.found[name] += 1
        return func(*args, **(kwargs or {}))


class OneKernel(CudaKernel):
    """Dropout as a GPU computes it, in one operation."""

    def __call__(self, grid: tuple[int, int], threads: int, argument: Any) -> None:
        """Write zeros."""
        values = grid[0] * argument.heads * argument.rows * argument.columns
        ctypes.memset(argument.y, 0, values * torch.float32.itemsize)
        torch.ones(())


ONE_KERNEL = OneKernel(ctypes.CDLL(None), ctypes.c_void_p(), ctypes.c_void_p(), torch.device("cpu"))


def planned(family: Any, method: Any, **training: object) -> Plan:
    return adaptation(
        method,
        family=family,
        base_replicates=2,
        tuning={"trials": 1, "validation_samples": 4},
        training={"precision": "float32", "steps": 8, "batch_size": 4, **training},
    )


def counted(plan: Plan) -> Counter[str]:
    """The operations of the second step."""
    base = base_tensors(plan, 2)
    descent = Descent(plan, base, trainables(plan, base), None)
    batch = make_items(plan.task, "train", plan.seeds, 0, 4)
    descent.step(batch, 0)
    with Counting() as counting:
        descent.step(batch, 1)
    return counting.found


@pytest.fixture(autouse=True)
def without_kernels_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count what a GPU computes: dropout in one kernel, none of ours."""
    kernels = fused_dropout._Kernels({torch.float32: ONE_KERNEL})
    monkeypatch.setattr(fused_dropout, "_kernels", lambda _: kernels)
    monkeypatch.setattr(AdamW, "_is_fused", lambda _: False)


@pytest.mark.parametrize("rate", MOST_KERNELS)
def test_a_step_with_four_layers_has_few_kernels(rate: float) -> None:
    family = MiniGPT(layers=4, heads=4, width=32, dropout=rate)
    found = counted(planned(family, "full_finetuning"))
    assert 100 < found.total() <= MOST_KERNELS[rate], found.most_common()


@pytest.mark.parametrize("method", ["full_finetuning", "prefix_tuning", "lora"])
@pytest.mark.parametrize("family", SMALL_OF_EACH)
def test_no_operation_of_a_step_waits_for_the_device(family: str, method: str) -> None:
    plan = planned(SMALL_OF_EACH[family], sized(method).model_dump(mode="json"))
    found = counted(plan)
    assert found.total() > 50
    assert {name: found[name] for name in WAITS & found.keys()} == ASKED.get((family, method), {})
