"""Telling a job that fails by itself from one that met with bad luck."""

import hashlib
import re

from sqlalchemy import ColumnElement, false, func

from adaptlab_db.tables import Job

COMPARED = 2000  # characters of an error
# What differs between two attempts that failed alike: folders, identities and numbers.
_PATH = re.compile(r"(?:/[^\s/'\",;:]+)+")
_IDENTITY = re.compile(r"\b0x[0-9a-f]+\b|\b[0-9a-f]{8,}\b|\d+")
# What a worker's own machine was short of: a full disk, or a store that it cannot reach.
_OF_THE_MACHINE = re.compile(r"\[Errno 28\]|^(?:StoreNotConfigured|StoreUnreachable|BytesMissing):")


def fingerprint(reason: str, error: str) -> str | None:
    """The same text for two errors that are alike; None for one that says nothing about the job.

    A process that was killed from outside could have been anybody's, and a worker whose disk is
    full would fail every job alike.
    """
    if reason in ("killed", "disk_full") or _OF_THE_MACHINE.search(error):
        return None
    alike = _IDENTITY.sub("#", _PATH.sub("/", error[:COMPARED]))
    return hashlib.sha256(f"{reason}\n{alike}".encode("utf-8", "replace")).hexdigest()


def has_failed_alike(found: str | None) -> ColumnElement[bool]:
    """Whether the attempt before failed with this fingerprint, and this one got no further."""
    if found is None:
        return false()
    return (Job.error_fingerprint == found) & (Job.step <= Job.furthest_step)


def furthest_step() -> ColumnElement[int]:
    """How far the job has got, with the attempt that ends now."""
    return func.greatest(Job.furthest_step, Job.step)
