"""What the worker and its trainer say to each other: one JSON document a frame, never a pickle.

The worker sends requests; the trainer answers with the events of the run and says how it ended.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from adaptlab.measurements.results import Event
from adaptlab.plugins.adaptation import AdapterFile
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.values import Value

ENGINE = "adaptlab.engine.run:run"
LARGEST_FRAME = 64 * 2**20  # bytes; tokens and summaries of 64 long inputs are well below it

Outcome = Literal["finished", "failed", "stopped"]
FailureReason = Literal[
    "user_error", "diverged", "out_of_memory", "disk_full", "killed", "system_error"
]


class RunRequest(Value):
    """Carry out one attempt.

    `bases` are the base model's replicates, in order, `adapters` what theory checks measure of
    adaptations, and `datasets` the words that tasks ask; `resume` is the saved state to go on from,
    `save_seconds` the time between two saved states. `folder` is where an import finds its model.
    `memory_bytes` is what the run may hold; None leaves it to what is free. `until` is the moment
    of the machine's monotonic clock at which a strict run must have ended unless `LeaseKept` says
    that it has longer; None for others.
    """

    request: Literal["run"] = "run"
    run: str
    resolved: ResolvedSpec
    bases: tuple[Path, ...]
    adapters: tuple[AdapterFile, ...] = ()
    datasets: tuple[Path, ...] = ()
    scratch: Path
    resume: Path | None = None
    folder: Path | None = None
    save_seconds: float = 30.0
    memory_bytes: int | None = None
    until: float | None = None


class StopRequest(Value):
    """Stop before the next step, if the run of that name is still the current one.

    With `save` the state of the training is saved first, for whoever goes on with it.
    """

    request: Literal["stop"] = "stop"
    run: str
    save: bool = False


class StillHere(Value):
    """The worker lives; it says so from time to time, whether there is a run or not."""

    request: Literal["still_here"] = "still_here"


class LeaseKept(Value):
    """The lease of a strict run was renewed: the trainer need not have ended before `until`."""

    request: Literal["lease_kept"] = "lease_kept"
    run: str
    until: float


class Ready(Value):
    """The trainer has loaded what it needs and waits for a run."""

    event: Literal["ready"] = "ready"


class Ended(Value):
    """How a run ended; `reason`, `error` and `retry` are about failures only.

    `healthy` is false where the process should not be given another run.
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
    """A request as the trainer receives it; raises pydantic's `ValidationError`."""
    adapter: TypeAdapter[Request] = TypeAdapter(Request)
    return adapter.validate_json(frame)


class MessageReader:
    """Reads the trainer's frames; building the parser once is what makes it cheap."""

    def __init__(self) -> None:
        self._adapter: TypeAdapter[Message] = TypeAdapter(Message)

    def read(self, frame: bytes) -> Message:
        """The message in `frame`; raises pydantic's `ValidationError`."""
        return self._adapter.validate_json(frame)


def frame_of(value: Value) -> bytes:
    """The bytes that carry a request or a message."""
    return value.model_dump_json().encode()
