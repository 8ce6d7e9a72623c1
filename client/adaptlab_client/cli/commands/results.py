"""`adaptlab results`: list, groups, heads, fields, export, curves."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from adaptlab_client.cli.exits import UsageError
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.printing.terminal import (
    Output,
    inert,
    json_text,
    one_line,
    print_rows,
    say,
)
from adaptlab_client.cli.session import OutputOption, open_client

if TYPE_CHECKING:
    from adaptlab_client.display.result_table import ResultTable
    from adaptlab_client.resources.results import FileFormat


class Form(StrEnum):
    """Formats of exported files."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"


WANTED = ("id", "task", "method", "metrics.accuracy.mean")
"""Columns that a narrow terminal shows first."""

FilterOption = Annotated[
    str,
    typer.Option("--filter", help="Filter, such as: method = lora AND metrics.accuracy.mean > 0.9"),
]
OrderOption = Annotated[
    str | None,
    typer.Option(help="Numeric or time field to order by, such as -metrics.accuracy.mean."),
]
FieldsOption = Annotated[str, typer.Option(help="Columns, separated by commas.")]
ResultFieldsOption = Annotated[
    str,
    typer.Option(help="Columns, separated by commas; varying: those in which the results differ."),
]
LimitOption = Annotated[int, typer.Option(min=0, help="Rows to show; 0 shows all.")]
TargetArgument = Annotated[
    Path, typer.Argument(metavar="FILE", dir_okay=False, help="File to write.")
]
FormOption = Annotated[
    Form | None, typer.Option("--format", help="Format of FILE. Default: by its extension.")
]
HeadsOption = Annotated[bool, typer.Option("--heads", help="Heads instead of results.")]


def list_results(
    context: typer.Context,
    filter_text: FilterOption = "",
    order_by: OrderOption = None,
    fields: ResultFieldsOption = "varying",
    limit: LimitOption = 50,
    output: OutputOption = Output.TABLE,
) -> None:
    """List results of jobs that succeeded, newest first."""
    with open_client(context) as client:
        table = client.results.query(
            filter_text, fields=_names(fields), order_by=order_by, limit=limit or None
        )
    _print(table, output)


def heads(
    context: typer.Context,
    filter_text: Annotated[
        str, typer.Option("--filter", help="Filter, such as: layer = 2 AND divergence > 0.3")
    ] = "",
    order_by: Annotated[str | None, typer.Option(help="Order. Default: -divergence.")] = None,
    fields: FieldsOption = "",
    limit: LimitOption = 50,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the heads of attention maps, those that moved furthest first."""
    with open_client(context) as client:
        table = client.results.heads(
            filter_text, fields=_names(fields), order_by=order_by, limit=limit or None
        )
    _print(table, output)


def groups(
    context: typer.Context,
    by: Annotated[str, typer.Option(help="Fields, separated by commas.")] = "method",
    metric: Annotated[str, typer.Option(help="Metric to aggregate over seeds.")] = "accuracy",
    filter_text: FilterOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Aggregate a metric over the seeds of groups of results: mean, deviation, 95 % interval."""
    with open_client(context) as client:
        table = client.results.groups(_names(by), filter_text, metric=metric)
    _print(table, output)


def fields(
    context: typer.Context, heads: HeadsOption = False, output: OutputOption = Output.TABLE
) -> None:
    """List the fields that a filter can use."""
    from adaptlab_answers.queries import ColumnView
    from adaptlab_client.display.result_table import ResultTable, Row

    with open_client(context) as client:
        views = client.results.fields("attention" if heads else "results")
    names = ("name", "type", "indexed", "means")
    rows: tuple[Row, ...] = tuple(
        {"name": view.name, "type": view.type, "indexed": _yes(view.indexed), "means": view.means}
        for view in views
    )
    columns = tuple(ColumnView(name=name, type="text") for name in names)
    _print(ResultTable(columns=columns, data=rows), output, "name")


def export(
    context: typer.Context,
    target: TargetArgument,
    filter_text: FilterOption = "",
    order_by: OrderOption = None,
    fields: FieldsOption = "",
    heads: HeadsOption = False,
    form: FormOption = None,
) -> None:
    """Write the matching results to a file: CSV, JSON lines or Parquet."""
    of: Literal["results", "attention"] = "attention" if heads else "results"
    file_format = _form(target, form)
    with open_client(context) as client:
        client.results.export(
            target, filter_text, fields=_names(fields), order_by=order_by, format=file_format, of=of
        )
    say(f"wrote {inert(target)}")


def curves(
    context: typer.Context,
    target: TargetArgument,
    filter_text: FilterOption = "",
    name: Annotated[list[str] | None, typer.Option(help="Only this curve. Repeatable.")] = (None),
    form: FormOption = None,
) -> None:
    """Write the learning curves of the matching results to a file, point by point."""
    file_format = _form(target, form)
    with open_client(context) as client:
        client.results.export_curves(target, filter_text, names=name or (), format=file_format)
    say(f"wrote {inert(target)}")


def application() -> typer.Typer:
    """Return the commands of `adaptlab results`."""
    return group(
        "results",
        "Query, group and export results across jobs.",
        {
            "list": list_results,
            "groups": groups,
            "heads": heads,
            "fields": fields,
            "export": export,
            "curves": curves,
        },
    )


def _print(table: "ResultTable", output: Output, identity: str = "id") -> None:
    names = [column.name for column in table.columns]
    if output in (Output.TABLE, Output.CSV):
        rows = ([row[name] for name in names] for row in table.rows())
        print_rows(names, rows, output, WANTED)
    elif output is Output.JSON:
        print(json_text([dict(row) for row in table.rows()], indent=2))
    elif output is Output.JSONL:
        for row in table.rows():
            print(json_text(dict(row)))
    elif identity in names:
        for row in table.rows():
            print(one_line(row[identity]))
    else:
        raise UsageError(f"These rows have no {identity}; their columns are {', '.join(names)}.")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text.strip() else ()


def _form(target: Path, form: Form | None) -> "FileFormat":
    formats: dict[str, FileFormat] = {"csv": "csv", "jsonl": "jsonl", "parquet": "parquet"}
    file_format = formats.get(form.value if form else target.suffix.removeprefix(".").lower())
    if file_format is None:
        raise UsageError(f"{target} does not end in .csv, .jsonl or .parquet. Set --format.")
    return file_format


def _yes(value: bool) -> str:
    return "yes" if value else ""
