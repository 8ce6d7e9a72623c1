"""System calls of a trainer: a list of those that it needs, and no others.

This is a kernel filter (seccomp). It needs no privilege, applies to all child processes and cannot
be removed. Alternatives considered: libseccomp's Python bindings (none on the registry is
maintained by its authors, and the filter is a few dozen instructions), a network namespace (needs
root), and Landlock (on many kernels without rules for the network). Landlock limits files and
signals (`landlock`); this filter also covers modes and owners of files, for which it has no rule.

See `man 2 seccomp`; the numbers are those of <linux/filter.h>, <linux/seccomp.h> and the headers
named beside them.
"""

import ctypes
import errno
import platform
import socket
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from adaptlab_worker.confinement.system_call_numbers import (
    AARCH64,
    X86_64,
    SystemCalls,
    system_calls,
)

PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
SECCOMP_GET_ACTION_AVAIL = 2
ALLOW = 0x7FFF0000
FAIL = 0x00050000  # the call fails with the number in the lower half
REFUSE = FAIL | errno.EACCES
MISSING = FAIL | errno.ENOSYS
"""As on a kernel that lacks the call: libraries then use an older one, or do without."""
LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
AND = 0x54  # BPF_ALU | BPF_AND | BPF_K
IF_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
IF_ABOVE = 0x25  # BPF_JMP | BPF_JGT | BPF_K
IF_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
IF_ANY_BIT = 0x45  # BPF_JMP | BPF_JSET | BPF_K
RETURN = 0x06  # BPF_RET | BPF_K
# Offsets in `struct seccomp_data`; of arguments, the lower half on little-endian machines.
NUMBER, ARCHITECTURE = 0, 4
FIRST, SECOND, THIRD, FOURTH = 16, 24, 32, 40
X32 = 0x40000000
"""Numbers of x86-64 from here on are the same calls in another binary interface."""
NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS and so on <linux/sched.h>
PRIO_PROCESS, IOPRIO_WHO_PROCESS = 0, 1  # <linux/resource.h>, <linux/ioprio.h>
OWNERS_OF_FILES = (8, 10, 15)  # F_SETOWN, F_SETSIG, F_SETOWN_EX <linux/fcntl.h>: send signals
OF_TERMINALS = (0x5412, 0x541C, 0x8901, 0x8902)  # TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP
PR_SCHED_CORE = 62  # <linux/prctl.h>
SHARED_UNNAMED = 0x21  # MAP_SHARED | MAP_ANONYMOUS <linux/mman.h>
AF_NETLINK, NETLINK_ROUTE = 16, 0
KINDS_OF_SOCKETS = 0xF  # SOCK_TYPE_MASK <linux/net.h>
IN_STREAMS = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)
"""Kinds that need `connect` to send; datagrams do not."""


class Machine(NamedTuple):
    """An architecture: its name for audits, and its numbers."""

    audit: int
    seccomp: int
    column: int


MACHINES = {
    "x86_64": Machine(0xC000003E, seccomp=317, column=X86_64),
    "aarch64": Machine(0xC00000B7, seccomp=277, column=AARCH64),
}


class RefusedCalls(NamedTuple):
    """Optional refusals, in addition to those that always apply.

    Attributes:
        network: sockets other than those of the machine itself.
        connections: to sockets of the machine too; those of service managers and containers run
            programs for whoever reaches them, and Landlock has no rule for sockets that are files.
        shared_memory: memory without a file that processes share, which no limit counts.
    """

    network: bool
    connections: bool
    shared_memory: bool = True


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("jump_true", ctypes.c_uint8),
        ("jump_false", ctypes.c_uint8),
        ("operand", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction)))


Instructions = Sequence[_Instruction]


def can_refuse() -> bool:
    """Return True if kernel and architecture support the filter."""
    machine = _machine()
    if machine is None:
        return False
    action = ctypes.c_uint32(FAIL)
    libc = ctypes.CDLL(None, use_errno=True)
    status = libc.syscall(machine.seccomp, SECCOMP_GET_ACTION_AVAIL, 0, ctypes.byref(action))
    return bool(status == 0)


def refuse_system_calls(refused: RefusedCalls) -> bool:
    """Deny all other system calls for good; return False if unsupported.

    This applies to the process and its children. What is allowed is a list
    (`system_call_numbers`). Not on it are, among others: io_uring (which creates sockets past a
    filter), ptrace, leaving the process group (by which a worker ends everything that a run
    started), namespaces, changes of modes and owners of files, System V memory and message queues
    (which outlive a run), keys, and what changes limits and priorities of other processes.
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


def _filter(machine: Machine, wanted: RefusedCalls) -> Instructions:
    """Return the filter's instructions; jumps count the instructions to skip."""
    calls = system_calls(machine.column)
    return [
        _Instruction(LOAD, 0, 0, ARCHITECTURE),
        _Instruction(IF_EQUAL, 1, 0, machine.audit),
        _return(REFUSE),  # a call of another architecture, by other numbers
        _Instruction(LOAD, 0, 0, NUMBER),
        *_if(IF_AT_LEAST, X32, [_return(REFUSE)]),
        *_by_arguments(calls, wanted),
        *_in_ranges(calls.allowed, ALLOW),
        *_in_ranges(calls.refused, REFUSE),
        _return(MISSING),
    ]


def _by_arguments(calls: SystemCalls, wanted: RefusedCalls) -> Iterator[_Instruction]:
    """Yield the tests of the calls that depend on their arguments."""
    rules = {**_of_processes(), **_of_descriptors(), **_of_memory(wanted), **_of_sockets(wanted)}
    for name, number in calls.named.items():
        yield from _if(IF_EQUAL, number, rules[name])


def _of_processes() -> dict[str, Instructions]:
    """Return the rules by which a process changes only itself.

    The number 0 is the calling process or thread.
    """
    own = [*_argument(FIRST), *_if(IF_EQUAL, 0, [_return(ALLOW)]), _return(REFUSE)]
    own_second = [*_argument(SECOND), *_if(IF_EQUAL, 0, [_return(ALLOW)]), _return(REFUSE)]
    scheduling = ("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr")
    return {
        **dict.fromkeys(("prlimit64", *scheduling), own),
        "setpriority": [
            *_argument(FIRST), *_if(IF_EQUAL, PRIO_PROCESS, own_second), _return(REFUSE)
        ],
        "ioprio_set": [
            *_argument(FIRST), *_if(IF_EQUAL, IOPRIO_WHO_PROCESS, own_second), _return(REFUSE)
        ],
        "clone": [
            *_argument(FIRST), *_if(IF_ANY_BIT, NEW_NAMESPACES, [_return(REFUSE)]), _return(ALLOW)
        ],
        "prctl": _all_but(FIRST, (PR_SCHED_CORE,)),
    }  # fmt: skip


def _of_descriptors() -> dict[str, Instructions]:
    return {"fcntl": _all_but(SECOND, OWNERS_OF_FILES), "ioctl": _all_but(SECOND, OF_TERMINALS)}


def _of_memory(wanted: RefusedCalls) -> dict[str, Instructions]:
    if not wanted.shared_memory:
        return {name: [_return(ALLOW)] for name in ("mmap", "memfd_create")}
    unnamed = _if(IF_EQUAL, SHARED_UNNAMED, [_return(REFUSE)])
    flags = [*_argument(FOURTH), _Instruction(AND, 0, 0, SHARED_UNNAMED)]
    return {"mmap": [*flags, *unnamed, _return(ALLOW)], "memfd_create": [_return(MISSING)]}


def _of_sockets(wanted: RefusedCalls) -> dict[str, Instructions]:
    if not wanted.network:
        return {name: [_return(ALLOW)] for name in ("socket", "socketpair", "connect")}
    local: Instructions = [_return(ALLOW)]
    if wanted.connections:
        kind = [*_argument(SECOND), _Instruction(AND, 0, 0, KINDS_OF_SOCKETS)]
        streams = [one for number in IN_STREAMS for one in _if(IF_EQUAL, number, local)]
        local = [*kind, *streams, _return(REFUSE)]
    routes = [*_argument(THIRD), *_if(IF_EQUAL, NETLINK_ROUTE, [_return(ALLOW)]), _return(REFUSE)]
    pairs = [*_argument(FIRST), *_if(IF_EQUAL, socket.AF_UNIX, local), _return(REFUSE)]
    return {
        "socket": [*pairs[:-1], *_if(IF_EQUAL, AF_NETLINK, routes), _return(REFUSE)],
        "socketpair": pairs,
        "connect": [_return(REFUSE if wanted.connections else ALLOW)],
    }


def _all_but(argument: int, refused: Sequence[int]) -> Instructions:
    """Allow a call, but with these values of an argument."""
    tests = [one for value in refused for one in _if(IF_EQUAL, value, [_return(REFUSE)])]
    return [*_argument(argument), *tests, _return(ALLOW)]


def _in_ranges(numbers: Collection[int], action: int) -> Iterator[_Instruction]:
    """Yield the tests of many numbers, by ranges without gaps."""
    for first in sorted(number for number in numbers if number - 1 not in numbers):
        last = next(number for number in range(first, first + 4096) if number + 1 not in numbers)
        yield _Instruction(IF_AT_LEAST, 0, 2, first)
        yield _Instruction(IF_ABOVE, 1, 0, last)
        yield _return(action)


def _if(test: int, operand: int, then: Instructions) -> Instructions:
    """Return instructions that run only if the loaded value passes a test."""
    return [_Instruction(test, 0, len(then), operand), *then]


def _argument(offset: int) -> Instructions:
    return [_Instruction(LOAD, 0, 0, offset)]


def _return(action: int) -> _Instruction:
    return _Instruction(RETURN, 0, 0, action)
