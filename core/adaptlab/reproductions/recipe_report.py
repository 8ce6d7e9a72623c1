"""What a study of a recipe says: the paper's tables beside the measured ones, and the claims."""

import math
from collections.abc import Sequence
from typing import Literal

from adaptlab.reproductions.claim_tests import LEVEL
from adaptlab.reproductions.claims import ClaimVerdict, claim_verdicts
from adaptlab.reproductions.recipe import (
    Preset,
    PublishedScore,
    PublishedTable,
    Recipe,
    TableColumn,
    TableRow,
)
from adaptlab.reproductions.recipe_results import (
    Measured,
    MeasuredRow,
    Missing,
    because,
    row_of,
    scores_of_cell,
)
from adaptlab.statistics import Interval, Scores, mean_interval
from adaptlab.values import Value

CellState = Literal["measured", "partly_measured", "not_measured", "absent"]


class SeedScore(Value):
    """The accuracy of one seed."""

    seed: int
    accuracy: float


class ReportCell(Value):
    """A published score and the measured one.

    `spread` is the standard deviation over the measured seeds, as papers print it; the interval is
    of the mean. `published_inside` says whether the published mean lies within it. `absent` is a
    cell that this preset does not have, `partly_measured` one that lacks seeds; `reason` says why.
    """

    column: str
    state: CellState
    published: PublishedScore | None = None
    measured: Interval | None = None
    spread: float | None = None
    seeds: tuple[SeedScore, ...] = ()
    published_inside: bool | None = None
    reason: str | None = None


class ReportRow(Value):
    """A row with what was trained for it; a `control` is one that the paper does not have.

    `trials` is the largest number of trials that a seed had.
    """

    label: str
    control: bool
    parameters: int | None
    steps: int | None
    trials: int | None
    cells: tuple[ReportCell, ...]

    @property
    def is_empty(self) -> bool:
        """Return True if neither the paper nor this preset has the row."""
        return all(cell.published is None and cell.state == "absent" for cell in self.cells)


class ReportTable(Value):
    """A table of the paper beside what was measured; `published_seeds` are those of the paper."""

    title: str
    source: str
    published_seeds: int | None
    columns: tuple[str, ...]
    rows: tuple[ReportRow, ...]


class RecipeReport(Value):
    """The tables and the claims of a recipe as a study has measured them so far.

    `note` says what differs from the paper in this preset; `level` is that of all intervals.
    """

    recipe: str
    preset: Preset
    title: str
    question: str
    source: str
    note: str
    level: float
    tables: tuple[ReportTable, ...]
    claims: tuple[ClaimVerdict, ...]


def recipe_report(recipe: Recipe, preset: Preset, measured: Measured) -> RecipeReport:
    """The report of a study of `preset`, however far it has come."""
    return RecipeReport(
        recipe=recipe.name,
        preset=preset,
        title=recipe.title,
        question=recipe.question,
        source=recipe.source,
        note=recipe.notes.get(preset, ""),
        level=LEVEL,
        tables=tuple(_table(recipe, table, measured) for table in recipe.tables),
        claims=claim_verdicts(recipe, measured),
    )


def _table(recipe: Recipe, table: PublishedTable, measured: Measured) -> ReportTable:
    return ReportTable(
        title=table.title,
        source=table.source,
        published_seeds=table.seeds,
        columns=tuple(column.label for column in table.columns),
        rows=tuple(_row(recipe, table, row, measured) for row in table.rows),
    )


def _row(recipe: Recipe, table: PublishedTable, row: TableRow, measured: Measured) -> ReportRow:
    found = row_of(recipe, measured, row.label)
    there = found if isinstance(found, MeasuredRow) else MeasuredRow(base_model="")
    published = row.published or (None,) * len(table.columns)
    return ReportRow(
        label=row.label,
        control=not row.published,
        parameters=there.parameters,
        steps=there.steps,
        trials=_trials(there),
        cells=tuple(
            _cell(recipe, row, column, score, measured)
            for column, score in zip(table.columns, published, strict=True)
        ),
    )


def _trials(row: MeasuredRow) -> int | None:
    seeds = [trial.seed for trial in row.trials]
    return max(map(seeds.count, set(seeds)), default=None)


def _cell(
    recipe: Recipe,
    row: TableRow,
    column: TableColumn,
    published: PublishedScore | None,
    measured: Measured,
) -> ReportCell:
    found = scores_of_cell(recipe, measured, row.label, column.label)
    if isinstance(found, Missing):
        state: CellState = "absent" if found.absent else "not_measured"
        return ReportCell(
            column=column.label, state=state, published=published, reason=f"{found.text}."
        )
    there, scores = found
    lacking = set(there.seeds) - set(scores.seeds)
    accuracies = _accuracies(scores)
    interval = mean_interval(scores, LEVEL)
    return ReportCell(
        column=column.label,
        state="partly_measured" if lacking else "measured",
        published=published,
        measured=interval,
        spread=_spread([one.accuracy for one in accuracies]),
        seeds=accuracies,
        published_inside=published and interval.low <= published.mean <= interval.high,
        reason=_reason(len(lacking), there) if lacking else None,
    )


def _reason(lacking: int, row: MeasuredRow) -> str:
    return f"{lacking} of {len(row.seeds)} seeds are not measured{because(row.missing)}."


def _accuracies(scores: Scores) -> tuple[SeedScore, ...]:
    means = scores.matrix().mean(axis=1)
    return tuple(
        SeedScore(seed=seed, accuracy=float(mean))
        for seed, mean in zip(scores.seeds, means, strict=True)
    )


def _spread(values: Sequence[float]) -> float | None:
    """The sample standard deviation, None for one seed."""
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
