"""The datasets of a server: words for tasks to ask."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue, TypeAdapter

from adaptlab_client import download
from adaptlab_client.answers import DatasetEntry, Page
from adaptlab_client.connection import Connection, Request, path_of


class Datasets:
    """Words in English, German and Spanish."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> Iterator[DatasetEntry]:
        """All of them, page by page, the generated list among them."""
        token: str | None = None
        while True:
            request = Request("GET", path_of("datasets"), query={"page_token": token})
            page = self._connection.ask(request, Page[DatasetEntry])
            yield from page.data
            if not page.next_page_token or page.next_page_token == token:
                return
            token = page.next_page_token

    def get(self, name: str) -> DatasetEntry:
        """One of them; raises `NotFound`."""
        return self._connection.ask(Request("GET", path_of("datasets", name)), DatasetEntry)

    def upload(
        self,
        name: str,
        triples: Iterable[Sequence[str]],
        sources: Iterable[Mapping[str, str]] = (),
    ) -> DatasetEntry:
        """Keep triples of an English, a German and a Spanish word under a name.

        `sources` say where they are from: `package`, `version`, `licence` and perhaps `sha256`.
        The same words under the same name are kept once; raises `Conflict` for others.
        """
        body = {
            "name": name,
            "sources": [dict(source) for source in sources],
            "triples": [list(triple) for triple in triples],
        }
        sent = TypeAdapter[JsonValue](JsonValue).validate_python(body)
        return self._connection.ask(Request("POST", path_of("datasets"), body=sent), DatasetEntry)

    def download(self, name: str, target: Path, *, report: download.Report | None = None) -> Path:
        """Fetch the words into `target`, one JSON object a line; the digest is verified."""
        known = self.get(name)
        path = path_of("datasets", name, "content")
        return download.save(self._connection, path, target, known.digest, report)
