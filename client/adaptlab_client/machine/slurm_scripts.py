"""Batch scripts for Slurm: one submits a job and waits, two run a worker.

None contains a token. Values in `#SBATCH` lines are checked, because nothing can be quoted there;
values in shell lines are quoted.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from adaptlab.errors import AdaptlabError

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:,/@%+=\[\]-]*")
_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d\d)")
_MARGIN = 600  # at most so many seconds remain between the end of waiting and of the batch job
LOOK_SECONDS = 300  # until the lease of a lost attempt has expired
SAVE_SECONDS = 60
WARN_SECONDS = 120
LEAST_SECONDS = 300
"""Minimum time of a batch job with a worker.

Slurm may send its warning a minute early, so with less a worker would only start and be requeued.
"""


class BadDirective(AdaptlabError):
    """A value that is not allowed in an `#SBATCH` line."""


@dataclass(frozen=True, slots=True)
class SlurmResources:
    """The resources that a batch job requests; None means the site's default.

    Attributes:
        time: in Slurm's format, such as 04:00:00 or 1-12:00:00.
        array: such as 0-9%2: ten elements, of which two run at a time.
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
        """The time limit of the batch job, in seconds."""
        match = _TIME.fullmatch(self.time)
        if match is None:
            raise BadDirective(
                f"--time {self.time!r} is not in Slurm's format. Use 04:00:00 or 1-12:00:00."
            )
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return ((24 * days + hours) * 60 + minutes) * 60 + seconds


def submitting(allocation: SlurmResources, spec: str, server: str | None = None) -> str:
    """Return a script that submits a spec, waits, and downloads the results.

    The spec is submitted once, however often the script is requeued.
    """
    patience = max(allocation.seconds - _MARGIN, allocation.seconds // 2)
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
    allocation: SlurmResources, queues: tuple[str, ...], server: str | None = None, *, once: bool
) -> str:
    """Return a script of a worker that takes jobs while time is left."""
    words = ["--once" if once else "--drain", "--until", "auto"]
    return _of_worker(allocation, _worker(words, queues, server))


def working_on(allocation: SlurmResources, queue: str, server: str, token_file: Path) -> str:
    """Return a script of a worker for one job, whose token is in a file.

    The worker takes the job even if the time is too short for it: at the end it saves the state,
    and after requeueing it resumes.
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
    """Return the command that starts a worker, quoted for the shell."""
    words = ["adaptlab", "worker", *words, "--save-within", str(SAVE_SECONDS)]
    for queue in queues:
        words += ["--queue", queue]
    if server is not None:
        words += ["--server", server]
    return shlex.join(words)


def _of_worker(allocation: SlurmResources, worker: str, before: str = "", after: str = "") -> str:
    """Return a script that runs a worker, forwards signals and can requeue."""
    if allocation.seconds < LEAST_SECONDS:
        raise BadDirective(
            f"--time {allocation.time} is too short for a worker: Slurm warns it up to "
            f"{WARN_SECONDS + 60} s before the end, and it takes up to a minute to start. Use "
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


def _head(allocation: SlurmResources, *more: str) -> str:
    _ = allocation.seconds  # raises if the time is invalid
    lines = [f"#SBATCH --{_checked(option)}" for option in _directives(allocation, more)]
    return "\n".join(["#!/bin/bash", *lines, ""])


def _directives(allocation: SlurmResources, more: tuple[str, ...]) -> Iterator[str]:
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
            f"{directive!r} is not allowed in an #SBATCH line. Use letters, digits and "
            "._:,/@%+=[]- without spaces."
        )
    return directive


def _address(server: str | None) -> str:
    return "" if server is None else f"export ADAPTLAB_URL={shlex.quote(server)}\n"
