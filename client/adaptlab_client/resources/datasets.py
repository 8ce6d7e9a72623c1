"""The datasets of a server: words for tasks."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import JsonValue, TypeAdapter

from adaptlab_answers.models import DatasetView
from adaptlab_answers.storage import UploadView
from adaptlab_client.errors import ApiError
from adaptlab_client.resources.uploads import Report, Uploads
from adaptlab_client.transport import download
from adaptlab_client.transport.connection import Connection, Request, path_of
from adaptlab_client.transport.paging import entries

INLINE_BYTES = 2**19
"""Larger datasets are sent as an upload: a server accepts bodies of up to 1 MiB."""


class Datasets:
    """Datasets of words in English, German and Spanish."""

    def __init__(self, connection: Connection, uploads: Uploads) -> None:
        self._connection = connection
        self._uploads = uploads

    def list(self) -> Iterator[DatasetView]:
        """Iterate over all datasets, page by page, including the generated list."""
        return entries(self._connection, path_of("datasets"), DatasetView)

    def get(self, name: str) -> DatasetView:
        """Return the description of a dataset; raises `NotFound`."""
        return self._connection.ask(Request("GET", path_of("datasets", name)), DatasetView)

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

    def upload_file(
        self,
        name: str,
        path: str | Path,
        sources: Iterable[Mapping[str, str]] = (),
        *,
        report: Report | None = None,
    ) -> DatasetView:
        """Upload the words of a file of any size; a second call resumes.

        A line of a `.tsv` file is a triple with tabs between the words; a line of any other file
        is JSON.
        """
        form = "tsv" if Path(path).suffix.lower() == ".tsv" else "jsonl"
        return self._keep_upload(name, sources, self._uploads.send(path, report=report), form)

    def _keep_upload(
        self, name: str, sources: Iterable[Mapping[str, str]], upload: UploadView, form: str
    ) -> DatasetView:
        dataset = self._keep(name, sources, {"upload": str(upload.id), "format": form})
        with suppress(ApiError):  # otherwise it expires a day later
            self._uploads.delete(upload.id)
        return dataset

    def _keep(
        self, name: str, sources: Iterable[Mapping[str, str]], words: Mapping[str, object]
    ) -> DatasetView:
        body = {"name": name, "sources": [dict(source) for source in sources], **words}
        sent = TypeAdapter[JsonValue](JsonValue).validate_python(body)
        return self._connection.ask(Request("POST", path_of("datasets"), body=sent), DatasetView)

    def download(
        self, name: str, target: str | Path, *, report: download.Report | None = None
    ) -> Path:
        """Download the words to `target` as JSON lines, and verify the digest."""
        dataset = self.get(name)
        path = path_of("datasets", name, "content")
        return download.save(self._connection, path, Path(target), dataset.digest, report)
