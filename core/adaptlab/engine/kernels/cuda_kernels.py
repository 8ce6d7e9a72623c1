"""Kernels in CUDA C++, compiled when a process first needs them.

Torch brings the compiler, NVRTC, and has loaded it once a random number was drawn on the device;
neither a toolkit nor a C compiler has to be installed.
"""

import ctypes
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch.cuda import _utils


@dataclass(frozen=True)
class CudaKernel:
    """A kernel that takes one structure, loaded on a device."""

    driver: ctypes.CDLL
    function: ctypes.c_void_p
    context: ctypes.c_void_p
    device: torch.device

    def __call__(self, grid: tuple[int, int], threads: int, argument: ctypes.Structure) -> None:
        """Start the kernel on the present stream.

        Raises:
            RuntimeError: the driver refuses.
        """
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
        sizes = [ctypes.c_uint(size) for size in (*grid, 1, threads, 1, 1, 0)]
        with _stream(self.device) as stream:
            # A thread of the backward pass may not have called CUDA's runtime before.
            _check(self.driver.cuCtxSetCurrent(self.context))
            _check(self.driver.cuLaunchKernel(self.function, *sizes, stream, arguments, None))


def cuda_kernels(source: str, names: Iterable[str], device: torch.device) -> dict[str, CudaKernel]:
    """Compile a source for a device and load its kernels.

    Raises:
        RuntimeError: it cannot be compiled or loaded.
        OSError: there is no compiler or driver.
    """
    major, minor = torch.cuda.get_device_capability(device)
    binary = compiled(_utils._get_gpu_rtc_library(), source, f"sm_{major}{minor}")
    driver = _utils._get_gpu_runtime_library()
    context, module = ctypes.c_void_p(), ctypes.c_void_p()
    kernels: dict[str, CudaKernel] = {}
    torch.cuda.synchronize(device)  # gives this thread the device's context
    with _stream(device):
        _check(driver.cuCtxGetCurrent(ctypes.byref(context)))
        _check(driver.cuModuleLoadData(ctypes.byref(module), binary))
        for name in names:
            function = ctypes.c_void_p()
            _check(driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
            kernels[name] = CudaKernel(driver, function, context, device)
    return kernels


def compiled(nvrtc: ctypes.CDLL, source: str, architecture: str) -> bytes:
    """Return the machine code of a source, which includes no other file."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    _check(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), None, 0, None, None))
    try:
        options = (ctypes.c_char_p * 1)(f"--gpu-architecture={architecture}".encode())
        _check(nvrtc.nvrtcCompileProgram(program, 1, options))
        _check(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
        binary = ctypes.create_string_buffer(size.value)
        _check(nvrtc.nvrtcGetCUBIN(program, binary))
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return binary.raw


@contextmanager
def _stream(device: torch.device) -> Iterator[ctypes.c_void_p]:
    """Make a device the present one; yield its present stream."""
    with torch.cuda.device(device):
        yield ctypes.c_void_p(torch.cuda.current_stream(device).cuda_stream)


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"CUDA refuses with status {status}.")
