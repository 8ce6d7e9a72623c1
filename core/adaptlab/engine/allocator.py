"""How the process of a training asks the system for memory."""

import ctypes
import platform

_MMAP_MAX, _TOP_PAD, _TRIM_THRESHOLD = -4, -2, -1  # parameters of glibc's `mallopt`
_MEGABYTES_AHEAD = 64


def keep_freed_memory() -> bool:
    """Let this process reuse the memory that tensors leave instead of handing it back; says if so.

    glibc gives every large block back to the system as soon as it is free, and the next tensor
    of a step then waits for new pages: a third to a half of a step on a CPU. Afterwards the
    process keeps what it needed at its peak. Elsewhere than under glibc nothing happens; on a GPU
    torch has a cache of its own.
    """
    library = _glibc()
    if library is None:
        return False
    wanted = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1), (_TOP_PAD, _MEGABYTES_AHEAD * 2**20))
    return all(library.mallopt(parameter, value) == 1 for parameter, value in wanted)


def return_freed_memory() -> None:
    """Hand back what was kept, so that the next run is not charged with the last one's peak."""
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None
