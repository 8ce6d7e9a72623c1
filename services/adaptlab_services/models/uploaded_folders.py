"""Uploaded folders of models and adapters, in the server's own store."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, cast
from uuid import UUID

from pydantic import Field
from sqlalchemy import Row, Select, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from adaptlab.errors import BadAdapter, BadModelFolder, InvalidSpec, Problem
from adaptlab.exchange.adapter_folder import read_adapter_files, unread_pickle
from adaptlab.exchange.peft_adapter import peft_type_of
from adaptlab.exchange.peft_members import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from adaptlab.specs.model_shapes import family_shape
from adaptlab.specs.spec import UPLOADED, ModelFolder, StoredModelFile
from adaptlab.values import Name, Value
from adaptlab.weights.hub_name import HubName, HubOrigin
from adaptlab.weights.huggingface import (
    CONFIG,
    INDEX,
    LONGEST_FILE_NAME,
    PICKLES,
    SAFETENSORS,
    pickle_refusal,
    read_description,
)
from adaptlab.weights.model_file import ModelFile
from adaptlab.weights.model_folder import (
    TEXT_FILES,
    CheckedFolder,
    check_files,
    fingerprint,
)
from adaptlab.weights.preprocessor import PREPROCESSOR
from adaptlab_answers.models import (
    ModelFolderFile,
    ModelFolderKind,
    ModelFolderLinks,
    ModelFolderView,
)
from adaptlab_answers.paging import Page
from adaptlab_db.artifacts import StoredArtifact
from adaptlab_db.job_states import LOST_STATES
from adaptlab_db.tables import BaseModel, Job, Project, UploadedFolder, UploadedFolderFile, User
from adaptlab_services import paging
from adaptlab_services.errors import Absent, StateConflict
from adaptlab_services.limits import quotas
from adaptlab_services.models.hub_lookups import newest_of_hub
from adaptlab_services.models.stored_folder import StoredFolder
from adaptlab_services.paging import Cursor
from adaptlab_services.people import access
from adaptlab_services.people.tokens import Principal
from adaptlab_services.storage import uploads

KIND = "model folder"
MOST_FILES = 64
READ_FILES = (CONFIG, INDEX, *TEXT_FILES, PREPROCESSOR)
"""The files of a model that adaptlab reads, besides those of weights."""
ADAPTER_FILES = (ADAPTER_CONFIG, ADAPTER_WEIGHTS)
_WORDS: Mapping[ModelFolderKind, str] = {"model": "a model", "adapter": "an adapter"}
_OTHER: Mapping[ModelFolderKind, ModelFolderKind] = {"model": "adapter", "adapter": "model"}


class FileFromUpload(Value):
    """A file of an uploaded folder: its name, and a complete upload."""

    name: Annotated[str, Field(min_length=1, max_length=LONGEST_FILE_NAME)]
    upload: UUID


class NewModelFolder(Value):
    """A folder of a model or a PEFT adapter, from complete uploads.

    A model has a `config.json`, one or more `.safetensors` files, `model.safetensors.index.json` if
    there are several, for models of text a `tokenizer.json`, and for models of images a
    `preprocessor_config.json`. A `tokenizer_config.json` or `chat_template.jinja` has the chat
    template. An adapter has an `adapter_config.json` and an `adapter_model.safetensors`.
    """

    name: Name
    files: Annotated[tuple[FileFromUpload, ...], Field(min_length=1, max_length=MOST_FILES)]


@dataclass(frozen=True, slots=True)
class _Content:
    """What the files of a folder are, and their fingerprints."""

    kind: ModelFolderKind
    family: str | None
    architecture: str
    dtypes: frozenset[str]
    parameters: int
    fingerprints: tuple[ModelFile, ...]


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
        Absent: the caller has no such upload.
        StateConflict: an upload is not complete, or the name belongs to other files.
        InvalidSpec: the files are not those of a model.
    """
    _check_names(new.files)
    quotas.check_room(session, principal.user_id, 0)
    contents = {file.name: uploads.completed(session, principal, file.upload) for file in new.files}
    return store(session, principal, new.name, contents)


def store(
    session: Session,
    principal: Principal,
    name: str,
    contents: Mapping[str, StoredArtifact],
    origin: HubOrigin | None = None,
) -> CreatedFolder:
    """Create a model folder of stored files, by name.

    Raises:
        StateConflict: the name belongs to other files.
        InvalidSpec: the files are not those of a model.
    """
    project_id = access.to_create(session)
    stored = tuple(
        StoredModelFile(name=file, sha256=content.sha256)
        for file, content in sorted(contents.items())
    )
    content = _content(session, stored)
    row = {
        "project_id": project_id,
        "name": name,
        "owner_id": principal.user_id,
        "kind": content.kind,
        "family": content.family,
        "architecture": content.architecture,
        "dtype": ", ".join(sorted(content.dtypes)),
        "parameters": content.parameters,
        "origin": None if origin is None else origin.model_dump(mode="json"),
    }
    inserted = session.execute(
        insert(UploadedFolder).values(row).on_conflict_do_nothing().returning(UploadedFolder.name)
    )
    is_new = inserted.one_or_none() is not None
    if is_new:
        _insert_files(session, project_id, name, contents, content.fingerprints)
    with access.inside(session, project_id):
        folder = get(session, name)
    if {file.name: file.sha256 for file in folder.files} != {f.name: f.sha256 for f in stored}:
        raise StateConflict(
            f"The model folder {name!r} already exists, with other files. Choose another name."
        )
    return CreatedFolder(folder, is_new)


def model_folder(
    session: Session, path: str, pointer: str, kind: ModelFolderKind = "model"
) -> ModelFolder:
    """Return an uploaded folder as part of a spec.

    It cannot be deleted until the unit of work ends. `path` is `uploaded/NAME`.

    Raises:
        InvalidSpec: there is none of that name and kind in the project.
    """
    name = path.partition("/")[2]
    mine = UploadedFolder.project_id == access.project_of(session), UploadedFolder.name == name
    locked = select(UploadedFolder).where(*mine).with_for_update(read=True, key_share=True)
    folder = session.scalars(locked).one_or_none()
    if folder is None or folder.kind != kind:
        known = tuple(
            session.scalars(
                select(UploadedFolder.name)
                .where(mine[0], UploadedFolder.kind == kind)
                .order_by(UploadedFolder.name)
                .limit(MOST_FILES)
            )
        )
        what = _WORDS[kind]
        other = "" if folder is None else f" {path} is {_WORDS[_OTHER[kind]]}."
        detail = (
            f"There is no uploaded folder of {what} named {name!r} in the project.{other} Existing "
            f"ones: {', '.join(known) or '(none)'}. Upload it first: adaptlab model-folders upload "
            "NAME FOLDER."
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
        origin=_origin(folder),
    )


def of_hub(session: Session, name: HubName) -> str | None:
    """Return the path of the newest folder that was fetched by a name."""
    found = newest_of_hub(session, UploadedFolder, name)
    return None if found is None else f"{UPLOADED}/{found}"


def check_unchanged(
    session: Session, folder: ModelFolder, pointer: str, kind: ModelFolderKind = "model"
) -> None:
    """Raise `InvalidSpec` if the folder of an import was deleted or replaced."""
    if model_folder(session, folder.folder, pointer, kind).stored != folder.stored:
        detail = (
            f"The folder {folder.folder} was deleted, and has other files now. Create the import "
            "again."
        )
        raise InvalidSpec(Problem(pointer, "no_such_folder", detail))


def get(session: Session, name: str) -> ModelFolderView:
    """Return an uploaded folder, the request's own if several match.

    Raises:
        Absent: no project, or several other projects, have such a folder.
    """
    rows = session.execute(_rows().where(UploadedFolder.name == name)).all()
    row = access.nearest(session, [(one.UploadedFolder.project_id, one) for one in rows])
    if row is None:
        raise Absent(KIND, name, session.scalars(select(UploadedFolder.name)).all())
    return _views(session, [row])[0]


def page(session: Session, page_size: int, page_token: str | None = None) -> Page[ModelFolderView]:
    """Return a page of uploaded folders, sorted by name."""
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
    return Page(data=_views(session, shown), next_page_token=token)


def _check_names(files: Sequence[FileFromUpload]) -> None:
    """Raise `InvalidSpec` for names twice, and for files that are not read."""
    problems: list[Problem] = []
    names = [file.name for file in files]
    of_adapter = ADAPTER_CONFIG in names
    others = ADAPTER_FILES if of_adapter else READ_FILES
    what = "the folder of an adapter" if of_adapter else "a model folder"
    for index, name in enumerate(names):
        pointer = f"/files/{index}/name"
        if name in names[:index]:
            detail = f"The name {name!r} occurs twice. Send every file once."
            problems.append(Problem(pointer, "name_occurs_twice", detail))
        elif name.endswith(PICKLES):
            refusal = unread_pickle(name) if of_adapter else pickle_refusal(name)
            problems.append(Problem(pointer, "bad_model_folder", refusal))
        elif not (name in others or (not of_adapter and _is_weights(name))):
            weights = "" if of_adapter else f" and files whose names end in {SAFETENSORS}"
            detail = (
                f"adaptlab does not read {name!r}. Leave it out: {what} has {', '.join(others)}"
                f"{weights}."
            )
            problems.append(Problem(pointer, "not_a_model_file", detail, others))
    if problems:
        raise InvalidSpec(*problems)


def _is_weights(name: str) -> bool:
    return name.endswith(SAFETENSORS) and "/" not in name and name.isprintable()


def _content(session: Session, stored: Sequence[StoredModelFile]) -> _Content:
    """Return what the files are.

    Raises:
        InvalidSpec: they are neither a model nor an adapter.
    """
    files = StoredFolder(session, stored)
    try:
        return _adapter(files) if ADAPTER_CONFIG in files.names() else _model(files, stored)
    except (BadModelFolder, BadAdapter) as error:
        raise InvalidSpec(Problem("/files", "bad_model_folder", str(error))) from error


def _model(files: StoredFolder, stored: Sequence[StoredModelFile]) -> _Content:
    checked = check_files(files)
    _check_all_used(checked, stored)
    return _Content(
        kind="model",
        family=checked.family.name,
        architecture=read_description(files).architecture,
        dtypes=frozenset(tensor.dtype for tensor in checked.stored),
        parameters=family_shape(checked.family).parameters,
        fingerprints=fingerprint(checked),
    )


def _adapter(files: StoredFolder) -> _Content:
    folder = read_adapter_files(files)
    return _Content(
        kind="adapter",
        family=None,
        architecture=peft_type_of(folder.config),
        dtypes=folder.dtypes,
        parameters=sum(tensor.size for tensor in folder.tensors.values()),
        fingerprints=folder.files,
    )


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
    contents: Mapping[str, StoredArtifact],
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


def _rows() -> Select[UploadedFolder, str, str]:
    return (
        select(UploadedFolder, Project.name.label("project"), User.name.label("owner"))
        .join(Project, Project.id == UploadedFolder.project_id)
        .join(User, User.id == UploadedFolder.owner_id)
    )


def _files(session: Session, project_id: int, name: str) -> Sequence[UploadedFolderFile]:
    mine = UploadedFolderFile.project_id == project_id, UploadedFolderFile.folder == name
    return session.scalars(
        select(UploadedFolderFile).where(*mine).order_by(UploadedFolderFile.name)
    ).all()


def _views(
    session: Session, rows: Sequence[Row[UploadedFolder, str, str]]
) -> tuple[ModelFolderView, ...]:
    """Return the views of folders, with two statements for all of them."""
    places = [(row.UploadedFolder.project_id, row.UploadedFolder.name) for row in rows]
    owned = tuple_(UploadedFolderFile.project_id, UploadedFolderFile.folder).in_(places)
    files: dict[tuple[int, str], list[UploadedFolderFile]] = {}
    for file in session.scalars(
        select(UploadedFolderFile).where(owned).order_by(UploadedFolderFile.name)
    ):
        files.setdefault((file.project_id, file.folder), []).append(file)
    bases = _base_models(session, places)
    return tuple(
        _view(row, files.get(place, ()), bases.get(place, ()))
        for row, place in zip(rows, places, strict=True)
    )


def _base_models(
    session: Session, places: Sequence[tuple[int, str]]
) -> Mapping[tuple[int, str], Sequence[str]]:
    """Return base models by the project and folder of their import."""
    named = Job.resolved_spec[("model_folder", "folder")].astext
    found: dict[tuple[int, str], list[str]] = {}
    for project_id, folder, name in session.execute(
        select(Job.project_id, named, BaseModel.name)
        .join(BaseModel, BaseModel.job_id == Job.id)
        .where(Job.kind == "import", Job.state.not_in(LOST_STATES))
        .where(tuple_(Job.project_id, named).in_([(p, f"{UPLOADED}/{n}") for p, n in places]))
        .order_by(BaseModel.name)
    ):
        found.setdefault((project_id, folder.partition("/")[2]), []).append(name)
    return found


def _view(
    row: Row[UploadedFolder, str, str],
    files: Sequence[UploadedFolderFile],
    base_models: Sequence[str],
) -> ModelFolderView:
    folder: UploadedFolder = row.UploadedFolder
    return ModelFolderView(
        name=folder.name,
        project=row.project,
        owner=row.owner,
        kind=cast("ModelFolderKind", folder.kind),
        folder=f"{UPLOADED}/{folder.name}",
        family=folder.family,
        architecture=folder.architecture,
        dtype=folder.dtype,
        parameters=folder.parameters,
        size_bytes=sum(file.size_bytes for file in files),
        sha256=_digest(files),
        files=tuple(
            ModelFolderFile(name=file.name, size_bytes=file.size_bytes, sha256=file.artifact_sha256)
            for file in files
        ),
        base_models=tuple(base_models),
        origin=_origin(folder),
        created_at=folder.created_at,
        links=ModelFolderLinks(self=f"/v1/model-folders/{folder.name}"),
    )


def _origin(folder: UploadedFolder) -> HubOrigin | None:
    return None if folder.origin is None else HubOrigin.model_validate(folder.origin)


def _digest(files: Sequence[UploadedFolderFile]) -> str:
    """Return the digest of what `sha256sum` prints for the files."""
    lines = [
        f"{file.artifact_sha256}  {file.name}\n"
        for file in sorted(files, key=lambda file: file.name)  # not as the database collates
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()
