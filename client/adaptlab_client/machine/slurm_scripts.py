"""Scripts for Slurm's `sbatch`: one that submits a job and waits, two that work for a server.

None holds a token. What is put into a line of `sbatch` is checked, because nothing can be quoted
there; what is put into a line of the shell is quoted.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from adaptlab.errors import AdaptlabError

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:,/@%+=\[\]-]*")
_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d\d)")
_ANSWERS_LATE = 600  # seconds between the end of waiting and that of the batch job, at most
LOOK_SECONDS = 300  # for a job whose last attempt was lost, and whose lease has yet to end
SAVE_SECONDS = 60
WARN_SECONDS = 120
LEAST_SECONDS = 300
"""Of a batch job with a worker. Slurm may send the warning a minute early; in what is left of
less, a worker only starts and is requeued, again and again."""


class BadDirective(AdaptlabError):
    """A value that cannot stand in a line of `sbatch`."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a batch job asks Slurm for; None is left to the site.

    Attributes:
        time: as Slurm has it, such as 04:00:00 or 1-12:00:00.
        array: such as 0-9%2, ten elements of which two run at a time.
        directives: further options of `sbatch`, such as mem=16G.
    """

    name: str
    time: str = "04:00:00"
    partition: str | None = None
    account: str | None = None
    gpus: int | None = None
    cpus: int | None = None
    array: str | None = None
    directives: tuple[str, ...] = ()

    @property
    def seconds(self) -> int:
        """How long the batch job may run."""
        found = _TIME.fullmatch(self.time)
        if found is None:
            raise BadDirective(
                f"--time {self.time!r} is no time of Slurm's; give 04:00:00 or 1-12:00:00."
            )
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
        return ((24 * days + hours) * 60 + minutes) * 60 + seconds


def submitting(allocation: Allocation, spec: str, server: str | None = None) -> str:
    """A script that submits a spec once, however often it is requeued, waits and fetches."""
    patience = max(allocation.seconds - _ANSWERS_LATE, allocation.seconds // 2)
    key = "slurm-$SLURM_CLUSTER_NAME-$SLURM_JOB_ID"
    if allocation.array is not None:
        key = "slurm-$SLURM_CLUSTER_NAME-$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID"
    return f"""{_head(allocation)}
{_address(server)}JOB=$(adaptlab jobs submit {shlex.quote(spec)} --idempotency-key "{key}" --output id) || exit
adaptlab jobs wait "$JOB" --timeout "${{PATIENCE:-{patience}}}" --output id
code=$?
case $code in
    0) adaptlab checkpoints download --job "$JOB" --to checkpoints
       adaptlab jobs evaluations "$JOB" --output csv > "scores-$JOB.csv" ;;
    1) adaptlab jobs events "$JOB" >&2 ;;
    69 | 75 | 124) scontrol requeue "$SLURM_JOB_ID" ;;
esac
exit $code
"""  # noqa: E501 - the lines of the script are as long as they are


def working(
    allocation: Allocation, queues: tuple[str, ...], server: str | None = None, *, once: bool
) -> str:
    """A script of a worker that takes jobs while there are some and time is left."""
    words = ["--once" if once else "--drain", "--until", "auto"]
    return _of_worker(allocation, _worker(words, queues, server))


def working_on(allocation: Allocation, queue: str, server: str, token_file: Path) -> str:
    """A script of a worker that takes one job of a queue, with the token that is in a file.

    It begins the job however long that takes: at the end of the time it saves the state, and goes
    on when it is requeued.
    """
    words = _worker(["--once", "--idle-timeout", str(LOOK_SECONDS)], (queue,), server)
    before = f"""export ADAPTLAB_TOKEN_FILE={shlex.quote(str(token_file))} # opens this job alone
unset ADAPTLAB_TOKEN
"""
    after = """if [ "$code" -eq 0 ]; then
    rm -f "$ADAPTLAB_TOKEN_FILE" # there is nothing left to do with it
fi
"""
    return _of_worker(allocation, words, before, after)


def _worker(words: list[str], queues: tuple[str, ...], server: str | None) -> str:
    """The command of a worker, as the shell reads it."""
    words = ["adaptlab", "worker", *words, "--save-within", str(SAVE_SECONDS)]
    for queue in queues:
        words += ["--queue", queue]
    if server is not None:
        words += ["--server", server]
    return shlex.join(words)


def _of_worker(allocation: Allocation, worker: str, before: str = "", after: str = "") -> str:
    """A script that runs a worker, passes signals on and asks to be requeued."""
    if allocation.seconds < LEAST_SECONDS:
        raise BadDirective(
            f"--time {allocation.time} leaves a worker no time to work: Slurm warns it up to "
            f"{WARN_SECONDS + 60} s before the end, and it starts for up to a minute. Give "
            f"00:{LEAST_SECONDS // 60:02d}:00 or more."
        )
    return f"""{_head(allocation, f"signal=B:USR1@{WARN_SECONDS}")}
{before}scratch="${{SLURM_TMPDIR:-${{TMPDIR:-/tmp}}}}/adaptlab-$SLURM_JOB_ID"
again=
trap 'stirred=yes; again=yes; kill -USR1 "$!"' USR1 # the time is nearly over
trap 'stirred=yes; kill -TERM "$!"' TERM            # scancel, or somebody more urgent
{worker} --scratch "$scratch" &
worker=$!
stirred=yes
while [ -n "$stirred" ]; do # a signal ends `wait`, and not yet the worker
    stirred=
    wait "$worker"
    code=$?
done
rm -rf "$scratch"
{after}if [ "$code" -eq 75 ] && [ -n "$again" ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
"""


def _head(allocation: Allocation, *more: str) -> str:
    _ = allocation.seconds  # raises for what is no time
    lines = [f"#SBATCH --{_checked(one)}" for one in _directives(allocation, more)]
    return "\n".join(["#!/bin/bash", *lines, ""])


def _directives(allocation: Allocation, more: tuple[str, ...]) -> Iterator[str]:
    yield f"job-name={allocation.name}"
    yield f"time={allocation.time}"
    for name, value in (
        ("partition", allocation.partition),
        ("account", allocation.account),
        ("gres", None if allocation.gpus is None else f"gpu:{allocation.gpus}"),
        ("cpus-per-task", allocation.cpus),
        ("array", allocation.array),
    ):
        if value is not None:
            yield f"{name}={value}"
    yield from allocation.directives
    yield from more
    yield "requeue"
    yield "open-mode=append"


def _checked(directive: str) -> str:
    if not _PLAIN.fullmatch(directive):
        raise BadDirective(
            f"{directive!r} cannot stand in a line of sbatch; use letters, digits and "
            "._:,/@%+=[]- without spaces."
        )
    return directive


def _address(server: str | None) -> str:
    return "" if server is None else f"export ADAPTLAB_URL={shlex.quote(server)}\n"
