"""Results across jobs: queries, groups over seeds, and exports."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from adaptlab_answers.queries import ColumnView, FieldList, FieldView, ResultRows
from adaptlab_client.display.result_table import ResultTable, Row
from adaptlab_client.transport.connection import Connection, Query, Request, path_of

FileFormat = Literal["csv", "jsonl", "parquet"]
PAGE = 200
VARYING = ("varying",)
"""The usual columns, and the fields in which the results differ."""
EXPORT_SECONDS = 600.0
PIECE = 2**16


class ResultQueries:
    """Queries over results of succeeded jobs, and over attention heads.

    An example of a filter is `task = "sort_descending" AND metrics.accuracy.mean > 0.9`; `fields`
    lists the fields. An invalid filter raises `InvalidRequest`, with the `column` of each error.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def query(
        self,
        filter: str = "",  # noqa: A002 - the interface's own word
        *,
        fields: Sequence[str] = VARYING,
        order_by: str | None = None,
        limit: int | None = None,
    ) -> ResultTable:
        """Return at most `limit` results that match, by default newest first.

        Without `fields`, the columns are the usual ones and the fields in which the results differ.
        `list` is another name of this method.
        `-` before the name in `order_by` sorts in descending order. Results without that field are
        left out.
        """
        return self._table("results", filter, fields, order_by, limit)

    list = query

    def heads(
        self,
        filter: str = "",  # noqa: A002 - the interface's own word
        *,
        fields: Sequence[str] = (),
        order_by: str | None = None,
        limit: int | None = None,
    ) -> ResultTable:
        """Return the heads that match, by default the largest divergence first.

        An example of a filter is `layer = 2 AND divergence > 0.3`.
        """
        return self._table("attention", filter, fields, order_by, limit)

    def groups(
        self,
        by: Sequence[str],
        filter: str = "",  # noqa: A002 - the interface's own word
        *,
        metric: str = "accuracy",
    ) -> ResultTable:
        """Return a metric over the seeds of each group.

        The columns are n, mean, standard deviation and the 95 % interval of the mean. The best mean
        comes first: of losses and perplexity the lowest, otherwise the highest.
        """
        query: Query = {"filter": filter, "group_by": ",".join(by), "metric": metric}
        page = self._connection.ask(Request("GET", path_of("results"), query=query), ResultRows)
        return ResultTable(columns=page.columns, data=page.data)

    def fields(self, of: Literal["results", "attention"] = "results") -> tuple[FieldView, ...]:
        """Return the fields for filters, columns and sorting."""
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
        """Write all results that match to `target`, which appears once complete."""
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
        """Write the learning curves of all jobs that match to `target`."""
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
            fields = [column.name for column in columns]  # the same on every page
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
