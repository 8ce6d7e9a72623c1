"""Results across jobs: queries in the filter language, groups over seeds, and files of it all."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from adaptlab_answers.queries import ColumnView, FieldList, FieldView, ResultRows
from adaptlab_client.display.result_table import ResultTable, Row
from adaptlab_client.transport.connection import Connection, Query, Request, path_of

FileFormat = Literal["csv", "jsonl", "parquet"]
PAGE = 200
EXPORT_SECONDS = 600.0
PIECE = 2**16


class ResultQueries:
    """The results of all jobs that succeeded, and what the heads of attention maps do.

    A filter is such as `task = "sort_descending" AND metrics.accuracy.mean > 0.9`; `fields` lists
    what can be asked about. What makes no sense raises `InvalidRequest`, whose faults say at which
    `column` of the filter.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def query(
        self,
        filter: str = "",  # noqa: A002 - the interface's own word
        *,
        fields: Sequence[str] = (),
        order_by: str | None = None,
        limit: int | None = None,
    ) -> ResultTable:
        """The results that match, the newest first; at most `limit` of them.

        A result that lacks what `order_by` names is left out; `-` before the name turns it round.
        """
        return self._table("results", filter, fields, order_by, limit)

    def heads(
        self,
        filter: str = "",  # noqa: A002 - the interface's own word
        *,
        fields: Sequence[str] = (),
        order_by: str | None = None,
        limit: int | None = None,
    ) -> ResultTable:
        """The heads that match, as `layer = 2 AND divergence > 0.3`; the most moved first."""
        return self._table("attention", filter, fields, order_by, limit)

    def groups(
        self,
        by: Sequence[str],
        filter: str = "",  # noqa: A002 - the interface's own word
        *,
        metric: str = "accuracy",
    ) -> ResultTable:
        """A metric over the seeds of each group: n, mean, sd and the 95 % interval of the mean."""
        query: Query = {"filter": filter, "group_by": ",".join(by), "metric": metric}
        page = self._connection.ask(Request("GET", path_of("results"), query=query), ResultRows)
        return ResultTable(columns=page.columns, data=page.data)

    def fields(self, of: Literal["results", "attention"] = "results") -> tuple[FieldView, ...]:
        """What can be asked about."""
        request = Request("GET", path_of(of, "fields"))
        return self._connection.ask(request, FieldList).data

    def export(
        self,
        target: str | Path,
        filter: str = "",  # noqa: A002 - the interface's own word
        *,
        fields: Sequence[str] = (),
        order_by: str | None = None,
        format: FileFormat = "parquet",  # noqa: A002 - the interface's own word
        of: Literal["results", "attention"] = "results",
    ) -> Path:
        """Write everything that matches into `target`, which appears when it is whole."""
        query: Query = {"filter": filter, "order_by": order_by, "fields": ",".join(fields) or None}
        return self._save(path_of(of), {**query, "format": format}, Path(target))

    def export_curves(
        self,
        target: str | Path,
        filter: str = "",  # noqa: A002 - the interface's own word
        *,
        names: Sequence[str] = (),
        format: FileFormat = "parquet",  # noqa: A002 - the interface's own word
    ) -> Path:
        """Write every point of the learning curves of the jobs that match into `target`."""
        query: Query = {"filter": filter, "names": [*names], "format": format}
        return self._save(path_of("results", "curves"), query, Path(target))

    def _table(
        self,
        of: str,
        filter_text: str,
        fields: Sequence[str],
        order_by: str | None,
        limit: int | None,
    ) -> ResultTable:
        columns: tuple[ColumnView, ...] = ()
        data: list[Row] = []
        token: str | None = None
        while limit is None or len(data) < limit or not columns:
            query: Query = {
                "filter": filter_text,
                "fields": ",".join(fields) or None,
                "order_by": order_by,
                "page_size": max(1, PAGE if limit is None else min(limit - len(data), PAGE)),
                "page_token": token,
            }
            page = self._connection.ask(Request("GET", path_of(of), query=query), ResultRows)
            columns = page.columns
            data += page.data
            if not page.next_page_token or page.next_page_token == token:
                break
            token = page.next_page_token
        return ResultTable(columns=columns, data=tuple(data[:limit]))

    def _save(self, path: str, query: Query, target: Path) -> Path:
        part = target.with_name(target.name + ".part")
        request = Request(
            "GET", path, query=query, headers={"Accept": "*/*"}, seconds=EXPORT_SECONDS
        )
        try:
            with part.open("wb") as file:
                for piece in self._pieces(request):
                    file.write(piece)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        return target

    def _pieces(self, request: Request) -> Iterator[bytes]:
        with self._connection.open(request) as response:
            yield from response.iter_bytes(PIECE)
