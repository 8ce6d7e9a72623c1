"""The C compiler with which a trainer makes its kernels for a CPU."""

import shutil

COMPILERS = ("cc", "gcc", "clang")
WHAT_IT_COSTS = "training on the CPU takes 1.3 to 1.7 times as long"
"""What a machine without a compiler costs, as measured in decision 34."""


def c_compiler() -> str | None:
    """Return the path of a C compiler; None if the machine has none."""
    return next(filter(None, map(shutil.which, COMPILERS)), None)
