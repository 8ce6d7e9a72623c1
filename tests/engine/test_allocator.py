"""The cost of reusing freed memory, in a separate process."""

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import ctypes, resource
import torch
from adaptlab.engine.kernels.allocator import keep_freed_memory, return_freed_memory
from adaptlab.engine.kernels.memory import held_bytes

def faults():
    torch.ones(2**24)  # 64 MiB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(40):
        torch.ones(2**24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

PR_SET_THP_DISABLE = 41  # a fault would bring 512 pages where the system makes all pages large
ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
plain = faults()
assert keep_freed_memory()
kept = faults()
held = held_bytes(torch.device("cpu"))
return_freed_memory()
print(plain, kept, (held - held_bytes(torch.device("cpu"))) // 2**20)
"""


def measured() -> tuple[int, int, int]:
    """Return the page faults of forty blocks, and the MiB handed back.

    The faults are those of plain and of kept blocks. The MiB were handed back at last.
    """
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    plain, kept, returned = map(int, run.stdout.split())
    return plain, kept, returned


@pytest.mark.long("every kernel")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_a_block_that_was_freed_is_used_again_and_can_be_handed_back():
    plain, kept, returned = measured()
    pages = 2**26 // 4096
    # What is left over beside a block keeps it from being used again. How many such remainders
    # malloc puts aside, seven at most of a size, depends on where the blocks come to lie.
    assert kept <= 12 * pages < 36 * pages <= plain
    assert returned >= 60
