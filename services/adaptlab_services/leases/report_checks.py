"""Reports held against their job: the one place at which either ledger decides what to believe."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab.errors import BadWeightsFile, Problem
from adaptlab.measurements import results
from adaptlab.measurements.reported_attention import LARGEST_HEADER, is_map_file
from adaptlab.measurements.reports import Expected
from adaptlab.specs.resolved import readable
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.weights.weights_file import LARGEST_HEADER as LARGEST_WEIGHTS_HEADER
from adaptlab.weights.weights_file import LENGTH_BYTES, read_header_in
from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.tables import Job, LeaseArtifact
from adaptlab_services.errors import ReportRefused
from adaptlab_services.leases.lease_views import path_of
from adaptlab_services.lifecycle.claims import Lease

MOST_KEPT = 256
"""Jobs of which a process remembers what their runs can report."""
Files = Mapping[Path, str]


def check(
    session: Session, lease: Lease, events: Sequence[results.Event], artifacts: Files
) -> None:
    """Raise `ReportRefused` for events that no run of the job could report.

    The caller has entered the fence of `lease` in this unit of work, and rolls it back.
    """
    expected = expected_of(session, lease.job_id)
    faults = expected.problems(events) or tuple(_nameless(events, artifacts))
    faults = faults or tuple(_not_sent(session, lease, events, artifacts))
    faults = faults or tuple(_content(session, expected, events, artifacts))
    if faults:
        raise ReportRefused(*faults)


def expected_of(session: Session, job_id: UUID) -> Expected:
    """What the runs of a job can report; a job's resolved spec never changes."""
    kept = _kept()
    if (known := kept.get(job_id)) is None:
        stored = session.execute(select(Job.resolved_spec).where(Job.id == job_id)).scalar_one()
        known = Expected.of(readable(ResolvedSpec.model_validate(stored)))
        if len(kept) >= MOST_KEPT:
            kept.clear()
        kept[job_id] = known
    return known


@cache
def _kept() -> dict[UUID, Expected]:
    return {}


def _named(events: Sequence[results.Event]) -> Iterator[tuple[int, results.Event, Path]]:
    """The events that come with content: their places, themselves, their paths."""
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
    """Digests of content that was not sent for this job, whether or not anybody else has it."""
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
    """Files that are not what their events describe."""
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
