"""Kernels for a GPU, compiled for the processor with a driver for them."""

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

COMPILERS = ("c++", "g++", "clang++")
DRIVER = """
struct Index { unsigned x, y, z; };
static Index blockIdx, threadIdx, gridDim, blockDim;
#define __device__
#define __global__
#include "kernels.cu"

extern "C" int cuCtxSetCurrent(void *context) { return context ? 1 : 0; }

extern "C" int cuLaunchKernel(
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
"""


def library(source: str, folder: Path) -> ctypes.CDLL:
    """Kernels and a driver for them; skips where there is no compiler for C++."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        pytest.skip("no compiler for C++")
    (folder / "kernels.cu").write_text(source)
    (folder / "driver.cpp").write_text(DRIVER)
    flags = ("-O1", "-Wall", "-Werror", "-fPIC", "-shared", "-o", str(folder / "kernels.so"))
    subprocess.run([compiler, *flags, str(folder / "driver.cpp")], check=True)
    return ctypes.CDLL(str(folder / "kernels.so"))


@contextmanager
def no_stream(_: torch.device) -> Iterator[ctypes.c_void_p]:
    """What takes the place of a stream of the device."""
    yield ctypes.c_void_p(0)
