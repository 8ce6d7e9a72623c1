"""Adapters as PEFT folders, from stored checkpoints."""

import io
import zipfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab.errors import (
    BadCheckpoint,
    BadModelFolder,
    BadWeightsFile,
    InvalidSpec,
    NoPeftForm,
    Problem,
)
from adaptlab.exchange.peft_folder import peft_folder
from adaptlab.specs.resolved import ResolvedAdapt, ResolvedImport, readable
from adaptlab.specs.spec import ModelFolder, ResolvedSpec
from adaptlab.weights.model_folder import CheckedFolder
from adaptlab.weights.numbers import numbers
from adaptlab.weights.placed_folder import PlacedFolder
from adaptlab.weights.weights_file import (
    LARGEST_HEADER,
    LENGTH_BYTES,
    StoredTensor,
    opened,
    read_header_in,
)
from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.tables import BaseModel, Checkpoint, Job
from adaptlab_services.errors import NotFound
from adaptlab_services.models.model_folders import NO_ROOTS, ModelRoots

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LARGEST_EXPORT = 2**28
"""Bytes of a checkpoint, which is converted in memory."""
_POINTER = "/path/checkpoint_id"
_BEGINNING = (1980, 1, 1, 0, 0, 0)  # so that equal adapters are equal files


def archive(session: Session, checkpoint_id: int, roots: ModelRoots = NO_ROOTS) -> bytes:
    """Return a zip file with the PEFT folder of one checkpoint.

    An imported base model is read below `roots`, if its tensors are needed.

    Raises:
        NotFound: there is no such checkpoint.
        InvalidSpec: it has no PEFT form, it is too large to convert, or the folder of the base
            model is missing or has changed.
        ArtifactGone: its bytes, or those of its base model, are not available.
    """
    try:
        return _zip(_folder(session, checkpoint_id, roots))
    except NoPeftForm as error:
        raise InvalidSpec(Problem(_POINTER, "no_peft_form", str(error))) from error
    except BadCheckpoint as error:
        raise InvalidSpec(Problem(_POINTER, "bad_checkpoint", str(error))) from error
    except BadModelFolder as error:
        raise InvalidSpec(Problem(_POINTER, "bad_model_folder", str(error))) from error


def _folder(session: Session, checkpoint_id: int, roots: ModelRoots) -> dict[str, bytes]:
    checkpoint = session.get(Checkpoint, checkpoint_id)
    if checkpoint is None:
        raise NotFound("checkpoint", checkpoint_id)
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
    replicate = resolved.base_replicates[resolved.seeds.index(checkpoint.seed)]
    base = _Base(session, job, replicate, roots)
    return peft_folder(
        resolved.family,
        resolved.method,
        b"".join(artifacts.read(checkpoint.artifact_sha256)),
        base.tensor,
        base.imported_from(),
    )


class _Base:
    """One replicate of the base model of a job."""

    def __init__(self, session: Session, job: Job, replicate: int, roots: ModelRoots) -> None:
        self._session, self._roots = session, roots
        self._name = job.base_model
        self._replicate = replicate
        self._maker = session.scalars(
            select(Job)
            .join(BaseModel, BaseModel.job_id == Job.id)
            .where(BaseModel.name == job.base_model, BaseModel.project_id == job.project_id)
        ).one()

    def imported_from(self) -> str | None:
        """Return the folder of an imported model, with its model root."""
        return None if self._model_folder is None else self._model_folder.folder

    def tensor(self, name: str) -> "NDArray[np.float32]":
        """Read one tensor in float32; the others are not read."""
        if self._sha256 is None:
            return self._in_folder(name)
        if name not in self._stored:
            raise BadCheckpoint(f"The base model {self._name!r} has no tensor {name}.")
        stored = self._stored[name]
        artifacts = ArtifactStore(self._session)
        return numbers(stored, b"".join(artifacts.read(self._sha256, stored.start, stored.stop)))

    def _in_folder(self, name: str) -> "NDArray[np.float32]":
        checked = self._checked
        stored, source = checked.sources[name]
        try:
            with opened(stored.file, checked.within) as file:
                file.seek(stored.start)
                tensor = numbers(stored, file.read(stored.stop - stored.start))
        except OSError as error:
            raise BadModelFolder(f"{stored.file.name} cannot be read.") from error
        return source.part_of(tensor, checked.family.shape().rows_of(name))

    @cached_property
    def _model_folder(self) -> ModelFolder | None:
        resolved = readable(ResolvedSpec.model_validate(self._maker.resolved_spec))
        return resolved.model_folder if isinstance(resolved, ResolvedImport) else None

    @cached_property
    def _checked(self) -> CheckedFolder:
        """The folder of an imported model, which must not have changed."""
        if self._model_folder is None:
            raise BadCheckpoint(f"The base model {self._name!r} has no weights for this seed.")
        located = self._roots.located(self._model_folder.folder)
        return PlacedFolder(
            path=located.place,
            name=self._model_folder.folder,
            files=self._model_folder.files,
            within=located.root,
        ).checked()

    @cached_property
    def _stored(self) -> Mapping[str, StoredTensor]:
        """The tensors of the stored base, by name, as its header describes them."""
        artifacts, sha256 = ArtifactStore(self._session), self._sha256
        assert sha256 is not None
        size = artifacts.size(sha256)
        start = b"".join(artifacts.read(sha256, 0, min(size, LENGTH_BYTES + LARGEST_HEADER)))
        try:
            header = read_header_in(start, size, Path(f"{self._name}.safetensors"))
        except BadWeightsFile as error:
            raise BadCheckpoint(str(error)) from error
        return {tensor.name: tensor for tensor in header.tensors}

    @cached_property
    def _sha256(self) -> str | None:
        """The digest of the stored base, if its weights are stored."""
        return self._session.scalars(
            select(Checkpoint.artifact_sha256)
            .where(Checkpoint.job_id == self._maker.id)
            .where(Checkpoint.attempt == self._maker.attempt)
            .where(Checkpoint.kind == "base_model", Checkpoint.replicate == self._replicate)
        ).one_or_none()


def _zip(files: Mapping[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as written:
        for name, content in files.items():
            written.writestr(zipfile.ZipInfo(name, _BEGINNING), content)
    return file.getvalue()
