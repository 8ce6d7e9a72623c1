"""Builders of rows and columns of this paper's tables."""

from collections.abc import Iterable

from adaptlab.recipes.petrov2024.settings import NEW, NEW_LABELS, Members
from adaptlab.reproductions.claim import RowSelector
from adaptlab.reproductions.recipe import PublishedScore, TableColumn, TableRow, score
from adaptlab.specs.spec import Choice


def columns(labels: Iterable[str], tasks: Iterable[Members]) -> tuple[TableColumn, ...]:
    """Return the columns of a table, one per task."""
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
    """Return a row: method `of`, trained on `task` from base `on`.

    Scores are in per cent.
    """
    chosen = None if task is None else Choice.model_validate(task)
    return TableRow(
        label=label,
        of=RowSelector(base_model=on, method=of, task=chosen),
        published=tuple(_score(cell) for cell in published),
    )


def rows_on_new_tasks(
    methods: Iterable[str], on: str | None = None, ending: str = ""
) -> tuple[TableRow, ...]:
    """Return an unpublished row for every method on every new task."""
    new = tuple(zip(NEW_LABELS, NEW, strict=True))
    return tuple(
        row(f"{method} on {name}{ending}", of=method, on=on, task=task)
        for method in methods
        for name, task in new
    )


def _score(cell: PublishedScore | float | None) -> PublishedScore | None:
    return score(cell) if isinstance(cell, int | float) else cell
