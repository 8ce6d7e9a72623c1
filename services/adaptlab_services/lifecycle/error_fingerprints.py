"""Fingerprints of errors, to recognise poison jobs.

A poison job fails in the same way again.
"""

import hashlib
import re

from sqlalchemy import ColumnElement, false, func

from adaptlab_db.tables import Job

COMPARED = 2000  # characters of an error
# Parts that differ between two attempts with the same error: folders, identities and numbers.
_PATH = re.compile(r"(?:/[^\s/'\",;:]+)+")
_IDENTITY = re.compile(r"\b0x[0-9a-f]+\b|\b[0-9a-f]{8,}\b|\d+")
# Problems of the worker's machine: a full disk, or a store that it cannot reach.
_OF_THE_MACHINE = re.compile(r"\[Errno 28\]|^(?:StoreNotConfigured|StoreUnreachable|BytesMissing):")


def fingerprint(reason: str, error: str) -> str | None:
    """Return a text that is the same for similar errors.

    None if the job is not the cause. Being killed from outside can happen to any process, and a
    worker whose disk is full would fail every job.
    """
    if reason in ("killed", "disk_full") or _OF_THE_MACHINE.search(error):
        return None
    alike = _IDENTITY.sub("#", _PATH.sub("/", error[:COMPARED]))
    return hashlib.sha256(f"{reason}\n{alike}".encode("utf-8", "replace")).hexdigest()


def has_failed_alike(latest: str | None) -> ColumnElement[bool]:
    """Return the condition that a job's earlier error had this fingerprint.

    It also requires that no step was gained since.
    """
    if latest is None:
        return false()
    return (Job.error_fingerprint == latest) & (Job.step <= Job.furthest_step)


def furthest_step() -> ColumnElement[int]:
    """The largest step of any attempt, including the one that ends now."""
    return func.greatest(Job.furthest_step, Job.step)
