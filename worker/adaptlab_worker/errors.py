"""Errors of the worker."""

import sys

from adaptlab.errors import AdaptlabError, Problem


class TrainerGone(AdaptlabError):
    """The trainer process ended, was killed or violated the protocol.

    `by_signal` is the signal that ended it, if one did. With `exceeded_memory`, the worker ended it
    for that.
    """

    def __init__(
        self, what: str, by_signal: int | None = None, *, exceeded_memory: bool = False
    ) -> None:
        super().__init__(what)
        self.by_signal = by_signal
        self.exceeded_memory = exceeded_memory


class DamagedArtifact(AdaptlabError):
    """Fetched bytes do not have the SHA-256 of the requested artifact."""


class TrainersUnusable(AdaptlabError):
    """No trainer can run here, so a worker would be of no use."""


class TrainerUserBarred(TrainersUnusable):
    """The user for trainers does not exist or cannot run them."""


class TorchMissing(TrainersUnusable):
    """The Python that runs the worker has no torch."""

    def __init__(self) -> None:
        super().__init__(
            f"{sys.executable} has no torch. Install `adaptlab[worker]` there; `adaptlab up "
            "--workers 0` starts a server without workers."
        )


class NoEndKnown(AdaptlabError):
    """The end of a worker's shift cannot be parsed, or is past."""

    def __init__(self, given: str) -> None:
        super().__init__(
            f"--until {given} is not a future time. Give auto, seconds from now such as 3600, "
            "a time of day such as 23:30, or a date and time such as 2027-01-31T18:00."
        )


class UnexpectedServerAnswer(AdaptlabError):
    """The server gave an answer that this worker's version does not expect.

    `status` is the HTTP status; `problems` are those that the answer lists.
    """

    def __init__(
        self, what: str, status: int | None = None, problems: tuple[Problem, ...] = ()
    ) -> None:
        super().__init__(what)
        self.status = status
        self.problems = problems
