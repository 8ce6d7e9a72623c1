"""Memory of a GPU, or on a CPU of this process, in bytes."""

import resource
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_FORGET_PEAK = "5"  # proc(5): reset the peak resident set size to the present one


def held_bytes(device: torch.device) -> int:
    """Return the bytes that allocator or process holds now."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    return psutil.Process().memory_info().rss


def peak_bytes(device: torch.device) -> int:
    """Return the most bytes held since `forget_peak` or the start."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:  # another system than Linux, or one that forbids it
        return _largest_since_the_start()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return max(peak * 2**10, held_bytes(device))


def forget_peak(device: torch.device) -> None:
    """Reset the peak, if possible: on a GPU and under Linux."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif _CLEAR_REFS.exists():
        try:
            _CLEAR_REFS.write_text(_FORGET_PEAK)
        except OSError:
            return  # some containers forbid it; the peak is then that of the whole process


def available_bytes(device: torch.device) -> int | None:
    """Return the bytes that could be allocated; None if unknown."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return psutil.virtual_memory().available


def all_bytes(device: torch.device) -> int:
    """Return the memory of a GPU, or on a CPU that of this process.

    The memory of the process is the machine's, or its limit.
    """
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[1]
    machine = psutil.virtual_memory().total
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return machine if limit == resource.RLIM_INFINITY else min(machine, limit)


def saved_bytes(work: Callable[[], object], held: Iterable[Tensor]) -> int:
    """Return the bytes that `work` keeps for backward, without `held`."""
    held_addresses = {tensor.untyped_storage().data_ptr() for tensor in held}
    sizes: dict[int, int] = {}
    kept: list[Tensor] = []  # alive until the work is done, so that no address occurs twice

    def note(tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in held_addresses:
            sizes[storage.data_ptr()] = storage.nbytes()
            kept.append(tensor)

    # Every operation keeps `note` and what that returns. If these kept tensors in turn, an
    # operation that saves its own output would keep itself, and never be freed.
    try:
        with saved_tensors_hooks(note, _not_kept):
            work()
    finally:
        kept.clear()
    return sum(sizes.values())


def _not_kept(nothing: None) -> Tensor:
    raise AssertionError("work that is measured computes no gradient")


def _largest_since_the_start() -> int:
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 2**10
