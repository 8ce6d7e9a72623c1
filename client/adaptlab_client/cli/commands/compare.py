"""`adaptlab compare`: scores, verdicts, diagnoses and budget curves."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab.figures import counted, percent
from adaptlab_client.cli import suggestions
from adaptlab_client.cli.exits import UsageError
from adaptlab_client.cli.printing.terminal import (
    Output,
    RowOutput,
    one_line,
    print_table,
    print_value,
    say,
)
from adaptlab_client.cli.session import open_client

if TYPE_CHECKING:
    from adaptlab.comparisons.comparison import Comparison, ComparisonCell, ComparisonRow
    from adaptlab.comparisons.table_comparison import MethodMetric, TableComparison
    from adaptlab.statistics.curves import Candidate
    from adaptlab.statistics.intervals import Interval
    from adaptlab_answers.comparisons import ComparisonProgress
    from adaptlab_client.client import Client
    from adaptlab_client.display.comparison_tables import JobComparison

METRIC_PLACE = 4
"""The place of the task's metric among the columns, if it has one beside the score."""
COLUMNS = ("method", "parameters", "score", "interval", "ranks", "best", "seeds", "trials")
TAKEN = ("method", "context tokens", "stored bits", "forward passes", "backward passes")
CARRIED = ("method", "base model", "alone", "with it", "change", "over seeds", "guessing")
FORGOTTEN = ("method", "task of the base", "before", "after", "change", "over seeds")


ComparedArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="STUDY|JOB…",
        help="Id or name of a study, or ids of jobs.",
        autocompletion=suggestions.studies,
    ),
]
StudyOption = Annotated[
    str | None, typer.Option(help="Id or name of a study.", autocompletion=suggestions.studies)
]
LevelOption = Annotated[float | None, typer.Option(help="Confidence level. Default: 0.95.")]
MarginOption = Annotated[
    float | None,
    typer.Option(help="Difference in accuracy below which methods count as alike. Default: 0.01."),
]
PairsOption = Annotated[
    bool,
    typer.Option(
        "--all-pairs", help="Also show the verdicts on pairs in which neither method could be best."
    ),
]
CompareOutput = Annotated[RowOutput, typer.Option("--output", "-o", help="Format on stdout.")]


def compare(
    context: typer.Context,
    compared: ComparedArgument = None,
    study: StudyOption = None,
    level: LevelOption = None,
    margin: MarginOption = None,
    all_pairs: PairsOption = False,
    output: CompareOutput = RowOutput.TABLE,
) -> None:
    """Compare the methods of a study, or of two or more jobs, and print the verdicts."""
    name, jobs = _study_or_jobs(compared or [], study)
    with open_client(context) as client:
        if output is RowOutput.CSV:
            text = client.comparisons.csv(
                study=name, jobs=jobs, level=level, margin=margin, on_progress=_say_progress
            )
            print(text, end="")
            return
        comparison = _fetched(client, name, jobs, level, margin, or_job=study is None)
    if output is RowOutput.TABLE:
        _print(comparison, all_pairs=all_pairs)
    else:
        print_value(comparison, Output(output))


def _study_or_jobs(compared: list[str], study: str | None) -> tuple[str | None, list[str]]:
    """Return the study and the jobs; a single word is a study, or else a job."""
    if study is not None and compared:
        raise UsageError("Give either --study or jobs.")
    if study is None and not compared:
        raise UsageError("Name a study, or two or more jobs.")
    if study is None and len(compared) == 1:
        return compared[0], []
    return study, compared


def _fetched(
    client: "Client",
    study: str | None,
    jobs: list[str],
    level: float | None,
    margin: float | None,
    *,
    or_job: bool,
) -> "JobComparison":
    """Return the comparison of a study or of jobs.

    With `or_job`, a word that names no study can be a job's id, or part of it.
    """
    from adaptlab_client.errors import NotFound

    if study is None:
        return client.comparisons.jobs(jobs, level=level, margin=margin, on_progress=_say_progress)
    try:
        return client.comparisons.study(
            study, level=level, margin=margin, on_progress=_say_progress
        )
    except NotFound:
        if not or_job:
            raise
    try:
        return client.comparisons.jobs(
            [study], level=level, margin=margin, on_progress=_say_progress
        )
    except NotFound as error:
        raise NotFound(error.problem.model_copy(update={"detail": _neither(study)})) from error


def _neither(name: str) -> str:
    return (
        f"There is no study and no job {name!r}; see `adaptlab studies list` and "
        "`adaptlab jobs list`."
    )


def _say_progress(progress: "ComparisonProgress") -> None:
    say(f"Computing the comparison: {progress.computed} of {progress.tables} tables are ready.")


def _print(comparison: "JobComparison", *, all_pairs: bool) -> None:
    for warning in comparison.warnings:
        print(one_line(f"Warning ({warning.task} on {warning.base_model}): {warning.text}"))
    for table in comparison.tables:
        print(one_line(f"\n{table.task} on {table.base_model}".strip()))
        if table.comparison is None:
            print("No scores yet.")
        else:
            _print_cells(table, table.comparison, all_pairs=all_pairs)
            _print_unseen(table.comparison)
            _print_lines("Over budgets", _curve_lines(table.comparison))
        _print_taken(table)
        _print_lines("Diagnosis", (entry.diagnosis.text for entry in table.diagnoses))
        _print_lines("To decide it, extend the study by", _next_runs(table))
        _print_forgetting(table)
        _print_carried(table)
        left_out = (entry.text for entry in table.missing if entry.state == "skipped")
        _print_lines("Left out", left_out)
    if not comparison.tables:
        say("There is nothing to compare: the study has no cells.")


def _title(label: str) -> str:
    from adaptlab.comparisons.row_names import row_title  # loads pydantic

    return row_title(label)


def _first(label: str) -> str:
    from adaptlab.comparisons.row_names import first_in_sentence  # loads pydantic

    return first_in_sentence(label)


def _name(label: str) -> str:
    from adaptlab.comparisons.row_names import method_in_sentence  # loads pydantic

    return method_in_sentence(label)


def _next_runs(table: "TableComparison") -> Iterator[str]:
    """Yield extensions that would decide undecided diagnoses, as JSON."""
    for entry in table.diagnoses:
        if entry.diagnosis.next_run is not None:
            yield f"{_title(entry.label)}: {json.dumps(entry.diagnosis.next_run)}"


def _print_cells(table: "TableComparison", comparison: "Comparison", *, all_pairs: bool) -> None:
    from adaptlab.comparisons.metric_order import METRIC_TITLES
    from adaptlab.comparisons.table_comparison import metric_note
    from adaptlab.comparisons.verdict_sentence import (
        ITEMS_ONLY,  # loads pydantic, which `--help` does not need
    )
    from adaptlab.plugins.sizing import in_units

    for cell in comparison.cells:
        print()
        title = "without a budget"
        if cell.budget is not None:
            title = f"budget {in_units(cell.budget, comparison.axis)}"
        print(f"{title}, {percent(comparison.level, 0)} intervals; * could be best")
        metrics = {one.label: one for one in table.metrics}
        rows = [_row(row, metrics.get(row.label), has_metric=bool(metrics)) for row in cell.rows]
        other = {METRIC_TITLES[one.metric] for one in table.metrics}
        titles = (*COLUMNS[:METRIC_PLACE], *other, *COLUMNS[METRIC_PLACE:])
        print_table(titles, rows)
        if alike := [_name(row.method) for row in cell.rows if row.score.over_items_only]:
            print(one_line(ITEMS_ONLY.format(", ".join(alike))))
        if (note := metric_note(table)) is not None:
            print(one_line(note))
        if not comparison.voided:
            print(f"\n{one_line(cell.sentence)}")
        _print_lines("Verdicts", verdict_lines(comparison, cell, all_pairs))


def _print_unseen(comparison: "Comparison") -> None:
    rate = comparison.unseen_failure_rate
    if not comparison.voided:
        seeds = counted(comparison.seeds, "seed")
        print(
            f"\nIntervals cannot include failures that no seed showed: up to {percent(rate, 0)} of "
            "seeds may"
        )
        print(f"fail where the {seeds} that were run all succeed.")


def _row(row: "ComparisonRow", metric: "MethodMetric | None", *, has_metric: bool) -> list[object]:
    ranks = str(row.rank.low)
    if row.rank.high > row.rank.low:
        ranks += f" to {row.rank.high}"
    parameters = "" if row.parameters is None else f"{row.parameters:,}"
    best = "*" if row.could_be_best else ""
    score = f"{100 * row.score.mean:.1f} %"
    other = [] if not has_metric else ["" if metric is None else _figure(metric)]
    return [_title(row.method), parameters, score, _limits(row.score), *other, ranks, best,
            row.score.seeds, row.trials]  # fmt: skip


def _figure(metric: "MethodMetric") -> str:
    from adaptlab.comparisons.metric_order import metric_figure  # loads pydantic

    return metric_figure(metric.metric, metric.mean)


def _limits(score: "Interval") -> str:
    return f"{100 * score.low:.1f} to {100 * score.high:.1f}"


def verdict_lines(
    comparison: "Comparison", cell: "ComparisonCell", all_pairs: bool
) -> Iterator[str]:
    """Yield the verdicts of a cell, those by the task's metric first.

    Without `all_pairs`, pairs in which neither method could be best are left out.
    """
    if comparison.voided:
        yield f"{cell.sentence} See the warnings above the table."
        return
    if (order := cell.by_metric) is not None:
        leading = set(order.best)
        yield from (
            pair.text for pair in order.pairs if all_pairs or leading & {pair.first, pair.second}
        )
    best = set(cell.best)
    shown = [
        verdict
        for verdict in cell.verdicts
        if all_pairs or best & {verdict.pair.first, verdict.pair.second}
    ]
    for verdict in shown:
        yield verdict.text
    if further := len(cell.verdicts) - len(shown):
        yield (
            f"{further} more pairs, in which neither method could be best: --all-pairs shows them."
        )


def _curve_lines(comparison: "Comparison") -> Iterator[str]:
    if comparison.voided:
        return
    for crossing in comparison.crossings:
        ends = [f"{end:,.0f}" if end else "no end" for end in (crossing.low, crossing.high)]
        note = "" if crossing.told else "; may be due to chance"
        yield (
            f"{_first(crossing.higher_after)} overtakes {_name(crossing.higher_before)} at a "
            f"budget of about {crossing.budget:,.0f} ({percent(comparison.level, 0)} interval "
            f"{' to '.join(ends)}{note})."
        )
    if (cheapest := comparison.cheapest) is not None:
        margin = f"{100 * cheapest.margin:g}"
        points = "point" if margin == "1" else "points"
        near = f"within {margin} {points} of {_name(cheapest.reference)}"
        yield f"Cheapest that is shown to be {near}: {_candidate(cheapest.shown)}."
        yield f"Cheapest that may be {near}: {_candidate(cheapest.possible)}."


def _candidate(candidate: "Candidate | None") -> str:
    if candidate is None:
        return "none"
    interval = f"{100 * candidate.low:+.1f} to {100 * candidate.high:+.1f}"
    return (
        f"{_name(candidate.method)} with {candidate.parameters:,} parameters "
        f"(difference {100 * candidate.difference:+.1f} points, {interval})"
    )


def _print_forgetting(table: "TableComparison") -> None:
    from adaptlab.comparisons.scores import task_labels

    changes = [
        (_title(entry.label), change) for entry in table.forgetting for change in entry.changes
    ]
    labels = task_labels([change.task for _, change in changes])
    rows = [
        [method, task, f"{100 * change.before.mean:.1f} %", f"{100 * change.after.mean:.1f} %",
         f"{100 * change.mean:+.1f}", f"{100 * change.low:+.1f} to {100 * change.high:+.1f}"]
        for (method, change), task in zip(changes, labels, strict=True)
    ]  # fmt: skip
    if rows:
        print("\nThe base's own tasks, before and after")
        print_table(FORGOTTEN, rows)


def _print_taken(table: "TableComparison") -> None:
    """Print what prompts take and cost, for methods matched by it."""
    if table.comparison is None or table.comparison.axis != "context_tokens":
        return
    print("\nWhat methods take and store, and passes over all seeds and trials")
    rows = [
        [_title(method.label),
         *map(_number, (method.context_tokens, method.stored_bits, method.forward_passes,
                        method.backward_passes))]
        for method in table.methods
    ]  # fmt: skip
    print_table(TAKEN, rows)


def _number(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _print_carried(table: "TableComparison") -> None:
    rows = [
        [
            *(_title(entry.label), entry.base_model),
            *_percent(entry.change.before.mean, entry.change.after.mean),
            f"{100 * entry.change.mean:+.1f}",
            f"{100 * entry.change.low:+.1f} to {100 * entry.change.high:+.1f}",
            *_percent(entry.chance),
        ]
        for entry in table.carried
    ]
    if rows:
        print("\nWhat was found, on other base models")
        print_table(CARRIED, rows)


def _percent(*shares: float) -> Iterator[str]:
    return (f"{100 * share:.1f} %" for share in shares)


def _print_lines(title: str, lines: Iterator[str]) -> None:
    for number, line in enumerate(lines):
        if number == 0:
            print(f"\n{title}")
        print(f"- {one_line(line)}")
