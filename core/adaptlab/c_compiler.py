"""The C compiler with which a trainer makes its kernels for a CPU."""

import shutil

COMPILERS = ("cc", "gcc", "clang")
WHAT_IT_COSTS = "training on the CPU takes 1.5 to 2 times as long"
"""What a machine without a compiler costs, as measured in docs/benchmarks.md."""


def c_compiler() -> str | None:
    """Return the path of a C compiler; None if the machine has none."""
    return next(filter(None, map(shutil.which, COMPILERS)), None)
