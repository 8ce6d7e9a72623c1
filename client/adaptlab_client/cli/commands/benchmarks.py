"""`adaptlab benchmarks`: stage the items of standard tasks."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli.exits import UsageError
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.printing.terminal import Output, print_list, say
from adaptlab_client.cli.session import OutputOption, open_client

if TYPE_CHECKING:
    from adaptlab_answers.models import DatasetView
    from adaptlab_client.machine.benchmark_items import RenderedTask

COLUMNS = ("name", "items", "digest")


def add(
    context: typer.Context,
    tasks: Annotated[
        list[str],
        typer.Argument(
            help="Tasks or groups of lm-eval, such as hellaswag or mmlu, or a file MINE.yaml."
        ),
    ],
    shots: Annotated[int, typer.Option(min=0, max=64, help="Examples before every item.")] = 0,
    data: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            help=(
                "JSON lines or Parquet in place of the task's data: a file, or a folder with a "
                "file per split; for a group, a folder with one per task. Default: the harness "
                "downloads the data."
            ),
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first items.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Render standard tasks by lm-eval, and stage each as a dataset.

    A task file of your own has templates, no programs, and its data in --data. Needs the extra
    `benchmarks`. The server and its workers need neither lm-eval nor a network.
    """
    from adaptlab.records.rendered_items import dataset_of
    from adaptlab.records.task_groups import group_records
    from adaptlab_client.machine.benchmark_generation import NotRendered
    from adaptlab_client.machine.harness_files import averaged

    entries: list[DatasetView] = []
    names: list[str] = []
    try:
        with open_client(context) as client:
            for task in tasks:
                members, items = _rendered(task, shots, data, limit)
                for done in items:
                    upload = client.datasets.upload_records
                    entries.append(upload(done.name, done.records(), done.sources))
                if members:
                    records = group_records(task, members, averaged(task))
                    index = dataset_of(task, shots, limit)
                    entries.append(client.datasets.upload_records(index, records))
                names.append(task if members else items[0].rendering.task)
    except NotRendered as error:
        raise UsageError(str(error)) from error
    print_list(entries, COLUMNS, _row, output, "name")
    listed = ", ".join(names)
    more = (f", shots: {shots}" if shots else "") + (f", limit: {limit}" if limit else "")
    say(f"Watch: evaluation: {{tasks: [{{name: benchmark, tasks: [{listed}]{more}}}]}}")


def _rendered(
    task: str, shots: int, data: Path | None, limit: int | None
) -> "tuple[tuple[str, ...], list[RenderedTask]]":
    """Return the tasks of a group, none for a task, and all items."""
    from adaptlab_client.machine.benchmark_items import rendered
    from adaptlab_client.machine.harness_files import subtasks

    items: list[RenderedTask] = []
    for one in (members := subtasks(task)) or (task,):
        items.append(rendered(one, shots, data / one if data and members else data, limit))
        _say(items[-1])
    return members, items


def _say(done: "RenderedTask") -> None:
    about = done.rendering
    more = f", chance {about.chance:.1%}" if about.choices > 1 else ""
    if done.generation is not None:
        names = " or ".join(done.generation.names())
        more = f", answers of up to {done.generation.tokens:,} tokens, score {names}"
    say(f"{about.task}: {len(done.items):,} items{more}")
    if done.shown:
        say(
            f"{done.shown:,} of them also are examples before others: the splits share documents, "
            "or examples come from the split of the items"
        )


def _row(entry: "DatasetView") -> list[object]:
    return [entry.name, entry.records, entry.digest]


def application() -> typer.Typer:
    """Return the commands of `adaptlab benchmarks`."""
    return group("benchmarks", "Stage standard tasks of lm-eval, to watch them.", {"add": add})
