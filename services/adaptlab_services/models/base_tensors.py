"""Single tensors of a base model, read without torch.

They come from its stored weights or its folder.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select
from sqlalchemy.orm import Session

from adaptlab.errors import BadCheckpoint, BadModelFolder, BadWeightsFile
from adaptlab.specs.resolved import ResolvedImport, readable
from adaptlab.specs.spec import ModelFolder, ResolvedSpec
from adaptlab.weights.model_folder import CheckedFolder, check_files
from adaptlab.weights.numbers import numbers
from adaptlab.weights.placed_folder import PlacedFolder
from adaptlab.weights.weights_file import (
    LARGEST_HEADER,
    LENGTH_BYTES,
    StoredTensor,
    read_header_in,
)
from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.tables import BaseModel, CheckpointRow, Job
from adaptlab_services.models.model_folders import ModelRoots
from adaptlab_services.models.stored_folder import StoredFolder


@dataclass(frozen=True)
class BaseTensors:
    """One replicate of the base model `name`.

    Attributes:
        folder: the folder of an imported model; it is read below `roots`, unless it is uploaded.
        sha256: the digest of the stored weights, None if they are not stored.
    """

    session: Session
    name: str
    roots: ModelRoots
    folder: ModelFolder | None
    sha256: str | None = None

    @classmethod
    def of(
        cls, session: Session, name: str, project_id: int, replicate: int, roots: ModelRoots
    ) -> Self:
        """Return a replicate of a base model of a project, which must exist."""
        maker = session.scalars(
            select(Job)
            .join(BaseModel, BaseModel.job_id == Job.id)
            .where(BaseModel.name == name, BaseModel.project_id == project_id)
        ).one()
        resolved = readable(ResolvedSpec.model_validate(maker.resolved_spec))
        sha256 = session.scalars(
            select(CheckpointRow.artifact_sha256)
            .where(CheckpointRow.job_id == maker.id, CheckpointRow.attempt == maker.attempt)
            .where(CheckpointRow.kind == "base_model", CheckpointRow.replicate == replicate)
        ).one_or_none()
        folder = resolved.model_folder if isinstance(resolved, ResolvedImport) else None
        return cls(session, name, roots, folder, sha256)

    @property
    def imported_from(self) -> str | None:
        """The hub's name of an imported model, or its folder with its model root."""
        if self.folder is None or self.folder.origin is None:
            return None if self.folder is None else self.folder.folder
        return self.folder.origin.repository

    def tensor(self, name: str) -> NDArray[np.float32]:
        """Read one tensor in float32; the others are not read.

        Raises:
            BadCheckpoint: the weights lack it, or do not exist yet.
            BadModelFolder: the folder of an imported model has changed.
            InvalidSpec: there is no such folder.
            ArtifactGone: the stored weights are not available.
        """
        if self.sha256 is None:
            return self._in_folder(name)
        if name not in self._stored:
            raise BadCheckpoint(f"The base model {self.name!r} has no tensor {name}.")
        stored = self._stored[name]
        artifacts = ArtifactStore(self.session)
        return numbers(stored, b"".join(artifacts.read(self.sha256, stored.start, stored.stop)))

    def _in_folder(self, name: str) -> NDArray[np.float32]:
        checked = self._checked
        stored, source = checked.sources[name]
        try:
            with checked.files.opened(stored.file.name) as file:
                file.seek(stored.start)
                tensor = numbers(stored, file.read(stored.stop - stored.start))
        except OSError as error:
            raise BadModelFolder(f"{stored.file.name} cannot be read.") from error
        return source.part_of(tensor, checked.family.shape().rows_of(name))

    @cached_property
    def _checked(self) -> CheckedFolder:
        """The folder of an imported model, which must not have changed."""
        if self.folder is None:
            raise BadCheckpoint(f"The base model {self.name!r} has no weights for this seed.")
        if self.folder.stored:
            return check_files(StoredFolder(self.session, self.folder.stored))
        located = self.roots.located(self.folder.folder)
        return PlacedFolder(
            path=located.place,
            name=self.folder.folder,
            files=self.folder.files,
            within=located.root,
        ).checked()

    @cached_property
    def _stored(self) -> Mapping[str, StoredTensor]:
        """The tensors of the stored base, by name, as its header describes them."""
        artifacts, sha256 = ArtifactStore(self.session), self.sha256
        assert sha256 is not None
        size = artifacts.size(sha256)
        start = b"".join(artifacts.read(sha256, 0, min(size, LENGTH_BYTES + LARGEST_HEADER)))
        try:
            header = read_header_in(start, size, Path(f"{self.name}.safetensors"))
        except BadWeightsFile as error:
            raise BadCheckpoint(str(error)) from error
        return {tensor.name: tensor for tensor in header.tensors}
