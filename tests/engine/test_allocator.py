"""What freed memory costs to use again, in processes of their own."""

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
import torch
from adaptlab.engine.allocator import keep_freed_memory, return_freed_memory
from adaptlab.engine.memory import held_bytes
if sys.argv[1] == "keep":
    assert keep_freed_memory()
torch.ones(2**24)  # 64 MiB
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(40):
    torch.ones(2**24)
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
held = held_bytes(torch.device("cpu"))
return_freed_memory()
print(faults, (held - held_bytes(torch.device("cpu"))) // 2**20)
"""


def measured(how: str) -> tuple[int, int]:
    """Page faults of forty blocks, and the MiB that were handed back at last."""
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=True
    )
    faults, returned = run.stdout.split()
    return int(faults), int(returned)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_a_block_that_was_freed_is_used_again_and_can_be_handed_back():
    kept, returned = measured("keep")
    plain, _ = measured("plain")
    pages = 2**26 // 4096
    # Where blocks come to lie decides whether the kept ones are two or a few more.
    assert kept <= 8 * pages < 36 * pages <= plain
    assert returned >= 60
