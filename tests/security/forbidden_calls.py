"""Tries system calls by which a trainer would reach beyond itself.

Run as a module; prints what came of each as JSON: `done`, or the name of the error. Nothing is
changed for good, so that it also runs as a control without the filter.
"""

import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

PARENT = os.getppid()
NAMESPACES = {
    "mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000,
    "user": 0x10000000, "pid": 0x20000000, "network": 0x40000000, "time": 0x80,
}  # fmt: skip
NUMBERS = {
    "x86_64": {"ioprio_set": 251, "clone": 56, "add_key": 248, "keyctl": 250, "bpf": 321,
               "userfaultfd": 323, "perf_event_open": 298, "kcmp": 312, "unshare": 272,
               "migrate_pages": 256, "move_pages": 279, "name_to_handle_at": 303, "acct": 163,
               "personality": 135},
    "aarch64": {"ioprio_set": 30, "clone": 220, "add_key": 217, "keyctl": 219, "bpf": 280,
                "userfaultfd": 282, "perf_event_open": 241, "kcmp": 272, "unshare": 97,
                "migrate_pages": 238, "move_pages": 239, "name_to_handle_at": 264, "acct": 89,
                "personality": 92},
}.get(platform.machine(), {}) | {
    "clone3": 435, "io_uring_setup": 425, "pidfd_getfd": 438, "process_madvise": 440,
    "memfd_secret": 447, "open_tree": 428, "fsopen": 430, "process_mrelease": 448,
}  # fmt: skip
LIBC = ctypes.CDLL(None, use_errno=True)
NETLINK = {"netfilter": 12, "audit": 9, "generic": 16, "diagnosis": 4, "uevents": 15}


def main() -> None:
    """Print what came of everything."""
    outcomes = {name: _outcome(deed) for name, deed in _attempts().items()}
    print(json.dumps(outcomes))


def _attempts() -> Mapping[str, Callable[[], object]]:
    return {
        **_on_other_processes(),
        **_namespaces(),
        **_of_the_kernel(),
        **_memory_that_stays(),
        **_sockets(),
        **_ordinary(),
    }


def _on_other_processes() -> Mapping[str, Callable[[], object]]:
    affinity, nice = os.sched_getaffinity(PARENT), os.getpriority(os.PRIO_PROCESS, PARENT)
    return {
        "limits of another": lambda: resource.prlimit(PARENT, resource.RLIMIT_CORE),
        "cores of another": lambda: os.sched_setaffinity(PARENT, affinity),
        "priority of another": lambda: os.setpriority(os.PRIO_PROCESS, PARENT, nice),
        "priority of a group": lambda: os.setpriority(os.PRIO_PGRP, 0, nice),
        "priority of a user": lambda: os.setpriority(os.PRIO_USER, os.getuid(), nice),
        "scheduler of another": lambda: os.sched_setscheduler(
            PARENT, os.SCHED_OTHER, os.sched_param(0)
        ),
        "scheduling of another": lambda: os.sched_setparam(PARENT, os.sched_param(0)),
        "disk priority of another": lambda: _call("ioprio_set", 1, PARENT, 0x4004),
        "disk priority of a user": lambda: _call("ioprio_set", 3, os.getuid(), 0x4004),
        "signal by a file": lambda: _own_a_file_by(fcntl.F_SETOWN),
        "kind of signal by a file": lambda: _own_a_file_by(fcntl.F_SETSIG),
        "files of another": lambda: _call("pidfd_getfd", os.pidfd_open(PARENT), 0, 0),
        "comparison with another": lambda: _call("kcmp", PARENT, os.getpid(), 1, 0, 0),
        "pages of another": lambda: _call("migrate_pages", PARENT, 0, 0, 0),
        "page places of another": lambda: _call("move_pages", PARENT, 0, 0, 0, 0, 0),
        "core scheduling": lambda: _libc("prctl", 62, 0, PARENT, 0, 0),
    }


def _own_a_file_by(command: int) -> None:
    readable, _ = os.pipe()
    fcntl.fcntl(readable, command, PARENT if command == fcntl.F_SETOWN else signal.SIGURG)


def _namespaces() -> Mapping[str, Callable[[], object]]:
    return {
        **{
            f"{name} namespace": lambda flag=flag: _in_a_child(lambda: _call("unshare", flag))
            for name, flag in NAMESPACES.items()
        },
        **{
            f"child in a {name} namespace": lambda flag=flag: _cloned(flag)
            for name, flag in NAMESPACES.items()
            if name != "time"
        },
        "clone3": lambda: _call("clone3", 0, 0),
        "namespace of another": lambda: _libc("setns", os.pidfd_open(os.getpid()), 0x4000000),
        "root folder": lambda: _in_a_child(lambda: os.chroot("/")),
    }


def _cloned(flag: int) -> None:
    child = _call("clone", flag | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _in_a_child(deed: Callable[[], object]) -> None:
    child = os.fork()
    if child == 0:
        try:
            deed()
        except OSError as error:
            os._exit(error.errno or 1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        raise OSError(status, os.strerror(status))


def _of_the_kernel() -> Mapping[str, Callable[[], object]]:
    keyring = ctypes.c_char_p(b"user")
    return {
        "page faults": lambda: _call("userfaultfd", 1),
        "keys": lambda: _call("keyctl", 0, -3, 0, 0, 0),
        "new key": lambda: _call("add_key", keyring, keyring, keyring, 4, -4),
        "programs of the kernel": lambda: _call("bpf", 0, 0, 0),
        "counters": lambda: _call("perf_event_open", 0, 0, -1, -1, 0),
        "ring": lambda: _call("io_uring_setup", 1, ctypes.create_string_buffer(200)),
        "mounts": lambda: _call("open_tree", -100, ctypes.c_char_p(b"/"), 1),
        "file systems": lambda: _call("fsopen", ctypes.c_char_p(b"tmpfs"), 0),
        "accounting": lambda: _call("acct", 0),
        "other habits": lambda: _call("personality", 0x40000),
        "terminal input": lambda: fcntl.ioctl(0, 0x5412, b"x"),
    }


def _memory_that_stays() -> Mapping[str, Callable[[], object]]:
    return {
        "shared segment": _shared_segment,
        "semaphores": lambda: _libc("semctl", _libc("semget", 0, 1, 0o600), 0, 0),
        "messages": lambda: _libc("msgctl", _libc("msgget", 0, 0o600), 0, 0),
        "message queue": _message_queue,
        "unnamed file": lambda: os.close(os.memfd_create("x")),
        "secret memory": lambda: os.close(_call("memfd_secret", 0)),
        "shared memory": lambda: mmap.mmap(-1, 4096).close(),
        "shared zeros": _shared_zeros,
    }


def _shared_segment() -> None:
    _libc("shmctl", _libc("shmget", 0, 4096, 0o600), 0, 0)


def _message_queue() -> None:
    name = ctypes.c_char_p(f"/adaptlab-{os.getpid()}".encode())
    _libc("mq_open", name, os.O_RDWR | os.O_CREAT, 0o600, 0)
    _libc("mq_unlink", name)


def _shared_zeros() -> None:
    with Path("/dev/zero").open("r+b", buffering=0) as zeros:
        mmap.mmap(zeros.fileno(), 4096).close()


def _sockets() -> Mapping[str, Callable[[], object]]:
    return {
        **{
            f"netlink {name}": lambda number=number: socket.socket(
                socket.AF_NETLINK, socket.SOCK_RAW, number
            ).close()
            for name, number in NETLINK.items()
        },
        "datagram": _datagram,
        "pair of datagrams": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
        "raw local": lambda: socket.socket(socket.AF_UNIX, socket.SOCK_RAW).close(),
        "internet": lambda: socket.socket(socket.AF_INET).close(),
        "virtual machine": lambda: socket.socket(40, socket.SOCK_STREAM).close(),
        "bluetooth": lambda: socket.socket(31, socket.SOCK_RAW, 1).close(),
        "encryption": lambda: socket.socket(38, socket.SOCK_SEQPACKET).close(),
    }


def _datagram() -> None:
    """Send one to the socket that the test listens on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"READY=1", sys.argv[1])


def _ordinary() -> Mapping[str, Callable[[], object]]:
    """What training does all the time, and so has to work."""
    return {
        "own limits": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
        "own cores": lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)),
        "own priority": lambda: os.nice(1),
        "own thread": _a_thread,
        "program": lambda: subprocess.run(["true"], check=True),
        "shell": lambda: subprocess.run("true | true", shell=True, check=True),
        "fork": lambda: _in_a_child(lambda: None),
        "routes": socket.if_nameindex,
        "pair of streams": socket.socketpair,
        "listener": lambda: socket.socket(socket.AF_UNIX).close(),
        "temporary file": _mapped_file,
        "private memory": lambda: mmap.mmap(-1, 2**20, flags=mmap.MAP_PRIVATE).close(),
        "timer": lambda: signal.setitimer(signal.ITIMER_REAL, 0),
        "lock of a file": _locked_file,
        "entropy": lambda: os.getrandom(8),
        "event": lambda: os.close(os.eventfd(0)),
    }


def _a_thread() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()


def _mapped_file() -> None:
    with tempfile.TemporaryFile() as file:
        file.truncate(4096)
        mmap.mmap(file.fileno(), 4096).close()


def _locked_file() -> None:
    with tempfile.TemporaryFile() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.fcntl(file, fcntl.F_GETFL)


def _call(name: str, *arguments: object) -> int:
    return _checked(LIBC.syscall(NUMBERS[name], *map(_wide, arguments)))


def _libc(name: str, *arguments: object) -> int:
    return _checked(getattr(LIBC, name)(*map(_wide, arguments)))


def _wide(argument: object) -> object:
    return ctypes.c_long(argument) if isinstance(argument, int) else argument


def _checked(status: int) -> int:
    if status < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return status


def _outcome(deed: Callable[[], object]) -> str:
    try:
        deed()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "?")
    return "done"


if __name__ == "__main__":
    main()
