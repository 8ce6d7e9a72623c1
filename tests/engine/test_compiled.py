"""Compiled kernels against torch, and machines without compiler.

Torch computes in float64.
"""

import errno
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.engine.kernel_results import DIGITS, drawn, near
from tests.engine.making import (
    SMALL_OF_EACH,
    Remembering,
    adaptation,
    base_tensors,
    items,
    perturbed,
    trainables,
)
from tests.engine.resumed import spec
from tests.engine.running import run
from torch import Tensor
from torch.nn import functional

from adaptlab.c_compiler import c_compiler
from adaptlab.engine.kernels import compiled, grouped
from adaptlab.engine.kernels.activations import gelu
from adaptlab.engine.kernels.compiled import compile_kernels, forget_kernels, kernels_for
from adaptlab.engine.kernels.cross_entropy import MOST_CLASSES, cross_entropy
from adaptlab.engine.models.dropout import TrainingStep, dropped
from adaptlab.engine.models.model import Model
from adaptlab.engine.training.loss import mean_losses
from adaptlab.errors import KernelsMissing
from adaptlab.runs.events import CheckpointWritten, Started


@pytest.mark.long("every kernel")
@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("dtype", DIGITS)
def test_gelu_and_its_slope_are_right_at_every_number_of_bfloat16(dtype: torch.dtype):
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    x = bits.view(torch.bfloat16)
    x = x[x.float().abs() < 1e12].to(dtype).requires_grad_()
    exact = x.detach().double().requires_grad_()
    expected = functional.gelu(exact, approximate="tanh")
    (slope,) = torch.autograd.grad(expected.sum(), exact)
    found = gelu(x)
    (found_slope,) = torch.autograd.grad(found, x, torch.ones_like(found))
    for one, right in ((found, expected.detach()), (found_slope, slope)):
        assert bool(((one.double() - right).abs() <= 1e-7 + DIGITS[dtype] * right.abs()).all())


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("dtype", DIGITS)
def test_what_is_no_number_stays_none(dtype: torch.dtype):
    x = torch.tensor([float("nan"), 1.0], dtype=dtype, requires_grad=True)
    found = gelu(x)
    found.sum().backward()
    assert x.grad is not None
    assert found.isnan().tolist() == x.grad.isnan().tolist() == [True, False]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("with_bias", [True, False])
def test_norm_and_its_gradients_are_those_of_torch(
    dtype: torch.dtype, groups: int, with_bias: bool
):
    x, weight, bias, incoming = drawn(
        (6, 50, 3, 37), (groups, 37), (groups, 37), (6, 50, 3, 37), dtype=dtype
    )
    given = [x, weight, bias] if with_bias else [x, weight]
    exact = [part.double().requires_grad_() for part in given]
    expected = grouped.layer_norm(exact[0], exact[1], exact[2] if with_bias else None)
    slopes = torch.autograd.grad(expected, exact, incoming.double())
    asking = [part.requires_grad_() for part in given]
    found = grouped.layer_norm(asking[0], asking[1], asking[2] if with_bias else None)
    assert type(found.grad_fn).__name__ == "_NormBackward"
    assert near(found, expected.detach(), 2)
    for one, right in zip(torch.autograd.grad(found, given, incoming), slopes, strict=True):
        assert near(one, right, 8)


@pytest.mark.usefixtures("kernels")
def test_gradients_that_nobody_asks_for_are_not_there():
    x, weight, bias = drawn((2, 3, 5), (1, 5), (1, 5), dtype=torch.float32)
    bias.requires_grad_()
    grouped.layer_norm(x, weight, bias).sum().backward()
    assert (weight.grad, bias.grad.tolist() if bias.grad is not None else []) == (None, [[6.0] * 5])


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("dtype", DIGITS)
def test_the_gradient_of_chosen_rows_is_their_sum_whatever_the_threads(dtype: torch.dtype):
    (incoming,) = drawn((4, 300, 24), dtype=dtype)
    tokens = torch.arange(1200).view(4, 300) % 7 % 5
    sums: list[Tensor] = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        weight = torch.zeros(2, 5, 24, dtype=dtype, requires_grad=True)
        grouped.embedding(tokens.unsqueeze(-1), weight).backward(incoming.unsqueeze(2))
        assert weight.grad is not None
        sums.append(weight.grad)
    torch.set_num_threads(1)
    taken = functional.one_hot(tokens.view(2, -1), 5).double()
    assert near(sums[0], taken.transpose(1, 2) @ incoming.double().view(2, 600, 24), 8)
    assert torch.equal(sums[0], sums[1])
    assert torch.equal(sums[0], sums[2])


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize("classes", [1, 2, 10, 16, 37, MOST_CLASSES])
def test_losses_and_their_gradient_are_those_of_torch(dtype: torch.dtype, classes: int):
    logits, incoming = drawn((300, classes), (300,), dtype=dtype)
    logits[0] *= 100  # exponentials of which are beyond float32
    targets = torch.arange(300) % classes
    exact = logits.double().requires_grad_()
    expected = functional.cross_entropy(exact, targets, reduction="none")
    (slope,) = torch.autograd.grad(expected, exact, incoming.double())
    found = cross_entropy(logits.requires_grad_(), targets)
    assert type(found.grad_fn).__name__ == "_LossesBackward"
    assert near(found, expected.detach(), 4)
    assert near(torch.autograd.grad(found, logits, incoming)[0], slope, 4)


@pytest.mark.usefixtures("kernels")
def test_losses_of_what_is_no_number_are_none():
    logits = torch.zeros(2, 5)
    logits[0, 3] = torch.nan
    assert cross_entropy(logits, torch.tensor([1, 1])).isnan().tolist() == [True, False]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("target", [-1, 5])
def test_targets_that_are_no_classes_are_refused(target: int):
    with pytest.raises(IndexError, match="from 0 to 4"):
        cross_entropy(torch.zeros(2, 5), torch.tensor([1, target]))


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("shape", [(3, MOST_CLASSES + 1), (0, 5)])
def test_losses_of_many_classes_and_of_nothing_are_left_to_torch(shape: tuple[int, int]):
    found = cross_entropy(torch.zeros(shape, requires_grad=True), torch.zeros(shape[0]).long())
    assert type(found.grad_fn).__name__ == "NllLossBackward0"


ROWS: dict[str, tuple[Callable[[Tensor], Tensor], int, slice]] = {
    "embedded": (lambda x: x.view(3, 4, 12, 120), 12, slice(None)),
    "last rows": (lambda x: x.view(3, 4, 12, 120)[:, :, 9:], 12, slice(9, None)),
    "pattern": (lambda x: x.view(3, 4, 4, 5, 72), 5, slice(0, 5)),
    "transposed": (lambda x: x.view(3, 4, 5, 12, 24).movedim(-1, 2), 5, slice(None)),
    "of all items": (lambda x: x[:4320].view(3, 1, 12, 120).expand(3, 7, 12, 120), 12, slice(12)),
    "every other": (lambda x: x.view(3, 4, 12, 120)[..., ::2], 30, slice(3, 27, 2)),
    "many": (lambda x: x.repeat(9).view(3, 2, 180, 144), 180, slice(None)),
}


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("layout", ROWS)
@pytest.mark.parametrize("dtype", DIGITS)
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_and_its_gradient_are_those_of_torch_in_every_bit(
    dtype: torch.dtype, layout: str, rate: float
):
    arranged, length, rows = ROWS[layout]
    (values,) = drawn((17280,), dtype=dtype)
    values[:3] = torch.tensor([torch.nan, torch.inf, -0.0])
    at = TrainingStep(torch.tensor(3), torch.tensor([5, -1, 5]), first_item=2)

    def found() -> list[Tensor]:
        x = values.clone().requires_grad_()
        y = dropped(arranged(x), rate, at, "blocks.0.attn", length, rows)
        (slope,) = torch.autograd.grad(y, x, torch.ones_like(y) / 3)
        names.append(type(y.grad_fn).__name__)
        return [y.detach(), slope]

    names: list[str] = []
    compiled_ones = found()
    forget_kernels()
    plain = found()
    assert names[0] == "_DroppedBackward" != names[1]
    bits = torch.int32 if dtype == torch.float32 else torch.int16
    for one, other in zip(compiled_ones, plain, strict=True):
        assert torch.equal(one.isnan(), other.isnan())
        one, other = (part.nan_to_num(0.0, torch.inf).contiguous() for part in (one, other))
        assert torch.equal(one.view(bits), other.view(bits))
    assert 0 < (plain[0] == 0).double().mean() < 1


@pytest.mark.usefixtures("kernels")
def test_dropout_is_the_same_whatever_the_threads():
    (x,) = drawn((2, 64, 19, 96), dtype=torch.float32)
    at, found = TrainingStep(torch.tensor(1), torch.tensor([0, 1])), list[Tensor]()
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append(dropped(x.requires_grad_(), 0.1, at, "embed", 19, slice(None)))
    torch.set_num_threads(1)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("family", SMALL_OF_EACH)
def test_losses_and_gradients_are_those_of_the_plain_model(family: str):
    exact = adaptation("full_finetuning", family=SMALL_OF_EACH[family])
    start = perturbed(exact, trainables(exact, base_tensors(exact)).tensors)
    made = items(exact)

    def found(cast: Callable[[Tensor], Tensor], precision: str) -> tuple[Tensor, list[Tensor]]:
        plan = adaptation(
            "full_finetuning",
            family=SMALL_OF_EACH[family],
            training={"precision": precision, "steps": 4, "batch_size": 3},
        )
        trained = {n: cast(t.detach()).clone().requires_grad_() for n, t in start.items()}
        base = {name: cast(t) for name, t in base_tensors(exact).items()}
        losses = mean_losses(Model(plan, base, trained), made, plan.replicates, None)
        return losses, list(torch.autograd.grad(losses.sum(), list(trained.values())))

    expected, gradients = found(Tensor.double, "float64")
    losses, ours = found(Tensor.float, "float32")
    assert torch.allclose(losses.double(), expected, rtol=1e-5, atol=0)
    for one, right in zip(ours, gradients, strict=True):
        assert torch.allclose(one.double(), right, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("kernels")
def test_a_compiled_run_says_so_and_repeats_to_the_last_bit(tmp_path: Path):
    written: list[bytes] = []
    for name in ("first", "second"):
        observer = Remembering()
        (tmp_path / name).mkdir()
        run(spec(training={"steps": 20, "batch_size": 8}), (), tmp_path / name, observer, "cpu")
        assert observer.of(Started)[0].environment.compiled
        written.append(observer.of(CheckpointWritten)[0].path.read_bytes())
    assert written[0] == written[1]


def test_without_being_asked_for_nothing_is_compiled(tmp_path: Path):
    observer = Remembering()
    run(spec(training={"steps": 2, "batch_size": 8}), (), tmp_path, observer, "cpu")
    assert not observer.of(Started)[0].environment.compiled


@pytest.mark.long("every kernel")
@pytest.mark.usefixtures("kernels")
def test_kernels_of_another_dtype_are_compiled_when_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    another = tmp_path / "another"  # whose kernels this process has not made yet
    another.symlink_to(c_compiler() or "")
    monkeypatch.setattr(compiled, "c_compiler", lambda: str(another))
    linked: list[Sequence[str]] = []
    run_it = subprocess.run

    def watched(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        if "-shared" in command:
            linked.append(command)
        return run_it(command, **options)

    monkeypatch.setattr(compiled.subprocess, "run", watched)
    assert compile_kernels()
    assert kernels_for(torch.ones(1)) is not None
    assert len(linked) == 1
    coarse = torch.ones(1, dtype=torch.bfloat16)
    assert kernels_for(coarse) is kernels_for(coarse) is not None
    assert len(linked) == 2


def test_a_machine_without_compiler_goes_on_with_torch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compiled, "c_compiler", lambda: None)
    assert not compile_kernels()
    assert kernels_for(torch.ones(1)) is None


@pytest.mark.parametrize("found", [shutil.which("false"), "/no/such/compiler"])
def test_a_compiler_that_fails_is_never_passed_over(monkeypatch: pytest.MonkeyPatch, found: str):
    monkeypatch.setattr(compiled, "c_compiler", lambda: found)
    with pytest.raises(KernelsMissing, match=f"could not be compiled by {found}"):
        compile_kernels()


@pytest.mark.long("every kernel")
@pytest.mark.usefixtures("kernels")
def test_a_compilation_that_fails_once_is_repeated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    another = tmp_path / "another"
    another.symlink_to(c_compiler() or "")
    monkeypatch.setattr(compiled, "c_compiler", lambda: str(another))
    run_it, failures = subprocess.run, [OSError(errno.ENOSPC, "No space left on device")]

    def failing(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        if failures:
            raise failures.pop()
        return run_it(command, **options)

    monkeypatch.setattr(compiled.subprocess, "run", failing)
    assert compile_kernels()
    coarse, never = torch.ones(1, dtype=torch.bfloat16), OSError(errno.ENOSPC, "No space left")
    failures.extend([never] * 9)
    with pytest.raises(KernelsMissing, match="No space left"):
        kernels_for(coarse)
    failures.clear()
    assert kernels_for(coarse) is not None, "the next run compiles again"


def test_kernels_that_bring_a_thread_pool_of_their_own_are_not_used(
    monkeypatch: pytest.MonkeyPatch,
):
    maps = "00-01 r-xp 00 08:01 1 /a/libgomp.so.1\n00-01 r-xp 00 08:01 2 /b/libgomp-1.so.1\n"
    monkeypatch.setattr(compiled, "_MAPS", _Maps(maps))
    assert not compile_kernels()


class _Maps:
    """Stands in for the kernel's list of what a process has loaded."""

    def __init__(self, text: str) -> None:
        self._text = text

    def exists(self) -> bool:
        return True

    def read_text(self) -> str:
        return self._text


@pytest.mark.usefixtures("kernels")
def test_float64_is_left_to_torch():
    assert kernels_for(torch.ones(1)) is not None
    assert kernels_for(torch.ones(1, dtype=torch.float64)) is None
