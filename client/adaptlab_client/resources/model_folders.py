"""Uploaded folders of a server: models to import, and PEFT adapters."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import JsonValue

from adaptlab.exchange.adapter_folder import read_adapter
from adaptlab.exchange.peft_adapter import peft_type_of
from adaptlab.exchange.peft_members import ADAPTER_CONFIG
from adaptlab.weights.folder_files import PlainFolder
from adaptlab.weights.huggingface import CONFIG, INDEX
from adaptlab.weights.model_folder import TEXT_FILES, check_folder
from adaptlab.weights.preprocessor import PREPROCESSOR
from adaptlab_answers.models import ModelFolderView
from adaptlab_client.errors import ApiError, NotFound
from adaptlab_client.resources.uploads import Uploads
from adaptlab_client.transport.connection import Connection, Request, path_of
from adaptlab_client.transport.paging import entries

CREATING_SECONDS = 300.0
"""Time limit for the creation, in which the server reads the headers of all files."""
Report = Callable[[str, int, int], None]


class ModelFolders:
    """Files of published models and of PEFT adapters in the server's store."""

    def __init__(self, connection: Connection, uploads: Uploads) -> None:
        self._connection = connection
        self._uploads = uploads

    def list(self) -> Iterator[ModelFolderView]:
        """Iterate over all uploaded folders, page by page."""
        return entries(self._connection, path_of("model-folders"), ModelFolderView)

    def get(self, name: str) -> ModelFolderView:
        """Return an uploaded folder; raises `NotFound`."""
        return self._connection.ask(Request("GET", path_of("model-folders", name)), ModelFolderView)

    def delete(self, name: str) -> None:
        """Delete an uploaded folder.

        Raises `Conflict` if a base model or an unfinished job needs it, and `NotFound`.
        """
        self._connection.send(Request("DELETE", path_of("model-folders", name)))

    def upload(
        self, name: str, folder: str | Path, *, report: Report | None = None
    ) -> ModelFolderView:
        """Upload the files that adaptlab reads; a second call resumes.

        These are the configuration, the weights, and the tokeniser with its chat template or the
        preprocessor of a model, or the two files of a PEFT adapter; other files stay behind. The
        folder is checked first, as the server checks it. Nothing is sent if the server has the same
        files under this name. `report` is called with the name of a file, the number of its bytes
        that have arrived, and its size.

        Raises:
            BadModelFolder: the folder has no model that adaptlab supports.
            BadAdapter: the folder has an adapter that adaptlab does not support.
            Conflict: the name belongs to other files.
        """
        names = model_files(Path(folder))
        files = PlainFolder(Path(folder))
        with suppress(NotFound):
            stored = self.get(name)
            if {file.name: file.sha256 for file in stored.files} == {
                file: files.digest(file) for file in names
            }:
                return stored
        uploads = {
            file: self._uploads.send(Path(folder) / file, report=_of_file(file, report))
            for file in names
        }
        created = self._create(name, {file: str(upload.id) for file, upload in uploads.items()})
        for upload in uploads.values():
            with suppress(ApiError):  # otherwise it expires a day later
                self._uploads.delete(upload.id)
        return created

    def _create(self, name: str, uploads: Mapping[str, str]) -> ModelFolderView:
        listed: list[JsonValue] = [
            {"name": file, "upload": upload} for file, upload in uploads.items()
        ]
        body: dict[str, JsonValue] = {"name": name, "files": listed}
        path = path_of("model-folders")
        request = Request("POST", path, body=body, seconds=CREATING_SECONDS)
        return self._connection.ask(request, ModelFolderView)


def model_files(folder: Path) -> tuple[str, ...]:
    """Return the names of the files that adaptlab reads of a folder.

    The folder is that of a model or of a PEFT adapter.

    Raises:
        BadModelFolder: the folder has no model that adaptlab supports.
        BadAdapter: the folder has an adapter that adaptlab does not support.
    """
    if (folder / ADAPTER_CONFIG).exists():
        adapter = read_adapter(folder)
        peft_type_of(adapter.config)
        return tuple(file.name for file in adapter.files)
    checked = check_folder(folder)
    weights = sorted({tensor.file.name for tensor in checked.stored})
    others = (CONFIG, INDEX, *TEXT_FILES, *((PREPROCESSOR,) if checked.has_preprocessor else ()))
    present = checked.files.names()
    return (*(name for name in others if name in present), *weights)


def _of_file(file: str, report: Report | None) -> Callable[[int, int], None] | None:
    if report is None:
        return None
    return lambda done, size: report(file, done, size)
