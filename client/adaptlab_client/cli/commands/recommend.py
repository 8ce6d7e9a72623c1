"""`adaptlab recommend`: a method for a task, its evidence, further jobs."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, cast

import typer

from adaptlab_client.cli import suggestions
from adaptlab_client.cli.exits import UsageError
from adaptlab_client.cli.printing.terminal import (
    Output,
    Share,
    json_text,
    one_line,
    print_csv,
    print_table,
    print_value,
)
from adaptlab_client.cli.session import open_client
from adaptlab_client.cli.specs import read_choice

if TYPE_CHECKING:
    from adaptlab_answers.recommendations import MeasuredMethod, Recommendation

COLUMNS = ("method", "score", "interval", "best", "seeds", "trials", "trainable", "stored bytes",
           "extra tokens", "seconds")  # fmt: skip
CSV_COLUMNS = ("method", "score", "low", "high", *COLUMNS[3:])
PROPOSED = ("purpose", "what", "seeds", "trainable", "seconds, estimated")


class RecommendationOutput(StrEnum):
    """Formats of a recommendation; `jobs` prints proposed specs as lines."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    JOBS = "jobs"


def recommend(
    context: typer.Context,
    task: Annotated[
        str,
        typer.Argument(
            help="A task, as a name or YAML, '{name: add, k: 2}'.", autocompletion=suggestions.tasks
        ),
    ],
    base_model: Annotated[
        str, typer.Option(help="Name of a base model.", autocompletion=suggestions.base_models)
    ],
    budget: Annotated[int | None, typer.Option(min=1, help="Trainable parameters.")] = None,
    fraction_of_base: Annotated[
        float | None, typer.Option(help="Budget as a share of the base model's parameters.")
    ] = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(help="Only configurations of which no job took longer than this."),
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Only this method, as a name or YAML. Repeatable.")
    ] = None,
    include_shared: Annotated[
        bool, typer.Option(help="Count jobs that other projects share as evidence.")
    ] = False,
    output: Annotated[
        RecommendationOutput,
        typer.Option("--output", "-o", help="Format on stdout; `jobs` prints specs, one per line."),
    ] = RecommendationOutput.TABLE,
) -> None:
    """Recommend a method for a task within a budget, from stored results."""
    if (budget is None) == (fraction_of_base is None):
        raise UsageError("Give either --budget or --fraction-of-base.")
    limit = {"fraction_of_base": fraction_of_base} if budget is None else budget
    with open_client(context) as client:
        recommendation = client.recommendations.ask(
            read_choice(task),
            base_model=base_model,
            budget=cast("int | dict[str, float]", limit),
            max_seconds=max_seconds,
            methods=[read_choice(text) for text in method or ()],
            include_shared=include_shared,
        )
    match output:
        case RecommendationOutput.TABLE:
            _print(recommendation)
        case RecommendationOutput.CSV:
            print_csv(CSV_COLUMNS, map(_csv_row, recommendation.measured))
        case RecommendationOutput.JOBS:
            for job in recommendation.jobs:
                print(json_text(job.spec))
        case _:
            print_value(recommendation, Output(output))


def _print(recommendation: "Recommendation") -> None:
    print(one_line(recommendation.text))
    if recommendation.recommended is not None:
        print(one_line(f"Configuration: {json_text(recommendation.recommended.method)}"))
    if recommendation.measured:
        print()
        print_table(COLUMNS, map(_row, recommendation.measured))
    if recommendation.thin_evidence:
        print("\nThin evidence:")
        for reason in recommendation.thin_evidence:
            print(one_line(f"  {reason.kind}: {reason.text}"))
    _print_proposals(recommendation)


def _row(method: "MeasuredMethod") -> list[object]:
    from adaptlab.comparisons.row_names import row_title  # loads the methods

    return [
        row_title(method.label),
        Share(method.score.mean),
        f"{100 * method.score.low:.1f} to {100 * method.score.high:.1f} %",
        *_facts(method),
    ]


def _csv_row(method: "MeasuredMethod") -> list[object]:
    """Return a row like `_row`, with unrounded numbers."""
    return [method.label, method.score.mean, method.score.low, method.score.high, *_facts(method)]


def _facts(method: "MeasuredMethod") -> list[object]:
    budget = method.budget
    return [
        "*" if method.could_be_best else "",
        len(method.seeds),
        method.trials,
        budget.trainable_parameters,
        budget.stored_bytes,
        budget.extra_context_tokens,
        method.seconds,
    ]


def _print_proposals(recommendation: "Recommendation") -> None:
    if recommendation.jobs:
        print("\nJobs that would settle it (--output jobs prints their specs):")
        rows = [
            [
                job.purpose,
                job.text,
                json_text(job.spec.get("seeds")),
                job.budget.trainable_parameters,
                job.estimate.seconds,
            ]
            for job in recommendation.jobs
        ]
        print_table(PROPOSED, rows)
    if (study := recommendation.first_study) is not None:
        print(f"\nFirst study, of {study.jobs} jobs and about {study.seconds:.0f} s of work:")
        print(json_text(study.spec, indent=2))
