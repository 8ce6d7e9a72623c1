"""Where the inputs of a job's run are: the server's half of its manifest."""

from collections.abc import Iterator
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Row, ScalarSelect, Select, bindparam, func, select
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.orm import Session, aliased

from adaptlab.runs.inputs import (
    AdapterFile,
    InputFile,
    NeededInputs,
    OtherWeights,
    SavedTraining,
    digests_of,
)
from adaptlab.specs.resolved import datasets_of, readable
from adaptlab.specs.spec import ModelFolder, ResolvedSpec
from adaptlab_db.tables import BaseModel, CheckpointRow, Job, TrainingStateRow


def of_job(
    session: Session,
    job_id: UUID,
    job: Row[*tuple[Any, ...]],
    resolved: ResolvedSpec,
    resume: SavedTraining[InputFile] | None = None,
) -> NeededInputs:
    """Return everything that a run of a job reads; `job` is a row of `needed`.

    Raises:
        InvalidSpec: a plug-in of the spec is not installed.
    """
    folder = resolved.model_folder
    if not job.bases and job.base_folder is not None:
        folder = ModelFolder.model_validate(job.base_folder)
    return NeededInputs(
        bases=tuple(InputFile(sha256=sha256) for sha256 in job.bases or ()),
        folder=folder,
        adapter=resolved.adapter,
        adapters=tuple(_adapters(session, resolved)),
        datasets=tuple(InputFile(sha256=one.digest) for one in datasets_of(readable(resolved))),
        others=tuple(_others(session, job_id, resolved)),
        resume=resume,
    )


def to_fetch(session: Session, job_id: UUID) -> frozenset[str]:
    """Return the SHA-256 of everything that a run may fetch."""
    job = session.execute(needed(), {"job": job_id}).one()
    saved = select(TrainingStateRow.artifact_sha256).where(TrainingStateRow.job_id == job_id)
    inputs = of_job(session, job_id, job, ResolvedSpec.model_validate(job.resolved_spec))
    return frozenset([*digests_of(inputs), *session.scalars(saved)])


@cache
def needed(*also: ColumnElement[Any]) -> Select[*tuple[Any, ...]]:  # columns of several types
    """Select what `of_job` needs of a job, and other columns."""
    bases, folder = _bases().label("bases"), _base_folder().label("base_folder")
    return select(Job.resolved_spec, bases, folder, *also).where(Job.id == bindparam("job"))


def _bases() -> ScalarSelect[Any]:
    """Select the stored weights of a job's base model, if any.

    They come from the last attempt at training it.
    """
    maker = aliased(Job)
    in_order = aggregate_order_by(CheckpointRow.artifact_sha256, CheckpointRow.replicate)
    return (
        select(func.jsonb_agg(in_order))
        .select_from(BaseModel)
        .join(maker, maker.id == BaseModel.job_id)
        .join(
            CheckpointRow,
            (CheckpointRow.job_id == maker.id) & (CheckpointRow.attempt == maker.attempt),
        )
        .where(_is_base_model(), CheckpointRow.kind == "base_model")
        .correlate(Job)
        .scalar_subquery()
    )


def _adapters(session: Session, resolved: ResolvedSpec) -> Iterator[AdapterFile[InputFile]]:
    """Yield the tensors that the checks of a job measure.

    They are those of the replicate selected per seed. A seed that could not be trained has none.
    """
    for place, measured in enumerate(resolved.adaptations):
        rows = session.execute(
            select(CheckpointRow.seed, CheckpointRow.artifact_sha256)
            .join(Job, (Job.id == CheckpointRow.job_id) & (Job.attempt == CheckpointRow.attempt))
            .where(Job.id == measured.job, CheckpointRow.kind == "adapter")
            .where(CheckpointRow.seed.in_(measured.seeds))
            .order_by(CheckpointRow.replicate)
        )
        for seed, sha256 in rows:
            yield AdapterFile(adaptation=place, seed=seed, tensors=InputFile(sha256=sha256))


def _others(
    session: Session, job_id: UUID, resolved: ResolvedSpec
) -> Iterator[OtherWeights[InputFile, ModelFolder]]:
    """Yield the weights of other base models on which a job is evaluated."""
    names = [other.name for other in resolved.evaluation_bases]
    if not names:
        return
    stored: dict[str, list[InputFile]] = {name: [] for name in names}
    for name, sha256 in session.execute(_stored(), {"job": job_id, "names": names}):
        stored[name].append(InputFile(sha256=sha256))
    for other in resolved.evaluation_bases:
        bases = tuple(stored[other.name])
        yield OtherWeights(name=other.name, bases=bases, folder=None if bases else other.folder)


@cache
def _stored() -> Select[str, str]:
    """Select the stored weights of named base models in a job's project."""
    maker = aliased(Job)
    return (
        select(BaseModel.name, CheckpointRow.artifact_sha256)
        .select_from(Job)
        .join(BaseModel, BaseModel.project_id == Job.project_id)
        .join(maker, maker.id == BaseModel.job_id)
        .join(
            CheckpointRow,
            (CheckpointRow.job_id == maker.id) & (CheckpointRow.attempt == maker.attempt),
        )
        .where(
            Job.id == bindparam("job"),
            BaseModel.name.in_(bindparam("names", expanding=True)),
            CheckpointRow.kind == "base_model",
        )
        .order_by(BaseModel.name, CheckpointRow.replicate)
    )


def _base_folder() -> ScalarSelect[Any]:
    """The model folder that a job's base model was imported from, if it was."""
    maker = aliased(Job)
    return (
        select(maker.resolved_spec["model_folder"])
        .select_from(BaseModel)
        .join(maker, maker.id == BaseModel.job_id)
        .where(_is_base_model())
        .correlate(Job)
        .scalar_subquery()
    )


def _is_base_model() -> ColumnElement[bool]:
    return (BaseModel.name == Job.base_model) & (BaseModel.project_id == Job.project_id)
