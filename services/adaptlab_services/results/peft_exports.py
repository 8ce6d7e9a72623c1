"""Adapters as PEFT folders, from stored checkpoints."""

import io
import zipfile
from collections.abc import Mapping

from sqlalchemy.orm import Session

from adaptlab.errors import BadCheckpoint, BadModelFolder, InvalidSpec, NoPeftForm, Problem
from adaptlab.exchange.peft_folder import peft_folder
from adaptlab.specs.resolved import ResolvedAdapt, readable
from adaptlab.specs.spec import ResolvedSpec
from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.tables import CheckpointRow, Job
from adaptlab_services.errors import Absent
from adaptlab_services.models.base_tensors import BaseTensors
from adaptlab_services.models.model_folders import NO_ROOTS, ModelRoots

LARGEST_EXPORT = 2**28
"""Bytes of a checkpoint, which is converted in memory."""
_POINTER = "/path/checkpoint_id"
_BEGINNING = (1980, 1, 1, 0, 0, 0)  # so that equal adapters are equal files


def archive(session: Session, checkpoint_id: int, roots: ModelRoots = NO_ROOTS) -> bytes:
    """Return a zip file with the PEFT folder of one checkpoint; see `folder`."""
    return _zip(folder(session, checkpoint_id, roots))


def folder(session: Session, checkpoint_id: int, roots: ModelRoots = NO_ROOTS) -> dict[str, bytes]:
    """Return the files of the PEFT folder of one checkpoint.

    An imported base model is read below `roots`, if its tensors are needed.

    Raises:
        Absent: there is no such checkpoint.
        InvalidSpec: it has no PEFT form, it is too large to convert, or the folder of the base
            model is missing or has changed.
        ArtifactGone: its bytes, or those of its base model, are not available.
    """
    try:
        return _folder(session, checkpoint_id, roots)
    except NoPeftForm as error:
        raise InvalidSpec(Problem(_POINTER, "no_peft_form", str(error))) from error
    except BadCheckpoint as error:
        raise InvalidSpec(Problem(_POINTER, "bad_checkpoint", str(error))) from error
    except BadModelFolder as error:
        raise InvalidSpec(Problem(_POINTER, "bad_model_folder", str(error))) from error


def _folder(session: Session, checkpoint_id: int, roots: ModelRoots) -> dict[str, bytes]:
    checkpoint = session.get(CheckpointRow, checkpoint_id)
    if checkpoint is None:
        raise Absent("checkpoint", checkpoint_id)
    job = session.get_one(Job, checkpoint.job_id)
    resolved = readable(ResolvedSpec.model_validate(job.resolved_spec))
    if not isinstance(resolved, ResolvedAdapt):
        raise NoPeftForm(
            f"Checkpoint {checkpoint_id} is a base model, not an adapter. Export a checkpoint of a "
            "job of the kind adapt."
        )
    artifacts = ArtifactStore(session)
    if (size := artifacts.size(checkpoint.artifact_sha256)) > LARGEST_EXPORT:
        raise NoPeftForm(
            f"Checkpoint {checkpoint_id} has {size:,} bytes. The limit for an export is "
            f"{LARGEST_EXPORT:,} bytes. Download the checkpoint as it is."
        )
    labels = resolved.task.class_values() if resolved.task.classes() is not None else ()
    replicate = resolved.base_replicates[resolved.seeds.index(checkpoint.seed)]
    assert job.base_model is not None
    base = BaseTensors.of(session, job.base_model, job.project_id, replicate, roots)
    return peft_folder(
        resolved.family,
        resolved.method,
        b"".join(artifacts.read(checkpoint.artifact_sha256)),
        base.tensor,
        base.imported_from,
        labels,
    )


def _zip(files: Mapping[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        for name, content in files.items():
            written.writestr(zipfile.ZipInfo(name, _BEGINNING), content)
    return file.getvalue()
