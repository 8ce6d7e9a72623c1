"""What goes wrong, in which way, and which defence is there against it."""

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import psutil
from tests.chaos.runners import (
    DISK_IS_FULL,
    DISK_WAS_FULL,
    HANGS,
    KILLS_ITS_TRAINER,
    KILLS_ITS_WORKER,
)
from tests.chaos.switches import ENDING, UPLOADING
from tests.chaos.world import LEASE_SECONDS, Making, World

Fault = Callable[[World, random.Random], str | None]
"""Does something bad; says what, or None where there was no occasion."""

OVERTAKEN_SECONDS = 20.0
MET_SECONDS = 3.0
POISON = (KILLS_ITS_TRAINER, KILLS_ITS_WORKER)
MANY_ATTEMPTS = "ALTER TABLE jobs ALTER attempts_max SET DEFAULT {}"


@dataclass(frozen=True)
class Scenario:
    """A kind of fault and the defence against it.

    Attributes:
        fault: done again and again, at random moments about `interval` seconds apart.
        defence: in words.
        shows: what is found without the defence; finding something else does not count.
        without: the switches and SQL that turn the defence off.
        steps: of each job, in turn, fiftieths of a second each.
        odd: numbers of steps of jobs that go wrong by themselves, put among the others.

        is_deaf_at_last: the last few jobs are submitted while there is no broker and all workers
            are idle.
        most: how often the fault is done, for a hundred jobs.
        may_cancel: whether jobs may end as cancelled.
    """

    name: str
    fault: Fault
    defence: str
    shows: tuple[str, ...]
    without: tuple[str, ...] = ()
    without_sql: tuple[str, ...] = ()
    without_settings: tuple[tuple[str, str], ...] = ()
    making: Making = field(default_factory=Making)
    steps: tuple[int, ...] = (8, 10, 12)
    odd: tuple[int, ...] = ()
    interval: float = 0.7
    pause: float = 0.0
    lost_answers: float = 0.0
    most: int = 40
    may_cancel: bool = False
    is_deaf_at_last: bool = False


def a_busy_worker(world: World, chance: random.Random) -> str | None:
    """A worker that holds a job, has seen its first step and is not frozen."""
    busy = [name for name in world.busy() if name in world.workers and name not in world.frozen]
    return chance.choice(sorted(busy)) if busy else None


def kill_a_worker(world: World, chance: random.Random) -> str | None:
    """kill -9 of a worker with a job, and of a reaper; sometimes of beat."""
    if chance.random() < 0.1:
        world.kill("beat")
        return "kill -9 beat"
    worker = a_busy_worker(world, chance)
    if worker is None:
        return None
    world.kill(worker)
    return "kill -9 worker"


def kill_a_trainer(world: World, chance: random.Random) -> str | None:
    worker = a_busy_worker(world, chance)
    trainer = None if worker is None else world.trainer_of(worker)
    if trainer is None:
        return None
    try:
        trainer.kill()
    except psutil.NoSuchProcess:
        return None
    return "kill -9 trainer"


def kill_the_api(world: World, chance: random.Random) -> str | None:
    if not world.is_served():
        return None  # one that was just killed
    world.kill("api")
    return "kill -9 API"


def freeze_a_worker(world: World, chance: random.Random) -> str | None:
    """Stop a worker until another runs its job, then let it go on."""
    worker = a_busy_worker(world, chance)
    if worker is None:
        return None
    held = world.busy().get(worker)
    if held is None:
        return None
    world.freeze(worker)
    job, attempt = held
    deadline = time.monotonic() + OVERTAKEN_SECONDS
    while time.monotonic() < deadline:
        rows = world.ask("SELECT state, attempt FROM jobs WHERE id = :job", job=job)
        if rows and (rows[0][0] == "succeeded" or rows[0] == ("running", attempt + 1)):
            break
        world.tend()
        time.sleep(0.05)
    world.thaw(worker)
    return "SIGSTOP worker beyond its lease"


def trouble_the_broker(world: World, chance: random.Random) -> str | None:
    """Empty it, or kill it; it returns empty at once or after a lease."""
    valkey, what = world.lab.servers.valkey, chance.choice(("flush", "flush", "kill", "stop"))
    if what == "flush":
        world.flush_broker()
        return "flush Valkey"
    valkey.end()
    if what == "stop":
        deadline = time.monotonic() + LEASE_SECONDS + 0.5
        while time.monotonic() < deadline:  # the fault is this long; nothing is waited for
            world.tend()
            time.sleep(0.1)
    valkey.start()
    world.flush_broker()
    return "kill -9 Valkey" if what == "kill" else "stop Valkey longer than a lease"


def kill_the_database(world: World, chance: random.Random) -> str | None:
    postgres, sent = world.lab.servers.postgres, chance.choice((signal.SIGQUIT, signal.SIGKILL))
    postgres.end(sent)
    postgres.start()
    return f"{sent.name} Postgres"


def cancel_a_job(world: World, chance: random.Random) -> str | None:
    """Cancel a job just before or while its success is written."""
    notes = sorted(world.folder.glob(f"{ENDING}*"))
    if not notes:
        return None
    note = chance.choice(notes)
    if chance.random() < 0.5:
        note.unlink(missing_ok=True)  # both at once
    is_taken = world.cancel(UUID(note.name.removeprefix(ENDING)))
    note.unlink(missing_ok=True)
    return "cancel" if is_taken else None


def fill_the_disk(world: World, chance: random.Random) -> str | None:
    """Let no weights be written until a run has met it, and for longer."""
    full, met = world.folder / DISK_IS_FULL, world.folder / DISK_WAS_FULL
    full.touch()
    deadline = time.monotonic() + MET_SECONDS
    while not met.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(chance.uniform(0, 0.3))  # the fault is this much longer
    full.unlink()
    if not met.exists():
        return None
    met.unlink()
    return "disk full"


def kill_in_an_upload(world: World, chance: random.Random) -> str | None:
    """Wait for an upload and kill its worker in the middle."""
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        uploading = {int(path.name.removeprefix(UPLOADING)) for path in _uploads(world)}
        workers = [name for name in world.workers if world.pids[name] in uploading]
        if workers:
            time.sleep(chance.uniform(0, 0.1))  # anywhere in it
            worker = chance.choice(workers)
            (world.folder / f"{UPLOADING}{world.pids[worker]}").unlink(missing_ok=True)
            world.kill(worker)
            return "kill -9 worker in an upload"
        time.sleep(0.01)
    return None


def _uploads(world: World) -> list[Path]:
    return list(world.folder.glob(f"{UPLOADING}*"))


def nothing_more(world: World, chance: random.Random) -> str | None:
    """The jobs or the switches are fault enough."""
    return None


LAZY_COMMITS = """DO $$ BEGIN EXECUTE format(
    'ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$"""
PATIENT = (MANY_ATTEMPTS.format(40),)
"""Jobs may be tried often where workers die for no fault of theirs, or are slow: none may fail."""

SCENARIOS = (
    Scenario(
        "workers killed",
        kill_a_worker,
        "the reaper",
        ("leases_are_taken_back",),
        without=("no_reaper",),
        making=Making(statements=PATIENT),
    ),
    Scenario(
        "trainers killed",
        kill_a_trainer,
        "another attempt",
        ("lost",),
        without=("no_retry",),
        making=Making(statements=PATIENT),
    ),
    Scenario(
        "API killed",
        kill_the_api,
        "the idempotency key",
        ("twice",),
        without=("no_idempotency",),
        making=Making(workers=2, statements=PATIENT),
        steps=(2, 3),
        interval=1.0,
        pause=0.05,
        lost_answers=0.5,
        most=15,
    ),
    Scenario(
        "workers frozen",
        freeze_a_worker,
        "the fence",
        ("attempts_rise", "whole_results"),
        without=("no_fence",),
        making=Making(statements=PATIENT, settings={"ADAPTLAB_SAVE_SECONDS": "600"}),
        steps=(15, 75),
        most=9,
        interval=0.2,
    ),
    Scenario(
        "broker lost",
        trouble_the_broker,
        "polling",
        ("lost",),
        without=("no_polling",),
        making=Making(statements=PATIENT),
        pause=0.1,
        most=20,
        is_deaf_at_last=True,
    ),
    Scenario(
        "database killed",
        kill_the_database,
        "commits that wait for the log",
        ("lost", "whole_results"),
        without_sql=(LAZY_COMMITS,),
        making=Making(statements=PATIENT),
        pause=0.2,
        interval=1.2,
        most=15,
    ),
    Scenario(
        "doorbells doubled and dropped",
        nothing_more,
        "the guard of the claim",
        ("allowed_changes", "attempts_rise", "one_open_attempt"),
        without=("no_claim_guard",),
        without_sql=("ALTER TABLE jobs DISABLE TRIGGER guard_states",),
        making=Making(switches=("mad_doorbells",), workers=4, statements=PATIENT),
        steps=(2, 4),
    ),
    Scenario(
        "cancel races completion",
        cancel_a_job,
        "the guard of the end",
        ("cancel_is_heeded",),
        without=("no_cancel_guard",),
        making=Making(switches=("slow_ends",), statements=PATIENT),
        interval=0.05,
        most=100,
        may_cancel=True,
    ),
    Scenario(
        "poison jobs",
        nothing_more,
        "the limit of attempts",
        ("overtried",),
        without_sql=(MANY_ATTEMPTS.format(1000),),
        odd=POISON,
    ),
    Scenario(
        "trainers hung",
        nothing_more,
        "the stall timer",
        ("lost",),
        without_settings=(("ADAPTLAB_STALL_SECONDS", "3600"),),
        making=Making(settings={"ADAPTLAB_STALL_SECONDS": "3"}, statements=PATIENT),
        odd=(HANGS,),
    ),
    Scenario(
        "disk full at a checkpoint",
        fill_the_disk,
        "another attempt",
        ("lost",),
        without=("no_retry",),
        making=Making(statements=PATIENT),
        most=20,
    ),
    Scenario(
        "killed in an upload",
        kill_in_an_upload,
        "artifacts that are whole or not there",
        ("bytes_match_names",),
        without=("no_whole_uploads",),
        making=Making(statements=PATIENT, switches=("slow_uploads",), weights=2**21),
        steps=(4, 6),
        most=25,
    ),
)
"""Every kind of fault of reliability.md B.4 that can be had on one machine without its owner."""
