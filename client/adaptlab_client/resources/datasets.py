"""The datasets of a server: words and records for tasks."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import JsonValue, TypeAdapter

from adaptlab.records.file_forms import BINARY
from adaptlab.records.file_reading import Reading, ReadingOptions
from adaptlab_answers.models import DatasetKind, DatasetView
from adaptlab_answers.storage import UploadView
from adaptlab_client.errors import ApiError
from adaptlab_client.resources.uploads import Report, Uploads
from adaptlab_client.transport import download
from adaptlab_client.transport.connection import Connection, Request, path_of
from adaptlab_client.transport.paging import entries

INLINE_BYTES = 2**19
"""Larger datasets are sent as an upload: a server accepts bodies of up to 1 MiB."""
READING_SECONDS = 3600.0
"""Time limit for a dataset from an upload or a file: servers have shorter ones of their own."""


class Datasets:
    """Datasets of records, and of words in English, German and Spanish."""

    def __init__(self, connection: Connection, uploads: Uploads) -> None:
        self._connection = connection
        self._uploads = uploads

    def list(self) -> Iterator[DatasetView]:
        """Iterate over all datasets, page by page, including the generated list."""
        return entries(self._connection, path_of("datasets"), DatasetView)

    def get(self, name: str) -> DatasetView:
        """Return the description of a dataset; raises `NotFound`."""
        return self._connection.ask(Request("GET", path_of("datasets", name)), DatasetView)

    def delete(self, name: str) -> None:
        """Delete a dataset; what ended jobs have recorded stays.

        Raises `Conflict` if a base model, a study that was not cancelled or an unfinished job needs
        it, and `NotFound`.
        """
        self._connection.send(Request("DELETE", path_of("datasets", name)))

    def share(self, name: str, project: str) -> DatasetView:
        """Share a dataset with another project of yours; safe to repeat.

        Its owner, or an admin of its project, can do this. The other project can use it, and
        cannot delete it. Raises `Conflict` if the other project has a dataset of that name.
        """
        request = Request("POST", path_of("datasets", name, "shares"), body={"project": project})
        return self._connection.ask(request, DatasetView)

    def take_back(self, name: str, project: str) -> None:
        """Stop sharing a dataset with a project.

        Raises `Conflict` if a base model, a study that was not cancelled or an unfinished job of
        that project needs it.
        """
        self._connection.send(Request("DELETE", path_of("datasets", name, "shares", project)))

    def upload(
        self,
        name: str,
        triples: Iterable[Sequence[str]],
        sources: Iterable[Mapping[str, str]] = (),
    ) -> DatasetView:
        """Upload triples of an English, a German and a Spanish word as a dataset.

        Each of `sources` has `package`, `version`, `licence` and optionally `sha256`. Uploading the
        same words under the same name again changes nothing; other words raise `Conflict`.
        """
        lines = [json.dumps(list(triple), ensure_ascii=False) for triple in triples]
        content = "\n".join(lines).encode()
        if len(content) <= INLINE_BYTES:
            words = {"triples": [json.loads(line) for line in lines]}
            return self._keep(name, sources, words)
        return self._keep_upload(name, sources, self._uploads.send_bytes(content), "jsonl")

    def upload_records(
        self,
        name: str,
        records: Iterable[Mapping[str, str | float | bool]],
        sources: Iterable[Mapping[str, str]] = (),
    ) -> DatasetView:
        """Upload records, which all have the same fields, as a dataset.

        Values that are not text become text. Their order is kept. `sources` and repetitions are as
        for words. For records that do not fit in memory, use `upload_file`.
        """
        lines = [json.dumps(dict(record), ensure_ascii=False) for record in records]
        content = "\n".join(lines).encode()
        if len(content) <= INLINE_BYTES:
            return self._keep(name, sources, {"records": [json.loads(line) for line in lines]})
        upload = self._uploads.send_bytes(content)
        return self._keep_upload(name, sources, upload, "jsonl", "records")

    def upload_file(
        self,
        name: str,
        path: str | Path,
        sources: Iterable[Mapping[str, str]] = (),
        *,
        kind: DatasetKind = "words",
        report: Report | None = None,
        reading: Reading | None = None,
        options: ReadingOptions | None = None,
    ) -> DatasetView:
        """Upload the words or records of a file; a second call resumes.

        A `.tsv` file has tabs between the words of a triple or the fields of a record. With `kind`
        `records`, the server finds the delimiter and the encoding of a `.csv` file unless `options`
        have them, and `.parquet` and `.xlsx` are read too. A line of any other file is JSON.
        `reading` is stored with the dataset: how its JSON lines were read from another file.
        """
        suffix = Path(path).suffix.lower().removeprefix(".")
        forms = ("tsv", "csv", *BINARY) if kind == "records" else ("tsv",)
        form = suffix if suffix in forms else "jsonl"
        upload = self._uploads.send(path, report=report)
        more = {**_said(options)}
        if reading is not None:
            more["reading"] = reading.model_dump(mode="json")
        return self._keep_upload(name, sources, upload, form, kind, more)

    def add(
        self,
        name: str,
        file: str,
        sources: Iterable[Mapping[str, str]] = (),
        *,
        form: str | None = None,
        options: ReadingOptions | None = None,
    ) -> DatasetView:
        """Make a dataset of records from a file below a dataset root.

        `file` is ALIAS/SUB/PATH. The server copies the records, so the dataset stays as it is if
        the file changes. `form` is by default that of the end of the name. Repetitions are as for
        uploads.
        """
        content = {"kind": "records", "file": file, **_said(options)}
        return self._keep(name, sources, content | ({"format": form} if form else {}))

    def _keep_upload(
        self,
        name: str,
        sources: Iterable[Mapping[str, str]],
        upload: UploadView,
        form: str,
        kind: DatasetKind = "words",
        more: Mapping[str, object] | None = None,
    ) -> DatasetView:
        content = {"kind": kind, "upload": str(upload.id), "format": form, **(more or {})}
        dataset = self._keep(name, sources, content)
        with suppress(ApiError):  # otherwise it expires a day later
            self._uploads.delete(upload.id)
        return dataset

    def _keep(
        self, name: str, sources: Iterable[Mapping[str, str]], content: Mapping[str, object]
    ) -> DatasetView:
        body = {"name": name, "sources": [dict(source) for source in sources], **content}
        sent = TypeAdapter[JsonValue](JsonValue).validate_python(body)
        seconds = READING_SECONDS if {"upload", "file"} & content.keys() else None
        request = Request("POST", path_of("datasets"), body=sent, seconds=seconds)
        return self._connection.ask(request, DatasetView)

    def download(
        self, name: str, target: str | Path, *, report: download.Report | None = None
    ) -> Path:
        """Download the content to `target` as JSON lines, and verify it."""
        dataset = self.get(name)
        path = path_of("datasets", name, "content")
        return download.save(self._connection, path, Path(target), dataset.digest, report)


def _said(options: ReadingOptions | None) -> Mapping[str, object]:
    return options.model_dump(mode="json", exclude_defaults=True) if options else {}
