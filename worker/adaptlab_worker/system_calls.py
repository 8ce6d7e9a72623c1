"""The system calls that a trainer is refused: the network, others' processes, and ways round that.

A filter of the kernel's own (seccomp), which needs no privilege, holds for everything that the
process starts, and cannot be taken off. libseccomp's bindings for Python were weighed: none is
kept by its authors and on the registry, and the filter is a dozen instructions. So were a network
namespace, which takes root, and Landlock, which on many kernels knows no network; it keeps signals
inside where it can.

See `man 2 seccomp`; the numbers are those of <linux/filter.h>, <linux/seccomp.h>, <asm/unistd.h>.
"""

import ctypes
import errno
import os
import platform
import socket
import sys
from typing import NamedTuple

PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
SECCOMP_GET_ACTION_AVAIL = 2
ALLOW = 0x7FFF0000
REFUSE = 0x00050000  # the call fails with the number in the lower half
LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
IF_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
IF_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
RETURN = 0x06  # BPF_RET | BPF_K
# Where `struct seccomp_data` has them; of an argument the lower half, on machines that begin there.
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF = 444, 446  # the same on every architecture
LANDLOCK_CREATE_RULESET_VERSION = 1
LANDLOCK_WITH_SCOPES = 6
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1, 2
X32 = 0x40000000
"""From here on the numbers of x86-64 stand for the same calls in another binary interface."""
LOCAL_SOCKETS = (socket.AF_UNIX, 16)  # AF_NETLINK: what the kernel itself tells of the machine


class Machine(NamedTuple):
    """The numbers of one architecture."""

    audit: int
    seccomp: int
    socket: int
    ptrace: int
    setsid: int
    setpgid: int
    io_uring_setup: int = 425


MACHINES = {
    "x86_64": Machine(0xC000003E, seccomp=317, socket=41, ptrace=101, setsid=112, setpgid=109),
    "aarch64": Machine(0xC00000B7, seccomp=277, socket=198, ptrace=117, setsid=157, setpgid=154),
}


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("jump_true", ctypes.c_uint8),
        ("jump_false", ctypes.c_uint8),
        ("operand", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction)))


def can_refuse() -> bool:
    """Whether this kernel takes such a filter, on an architecture whose numbers are known."""
    machine = _machine()
    if machine is None:
        return False
    action = ctypes.c_uint32(REFUSE)
    libc = ctypes.CDLL(None, use_errno=True)
    asked = libc.syscall(machine.seccomp, SECCOMP_GET_ACTION_AVAIL, 0, ctypes.byref(action))
    return bool(asked == 0)


def refuse_system_calls(*, network: bool) -> bool:
    """Refuse this process and all that it starts some calls, for good; false where it cannot be.

    Refused are io_uring (which makes sockets past a filter), ptrace, leaving the process group, by
    which a worker ends all that a run started, and, if `network` is to be refused too, sockets
    other than those of the machine itself.
    """
    machine = _machine()
    if machine is None or not can_refuse():
        return False
    instructions = _filter(machine, network=network)
    array = (_Instruction * len(instructions))(*instructions)
    program = _Program(len(instructions), array)
    libc = ctypes.CDLL(None, use_errno=True)
    given = ctypes.c_ulong(ctypes.addressof(program))
    return bool(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, given, 0, 0) == 0)


def can_keep_signals_inside() -> bool:
    """Whether this kernel (Linux 6.12 or newer, with Landlock) can; see `keep_signals_inside`."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_CREATE_RULESET_VERSION)
    return bool(version >= LANDLOCK_WITH_SCOPES)


def keep_signals_inside() -> bool:
    """Refuse to signal processes that this one did not start, for good; false where it cannot be.

    A trainer may be the user that its worker is, or other trainers. Refused are also sockets of
    names that are no files. Of Landlock's rules for files none is used: see `docs/security.md`.
    """
    if not can_keep_signals_inside():
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    rules = (ctypes.c_uint64 * 3)(0, 0, SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS)
    descriptor = libc.syscall(
        LANDLOCK_CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(ctypes.sizeof(rules)), 0
    )
    if descriptor < 0:
        return False
    try:
        return bool(libc.syscall(LANDLOCK_RESTRICT_SELF, descriptor, 0) == 0)
    finally:
        os.close(descriptor)


def _machine() -> Machine | None:
    return MACHINES.get(platform.machine()) if sys.platform == "linux" else None


def _filter(machine: Machine, *, network: bool) -> list[_Instruction]:
    """The program, instruction by instruction; jumps count the instructions to be left out."""
    refused = REFUSE | errno.EACCES
    calls = (machine.io_uring_setup, machine.ptrace, machine.setsid, machine.setpgid)
    families = [_Instruction(IF_EQUAL, 0, 1, family) for family in LOCAL_SOCKETS]
    of_sockets = [
        _Instruction(IF_EQUAL, 1, 0, machine.socket),
        _Instruction(RETURN, 0, 0, ALLOW),
        _Instruction(LOAD, 0, 0, FIRST_ARGUMENT),
        *(
            instruction
            for test in families
            for instruction in (test, _Instruction(RETURN, 0, 0, ALLOW))
        ),
        _Instruction(RETURN, 0, 0, refused),
    ]
    return [
        _Instruction(LOAD, 0, 0, ARCHITECTURE),
        _Instruction(IF_EQUAL, 1, 0, machine.audit),
        _Instruction(RETURN, 0, 0, refused),  # a call of another architecture, by other numbers
        _Instruction(LOAD, 0, 0, NUMBER),
        _Instruction(IF_AT_LEAST, 0, 1, X32),
        _Instruction(RETURN, 0, 0, refused),
        *(
            instruction
            for number in calls
            for instruction in (
                _Instruction(IF_EQUAL, 0, 1, number),
                _Instruction(RETURN, 0, 0, refused),
            )
        ),
        *(of_sockets if network else [_Instruction(RETURN, 0, 0, ALLOW)]),
    ]
