"""Comparisons as the server answers them, and as rows for tables and data frames."""

from collections.abc import Iterator
from typing import Any, Literal

from adaptlab_client.answers import Answer
from adaptlab_client.comparison_pictures import PlotKind, plot
from adaptlab_client.frames import frame
from adaptlab_client.pictures import Picture

Cell = str | int | float | bool | None


class Interval(Answer):
    """A mean and how far it can be off, at confidence `level`.

    `low` and `high` cover seeds like the `seeds` that were run, and other items; if
    `over_items_only`, other items alone. `all_seeds_low` and `all_seeds_high` limit the mean over
    all seeds, failures and successes that no seed showed included.
    """

    mean: float
    low: float
    high: float
    level: float = 0.95
    seeds: int = 1
    over_items_only: bool = False
    all_seeds_low: float | None = None
    all_seeds_high: float | None = None


class FailingSeeds(Answer):
    """How many seeds failed, and the limits of the share of all seeds that fail."""

    failing: int
    seeds: int
    low: float
    high: float
    level: float = 0.95


class RankInterval(Answer):
    """The ranks that a method can have in its cell; 1 is the best."""

    low: int
    high: int


class ComparisonRow(Answer):
    """One method in a cell."""

    method: str
    label: str
    budget: int | None = None
    parameters: int | None = None
    trials: int | None = None
    items: int
    score: Interval
    failing: FailingSeeds | None = None
    rank: RankInterval
    could_be_best: bool


class Pair(Answer):
    """How much higher `first` scores than `second`, as a share of items.

    `low`, `high` and `p_value` are about the means over all seeds, failures and successes that no
    seed showed included; `seen_low` and `seen_high` are about seeds like those run.
    """

    first: str
    second: str
    difference: float
    low: float
    high: float
    p_value: float | None = None
    seen_low: float | None = None
    seen_high: float | None = None
    seeds: int
    items: int


class SuccessfulSeeds(Answer):
    """The comparison of a pair among seeds that do not fail, and of how often each fails.

    The limits of `pair` that apply are `seen_low` and `seen_high`; it is None if there is no shared
    seed on which neither fails. None of it is about the mean over all seeds.
    """

    first_failing: FailingSeeds
    second_failing: FailingSeeds
    failing_p: float
    corrected_failing_p: float
    pair: Pair | None = None
    finding: str | None = None
    corrected_p: float | None = None
    text: str


class Verdict(Answer):
    """The finding on the first of a pair against the second over all seeds.

    `successful` compares the seeds that do not fail; `text` gives both parts with their numbers.
    `undone_by` is the share of the higher method's seeds whose failing would undo the difference,
    `unseen_failure_rate` the share that may fail without these seeds showing it. Between
    `more_seeds_low` and `more_seeds_high` further seeds should decide a pair that is not known.
    """

    pair: Pair
    finding: str
    reason: str
    corrected_p: float | None = None
    more_seeds: int | None = None
    more_seeds_low: int | None = None
    more_seeds_high: int | None = None
    undone_by: float | None = None
    unseen_failure_rate: float | None = None
    successful: SuccessfulSeeds | None = None
    text: str


class ChosenBest(Answer):
    """The score of the best of `candidates` methods; `corrected` for having been chosen."""

    method: str
    label: str
    budget: int | None = None
    candidates: int
    corrected: float
    score: Interval
    level: float


class ComparisonCell(Answer):
    """The methods at one budget: `best` could be best over all seeds.

    `best_successful` could be best among seeds that do not fail; `sentence` is the whole finding.
    Where it names one method the best, `chosen` is its score, corrected for the choice.
    """

    budget: int | None = None
    rows: tuple[ComparisonRow, ...] = ()
    best: tuple[str, ...] = ()
    best_successful: tuple[str, ...] = ()
    chosen: ChosenBest | None = None
    verdicts: tuple[Verdict, ...] = ()
    sentence: str = ""


class CurvePoint(Answer):
    """A method's score at one budget."""

    budget: int
    parameters: int | None = None
    score: Interval


class BudgetCurve(Answer):
    """The scores of one method by rising budget."""

    method: str
    points: tuple[CurvePoint, ...] = ()


class Crossing(Answer):
    """The budget at which two methods change places; an end is None where no budget limits it."""

    higher_before: str
    higher_after: str
    budget: float
    low: float | None = None
    high: float | None = None
    told: bool


class Candidate(Answer):
    """A row held against the reference."""

    method: str
    budget: int | None = None
    parameters: int
    difference: float
    low: float
    high: float


class Cheapest(Answer):
    """The cheapest method within the margin of the reference: shown to be, and possibly."""

    reference: str
    margin: float
    shown: Candidate | None = None
    possible: Candidate | None = None


class Comparison(Answer):
    """What the scores on one task say; `voided` where jobs answer different questions.

    `unseen_failure_rate` is the share of failing seeds that so few seeds may all have missed.
    """

    task: str
    level: float
    margin: float
    comparisons: int = 0
    seeds: int = 0
    unseen_failure_rate: float | None = None
    failing_below: float | None = None
    voided: bool = False
    sentence: str = ""
    cells: tuple[ComparisonCell, ...] = ()
    curves: tuple[BudgetCurve, ...] = ()
    crossings: tuple[Crossing, ...] = ()
    cheapest: Cheapest | None = None


class Diagnosis(Answer):
    """Why a method fails, as far as measurements tell.

    `next_run` is the extension of a study that would supply what is `missing`; `equivalent` are
    rows that compute the same function and are diagnosed with it.
    """

    method: str
    cause: str
    text: str
    reasons: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    next_run: dict[str, object] | None = None
    equivalent: tuple[str, ...] = ()


class MethodDiagnosis(Answer):
    """The diagnosis of one row."""

    method: str
    label: str
    budget: int | None = None
    diagnosis: Diagnosis


class MissingScores(Answer):
    """Scores that a table lacks, and why."""

    method: str
    budget: int | None = None
    state: str
    reason: str | None = None
    seeds: tuple[int, ...] = ()
    job: str | None = None
    text: str


class TriedTrial(Answer):
    """One trial over all seeds: how many chose it, and its means on validation and in training."""

    trial: int
    learning_rate: float
    weight_decay: float = 0.0
    initial_scale: float = 1.0
    seeds: int
    chosen: int
    diverged: int
    eliminated: int = 0
    validation_accuracy: float | None = None
    final_loss: float | None = None


class ComparedMethod(Answer):
    """What stands behind a row: its jobs and the effort spent on it."""

    method: str
    label: str
    budget: int | None = None
    role: str
    parameters: int
    jobs: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    steps: int
    batch_size: int = 0
    trials: int
    trained_steps: int | None = None
    sweep: tuple[TriedTrial, ...] = ()


class ScoreChange(Answer):
    """What adapting did to the accuracy on one task."""

    task: dict[str, Any]  # a task's configuration
    before: Interval
    after: Interval
    mean: float
    low: float
    high: float


class MethodForgetting(Answer):
    """What one row did to the tasks of its base model."""

    method: str
    label: str
    budget: int | None = None
    changes: tuple[ScoreChange, ...] = ()


class TableWarning(Answer):
    """What a reader must know before a table."""

    base_model: str
    task: str
    kind: str
    text: str
    methods: tuple[str, ...] = ()


class TableComparison(Answer):
    """The methods on one task and base model; without scores there is no comparison."""

    base_model: str
    task: str
    comparison: Comparison | None = None
    diagnoses: tuple[MethodDiagnosis, ...] = ()
    missing: tuple[MissingScores, ...] = ()
    forgetting: tuple[MethodForgetting, ...] = ()
    methods: tuple[ComparedMethod, ...] = ()


class JobComparison(Answer):
    """Jobs held against each other; read `warnings` before the tables."""

    warnings: tuple[TableWarning, ...] = ()
    level: float
    margin: float
    tables: tuple[TableComparison, ...] = ()

    def rows(self) -> Iterator[dict[str, Cell]]:
        """One row for every method of every cell, with the names of the server's CSV."""
        for table in self.tables:
            if table.comparison is not None:
                steps = {one.label: one.steps for one in table.methods}
                for cell in table.comparison.cells:
                    for row in cell.rows:
                        yield _row(table, table.comparison, cell, row, steps.get(row.label))

    def to_pandas(self) -> Any:  # a pandas.DataFrame; pandas need not be installed
        """The rows as a data frame; raises `ImportError` where pandas is not installed."""
        return frame(self.rows())

    def plot(
        self,
        kind: PlotKind = "budgets",
        *,
        table: int = 0,
        budget: int | None = None,
        theme: Literal["light", "dark"] = "light",
    ) -> Picture:
        """A chart of one table: `budgets` over all of them, or of the cell at one `budget`.

        `ranks`, `differences` and `learning_rates` are of the first budget unless it is given.
        Raises `ValueError` for what there is not.
        """
        return plot(self, kind, table=table, budget=budget, theme=theme)


class StudyName(Answer):
    """Which study was compared; unless it is `terminal`, more scores will come."""

    id: str
    name: str
    state: str
    terminal: bool


class ComparisonProgress(Answer):
    """A comparison that the server computes: how many of its tables are ready."""

    study: StudyName | None = None
    tables: int = 0
    computed: int = 0


class StudyComparison(JobComparison):
    """All tables of a study."""

    study: StudyName


def _row(
    table: TableComparison,
    comparison: Comparison,
    cell: ComparisonCell,
    row: ComparisonRow,
    steps: int | None,
) -> dict[str, Cell]:
    return {
        "base_model": table.base_model,
        "task": table.task,
        "budget": cell.budget,
        "method": row.method,
        "parameters": row.parameters,
        "score": row.score.mean,
        "low": row.score.low,
        "high": row.score.high,
        "level": row.score.level,
        "rank_low": row.rank.low,
        "rank_high": row.rank.high,
        "could_be_best": row.could_be_best,
        "seeds": row.score.seeds,
        "items": row.items,
        "trials": row.trials,
        "steps": steps,
        "voided": comparison.voided,
    }
