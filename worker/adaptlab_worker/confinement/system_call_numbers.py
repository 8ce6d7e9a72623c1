"""Numbers of system calls: those that a trainer needs, and those refused.

The allowed ones are what containers are commonly allowed (the default profile of Docker, under
which torch and CUDA are known to work), without those by which a process reaches others, the
machine, or memory that nobody counts. `docs/security.md` says how that was measured. Calls beside
those that this machine's glibc makes are included, because other kernels and versions make them.

Each entry is a name with its number on x86-64 and on 64-bit ARM, `-` where it does not exist; see
<asm/unistd.h>.
"""

from collections.abc import Iterator
from typing import NamedTuple

_FILES = """
    read 0 63, write 1 64, open 2 -, close 3 57, stat 4 -, fstat 5 80, lstat 6 -, poll 7 -,
    lseek 8 62, pread64 17 67, pwrite64 18 68, readv 19 65, writev 20 66, preadv 295 69,
    pwritev 296 70, preadv2 327 286, pwritev2 328 287, access 21 -, pipe 22 -, pipe2 293 59,
    select 23 -, pselect6 270 72, ppoll 271 73, dup 32 23, dup2 33 -, dup3 292 24, sendfile 40 71,
    flock 73 32, fsync 74 82, fdatasync 75 83, truncate 76 45, ftruncate 77 46, fallocate 285 47,
    getdents 78 -, getdents64 217 61, getcwd 79 17, chdir 80 49, fchdir 81 50, rename 82 -,
    renameat 264 38, renameat2 316 276, mkdir 83 -, mkdirat 258 34, rmdir 84 -, creat 85 -,
    link 86 -, linkat 265 37, unlink 87 -, unlinkat 263 35, symlink 88 -, symlinkat 266 36,
    readlink 89 -, readlinkat 267 78, umask 95 166, utime 132 -, utimes 235 -, utimensat 280 88,
    futimesat 261 -, statfs 137 43, fstatfs 138 44, mknod 133 -, mknodat 259 33, openat 257 56,
    openat2 437 437, newfstatat 262 79, faccessat 269 48, faccessat2 439 439, statx 332 291,
    splice 275 76, tee 276 77, vmsplice 278 75, sync_file_range 277 84, copy_file_range 326 285,
    fadvise64 221 223, readahead 187 213, close_range 436 436, cachestat 451 451, getxattr 191 8,
    lgetxattr 192 9, fgetxattr 193 10, listxattr 194 11, llistxattr 195 12, flistxattr 196 13,
    getxattrat 464 464, listxattrat 465 465, inotify_init 253 -, inotify_init1 294 26,
    inotify_add_watch 254 27, inotify_rm_watch 255 28
"""
_WAITING = """
    epoll_create 213 -, epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -,
    epoll_pwait 281 22, epoll_pwait2 441 441, eventfd 284 -, eventfd2 290 19, signalfd 282 -,
    signalfd4 289 74, timerfd_create 283 85, timerfd_settime 286 86, timerfd_gettime 287 87
"""
_MEMORY = """
    mprotect 10 226, munmap 11 215, brk 12 214, mremap 25 216, msync 26 227, mincore 27 232,
    madvise 28 233, mlock 149 228, mlock2 325 284, munlock 150 229, mlockall 151 230,
    munlockall 152 231, mbind 237 235, set_mempolicy 238 237, get_mempolicy 239 236,
    set_mempolicy_home_node 450 450, pkey_alloc 330 289, pkey_free 331 290, pkey_mprotect 329 288,
    membarrier 324 283, map_shadow_stack 453 453, mseal 462 462
"""
_PROCESSES = """
    fork 57 -, vfork 58 -, execve 59 221, execveat 322 281, exit 60 93, exit_group 231 94,
    wait4 61 260, waitid 247 95, set_tid_address 218 96, futex 202 98, futex_waitv 449 449,
    futex_wake 454 454, futex_wait 455 455, futex_requeue 456 456, set_robust_list 273 99,
    get_robust_list 274 100, rseq 334 293, arch_prctl 158 -, set_thread_area 205 -,
    get_thread_area 211 -, restart_syscall 219 128, sched_yield 24 124, sched_getaffinity 204 123,
    sched_getparam 143 121, sched_getscheduler 145 120, sched_getattr 315 275,
    sched_get_priority_max 146 125, sched_get_priority_min 147 126, sched_rr_get_interval 148 127,
    getpriority 140 141, ioprio_get 252 31, getpid 39 172, getppid 110 173, gettid 186 178,
    getpgrp 111 -, getpgid 121 155, getsid 124 156, getcpu 309 168, seccomp 317 277,
    landlock_create_ruleset 444 444, landlock_add_rule 445 445, landlock_restrict_self 446 446,
    pidfd_open 434 434, capget 125 90, capset 126 91, uretprobe 335 -
"""
_USERS = """
    getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177, getresuid 118 148,
    getresgid 120 150, getgroups 115 158, setuid 105 146, setgid 106 144, setreuid 113 145,
    setregid 114 143, setresuid 117 147, setresgid 119 149, setgroups 116 159, setfsuid 122 151,
    setfsgid 123 152
"""
_SIGNALS = """
    rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136,
    rt_sigtimedwait 128 137, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240,
    rt_sigsuspend 130 133, sigaltstack 131 132, kill 62 129, tkill 200 130, tgkill 234 131,
    pidfd_send_signal 424 424, pause 34 -, alarm 37 -
"""
_TIME = """
    time 201 -, gettimeofday 96 169, clock_gettime 228 113, clock_getres 229 114,
    clock_nanosleep 230 115, nanosleep 35 101, getitimer 36 102, setitimer 38 103,
    timer_create 222 107, timer_settime 223 110, timer_gettime 224 108, timer_getoverrun 225 109,
    timer_delete 226 111, times 100 153, getrusage 98 165, getrlimit 97 163, setrlimit 160 164,
    sysinfo 99 179, uname 63 160, getrandom 318 278
"""
_SOCKETS = """
    bind 49 200, listen 50 201, accept 43 202, accept4 288 242, sendto 44 206, recvfrom 45 207,
    sendmsg 46 211, recvmsg 47 212, sendmmsg 307 269, recvmmsg 299 243, shutdown 48 210,
    getsockname 51 204, getpeername 52 205, getsockopt 55 209, setsockopt 54 208
"""
_WITH_ARGUMENTS = """
    clone 56 220, prlimit64 302 261, sched_setaffinity 203 122, sched_setscheduler 144 119,
    sched_setparam 142 118, sched_setattr 314 274, setpriority 141 140, ioprio_set 251 30,
    fcntl 72 25, ioctl 16 29, prctl 157 167, socket 41 198, socketpair 53 199, mmap 9 222,
    memfd_create 319 279, connect 42 203
"""
_REFUSED = """
    io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427, ptrace 101 117,
    setsid 112 157, setpgid 109 154, open_by_handle_at 304 265, unshare 272 97, setns 308 268,
    process_vm_readv 310 270, process_vm_writev 311 271, process_madvise 440 440,
    process_mrelease 448 448, pidfd_getfd 438 438, migrate_pages 256 238, move_pages 279 239,
    kcmp 312 272, chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, chown 92 -,
    fchown 93 55, lchown 94 -, fchownat 260 54, setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7,
    removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16, setxattrat 463 463,
    removexattrat 466 466, shmget 29 194, shmat 30 196, shmctl 31 195, shmdt 67 197, semget 64 190,
    semop 65 193, semtimedop 220 192, semctl 66 191, msgget 68 186, msgsnd 69 189, msgrcv 70 188,
    msgctl 71 187, mq_open 240 180, mq_unlink 241 181, mq_timedsend 242 182,
    mq_timedreceive 243 183, mq_notify 244 184, mq_getsetattr 245 185, keyctl 250 219,
    add_key 248 217, request_key 249 218, userfaultfd 323 282, bpf 321 280,
    perf_event_open 298 241, mount 165 40, umount2 166 39, pivot_root 155 41, chroot 161 51,
    fsopen 430 430, fsconfig 431 431, fsmount 432 432, fspick 433 433, move_mount 429 429,
    open_tree 428 428, mount_setattr 442 442
"""
X86_64, AARCH64 = 0, 1
"""Columns of the numbers."""


class SystemCalls(NamedTuple):
    """The system calls of one architecture.

    Attributes:
        allowed: numbers of the calls that are allowed with any arguments.
        refused: numbers of those that are refused; all others do not exist for a trainer.
        named: numbers by name of those that depend on their arguments.
    """

    allowed: frozenset[int]
    refused: frozenset[int]
    named: dict[str, int]


def system_calls(column: int) -> SystemCalls:
    """Return the system calls of an architecture, by its column."""
    groups = (_FILES, _WAITING, _MEMORY, _PROCESSES, _USERS, _SIGNALS, _TIME, _SOCKETS)
    return SystemCalls(
        allowed=frozenset(number for group in groups for _, number in _read(group, column)),
        refused=frozenset(number for _, number in _read(_REFUSED, column)),
        named=dict(_read(_WITH_ARGUMENTS, column)),
    )


def _read(group: str, column: int) -> Iterator[tuple[str, int]]:
    for entry in group.split(","):
        name, *numbers = entry.split()
        if numbers[column] != "-":
            yield name, int(numbers[column])
