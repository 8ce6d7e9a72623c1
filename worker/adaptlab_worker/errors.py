"""Errors of the worker."""

from adaptlab.errors import AdaptlabError


class TrainerGone(AdaptlabError):
    """The trainer process ended, was killed or does not answer as it should.

    `by_signal` is the signal that ended it, if one did.
    """

    def __init__(self, what: str, by_signal: int | None = None) -> None:
        super().__init__(what)
        self.by_signal = by_signal


class DamagedArtifact(AdaptlabError):
    """Fetched bytes do not have the SHA-256 that they were asked for by."""


class TrainerUserBarred(AdaptlabError):
    """The user as whom trainers are to run does not exist or cannot run them."""
