"""Uploaded model folders: files of a model in the server's own store."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from pydantic import Field
from sqlalchemy import Row, Select, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from adaptlab.errors import BadModelFolder, InvalidSpec, Problem
from adaptlab.specs.resolve import family_shape
from adaptlab.specs.spec import UPLOADED, ModelFolder, StoredModelFile
from adaptlab.values import Name, Value
from adaptlab.weights.huggingface import (
    CONFIG,
    INDEX,
    LONGEST_FILE_NAME,
    PICKLES,
    SAFETENSORS,
    pickle_refusal,
)
from adaptlab.weights.model_folder import (
    TEXT_FILES,
    CheckedFolder,
    ModelFile,
    check_files,
    fingerprint,
)
from adaptlab_answers.models import ModelFolderFile, ModelFolderLinks, ModelFolderView
from adaptlab_answers.paging import Page
from adaptlab_db.artifacts import StoredArtifact
from adaptlab_db.tables import Project, UploadedFolder, UploadedFolderFile
from adaptlab_services import paging
from adaptlab_services.errors import Conflict, NotFound
from adaptlab_services.limits import quotas
from adaptlab_services.models.stored_folder import StoredFolder
from adaptlab_services.paging import Cursor
from adaptlab_services.people import access
from adaptlab_services.people.tokens import Principal
from adaptlab_services.storage import uploads

KIND = "model folder"
MOST_FILES = 64
READ_FILES = (CONFIG, INDEX, *TEXT_FILES)
"""The files that adaptlab reads, besides those of weights."""


class FileFromUpload(Value):
    """A file of a model folder: its name, and a complete upload."""

    name: Annotated[str, Field(min_length=1, max_length=LONGEST_FILE_NAME)]
    upload: UUID


class NewModelFolder(Value):
    """A model folder to create from complete uploads.

    It has a `config.json`, one or more `.safetensors` files, `model.safetensors.index.json` if
    there are several, and, for models of text, a `tokenizer.json`. A `tokenizer_config.json` or
    `chat_template.jinja` has the chat template.
    """

    name: Name
    files: Annotated[tuple[FileFromUpload, ...], Field(min_length=1, max_length=MOST_FILES)]


@dataclass(frozen=True, slots=True)
class CreatedFolder:
    """The answer to a folder's creation; `is_new` is false for a repetition."""

    folder: ModelFolderView
    is_new: bool


def create(session: Session, principal: Principal, new: NewModelFolder) -> CreatedFolder:
    """Create a model folder from uploads.

    These stay until their owner deletes them. The headers of the files are read and checked; their
    bytes were compared with the announced digests.

    Raises:
        NotFound: the caller has no such upload.
        Conflict: an upload is not complete, or the name belongs to other files.
        InvalidSpec: the files are not those of a model.
    """
    project_id = access.to_create(session)
    _check_names(new.files)
    quotas.check_room(session, principal.user_id, 0)
    contents = {file.name: uploads.completed(session, principal, file.upload) for file in new.files}
    stored = tuple(
        StoredModelFile(name=name, sha256=content.sha256)
        for name, content in sorted(contents.items())
    )
    checked, fingerprints = _checked(session, stored)
    _check_all_used(checked, stored)
    row = {
        "project_id": project_id,
        "name": new.name,
        "owner_id": principal.user_id,
        "family": checked.family.name,
        "parameters": family_shape(checked.family).parameters,
    }
    inserted = session.execute(
        insert(UploadedFolder).values(row).on_conflict_do_nothing().returning(UploadedFolder.name)
    )
    is_new = inserted.one_or_none() is not None
    if is_new:
        _insert_files(session, project_id, new.name, contents, fingerprints)
    with access.inside(session, project_id):
        folder = get(session, new.name)
    if {file.name: file.sha256 for file in folder.files} != {f.name: f.sha256 for f in stored}:
        raise Conflict(
            f"The model folder {new.name!r} already exists, with other files. Choose another name."
        )
    return CreatedFolder(folder, is_new)


def model_folder(session: Session, path: str, pointer: str) -> ModelFolder:
    """Return an uploaded folder as part of a spec.

    It cannot be deleted until the unit of work ends. `path` is `uploaded/NAME`.

    Raises:
        InvalidSpec: there is none of that name in the project.
    """
    name = path.partition("/")[2]
    mine = UploadedFolder.project_id == access.project_of(session), UploadedFolder.name == name
    locked = select(UploadedFolder).where(*mine).with_for_update(read=True, key_share=True)
    if session.scalars(locked).one_or_none() is None:
        known = tuple(
            session.scalars(
                select(UploadedFolder.name)
                .where(UploadedFolder.project_id == access.project_of(session))
                .order_by(UploadedFolder.name)
                .limit(MOST_FILES)
            )
        )
        detail = (
            f"There is no uploaded model folder named {name!r} in the project. Existing ones: "
            f"{', '.join(known) or '(none)'}. Upload it first: adaptlab model-folders upload NAME "
            "FOLDER."
        )
        allowed = tuple(f"{UPLOADED}/{one}" for one in known)
        raise InvalidSpec(Problem(pointer, "no_such_folder", detail, allowed))
    files = _files(session, mine[0].right.value, name)
    return ModelFolder(
        folder=path,
        files=tuple(
            ModelFile(name=file.name, size=file.size_bytes, digest=file.fingerprint)
            for file in files
            if file.fingerprint is not None
        ),
        stored=tuple(
            StoredModelFile(name=file.name, sha256=file.artifact_sha256) for file in files
        ),
    )


def check_unchanged(session: Session, folder: ModelFolder) -> None:
    """Raise `InvalidSpec` if the folder of an import was deleted or replaced."""
    if model_folder(session, folder.folder, "/folder").stored != folder.stored:
        detail = (
            f"The model folder {folder.folder} was deleted, and has other files now. Create the "
            "import again."
        )
        raise InvalidSpec(Problem("/folder", "no_such_folder", detail))


def get(session: Session, name: str) -> ModelFolderView:
    """Return a model folder, that of the request's project if several match.

    Raises:
        NotFound: no project, or several other projects, have such a model folder.
    """
    rows = session.execute(_rows().where(UploadedFolder.name == name)).all()
    row = access.nearest(session, [(one.UploadedFolder.project_id, one) for one in rows])
    if row is None:
        raise NotFound(KIND, name)
    return _view(session, row)


def page(session: Session, page_size: int, page_token: str | None = None) -> Page[ModelFolderView]:
    """Return a page of model folders, sorted by name."""
    place = (UploadedFolder.name, UploadedFolder.project_id)
    query = _rows().order_by(*place).limit(paging.page_limit(page_size))
    if page_token is not None:
        cursor = paging.read(page_token, "model_folders")
        query = query.where(tuple_(*place) > (cursor.key, cursor.row()))
    rows = session.execute(query).all()
    shown = rows[: paging.page_limit(page_size) - 1]
    token = None
    if len(rows) > len(shown):
        last = shown[-1].UploadedFolder
        token = paging.written(Cursor(last.name, str(last.project_id)), "model_folders")
    return Page(data=tuple(_view(session, row) for row in shown), next_page_token=token)


def _check_names(files: Sequence[FileFromUpload]) -> None:
    """Raise `InvalidSpec` for names twice, and for files that are not read."""
    problems: list[Problem] = []
    names = [file.name for file in files]
    for index, name in enumerate(names):
        pointer = f"/files/{index}/name"
        if name in names[:index]:
            detail = f"The name {name!r} occurs twice. Send every file once."
            problems.append(Problem(pointer, "name_occurs_twice", detail))
        elif name.endswith(PICKLES):
            problems.append(Problem(pointer, "bad_model_folder", pickle_refusal(name)))
        elif not (name in READ_FILES or _is_weights(name)):
            detail = (
                f"adaptlab does not read {name!r}. Leave it out: a model folder has "
                f"{', '.join(READ_FILES)} and files whose names end in {SAFETENSORS}."
            )
            problems.append(Problem(pointer, "not_a_model_file", detail, READ_FILES))
    if problems:
        raise InvalidSpec(*problems)


def _is_weights(name: str) -> bool:
    return name.endswith(SAFETENSORS) and "/" not in name and name.isprintable()


def _checked(
    session: Session, stored: Sequence[StoredModelFile]
) -> tuple[CheckedFolder, tuple[ModelFile, ...]]:
    try:
        checked = check_files(StoredFolder(session, stored))
        return checked, fingerprint(checked)
    except BadModelFolder as error:
        raise InvalidSpec(Problem("/files", "bad_model_folder", str(error))) from error


def _check_all_used(checked: CheckedFolder, stored: Sequence[StoredModelFile]) -> None:
    """Raise `InvalidSpec` for files of weights that are not part of the model."""
    used = {tensor.file.name for tensor in checked.stored}
    left = [file.name for file in stored if _is_weights(file.name) and file.name not in used]
    if left:
        detail = f"{left[0]} is not among the files of the model. Leave it out."
        raise InvalidSpec(Problem("/files", "not_a_model_file", detail))


def _insert_files(
    session: Session,
    project_id: int,
    folder: str,
    contents: dict[str, StoredArtifact],
    fingerprints: Sequence[ModelFile],
) -> None:
    digests = {file.name: file.digest for file in fingerprints}
    rows = [
        {
            "project_id": project_id,
            "folder": folder,
            "name": name,
            "artifact_sha256": content.sha256,
            "size_bytes": content.size,
            "fingerprint": digests.get(name),
        }
        for name, content in contents.items()
    ]
    session.execute(insert(UploadedFolderFile).values(rows))


def _rows() -> Select[UploadedFolder, str]:
    return select(UploadedFolder, Project.name.label("project")).join(
        Project, Project.id == UploadedFolder.project_id
    )


def _files(session: Session, project_id: int, name: str) -> Sequence[UploadedFolderFile]:
    mine = UploadedFolderFile.project_id == project_id, UploadedFolderFile.folder == name
    return session.scalars(
        select(UploadedFolderFile).where(*mine).order_by(UploadedFolderFile.name)
    ).all()


def _view(session: Session, row: Row[UploadedFolder, str]) -> ModelFolderView:
    folder: UploadedFolder = row.UploadedFolder
    files = _files(session, folder.project_id, folder.name)
    return ModelFolderView(
        name=folder.name,
        project=row.project,
        folder=f"{UPLOADED}/{folder.name}",
        family=folder.family,
        parameters=folder.parameters,
        size_bytes=sum(file.size_bytes for file in files),
        files=tuple(
            ModelFolderFile(name=file.name, size_bytes=file.size_bytes, sha256=file.artifact_sha256)
            for file in files
        ),
        created_at=folder.created_at,
        links=ModelFolderLinks(self=f"/v1/model-folders/{folder.name}"),
    )
