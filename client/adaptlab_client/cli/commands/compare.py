"""`adaptlab compare`: the report of a study or of jobs, with detail on request."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab.figures import percent
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
    from adaptlab.comparisons.comparison import Comparison, ComparisonCell
    from adaptlab.comparisons.table_comparison import TableComparison
    from adaptlab.statistics.curves import CurveDifference
    from adaptlab_answers.comparisons import ComparisonProgress
    from adaptlab_client.client import Client
    from adaptlab_client.display.comparison_tables import JobComparison

TAKEN = ("method", "context tokens", "stored bits", "forward passes", "backward passes")
CARRIED = ("method", "base model", "alone", "with it", "change", "over seeds", "guessing")
DRIFTED = ("method", "texts", "KL, nats per token", "change, bits per byte")
RETAINED = ("method", "old task", "retention")
GROUPED = ("method", "group", "tasks", "items", "mean and interval", "base alone")
MOST_CHANGES = 12
"""Changes of old skills, and their retentions, that are listed without `--all-pairs`."""
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
        "--all-pairs", help="Also show all pairs, limits over all seeds, diagnoses and warnings."
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
    """Compare the methods of a study, or of two or more jobs, and print the report."""
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
    except NotFound as error:
        near = "Did you mean" in str(error)
        if not or_job or near:
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
    for table in comparison.tables:
        print(one_line(f"\n{table.task} on {table.base_model}".strip()))
        if table.comparison is None:
            print("No scores yet.")
            continue
        _print_reports(table)
        _print_lines("Over budgets", _curve_lines(table.comparison))
        _print_taken(table)
        _print_forgetting(table, all_pairs=all_pairs)
        _print_retention(table, all_pairs=all_pairs)
        _print_groups(table)
        _print_carried(table)
        left_out = (entry.text for entry in table.missing if entry.state == "skipped")
        _print_lines("Left out", left_out)
        if all_pairs:
            _print_detail(comparison, table, table.comparison)
    if not comparison.tables:
        say("There is nothing to compare: the study has no cells.")
    elif not all_pairs:
        print("\nDetails: the same command with --all-pairs")


def _print_reports(table: "TableComparison") -> None:
    from adaptlab.comparisons.report import report_lines  # loads pydantic

    for report in table.reports:
        print()
        for line in report_lines(report):
            print(one_line(line))


def _print_detail(
    comparison: "JobComparison", table: "TableComparison", found: "Comparison"
) -> None:
    """Print pairs, intervals over all seeds, diagnoses and warnings."""
    for cell in found.cells:
        _print_lines("Pairs", verdict_lines(found, cell))
        _print_lines("Right items over all seeds, with failures that none showed", _all_seeds(cell))
    _print_lines("Diagnosis", (entry.diagnosis.text for entry in table.diagnoses))
    _print_lines("To decide it, extend the study by", _next_runs(table))
    place = (table.base_model, table.task)
    warnings = (w.text for w in comparison.warnings if (w.base_model, w.task) == place)
    _print_lines("Warnings", warnings)


def _all_seeds(cell: "ComparisonCell") -> Iterator[str]:
    for row in cell.rows:
        low, high = row.score.all_seeds_low, row.score.all_seeds_high
        if low is not None and high is not None:
            yield f"{_title(row.method)}: {100 * low:.1f} to {100 * high:.1f} %"


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


def verdict_lines(comparison: "Comparison", cell: "ComparisonCell") -> Iterator[str]:
    """Yield the verdicts on the pairs of a cell."""
    if comparison.voided:
        yield cell.sentence
        return
    for verdict in cell.verdicts:
        yield verdict.text


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


def _candidate(candidate: "CurveDifference | None") -> str:
    if candidate is None:
        return "none"
    interval = f"{100 * candidate.low:+.1f} to {100 * candidate.high:+.1f}"
    return (
        f"{_name(candidate.method)} with {candidate.parameters:,} parameters "
        f"(difference {100 * candidate.difference:+.1f} points, {interval})"
    )


def _print_forgetting(table: "TableComparison", *, all_pairs: bool) -> None:
    """Print the changes of old skills; many of them as their extremes."""
    from adaptlab.comparisons.scores import task_labels
    from adaptlab_client.cli.printing.recipe_report import say_wrapped

    changes = [
        (_title(entry.label), change) for entry in table.forgetting for change in entry.changes
    ]
    labels = task_labels([change.task for _, change in changes])
    rows = [
        [method, task, f"{100 * change.before.mean:.1f} %", f"{100 * change.after.mean:.1f} %",
         f"{100 * change.mean:+.1f}", f"{100 * change.low:+.1f} to {100 * change.high:+.1f}"]
        for (method, change), task in zip(changes, labels, strict=True)
    ]  # fmt: skip
    if len(rows) > MOST_CHANGES and not all_pairs:
        least, most = (100 * of(one.mean for _, one in changes) for of in (min, max))
        print()
        say_wrapped(
            f"The base's own tasks change by {least:+.1f} to {most:+.1f} points in {len(rows)} "
            "measurements; --all-pairs lists them."
        )
    elif rows:
        print("\nThe base's own tasks, before and after")
        print_table(FORGOTTEN, rows)


def _print_retention(table: "TableComparison", *, all_pairs: bool) -> None:
    from adaptlab.comparisons.frontier import frontier_lines
    from adaptlab.comparisons.scores import task_labels

    every = [(_title(entry.label), one) for entry in table.retention for one in entry.tasks]
    labels = task_labels([one.task for _, one in every])
    if every and (all_pairs or len(every) <= MOST_CHANGES):
        print("\nRetention of old tasks")
        rows = [[name, task, one.figure] for (name, one), task in zip(every, labels, strict=True)]
        print_table(RETAINED, rows)
    refused = (f"{task}: {one.reason}" for (_, one), task in zip(every, labels, strict=True)
               if one.reason)  # fmt: skip
    _print_lines("Not measured", iter(dict.fromkeys(refused)))
    drifted = [(_title(entry.label), one) for entry in table.retention for one in entry.drift]
    if drifted:
        print("\nDrift on neutral texts")
        names = task_labels([one.task for _, one in drifted])
        print_table(
            DRIFTED,
            [
                [method, text, one.kl_figure, one.bits_figure]
                for (method, one), text in zip(drifted, names, strict=True)
            ],
        )
    for found in table.frontiers:
        at = "" if found.budget is None else f" at {found.budget:,}"
        _print_lines(f"Gain against retention{at}", frontier_lines(found))


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


def _print_groups(table: "TableComparison") -> None:
    rows = [
        [_title(entry.label), one.title, one.tasks, one.items, one.figure,
         "" if one.alone is None else f"{100 * one.alone.mean:.1f} %"]
        for entry in table.groups for one in entry.groups
    ]  # fmt: skip
    if rows:
        print("\nGroups of standard tasks")
        print_table(GROUPED, rows)


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
