"""Kernels for a GPU, compiled for the processor with a driver for them."""

import ctypes
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from adaptlab.engine.kernels import cuda_kernels
from adaptlab.engine.kernels.cuda_kernels import CudaKernel

COMPILERS = ("c++", "g++", "clang++")
DRIVER = """
#include <cstring>

struct Index { unsigned x, y, z; };
static Index blockIdx, threadIdx, gridDim, blockDim;
#define __device__
#define __global__
#include "kernels.cu"

static int context, module;

extern "C" {

int nvrtcCreateProgram(
    const char **program, const char *source, const char *name, int count, void *, void *
) {
    *program = source;
    return name || count;
}

int nvrtcCompileProgram(const char *program, int count, const char **options) {
    return !strstr(program, "__global__") || count != 1
        || strcmp(options[0], "--gpu-architecture=sm_90");
}

int nvrtcGetCUBINSize(const char *, size_t *size) { *size = 5; return 0; }

int nvrtcGetCUBIN(const char *, char *binary) { memcpy(binary, "cu\\0bi", 5); return 0; }

int nvrtcDestroyProgram(const char **program) { *program = nullptr; return 0; }

int cuCtxGetCurrent(void **current) { *current = &context; return 0; }

int cuCtxSetCurrent(void *current) { return current != &context; }

int cuModuleLoadData(void **loaded, const char *binary) {
    *loaded = &module;
    return memcmp(binary, "cu\\0bi", 5);
}

int cuModuleGetFunction(void **function, void *loaded, const char *name) {
    if (!strcmp(name, "drop_float32")) *function = (void *)drop_float32;
    else if (!strcmp(name, "drop_float64")) *function = (void *)drop_float64;
    else if (!strcmp(name, "drop_bfloat16")) *function = (void *)drop_bfloat16;
    else return 1;
    return loaded != &module;
}

int cuLaunchKernel(
    void (*kernel)(const Dropout), unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
    unsigned bz, unsigned shared, void *stream, void **arguments, void **extra
) {
    if (!gx || !gy || gy > 65535 || gz != 1 || !bx || bx > 1024 || by != 1 || bz != 1) return 1;
    gridDim = {gx, gy, gz};
    blockDim = {bx, by, bz};
    for (blockIdx.x = 0; blockIdx.x < gx; blockIdx.x++)
        for (blockIdx.y = 0; blockIdx.y < gy; blockIdx.y++)
            for (threadIdx.x = 0; threadIdx.x < bx; threadIdx.x++)
                kernel(*(const Dropout *)arguments[0]);
    return 0;
}

}
"""


def host_kernels(
    source: str, names: Iterable[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, CudaKernel]:
    """Load kernels as on a GPU; skips where there is no compiler for C++."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        pytest.skip("no compiler for C++")
    (folder / "kernels.cu").write_text(source)
    (folder / "driver.cpp").write_text(DRIVER)
    flags = ("-O1", "-Wall", "-Werror", "-fPIC", "-shared", "-o", str(folder / "kernels.so"))
    subprocess.run([compiler, *flags, str(folder / "driver.cpp")], check=True)
    driver = ctypes.CDLL(str(folder / "kernels.so"))
    for library in ("_get_gpu_rtc_library", "_get_gpu_runtime_library"):
        monkeypatch.setattr(cuda_kernels._utils, library, lambda: driver)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    monkeypatch.setattr(cuda_kernels, "_stream", no_stream)
    return cuda_kernels.cuda_kernels(source, names, torch.device("cpu"))


@contextmanager
def no_stream(_: torch.device) -> Iterator[ctypes.c_void_p]:
    """What takes the place of a stream of the device."""
    yield ctypes.c_void_p(0)
