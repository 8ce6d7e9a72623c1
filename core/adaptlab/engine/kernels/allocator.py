"""Settings of the C library's memory allocator for training processes."""

import ctypes
import platform

_MMAP_MAX, _TOP_PAD, _TRIM_THRESHOLD = -4, -2, -1  # parameters of glibc's `mallopt`
_MEGABYTES_AHEAD = 64


def keep_freed_memory() -> bool:
    """Keep freed memory in this process; return True if that is possible.

    glibc returns every large block to the system as soon as it is free, and the next tensor of a
    step then waits for new pages: a third to a half of a step on a CPU. With this setting, the
    process keeps its peak. Without glibc nothing happens; on a GPU torch has its own cache.
    """
    library = _glibc()
    if library is None:
        return False
    wanted = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1), (_TOP_PAD, _MEGABYTES_AHEAD * 2**20))
    return all(library.mallopt(parameter, value) == 1 for parameter, value in wanted)


def return_freed_memory() -> None:
    """Return kept memory to the system, so that the next run lacks this peak."""
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None
