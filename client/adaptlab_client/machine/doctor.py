"""Checks of this machine as a client of a server, and as a worker."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from adaptlab.c_compiler import COMPILERS, WHAT_IT_COSTS, c_compiler
from adaptlab.control_groups import delegated_group
from adaptlab.values import Value
from adaptlab_answers.people import Me
from adaptlab_answers.server import STARTING, Expiry
from adaptlab_client.client import Client
from adaptlab_client.errors import (
    ApiError,
    NoServer,
    ServerUnavailable,
    ServerUnreachable,
    Unauthorised,
    UnexpectedAnswer,
    UnsafeFile,
)
from adaptlab_client.machine.hardware import (
    Torch,
    gpus_of_the_driver,
    landlock_version,
    torch_here,
)
from adaptlab_client.transport import credentials

State = Literal["ok", "warn", "fail"]

SOON = timedelta(days=7)
MOST_SKEW = 30.0  # seconds; more than the time of a request plus rounding in the header
LEAST_FREE = 2**30  # bytes
KINDS = (ApiError, ServerUnreachable, UnexpectedAnswer)


class CheckResult(Value):
    """The result of one check, with the next step if something is wrong."""

    check: str
    state: State
    found: str
    next_step: str = ""


def examine(
    connect: Callable[[], Client],
    scratch: Path,
    environment: Mapping[str, str] = os.environ,
) -> Iterator[CheckResult]:
    """Run the checks and yield their findings.

    Without a server, only the machine is checked.

    Args:
        connect: opens a client; may raise `NoServer` or `UnsafeFile`.
        scratch: the folder for a worker's files.
        environment: determines the path of the file of `adaptlab login`.
    """
    yield _log_in_file(environment)
    yield from _of_server(connect)
    yield _trainers()
    yield of_control_group(delegated_group())
    yield _disk(scratch)
    torch = torch_here()
    yield _torch(torch)
    yield of_compiler(c_compiler(), trains_here=torch is not None and not torch.gpus)


def _log_in_file(environment: Mapping[str, str]) -> CheckResult:
    path = credentials.place(environment)
    try:
        count = len(credentials.read(environment).tokens)
    except UnsafeFile as error:
        return _fail("log-in file", f"other users have access to {path}", str(error))
    if not path.exists():
        return _ok("log-in file", f"none at {path}")
    return _ok("log-in file", f"{path}: tokens for {count} servers, readable only by you")


def _of_server(connect: Callable[[], Client]) -> Iterator[CheckResult]:
    try:
        client = connect()
    except NoServer as error:
        yield _fail("server", "no address", str(error))
        return
    except UnsafeFile:
        return  # reported by the check of that file
    with client:
        try:
            server_time = client.server.time()
        except KINDS as error:
            step = (
                "Start the server, or correct ADAPTLAB_URL. On a compute node, ask whether it "
                "has network access."
            )
            yield _fail("server", f"{client.url}: {_first_line(error)}", step)
            return
        yield _ok("server", f"{client.url} answers")
        yield of_clock(server_time, datetime.now(UTC))
        yield _database(client)
        yield from _token(client)


def of_clock(server_time: datetime | None, now: datetime) -> CheckResult:
    """Compare this machine's clock with the server's."""
    if server_time is None:
        return _ok("clock", "the server does not send its time")
    skew = (now - server_time).total_seconds()
    if abs(skew) <= MOST_SKEW:
        return _ok("clock", f"within {MOST_SKEW:.0f} s of the server's")
    ahead = "ahead of" if skew > 0 else "behind"
    return _warn(
        "clock",
        f"{abs(skew):.0f} s {ahead} the server's",
        "Set this machine's clock: times in its logs do not match the server's.",
    )


def _database(client: Client) -> CheckResult:
    try:
        client.server.ready()
    except ServerUnavailable as error:
        return _fail("database", _first_line(error), "See the server's log, or try again later.")
    except KINDS as error:
        return _fail("database", _first_line(error), "Ask the operator of the server.")
    return _ok("database", "answers the server")


def _token(client: Client) -> Iterator[CheckResult]:
    try:
        me = client.me()
    except Unauthorised as error:
        step = "Run `adaptlab login` with a token from an admin, or set ADAPTLAB_TOKEN."
        yield _fail("token", _first_line(error), step)
        return
    except KINDS as error:
        yield _fail("token", _first_line(error), "Try again later.")
        return
    yield of_rights(me, datetime.now(UTC))
    capabilities = client.capabilities()
    yield _versions(capabilities.version)
    yield of_expiry(capabilities.expiry)
    yield _workers(client)


def of_rights(me: Me, now: datetime) -> CheckResult:
    """Check the scopes and the expiry of the token."""
    token = me.token
    extent = f"in the project {token.project}" if token.project else f"{len(me.projects)} projects"
    found = f"{token.name} of {me.user}: {', '.join(token.scopes)}; {extent}"
    if token.expires_at is not None and token.expires_at - now < SOON:
        step = "Create another with `adaptlab tokens create` and log in with it."
        return _warn("token", f"{found}; expires at {token.expires_at:%Y-%m-%d %H:%M}", step)
    if token.scopes == ("read",):
        return _warn(
            "token", found, "It can read but not submit. Ask for a token with the scope `submit`."
        )
    return _ok("token", found)


def _versions(theirs: str) -> CheckResult:
    ours = version("adaptlab")
    if ours == theirs:
        return _ok("versions", f"{ours} on both sides")
    step = f"Install adaptlab {theirs} here, so both have the same methods and fields."
    return _warn("versions", f"{ours} here, {theirs} on the server", step)


def of_expiry(expiry: Expiry) -> CheckResult:
    """Return what the server removes by itself, as it says."""
    kept = {
        "archived jobs": expiry.archived_days,
        "learning curves": expiry.curve_days,
        "attention maps": expiry.attention_days,
        "checkpoints": expiry.checkpoint_days,
        "dead workers": expiry.worker_days,
    }
    removed = [f"{what} after {days:g} days" for what, days in kept.items() if days is not None]
    return _ok("expiry", f"removes {', '.join(removed)}" if removed else "removes nothing")


def _workers(client: Client) -> CheckResult:
    live = [worker for worker in client.server.workers() if worker.live]
    able = [worker for worker in live if worker.unschedulable is None]
    if not able and any(worker.unschedulable == STARTING for worker in live):
        return _ok("workers", "starting")
    if not live:
        return _warn("workers", "none is live", "Jobs wait until an `adaptlab worker` is started.")
    if not able:
        reason = live[0].unschedulable or ""
        return _warn("workers", f"{len(live)} live, none takes jobs: {reason}", "Fix the cause.")
    queues = sorted({queue for worker in able for queue in worker.queues})
    return _ok("workers", f"{len(able)} take jobs, from {', '.join(queues)}")


def _disk(scratch: Path) -> CheckResult:
    path = scratch.absolute()
    folder = next(parent for parent in (path, *path.parents) if parent.exists())
    free = shutil.disk_usage(folder).free
    found = f"{free / 2**30:.1f} GiB free at {folder}"
    if not os.access(folder, os.W_OK):
        return _warn(
            "disk", f"you cannot write to {folder}", "Choose another folder with --scratch."
        )
    if free < LEAST_FREE:
        return _warn(
            "disk",
            found,
            f"A worker needs {LEAST_FREE // 2**30} GiB. Free some space, or choose another folder "
            "with --scratch.",
        )
    return _ok("disk", found)


def _trainers() -> CheckResult:
    version = landlock_version()
    if version:
        return _ok(
            "trainers", f"the kernel (Landlock {version}) can limit trainers to their own files"
        )
    found = "this kernel lacks Landlock: a worker's trainers can access all files of their user"
    step = "Use Linux 5.13 or newer with Landlock enabled, or run the worker in its own container."
    return _warn("trainers", found, step)


def of_control_group(delegated: Path | None) -> CheckResult:
    """Return whether the slots of a worker could have control groups."""
    if delegated is None:
        found = (
            "none is delegated here: a trainer's limit of memory holds for each of its processes"
        )
    else:
        found = f"{delegated} is delegated: slots get groups, which limit memory and processes"
    return _ok("control group", found)


def _torch(torch: Torch | None) -> CheckResult:
    of_driver = gpus_of_the_driver()
    if torch is None:
        return _ok("torch", "not installed: this machine can use a server, but not run a worker")
    if torch.fault is not None:
        return _fail("torch", torch.fault, "Reinstall it: pip install 'adaptlab[worker]'.")
    if torch.gpus:
        drivers = f" (driver: {'; '.join(of_driver)})" if of_driver else ""
        return _ok("torch", f"{torch.version}; {'; '.join(torch.gpus)}{drivers}")
    if of_driver:
        step = "Install a torch built for this driver, or check CUDA_VISIBLE_DEVICES."
        found = f"{torch.version} sees no GPU, but the driver reports {'; '.join(of_driver)}"
        return _warn("torch", found, step)
    return _ok("torch", f"{torch.version}; no GPU, so a worker here trains on the CPU")


def of_compiler(found: str | None, *, trains_here: bool) -> CheckResult:
    """Return whether a worker could compile its kernels.

    `trains_here` is true if a worker here would train on the CPU.
    """
    if found is not None:
        return _ok("compiler", found)
    if not trains_here:
        return _ok("compiler", "none, and none is needed")
    step = f"Install a C compiler ({', '.join(COMPILERS)}) and start the worker again."
    return _warn("compiler", f"none, so {WHAT_IT_COSTS}", step)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _ok(check: str, found: str) -> CheckResult:
    return CheckResult(check=check, state="ok", found=found)


def _warn(check: str, found: str, next_step: str) -> CheckResult:
    return CheckResult(check=check, state="warn", found=found, next_step=next_step)


def _fail(check: str, found: str, next_step: str) -> CheckResult:
    return CheckResult(check=check, state="fail", found=found, next_step=next_step)
