"""Attacks of one process on others, by their process ids.

As a program, `python -m tests.security.neighbour_attacks USER PID …` becomes that user first and
has no other defence, neither a filter of system calls nor Landlock. As a stand-in for the engine,
`attack` runs in a confined trainer and reads the ids from `targets` in RUNNER_CONTROL.
"""

import json
import os
import resource
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.worker.runners import Given, finish, refusal, runner

Outcomes = Mapping[str, str]


@runner
def attack(given: Given) -> None:
    """Try everything on every process, and then do the job."""
    control = Path(os.environ["RUNNER_CONTROL"])
    targets = json.loads((control / "targets").read_text())
    outcomes = attempts_on([int(target) for target in targets["processes"]])
    outcomes |= {f"enter {path}": refusal(lambda path=path: _enter(Path(path)))
                 for path in targets["groups"]}  # fmt: skip
    (control / "report.partial").write_text(json.dumps(outcomes))
    (control / "report.partial").rename(control / "report")
    finish(given)


def attempts_on(processes: list[int]) -> dict[str, str]:
    """Try to signal, limit, slow down, pin and read each process."""
    return {
        f"{name} {process}": refusal(lambda deed=deed, process=process: deed(process))
        for process in processes
        for name, deed in ATTEMPTS.items()
    }


ATTEMPTS: Mapping[str, Callable[[int], object]] = {
    "signal": lambda process: os.kill(process, 0),
    "limit": lambda process: resource.prlimit(process, resource.RLIMIT_NOFILE),
    "slow down": lambda process: os.setpriority(os.PRIO_PROCESS, process, 19),
    "pin": lambda process: os.sched_setaffinity(process, os.sched_getaffinity(0)),
    "memory": lambda process: Path(f"/proc/{process}/mem").open("rb").close(),
}


def _enter(group: Path) -> None:
    (group / "cgroup.procs").write_text("0")


if __name__ == "__main__":
    user, *others = map(int, sys.argv[1:])
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    print(json.dumps(attempts_on(others)))
