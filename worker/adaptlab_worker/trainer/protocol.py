"""Messages between worker and trainer, one JSON document per frame.

The worker sends requests; the trainer sends the events of the run and then its end.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from adaptlab.runs.events import Event
from adaptlab.runs.inputs import NOTHING_PLACED, PlacedInputs
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.values import Value

ENGINE = "adaptlab.running.run:run"
LARGEST_FRAME = 64 * 2**20  # bytes; tokens and summaries of 64 long inputs are well below it

Outcome = Literal["finished", "failed", "stopped"]
FailureReason = Literal[
    "user_error", "diverged", "out_of_memory", "disk_full", "killed", "system_error"
]


class RunRequest(Value):
    """A request to run one attempt.

    `inputs` are its files and folders on this machine, and `save_seconds` is the time between
    saved states. `memory_bytes` limits the run's memory; None for most of what is free. `until` is
    the monotonic time by which a strict run must have ended unless `LeaseKept` extends it; None for
    other runs.
    """

    request: Literal["run"] = "run"
    run: str
    resolved: ResolvedSpec
    inputs: PlacedInputs = NOTHING_PLACED
    scratch: Path
    save_seconds: float = 30.0
    memory_bytes: int | None = None
    until: float | None = None


class StopRequest(Value):
    """A request to stop a run before its next step.

    With `save` the training state is saved first, for the next attempt.
    """

    request: Literal["stop"] = "stop"
    run: str
    save: bool = False


class StillHere(Value):
    """A periodic sign of life of the worker, with or without a run."""

    request: Literal["still_here"] = "still_here"


class LeaseKept(Value):
    """News that a strict run's lease was renewed until `until`."""

    request: Literal["lease_kept"] = "lease_kept"
    run: str
    until: float


class Ready(Value):
    """News that the trainer has loaded everything and waits for a run."""

    event: Literal["ready"] = "ready"


class Ended(Value):
    """The end of a run; `reason`, `error` and `retry` are for failures only.

    `healthy` is false if the process should not get another run.
    """

    event: Literal["ended"] = "ended"
    outcome: Outcome
    reason: FailureReason | None = None
    error: str | None = None
    retry: bool = False
    healthy: bool = True


Request = Annotated[
    RunRequest | StopRequest | StillHere | LeaseKept, Field(discriminator="request")
]
Message = Annotated[Event | Ready | Ended, Field(discriminator="event")]


def read_request(frame: bytes) -> Request:
    """Parse a worker's request; raise pydantic's `ValidationError` if invalid."""
    adapter: TypeAdapter[Request] = TypeAdapter(Request)
    return adapter.validate_json(frame)


class MessageReader:
    """A parser of the trainer's frames, built once because that is expensive."""

    def __init__(self) -> None:
        self._adapter: TypeAdapter[Message] = TypeAdapter(Message)

    def read(self, frame: bytes) -> Message:
        """Parse a message; raise pydantic's `ValidationError` if invalid."""
        return self._adapter.validate_json(frame)


def frame_of(value: Value) -> bytes:
    """Return the bytes of a request or message."""
    return value.model_dump_json().encode()
