"""Checks of reports against their job, the same for both ledgers."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab.errors import BadWeightsFile, Problem
from adaptlab.runs import events as results
from adaptlab.runs.allowed import Expected
from adaptlab.runs.reported_attention import LARGEST_HEADER, is_map_file
from adaptlab.specs.resolved import readable
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.weights.weights_file import LARGEST_HEADER as LARGEST_WEIGHTS_HEADER
from adaptlab.weights.weights_file import LENGTH_BYTES, read_header_in
from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.tables import Job, LeaseArtifact
from adaptlab_services.errors import ReportRefused
from adaptlab_services.leases.lease_views import path_of
from adaptlab_services.lifecycle.held_leases import Lease

MOST_KEPT = 256
"""Number of jobs whose expected reports a process keeps."""
Files = Mapping[Path, str]


def check(
    session: Session, lease: Lease, events: Sequence[results.Event], artifacts: Files
) -> None:
    """Raise `ReportRefused` for events that no run of the job could report.

    The caller has passed the fence of `lease` in this unit of work, and rolls it back on errors.
    """
    expected = expected_of(session, lease.job_id)
    problems = expected.problems(events) or tuple(_nameless(events, artifacts))
    problems = problems or tuple(_not_sent(session, lease, events, artifacts))
    problems = problems or tuple(_content(session, expected, events, artifacts))
    if problems:
        raise ReportRefused(*problems)


def expected_of(session: Session, job_id: UUID) -> Expected:
    """Return the reports that a job can have.

    They are kept, because the job's resolved spec never changes.
    """
    kept = _kept()
    if (expected := kept.get(job_id)) is None:
        stored = session.execute(select(Job.resolved_spec).where(Job.id == job_id)).scalar_one()
        expected = Expected.of(readable(ResolvedSpec.model_validate(stored)))
        if len(kept) >= MOST_KEPT:
            kept.clear()
        kept[job_id] = expected
    return expected


@cache
def _kept() -> dict[UUID, Expected]:
    return {}


def _named(events: Sequence[results.Event]) -> Iterator[tuple[int, results.Event, Path]]:
    """The events that have content, each with its index and path."""
    for place, event in enumerate(events):
        if (path := path_of(event)) is not None:
            yield place, event, path


def _nameless(events: Sequence[results.Event], artifacts: Files) -> Iterator[Problem]:
    for place, _, path in _named(events):
        if path not in artifacts:
            detail = (
                f"There is no digest for {str(path)[:200]!r}. Send the content, and give its "
                "digest."
            )
            yield Problem(f"/events/{place}/path", "no_artifact", detail)


def _not_sent(
    session: Session, lease: Lease, events: Sequence[results.Event], artifacts: Files
) -> Iterator[Problem]:
    """Return problems of digests whose content was not sent for this job.

    They are problems even if the content is stored.
    """
    named = {artifacts[path] for _, _, path in _named(events)}
    if not named:
        return
    sent = set(
        session.scalars(
            select(LeaseArtifact.sha256).where(
                LeaseArtifact.job_id == lease.job_id, LeaseArtifact.sha256.in_(named)
            )
        )
    )
    for place, _, path in _named(events):
        if artifacts[path] not in sent:
            detail = (
                f"No content with the SHA-256 {artifacts[path]} was sent for this job. Send it "
                "under the lease first."
            )
            yield Problem(f"/events/{place}/path", "no_artifact", detail)


def _content(
    session: Session, expected: Expected, events: Sequence[results.Event], artifacts: Files
) -> Iterator[Problem]:
    """Problems of files that differ from the description in their events."""
    store = ArtifactStore(session)
    for place, event, path in _named(events):
        at, sha256 = f"/events/{place}/path", artifacts[path]
        size = store.size(sha256)
        if isinstance(event, results.AttentionCaptured):
            start = b"".join(store.read(sha256, 0, min(size, LARGEST_HEADER)))
            if not is_map_file(start, size, event.attention.shape):
                detail = (
                    f"{path.name[:200]} is not a .npy file of float16 numbers with the shape "
                    f"{list(event.attention.shape)}."
                )
                yield Problem(at, "other_content", detail)
        elif isinstance(event, results.CheckpointWritten):
            start = b"".join(store.read(sha256, 0, min(size, _WEIGHTS_START)))
            yield from _weights(at, path.name, start, size, expected)


_WEIGHTS_START = LENGTH_BYTES + LARGEST_WEIGHTS_HEADER


def _weights(at: str, name: str, start: bytes, size: int, expected: Expected) -> Iterator[Problem]:
    try:
        stored = read_header_in(start, size, Path(name[:200])).tensors
    except BadWeightsFile as error:
        yield Problem(at, "other_content", str(error))
        return
    if {tensor.name: tensor.shape for tensor in stored} != dict(expected.tensors):
        detail = "The tensors in the file do not match those of the job's checkpoints."
        yield Problem(at, "other_content", detail)
    elif other := sorted({tensor.dtype for tensor in stored} - {expected.dtype}):
        detail = f"The tensors in the file are {', '.join(other)}, not {expected.dtype}."
        yield Problem(at, "other_content", detail)
