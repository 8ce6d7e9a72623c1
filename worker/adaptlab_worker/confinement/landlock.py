"""Landlock: kernel rules for files, signals and sockets of a process.

Landlock needs no privilege, applies to all child processes, and can only be tightened. The bindings
on the registry were considered: `landlock` is a pre-release without scopes, and three system calls
are enough here.

See `man 7 landlock`; the numbers are those of <linux/landlock.h>. Landlock has no rule for changes
of modes and owners, so `system_calls` refuses those where it matters.
"""

import ctypes
import os
import stat
import sys
from collections.abc import Sequence
from enum import IntFlag

from adaptlab.values import Value

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on every architecture
CREATE_RULESET_VERSION = 1
RULE_PATH_BENEATH = 1
WITH_SCOPES = 6
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1, 2


class FileAccess(IntFlag):
    """Operations on a file or in a folder."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15


SINCE = {2: FileAccess.REFER, 3: FileAccess.TRUNCATE, 5: FileAccess.IOCTL_DEV}
"""Operations by the version of Landlock that added them; all others are in version 1."""
OF_FILES = (
    FileAccess.EXECUTE
    | FileAccess.WRITE_FILE
    | FileAccess.READ_FILE
    | FileAccess.TRUNCATE
    | FileAccess.IOCTL_DEV
)
READING = FileAccess.EXECUTE | FileAccess.READ_FILE | FileAccess.READ_DIR
DEVICE = OF_FILES & ~FileAccess.EXECUTE | FileAccess.READ_DIR
EVERYTHING = FileAccess((FileAccess.IOCTL_DEV << 1) - 1)
WRITING = EVERYTHING & ~(FileAccess.MAKE_CHAR | FileAccess.MAKE_BLOCK)
MADE_ANEW = "/proc/"
"""A rule is about an inode, and the kernel makes another one for what is below this folder once it
has dropped the first to gain memory. So what a rule names there stays open."""


class FileRules(Value):
    """Absolute paths that a process may open; everything else is closed to it.

    A folder includes everything below it. Paths that do not exist, or that the process could not
    reach anyway, are skipped.
    """

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


def version() -> int:
    """Return the version of the kernel's Landlock, 0 if absent or disabled."""
    if sys.platform != "linux":
        return 0
    libc = ctypes.CDLL(None, use_errno=True)
    return max(0, int(libc.syscall(CREATE_RULESET, None, 0, CREATE_RULESET_VERSION)))


def can_keep_signals_inside() -> bool:
    """Return True if a process can be limited to signalling its children."""
    return version() >= WITH_SCOPES


def restrict(rules: FileRules | None) -> bool:
    """Apply the rules to this process for good; return False if unsupported.

    With Linux 6.12 it can then signal only its children and cannot reach abstract sockets, even
    without rules for files.

    Raises:
        OSError: the kernel has Landlock and refuses the rules.
    """
    kernel = version()
    if kernel == 0 or (rules is None and kernel < WITH_SCOPES):
        return False
    handled = _handled(kernel) if rules is not None else FileAccess(0)
    ruleset = _create(handled, kernel)
    try:
        for access, paths in _grants(rules or FileRules()):
            _allow(ruleset, access & handled, paths)
        _call(RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return True


def _grants(rules: FileRules) -> tuple[tuple[FileAccess, Sequence[str]], ...]:
    return (READING, rules.readable), (WRITING, rules.writable), (DEVICE, rules.devices)


def _handled(kernel: int) -> FileAccess:
    """Return the operations that this kernel's Landlock can refuse."""
    handled = EVERYTHING
    for since, access in SINCE.items():
        if kernel < since:
            handled &= ~access
    return handled


def _create(handled: FileAccess, kernel: int) -> int:
    scopes = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS if kernel >= WITH_SCOPES else 0
    attributes = (ctypes.c_uint64 * 3)(handled, 0, scopes)
    size = ctypes.sizeof(attributes) if kernel >= WITH_SCOPES else ctypes.sizeof(ctypes.c_uint64)
    return _call(CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), 0)


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent", ctypes.c_int32))


def _allow(ruleset: int, access: FileAccess, paths: Sequence[str]) -> None:
    for path in paths:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # not there, or closed to this user by its mode
        try:
            is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
            rule = _PathBeneath(access if is_folder else access & OF_FILES, descriptor)
            _call(ADD_RULE, ruleset, RULE_PATH_BENEATH, ctypes.byref(rule), 0)
        finally:
            if not path.startswith(MADE_ANEW):
                os.close(descriptor)


def _call(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    answer = int(libc.syscall(number, *arguments))
    if answer < 0:
        raise OSError(ctypes.get_errno(), f"Landlock refuses system call {number}")
    return answer
