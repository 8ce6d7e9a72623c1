"""Dropout by one kernel, against the plain path.

The kernel is compiled for the processor here. Tests marked `gpu` compare it on a card.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.engine.host_kernels import host_kernels, no_stream
from tests.engine.making import SMALL, adaptation, base_tensors, items, trainables
from torch import Tensor

from adaptlab.engine.kernels import cuda_kernels, fused_dropout
from adaptlab.engine.kernels.cuda_kernels import CudaKernel
from adaptlab.engine.kernels.dropout_masks import Masks
from adaptlab.engine.kernels.fused_dropout import NAMES, SOURCE, agrees, dropout_fault
from adaptlab.engine.models.dropout import TrainingStep, dropped
from adaptlab.engine.training.passes import passes

CPU = torch.device("cpu")
Kernels = dict[torch.dtype, CudaKernel]
AT = TrainingStep(torch.tensor(3), torch.tensor([5, -1, 5]), first_item=2)


def loaded(source: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Kernels:
    by_name = host_kernels(source, NAMES.values(), folder, monkeypatch)
    return {dtype: by_name[name] for dtype, name in NAMES.items()}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    with pytest.MonkeyPatch.context() as monkeypatch:
        return loaded(SOURCE.read_text(), tmp_path_factory.mktemp("kernels"), monkeypatch)


@pytest.fixture(autouse=True)
def without_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_kernels, "_stream", no_stream)


@pytest.fixture
def use(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Let dropout be computed by the kernels, or not."""

    def chosen(fused: bool) -> None:
        present = fused_dropout._Kernels(kernels if fused else {})
        monkeypatch.setattr(fused_dropout, "_kernels", lambda _: present)

    return chosen


def multiplied(masks: Masks, x: Tensor) -> Tensor:
    """Return what torch computes on a GPU, which divides by multiplying."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    factor = torch.ones((), dtype=wide) / torch.tensor(1 - masks.rate, dtype=wide)
    return (x.to(wide) * factor).to(x.dtype).masked_fill(masks.zeroed(x), 0.0)


LAYOUTS: dict[str, tuple[Callable[[Tensor], Tensor], int, slice]] = {
    "embedded": (lambda x: x.view(3, 4, 12, 20), 12, slice(None)),
    "last rows": (lambda x: x.view(3, 4, 12, 20)[:, :, 9:], 12, slice(9, None)),
    "pattern": (lambda x: x.view(3, 4, 4, 5, 12), 5, slice(0, 5)),
    "transposed": (lambda x: x.view(3, 4, 5, 12, 4).movedim(-1, 2), 5, slice(None)),
    "shared by items": (
        lambda x: x[:720].view(3, 1, 12, 20).expand(3, 7, 12, 20),
        40,
        slice(7, 19),
    ),
    "every other": (lambda x: x.view(3, 4, 12, 20)[..., ::2], 30, slice(3, 27, 2)),
    "larger than a block": (lambda x: x.repeat(9).view(3, 2, 60, 72), 60, slice(None)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", NAMES)
def test_values_and_gradients_are_those_of_the_plain_path(
    dtype: torch.dtype, layout: str, use: Callable[[bool], None]
):
    arrange, length, rows = LAYOUTS[layout]
    values = torch.randn(2880, generator=torch.Generator().manual_seed(1)).to(dtype)
    x = arrange(values).detach().requires_grad_()
    weights = torch.linspace(-3, 3, x.numel(), dtype=dtype).view(x.shape)
    found: list[tuple[Tensor, Tensor]] = []
    for fused in (False, True):
        use(fused)
        y = dropped(x, 0.75, AT, "site", length, rows)  # a quarter divides without rounding
        assert ("_Dropped" in str(y.grad_fn)) is fused
        (slope,) = torch.autograd.grad(y, x, weights)
        found.append((y, slope))
    (plain, plain_slope), (ours, our_slope) = found
    assert 0.6 < (plain == 0).double().mean() < 0.9
    assert torch.equal(ours, plain)
    assert torch.equal(our_slope, plain_slope)


@pytest.mark.parametrize("dtype", NAMES)
def test_a_gradient_may_be_one_number_for_all(dtype: torch.dtype, use: Callable[[bool], None]):
    use(True)
    x = torch.ones(3, 2, 5, 7, dtype=dtype, requires_grad=True)
    y = dropped(x, 0.5, AT, "site", 5, slice(None))
    (slope,) = torch.autograd.grad(y.sum(), x)  # expanded, with strides of 0
    assert torch.equal(slope, y)


@pytest.mark.parametrize("dtype", NAMES)
def test_a_kernel_is_used_if_it_computes_what_the_device_does(
    dtype: torch.dtype, kernels: Kernels, monkeypatch: pytest.MonkeyPatch
):
    if dtype != torch.bfloat16:  # whose rounding hides that a processor divides
        assert not agrees(kernels[dtype], dtype, CPU)
    monkeypatch.setattr(Masks, "applied", multiplied)
    assert agrees(kernels[dtype], dtype, CPU)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("0x9E3779B97F4A7C15ULL", "0x9E3779B97F4A7C14ULL"),
        ("d.first_row + ", ""),
        ("d.first_item + item", "item"),
        ("head * d.from[2]", "head * d.to[2]"),
        ("+ 0x7FFF +", "+ 0x8000 +"),
    ],
    ids=["draws", "rows", "items", "strides", "rounding"],
)
def test_a_kernel_that_computes_something_else_is_not_used(
    right: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Masks, "applied", multiplied)
    source = SOURCE.read_text()
    assert source.count(right) == 1
    kernels = loaded(source.replace(right, wrong), tmp_path, monkeypatch)
    assert not agrees(kernels[torch.bfloat16], torch.bfloat16, CPU)


@pytest.mark.parametrize("recomputes", [False, True], ids=["kept", "recomputed"])
def test_a_step_has_the_losses_and_gradients_of_the_plain_path(
    recomputes: bool, use: Callable[[bool], None]
):
    plan = adaptation(
        "full_finetuning",
        family=SMALL.model_copy(update={"dropout": 0.5}),
        base_replicates=2,
        tuning={"trials": 2, "validation_samples": 4},
        training={"precision": "float32", "steps": 3, "batch_size": 6},
    )
    base = base_tensors(plan, 2)
    owned = trainables(plan, base)
    everyone = range(plan.replicates)
    ((one,),) = passes(plan, base, everyone, owned.flat, owned.decays, 4, recomputes=recomputes)
    batch = items(plan, 6).each(lambda tensor: tensor[:: plan.trials])
    ends: list[tuple[Tensor, Tensor]] = []
    for fused in (False, True):
        use(fused)
        gradient, losses = one.gradient(batch, 1, 1)
        ends.append((gradient.flat, losses))
    assert all(torch.equal(*pair) for pair in zip(*ends, strict=True))


def test_shapes_for_which_there_is_no_kernel_take_the_plain_path(use: Callable[[bool], None]):
    use(True)
    for x in (torch.ones(3, 0, 5, 7), torch.ones(3, 1, 1, 1, 5, 7), torch.ones(3, 2, 5, 7).half()):
        y = dropped(x.requires_grad_(), 0.5, AT, "site", 5, slice(None))
        assert "_Dropped" not in str(y.grad_fn)


def test_a_processor_has_no_such_kernel():
    assert fused_dropout._kernels(CPU).of == {}


def refused(*_: object) -> Kernels:
    raise RuntimeError("CUDA refuses with status 5.")


def nothing(*_: object) -> Kernels:
    raise OSError("Could not find any NVRTC library")


@pytest.mark.parametrize(
    ("load", "fault"),
    [
        (refused, "RuntimeError: CUDA refuses with status 5."),
        (nothing, "OSError: Could not find any NVRTC library"),
        (None, "it differs from torch in torch.float32, torch.float64"),  # which divides here
    ],
    ids=["no kernel", "no compiler", "other numbers"],
)
def test_a_kernel_that_cannot_be_used_is_named_and_leaves_the_plain_path(
    load: Callable[..., Kernels] | None,
    fault: str,
    kernels: Kernels,
    monkeypatch: pytest.MonkeyPatch,
):
    by_name = {NAMES[dtype]: kernel for dtype, kernel in kernels.items()}
    monkeypatch.setattr(fused_dropout, "draws_are_fused", lambda _: True)
    monkeypatch.setattr(fused_dropout, "cuda_kernels", load or (lambda *_: by_name))
    monkeypatch.setattr(fused_dropout, "_kernels", fused_dropout._kernels.__wrapped__)
    assert dropout_fault(CPU) == fault
    y = dropped(torch.ones(3, 2, 5, 7, requires_grad=True), 0.1, AT, "site", 5, slice(None))
    assert "_Dropped" not in str(y.grad_fn)
