"""Memory that the process has freed, given back to the system."""

import ctypes
import gc


def give_memory_back() -> None:
    """Collect garbage and give free memory back, if glibc can."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
