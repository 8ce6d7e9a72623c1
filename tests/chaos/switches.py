"""Changes to the product's processes: faults, and defences off.

Applied in a child of the nursery before the product starts; product code knows none of it.
"""

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import func, insert, select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Session
from tests.chaos.runners import FOLDER, SIZE, content_of

from adaptlab_db.artifacts import StoredArtifact
from adaptlab_db.tables import Artifact, ArtifactChunk, Job
from adaptlab_services.errors import LeaseLost
from adaptlab_services.leases import claiming, lease_ends, leases, recording, report_checks
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.leases.reaping import ReapedLeases
from adaptlab_services.lifecycle import doorbell
from adaptlab_services.lifecycle.held_leases import Claim
from adaptlab_services.lifecycle.transitions import Change, Moved, move
from adaptlab_services.people import idempotency
from adaptlab_worker.attempt import attempt, recorder
from adaptlab_worker.loop import maintenance, reaper
from adaptlab_worker.trainer import trainer_process

BACKOFF_SECONDS = 0.25
UPLOADING = "uploading-"  # with the worker's process id: a note that an upload is under way
ENDING = "ending-"  # with the job's id: a note that its run is done, and nobody told of it yet
END_SECONDS = 2.0  # for which somebody may do something at that moment
PIECE = 2**18  # bytes
PIECE_SECONDS = 0.02
REFUSED = "writes-refused"  # a byte for each


def replace(owner: Any, name: str, value: object) -> None:
    """Change an attribute of the product, which must exist."""
    assert hasattr(owner, name), f"{owner} has no {name}: the switch does nothing"
    setattr(owner, name, value)


# --- everywhere: only to save time ----------------------------------------------------------------


def hurry() -> None:
    """Short waits after a failure, and trainers that start quickly."""
    replace(lease_ends, "FIRST_BACKOFF", BACKOFF_SECONDS)

    ordinary = trainer_process._command  # pyright: ignore[reportPrivateUsage] - what is changed

    def command(*given: Any) -> list[str]:
        light = {"adaptlab_worker.trainer.trainer": "tests.chaos.light_trainer"}
        return [light.get(word, word) for word in ordinary(*given)]

    replace(trainer_process, "_command", command)


def believe() -> None:
    """Accept weights of any size and kind, unlike a small job's spec."""
    replace(report_checks, "check", lambda *_: None)


def note_refusals() -> None:
    """Count the writes that are refused because the attempt is over."""
    note = Path(os.environ[FOLDER]) / REFUSED
    ordinary = LeaseLost.__init__

    def refused(self: LeaseLost, *given: Any) -> None:
        ordinary(self, *given)
        with note.open("ab") as file:
            file.write(b".")

    replace(LeaseLost, "__init__", refused)


# --- faults ---------------------------------------------------------------------------------------


def mad_doorbells() -> None:
    """Of all messages one half is lost and the other comes twice."""
    ordinary, chance = doorbell.messages, random.Random(os.getpid())

    def messages(queue: str, count: int) -> list[str]:
        return [one for one in ordinary(queue, count) for _ in range(2 * chance.randint(0, 1))]

    replace(doorbell, "messages", messages)


def slow_uploads() -> None:
    """Send weights to the database in small pieces, with a note meanwhile."""
    note = Path(os.environ[FOLDER]) / f"{UPLOADING}{os.getpid()}"

    def content(self: recorder.Recorder, path: Path) -> Iterator[bytes]:
        note.touch()
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                time.sleep(PIECE_SECONDS)
                yield piece
        note.unlink(missing_ok=True)

    replace(recorder.Recorder, "_content", content)


def slow_ends() -> None:
    """Leave a note before success is written, and wait until it is removed."""
    ordinary = attempt.Attempt._write_end  # pyright: ignore[reportPrivateUsage] - what is changed

    def write_end(self: Any, ended: Any, recorder: Any) -> tuple[str, ...]:
        note = Path(os.environ[FOLDER]) / f"{ENDING}{self._claim.job_id}"
        if ended.outcome == "finished":
            note.touch()
            until = time.monotonic() + END_SECONDS
            while note.exists() and time.monotonic() < until:
                time.sleep(PIECE_SECONDS)
            note.unlink(missing_ok=True)
        return ordinary(self, ended, recorder)

    replace(attempt.Attempt, "_write_end", write_end)


# --- defences off ---------------------------------------------------------------------------------


def no_reaper() -> None:
    """Nobody takes back leases that ended."""
    replace(reaper, "reap", lambda session: ReapedLeases(0, ()))  # pyright: ignore[reportUnknownLambdaType]


def no_fence() -> None:
    """Let former holders of a job write to it, and no clock stop them."""

    def held(claim: Claim) -> list[object]:
        return [Job.id == claim.job_id, Job.state == "running"]

    replace(leases, "held", held)
    replace(recording, "held", held)
    replace(attempt.Attempt, "_is_lost", lambda self, recorder: False)  # pyright: ignore[reportUnknownLambdaType]


def no_retry() -> None:
    """A failure is final."""
    fail = DatabaseLedger.fail

    def fail_for_good(self: DatabaseLedger, *given: Any, retry: bool) -> tuple[str, ...]:
        return fail(self, *given, retry=False)

    replace(DatabaseLedger, "fail", fail_for_good)


def no_idempotency() -> None:
    """Keys are forgotten."""
    replace(idempotency, "answered", lambda *given: None)  # pyright: ignore[reportUnknownLambdaType]
    replace(idempotency, "remember", lambda *given: None)  # pyright: ignore[reportUnknownLambdaType]


def no_polling() -> None:
    """Nobody looks for work unless a message says so."""
    os.environ["ADAPTLAB_POLL_SECONDS"] = "3600"
    replace(maintenance.Maintenance, "sweep", lambda self: None)  # pyright: ignore[reportUnknownLambdaType]


def no_claim_guard() -> None:
    """Look a job up and then take it, without a lock or a second look."""

    oldest = (
        select(Job.id)
        .where(Job.state == "queued", Job.run_at <= func.clock_timestamp())
        .order_by(Job.created_at, Job.id)
        .limit(1)
    )

    def moved(session: Session, which: Any, change: Change) -> tuple[Moved, ...]:
        if change.to != "running":
            return move(session, which, change)
        found = session.scalars(oldest).one_or_none()
        time.sleep(PIECE_SECONDS)  # so that others come in between
        return () if found is None else move(session, [Job.id == found], change)

    replace(claiming, "move", moved)


def no_cancel_guard() -> None:
    """Success does not ask whether the job was cancelled meanwhile."""

    def finish(self: DatabaseLedger, claim: Claim) -> tuple[str, ...]:
        return self._end(claim, ((), Change("succeeded")))  # pyright: ignore[reportPrivateUsage]

    replace(DatabaseLedger, "finish", finish)


def no_whole_uploads() -> None:
    """Name an artifact before its bytes, and commit each piece by itself."""

    def put(self: DatabaseLedger, claim: Claim, chunks: Iterable[bytes]) -> StoredArtifact:
        import hashlib

        # The name is known beforehand, as it would be to a client that sends it along.
        content = content_of(claim.job_id, int(os.environ[SIZE]))
        name = hashlib.sha256(content).hexdigest()
        sessions = self._sessions  # pyright: ignore[reportPrivateUsage]
        with sessions.begin() as session:
            row = upsert(Artifact).values(sha256=name, size=len(content))
            is_new = session.execute(
                row.on_conflict_do_nothing().returning(Artifact.sha256)
            ).one_or_none()
        for number, piece in enumerate(chunks if is_new else ()):
            with sessions.begin() as session:
                chunk = {"sha256": name, "number": number, "content": piece}
                session.execute(insert(ArtifactChunk), [chunk])
        return StoredArtifact(name, len(content))

    replace(DatabaseLedger, "put_artifact", put)


SWITCHES: dict[str, Callable[[], None]] = {
    switch.__name__: switch
    for switch in (
        believe,
        hurry,
        note_refusals,
        mad_doorbells,
        slow_uploads,
        slow_ends,
        no_reaper,
        no_fence,
        no_retry,
        no_idempotency,
        no_polling,
        no_claim_guard,
        no_cancel_guard,
        no_whole_uploads,
    )
}


def use(names: Iterable[str]) -> None:
    """Apply the switches of these names."""
    for name in names:
        SWITCHES[name]()
