"""Loading of modules that a process keeps as long as it lives."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Generator[None]:
    """Load modules without garbage collection.

    Everything they create stays, so this saves about a tenth of the time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
