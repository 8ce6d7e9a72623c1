"""The folder of a base model as `transformers` loads it, file by file."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.orm import Session

from adaptlab.errors import BadCheckpoint, BadModelFolder, InvalidSpec, NoLibraryForm, Problem
from adaptlab.exchange.base_folder import base_folder
from adaptlab.specs.resolved import readable
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.weights.huggingface import INDEX
from adaptlab.weights.placed_folder import PlacedFolder
from adaptlab.weights.weights_file import opened
from adaptlab_answers.models import BaseModelFile, BaseModelFolder
from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.tables import Job
from adaptlab_services.errors import Absent
from adaptlab_services.models import base_models
from adaptlab_services.models.base_tensors import BaseTensors
from adaptlab_services.models.model_folders import ModelRoots
from adaptlab_services.storage.stored_files import StoredFile

LARGEST_CONVERTED = 2**28
"""Bytes of a model trained here, which is converted in memory."""
MEDIA_TYPE = "application/octet-stream"
_POINTER = "/path/name"
_AT_ONCE = 2**20


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file below a model root, not outside `root` when it is opened."""

    path: Path
    root: Path
    filename: str
    size: int

    def sha256(self) -> str:
        """Read the file for its digest; raises `OSError`."""
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece)
        return digest.hexdigest()

    def pieces(self) -> Iterator[bytes]:
        """Yield the content; raises `OSError`."""
        with opened(self.path, self.root) as file:
            while piece := file.read(_AT_ONCE):
                yield piece


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that was written from stored weights."""

    content: bytes
    filename: str

    @property
    def size(self) -> int:
        """Bytes of the content."""
        return len(self.content)

    def sha256(self) -> str:
        """Return the digest of the content."""
        return hashlib.sha256(self.content).hexdigest()

    def pieces(self) -> Iterator[bytes]:
        """Yield the content."""
        yield self.content


FolderFile = StoredFile | PlacedFile | WrittenFile


def listed(session: Session, name: str, replicate: int, roots: ModelRoots) -> BaseModelFolder:
    """Return the names and sizes of the files; see `files`."""
    found = files(session, name, replicate, roots)
    return BaseModelFolder(data=tuple(BaseModelFile(name=f.filename, size=f.size) for f in found))


def one(session: Session, name: str, file: str, replicate: int, roots: ModelRoots) -> FolderFile:
    """Return one of the files; raises `Absent`, and see `files`."""
    for found in files(session, name, replicate, roots):
        if found.filename == file:
            return found
    raise Absent("file of the base model", file)


def files(session: Session, name: str, replicate: int, roots: ModelRoots) -> Sequence[FolderFile]:
    """Return the files of a base model's folder.

    An imported model has those that it was imported with, whatever the `replicate`.

    Raises:
        Absent: there is no such base model or replicate.
        InvalidSpec: its family has no form in transformers, it is too large to convert, or its
            folder is missing or has changed.
        ArtifactGone: its bytes are not available.
    """
    view = base_models.get(session, name)
    job = session.get_one(Job, view.job_id)
    base = BaseTensors.of(session, name, job.project_id, replicate, roots)
    try:
        if base.folder is None:
            return _written(session, base, job, replicate)
        if base.folder.stored:
            return _stored(session, base)
        return _placed(base)
    except NoLibraryForm as error:
        raise InvalidSpec(Problem(_POINTER, "no_library_form", str(error))) from error
    except BadModelFolder as error:
        raise InvalidSpec(Problem(_POINTER, "bad_model_folder", str(error))) from error
    except BadCheckpoint as error:
        raise InvalidSpec(Problem(_POINTER, "bad_checkpoint", str(error))) from error


def _written(
    session: Session, base: BaseTensors, job: Job, replicate: int
) -> tuple[WrittenFile, ...]:
    if base.sha256 is None:
        raise Absent(f"replicate {replicate} of the base model", base.name)
    if (size := ArtifactStore(session).size(base.sha256)) > LARGEST_CONVERTED:
        raise NoLibraryForm(
            f"The weights of {base.name} have {size:,} bytes. The limit for an export of a model "
            f"trained here is {LARGEST_CONVERTED:,}. Download the checkpoint as it is."
        )
    family = readable(ResolvedSpec.model_validate(job.resolved_spec)).family
    written = base_folder(family, base.tensor)
    return tuple(WrittenFile(content, name) for name, content in written.items())


def _stored(session: Session, base: BaseTensors) -> tuple[StoredFile, ...]:
    assert base.folder is not None
    artifacts = ArtifactStore(session)
    return tuple(
        StoredFile(
            sha256=file.sha256,
            size=artifacts.size(file.sha256),
            filename=file.name,
            media_type=MEDIA_TYPE,
        )
        for file in base.folder.stored
    )


def _placed(base: BaseTensors) -> tuple[PlacedFile, ...]:
    assert base.folder is not None
    located = base.roots.located(base.folder.folder)
    folder = PlacedFolder(
        path=located.place,
        name=base.folder.folder,
        files=base.folder.files,
        within=located.root,
    )
    present = folder.checked().files.names()
    names = [file.name for file in base.folder.files]
    names += [INDEX] if INDEX in present else []
    return tuple(
        PlacedFile(located.place / n, located.root, n, (located.place / n).stat().st_size)
        for n in names
    )
