"""Builders of rows of this paper's tables."""

from collections.abc import Iterable

from adaptlab.recipes.petrov2024.settings import NEW, NEW_LABELS
from adaptlab.recipes.tables import row
from adaptlab.reproductions.recipe import TableRow


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
