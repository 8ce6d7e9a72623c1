"""Bundles: a study's decision, frozen for use and checks elsewhere."""

import hashlib
import platform
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any
from uuid import UUID

from sqlalchemy import Row, RowMapping, select
from sqlalchemy.orm import Session

from adaptlab.bundle import contents
from adaptlab.bundle.contents import (
    ClaimEvidence,
    CountedJob,
    FrozenJob,
    FrozenStudy,
    Manifest,
    SourceList,
    Sources,
    StudyClaim,
    TableEvidence,
)
from adaptlab.bundle.decision import decision_text
from adaptlab.bundle.plots import plots
from adaptlab.bundle.read_me import read_me_text
from adaptlab.bundle.tables import BundleTable, bundle_tables, csv_bytes
from adaptlab.bundle.writing import BundleWriter
from adaptlab.code_version import code_version
from adaptlab.comparisons.table_comparison import table_warnings
from adaptlab.values import Value
from adaptlab_answers.queries import ColumnView
from adaptlab_answers.studies import StudyView
from adaptlab_db.tables import AttemptRow, Job, StudyJob
from adaptlab_services.comparisons import comparisons
from adaptlab_services.comparisons.comparison_groups import ComparedTable
from adaptlab_services.comparisons.comparison_inputs import Strictness
from adaptlab_services.comparisons.comparison_rows import counted_jobs
from adaptlab_services.comparisons.comparison_runs import ComparisonRuns
from adaptlab_services.comparisons.comparisons import StudyQuestion
from adaptlab_services.comparisons.plot_drawing import drawn
from adaptlab_services.errors import StateConflict
from adaptlab_services.results.bulk_rows import Units
from adaptlab_services.results.row_formats import Batch, write_parquet
from adaptlab_services.studies import studies

JOBS_AT_ONCE = 50
ROWS_AT_ONCE = 256
PIECE = 2**16
SOFTWARE = ("numpy", "pydantic", "vl-convert-python", "arro3-core", "arro3-io")
JobRow = Row[*tuple[Any, ...]]  # columns of several types


@dataclass(frozen=True, slots=True)
class FrozenDecision:
    """The content of a bundle; `tag` changes whenever its bytes would."""

    study: FrozenStudy
    claim: StudyClaim
    evidence: ClaimEvidence
    jobs: tuple[UUID, ...]
    software: dict[str, str]
    tag: str


@dataclass(frozen=True, slots=True)
class WrittenBundle:
    """A bundle in an open file that is already deleted from the disk."""

    file: IO[bytes]
    size: int
    sha256: str


def frozen(
    units: Units, runs: ComparisonRuns, study: str, strictness: Strictness
) -> FrozenDecision:
    """Return a study's decision with its evidence.

    No transaction is open while the comparison is computed. A study with failed or cancelled jobs
    can be frozen and is marked as partial.

    Raises:
        Absent: there is no such study.
        StateConflict: the study is still running, so its decision could change, it has no scores,
            or it chose its own seeds to answer a question.
    """
    with units() as session:
        view = studies.get(session, study)
        if not view.terminal:
            raise StateConflict(
                "The study is still running, so its decision can still change. Wait until it "
                "has ended, or cancel it.",
                view.state,
            )
        if view.question is not None:
            raise StateConflict(
                "A bundle checks verdicts on a number of seeds that was fixed before, and this "
                "study chose its own. `adaptlab studies explain --replay` checks its decisions "
                "instead.",
                view.state,
            )
        read = StudyQuestion(str(view.id), strictness).read(session)
        jobs = _jobs_of(session, view.id)
    tables = runs.tables(read)
    if not any(table.comparison for table in tables):
        detail = (
            "The study has no scores, so there is no decision. Extend it to run its jobs again."
        )
        raise StateConflict(detail, view.state)
    claim = StudyClaim(
        partial=view.state != "succeeded",
        level=strictness.level,
        margin=strictness.margin,
        warnings=table_warnings(tables),
        tables=tables,
    )
    evidence = ClaimEvidence(tables=tuple(map(_evidence, read.tables)))
    software = _software()
    frozen_study = _frozen_study(view)
    tag = _tag((frozen_study, claim, evidence), jobs, software)
    ids = tuple(row.id for row in jobs)
    return FrozenDecision(frozen_study, claim, evidence, ids, software, tag)


def written(units: Units, decision: FrozenDecision) -> WrittenBundle:
    """Write the bundle to a temporary file and return it.

    No connection is held while plots are drawn. Equal decisions produce equal bytes. Drawing starts
    a process, so the caller must limit the number of simultaneous calls.

    Raises:
        DrawingFailed: the plots could not be drawn.
    """
    with tempfile.TemporaryDirectory(prefix="adaptlab-bundle-") as folder:
        target = Path(folder) / "bundle.zip"
        with target.open("wb") as file, BundleWriter(file) as writer:
            _write(writer, units, decision, Path(folder) / "table.parquet")
        with target.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return WrittenBundle(target.open("rb"), target.stat().st_size, sha256)


def pieces(bundle: WrittenBundle) -> Iterator[bytes]:
    """Yield the content, and close the file at the end."""
    with bundle.file as file:
        while piece := file.read(PIECE):
            yield piece


def _write(writer: BundleWriter, units: Units, decision: FrozenDecision, scratch: Path) -> None:
    sources = SourceList()
    writer.add(contents.JOBS, _job_lines(units, decision.jobs, sources))
    code_sources = sources.found()
    for name, text in _texts(decision, code_sources).items():
        writer.add(name, [text.encode()])
    for table in bundle_tables(decision.claim, decision.evidence):
        writer.add(contents.csv_name(table.name), [csv_bytes(table)])
        writer.add(contents.parquet_name(table.name), _parquet(table, scratch))
    for name, picture in drawn(plots(decision.claim)):
        writer.add(name, [picture])
    writer.add_manifest(
        Manifest(
            format=contents.FORMAT,
            study=decision.study.name,
            sources=code_sources,
            software=decision.software,
            members=writer.members,
        )
    )


def _texts(decision: FrozenDecision, sources: Sources) -> dict[str, str]:
    study, claim, evidence = decision.study, decision.claim, decision.evidence
    digests = contents.content_digests(
        (contents.STUDY, study), (contents.CLAIM, claim), (contents.EVIDENCE, evidence)
    )
    return {
        contents.README: read_me_text(study, claim),
        contents.DECISION: decision_text(study, claim, sources, digests),
        contents.STUDY: study.model_dump_json(indent=1),
        contents.CLAIM: claim.model_dump_json(),
        contents.EVIDENCE: evidence.model_dump_json(),
    }


def _frozen_study(view: StudyView) -> FrozenStudy:
    fields = view.model_dump(
        mode="json",
        include={"id", "name", "state", "owner", "project", "recipe", "created_at", "extended_at",
                 "cancelled_at", "spec"},
    )  # fmt: skip
    return FrozenStudy.model_validate(fields | {"resolved": contents.resolved_study(view.spec)})


def _evidence(table: ComparedTable) -> TableEvidence:
    reference = comparisons.reference_of(table.rows)
    return TableEvidence(
        base_model=table.base_model,
        task=table.task,
        reference=reference.method if reference else None,
        scores=table.scores(),
        jobs=tuple(CountedJob(label=label, job=job.id) for label, job in counted_jobs(table.rows)),
    )


def _jobs_of(session: Session, study_id: UUID) -> Sequence[JobRow]:
    """Return all jobs of the study, base models and checks included.

    They are sorted by creation.
    """
    mine = select(StudyJob.job_id).where(StudyJob.study_id == study_id)
    query = select(Job.id, Job.state, Job.attempt, Job.spec_digest).where(Job.id.in_(mine))
    return session.execute(query.order_by(Job.created_at, Job.id)).all()


def _tag(values: Iterable[Value], jobs: Sequence[JobRow], software: dict[str, str]) -> str:
    digest = hashlib.sha256()
    for value in values:
        digest.update(value.model_dump_json().encode())
    for row in jobs:
        digest.update(f"{row.id} {row.state} {row.attempt} {row.spec_digest}\n".encode())
    digest.update(f"{contents.FORMAT} {sorted(software.items())}".encode())
    return digest.hexdigest()


def _software() -> dict[str, str]:
    versions = {"adaptlab": code_version(), "python": platform.python_version()}
    return versions | {name: version(name) for name in SOFTWARE}


def _job_lines(units: Units, ids: Sequence[UUID], sources: SourceList) -> Iterator[bytes]:
    for start in range(0, len(ids), JOBS_AT_ONCE):
        with units() as session:
            rows = _job_rows(session, ids[start : start + JOBS_AT_ONCE])
        for row in rows:
            job = FrozenJob.model_validate(dict(row))
            sources.add(job)
            yield job.model_dump_json().encode() + b"\n"


def _job_rows(session: Session, ids: Sequence[UUID]) -> Sequence[RowMapping]:
    latest = (AttemptRow.job_id == Job.id) & (AttemptRow.attempt == Job.attempt)
    columns = (Job.id, Job.kind, Job.state, Job.attempt, Job.spec, Job.resolved_spec)
    query = (
        select(*columns, Job.spec_digest, AttemptRow.environment)
        .outerjoin(AttemptRow, latest)
        .where(Job.id.in_(ids))
        .order_by(Job.created_at, Job.id)
    )
    return session.execute(query).mappings().all()


def _parquet(table: BundleTable, scratch: Path) -> Iterator[bytes]:
    columns = [ColumnView(name=column.name, type=column.type) for column in table.columns]
    write_parquet(columns, _batches(table), scratch)
    with scratch.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def _batches(table: BundleTable) -> Iterator[Batch]:
    for start in range(0, len(table.rows), ROWS_AT_ONCE):
        yield table.rows[start : start + ROWS_AT_ONCE]
