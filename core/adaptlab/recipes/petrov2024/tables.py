"""Rows and columns of the tables that the recipes of this paper are held against."""

from collections.abc import Iterable

from adaptlab.recipes.petrov2024.settings import NEW, NEW_LABELS, Members
from adaptlab.reproductions.claim import RowSelector
from adaptlab.reproductions.recipe import PublishedScore, TableColumn, TableRow, score
from adaptlab.specs.spec import Choice


def columns(labels: Iterable[str], tasks: Iterable[Members]) -> tuple[TableColumn, ...]:
    """The tasks that a table shows every row on."""
    pairs = zip(labels, tasks, strict=True)
    return tuple(
        TableColumn(label=label, task=Choice.model_validate(task)) for label, task in pairs
    )


def row(
    label: str,
    *published: PublishedScore | float | None,
    of: str | None = None,
    on: str | None = None,
    task: Members | None = None,
) -> TableRow:
    """A row: a method `of` the study trained on `task` from the base `on`; scores in per cent."""
    chosen = None if task is None else Choice.model_validate(task)
    return TableRow(
        label=label,
        of=RowSelector(base_model=on, method=of, task=chosen),
        published=tuple(_score(cell) for cell in published),
    )


def rows_on_new_tasks(
    methods: Iterable[str], on: str | None = None, ending: str = ""
) -> tuple[TableRow, ...]:
    """A row for every method on every new task, none of them published."""
    new = tuple(zip(NEW_LABELS, NEW, strict=True))
    return tuple(
        row(f"{method} on {name}{ending}", of=method, on=on, task=task)
        for method in methods
        for name, task in new
    )


def _score(cell: PublishedScore | float | None) -> PublishedScore | None:
    return score(cell) if isinstance(cell, int | float) else cell
