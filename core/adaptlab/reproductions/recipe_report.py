"""The report on a study of a recipe: its tables and claims."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from adaptlab.figures import counted
from adaptlab.reproductions.claim import ClaimRole, Versions, version_words
from adaptlab.reproductions.claim_findings import LEVEL, ClaimFinding
from adaptlab.reproductions.claim_verdicts import ClaimVerdict, claim_verdicts
from adaptlab.reproductions.recipe import (
    Preset,
    PublishedScore,
    PublishedTable,
    Recipe,
    TableColumn,
    TableRow,
)
from adaptlab.reproductions.recipe_results import (
    Missing,
    RecipeMeasurements,
    RecipeRow,
    because,
    cell_of,
    row_of,
)
from adaptlab.statistics import Interval, Scores, mean_interval
from adaptlab.values import Value

REPRODUCTION_WORDS: dict[ClaimFinding, str] = {
    "holds": "reproduced",
    "fails": "not reproduced",
    "reversed": "reversed",
    "undecided": "undecided",
    "not_measured": "not measured",
}
"""Findings on claims of the paper, at settings that its readers would accept."""
FINDING_WORDS: dict[ClaimFinding, str] = {
    **REPRODUCTION_WORDS,
    "holds": "holds",
    "fails": "does not hold",
}
"""Findings on all others."""
PLURALS = {"holds": "hold", "does not hold": "do not hold"}
CellState = Literal["measured", "partly_measured", "not_measured", "absent"]


class SeedAccuracy(Value):
    """The accuracy of one seed."""

    seed: int
    accuracy: float


class ReportCell(Value):
    """A published score and the measured one.

    `spread` is the standard deviation over the measured seeds, as papers print it; the interval is
    that of the mean. `published_inside` is True if the published mean is within it. A cell is
    `absent` if this preset does not have it, and `partly_measured` if seeds are missing; `reason`
    gives the reason.
    """

    column: str
    state: CellState
    published: PublishedScore | None = None
    measured: Interval | None = None
    spread: float | None = None
    seeds: tuple[SeedAccuracy, ...] = ()
    published_inside: bool | None = None
    reason: str | None = None


class EffortRow(Value):
    """A row with the effort behind it.

    A `control` is a row that the paper does not have. `trials` is the largest number of trials of a
    seed.
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
    """A table of the paper with the measured values.

    `published_seeds` are the paper's.
    """

    title: str
    source: str
    published_seeds: int | None
    columns: tuple[str, ...]
    rows: tuple[EffortRow, ...]


class RecipeReport(Value):
    """The tables and claims of a recipe with a study's measurements.

    `versions` are those of the paper, by the names in the claims. `note` lists the differences of
    this preset from the paper, and `stand_in` names the model that stands in for the paper's, if
    any; `level` applies to all intervals.
    """

    recipe: str
    preset: Preset
    title: str
    question: str
    source: str
    versions: Versions
    note: str
    stand_in: str | None = None
    level: float
    tables: tuple[ReportTable, ...]
    claims: tuple[ClaimVerdict, ...]

    def version_of(self, verdict: ClaimVerdict) -> str:
        """Return the version of the paper that has this wording of the claim."""
        alone = [other.claim for other in self.claims].count(verdict.claim) == 1
        return version_words(verdict.wording, self.versions, alone=alone, role=verdict.role)

    def words_of(self, verdict: ClaimVerdict) -> str:
        """Return the finding on a claim in words.

        Only a claim of the paper can be reproduced, and only at settings that its readers would
        accept.
        """
        is_reproduction = verdict.role == "paper" and self.stand_in is None
        return (REPRODUCTION_WORDS if is_reproduction else FINDING_WORDS)[verdict.finding]

    def summary(self) -> str:
        """Return how many claims of the paper, premises and own claims hold."""
        where = "" if self.stand_in is None else f" in {self.stand_in}"
        parts = [
            self._counts("paper", "of the paper", where),
            self._counts("premise", "needed beforehand"),
            self._counts("own", "added here"),
        ]
        return " ".join(part for part in parts if part)

    def _counts(self, role: ClaimRole, name: str, where: str = "") -> str:
        verdicts = [verdict for verdict in self.claims if verdict.role == role]
        if not verdicts:
            return ""
        words = Counter(map(self.words_of, verdicts))
        found = ", ".join(
            f"{count} {word if count == 1 else PLURALS.get(word, word)}"
            for word, count in words.items()
        )
        return f"{counted(len(verdicts), 'claim')} {name}{where}: {found}."


def recipe_report(recipe: Recipe, preset: Preset, measured: RecipeMeasurements) -> RecipeReport:
    """Return the report on a study of `preset`, finished or not."""
    return RecipeReport(
        recipe=recipe.name,
        preset=preset,
        title=recipe.title,
        question=recipe.question,
        source=recipe.source,
        versions=recipe.versions,
        note=recipe.notes.get(preset, ""),
        stand_in=recipe.stand_ins.get(preset),
        level=LEVEL,
        tables=tuple(_table(recipe, table, measured) for table in recipe.tables),
        claims=claim_verdicts(recipe, measured, preset),
    )


def _table(recipe: Recipe, table: PublishedTable, measured: RecipeMeasurements) -> ReportTable:
    return ReportTable(
        title=table.title,
        source=table.source,
        published_seeds=table.seeds,
        columns=tuple(column.label for column in table.columns),
        rows=tuple(_row(recipe, table, row, measured) for row in table.rows),
    )


def _row(
    recipe: Recipe, table: PublishedTable, row: TableRow, measured: RecipeMeasurements
) -> EffortRow:
    match = row_of(recipe, measured, row.label)
    result = match if isinstance(match, RecipeRow) else RecipeRow(base_model="")
    published = row.published or (None,) * len(table.columns)
    return EffortRow(
        label=row.label,
        control=not row.published,
        parameters=result.parameters,
        steps=result.steps,
        trials=_trials(result),
        cells=tuple(
            _cell(recipe, row, column, score, measured)
            for column, score in zip(table.columns, published, strict=True)
        ),
    )


def _trials(row: RecipeRow) -> int | None:
    seeds = [trial.seed for trial in row.trials]
    return max(map(seeds.count, set(seeds)), default=None)


def _cell(
    recipe: Recipe,
    row: TableRow,
    column: TableColumn,
    published: PublishedScore | None,
    measured: RecipeMeasurements,
) -> ReportCell:
    match = cell_of(recipe, measured, row.label, column.label)
    if isinstance(match, Missing):
        state: CellState = "absent" if match.absent else "not_measured"
        return ReportCell(
            column=column.label, state=state, published=published, reason=f"{match.text}."
        )
    result, scores = match.row, match.scores
    lacking = set(result.seeds) - set(scores.seeds)
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
        reason=_reason(len(lacking), result) if lacking else None,
    )


def _reason(lacking: int, row: RecipeRow) -> str:
    verb = "is" if lacking == 1 else "are"
    seeds = counted(len(row.seeds), "seed")
    return f"{lacking} of {seeds} {verb} not measured{because(row.missing)}."


def _accuracies(scores: Scores) -> tuple[SeedAccuracy, ...]:
    means = scores.matrix().mean(axis=1)
    return tuple(
        SeedAccuracy(seed=seed, accuracy=float(mean))
        for seed, mean in zip(scores.seeds, means, strict=True)
    )


def _spread(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation, None for one seed."""
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
