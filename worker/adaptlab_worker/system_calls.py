"""System calls denied to a trainer: network, processes, bypasses.

This is a kernel filter (seccomp). It needs no privilege, applies to all child processes and cannot
be removed. Alternatives considered: libseccomp's Python bindings (none on the registry is
maintained by its authors, and the filter is a few dozen instructions), a network namespace (needs
root), and Landlock (on many kernels without rules for the network). Landlock limits files and
signals (`landlock`); this filter also covers modes and owners of files, for which it has no rule.

See `man 2 seccomp`; the numbers are those of <linux/filter.h>, <linux/seccomp.h>, <asm/unistd.h>.
"""

import ctypes
import errno
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
# Offsets in `struct seccomp_data`; of an argument, the lower half on little-endian machines.
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16
IO_URING_SETUP = 425  # the same on every architecture
NEWER_CHANGES = (452, 463)  # fchmodat2, setxattrat
X32 = 0x40000000
"""Numbers of x86-64 from here on are the same calls in another binary interface."""
LOCAL_SOCKETS = (socket.AF_UNIX, 16)  # AF_NETLINK: the kernel's information on the machine


class Machine(NamedTuple):
    """The system call numbers of one architecture."""

    audit: int
    seccomp: int
    socket: int
    ptrace: int
    setsid: int
    setpgid: int
    connect: int
    open_by_handle_at: int
    changes: tuple[int, ...]
    """Calls that change modes, owners and attributes of files."""


MACHINES = {
    "x86_64": Machine(
        0xC000003E, seccomp=317, socket=41, ptrace=101, setsid=112, setpgid=109, connect=42,
        open_by_handle_at=304,
        changes=(90, 91, 92, 93, 94, 188, 189, 190, 260, 268, *NEWER_CHANGES),
    ),
    "aarch64": Machine(
        0xC00000B7, seccomp=277, socket=198, ptrace=117, setsid=157, setpgid=154, connect=203,
        open_by_handle_at=265,
        changes=(5, 6, 7, 52, 53, 54, 55, *NEWER_CHANGES),
    ),
}  # fmt: skip


class Refused(NamedTuple):
    """Optional refusals, in addition to those that always apply.

    Attributes:
        network: sockets other than those of the machine itself.
        connections: to sockets of the machine too; those of service managers and containers run
            programs for whoever reaches them, and Landlock has no rule for sockets that are files.
    """

    network: bool
    connections: bool


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
    """Return True if kernel and architecture support the filter."""
    machine = _machine()
    if machine is None:
        return False
    action = ctypes.c_uint32(REFUSE)
    libc = ctypes.CDLL(None, use_errno=True)
    status = libc.syscall(machine.seccomp, SECCOMP_GET_ACTION_AVAIL, 0, ctypes.byref(action))
    return bool(status == 0)


def refuse_system_calls(refused: Refused) -> bool:
    """Deny system calls for good; return False if unsupported.

    This applies to the process and its children.

    Always denied: io_uring (which creates sockets past a filter), ptrace, leaving the process group
    (by which a worker ends everything that a run started), opening a file without its path, and
    changes of modes, owners and attributes of files. Landlock has no rule for these, and a process
    could open its user's files to everybody.
    """
    machine = _machine()
    if machine is None or not can_refuse():
        return False
    instructions = _filter(machine, refused)
    array = (_Instruction * len(instructions))(*instructions)
    program = _Program(len(instructions), array)
    libc = ctypes.CDLL(None, use_errno=True)
    address = ctypes.c_ulong(ctypes.addressof(program))
    return bool(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, address, 0, 0) == 0)


def _machine() -> Machine | None:
    return MACHINES.get(platform.machine()) if sys.platform == "linux" else None


def _filter(machine: Machine, wanted: Refused) -> list[_Instruction]:
    """Return the filter's instructions; jumps count the instructions to skip."""
    refused = REFUSE | errno.EACCES
    calls = (
        *(IO_URING_SETUP, machine.ptrace, machine.setsid, machine.setpgid),
        machine.open_by_handle_at,
        *((machine.connect,) if wanted.connections else ()),
        *machine.changes,
    )
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
        *(of_sockets if wanted.network else [_Instruction(RETURN, 0, 0, ALLOW)]),
    ]
