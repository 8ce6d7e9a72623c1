"""Errors of the worker."""

from adaptlab.errors import AdaptlabError


class TrainerGone(AdaptlabError):
    """The trainer process ended, was killed or does not answer as it should."""


class DamagedArtifact(AdaptlabError):
    """Fetched bytes do not have the SHA-256 that they were asked for by."""
