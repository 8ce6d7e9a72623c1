"""Builders of rows and columns of tables, for the recipes of any paper."""

from collections.abc import Iterable

from adaptlab.recipes.studies import Members
from adaptlab.reproductions.claim import RowSelector
from adaptlab.reproductions.recipe import PublishedScore, TableColumn, TableRow, score
from adaptlab.specs.spec import Choice


def columns(
    labels: Iterable[str],
    tasks: Iterable[Members],
    *,
    on: str | None = None,
    instead: Iterable[Members] = (),
) -> tuple[TableColumn, ...]:
    """Return the columns of a table, one per task.

    They are on the other base model `on`, if given. Other presets have one of the tasks `instead`.
    """
    others = tuple(map(Choice.model_validate, instead))
    return tuple(
        TableColumn(label=label, task=Choice.model_validate(task), instead=others, base_model=on)
        for label, task in zip(labels, tasks, strict=True)
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


def _score(cell: PublishedScore | float | None) -> PublishedScore | None:
    return score(cell) if isinstance(cell, int | float) else cell
