"""`adaptlab recommend`: which method for a task, what is thin about it, what would settle it."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, cast

import typer

from adaptlab_client.cli import suggestions
from adaptlab_client.cli.exits import UsageFault
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
from adaptlab_client.cli.specs import read_value

if TYPE_CHECKING:
    from adaptlab_answers.recommendations import MeasuredMethod, Recommendation

COLUMNS = ("method", "score", "interval", "best", "seeds", "trials", "trainable", "stored bytes",
           "extra tokens", "seconds")  # fmt: skip
FILED = ("method", "score", "low", "high", *COLUMNS[3:])
PROPOSED = ("purpose", "what", "seeds", "trainable", "seconds, estimated")


class RecommendationOutput(StrEnum):
    """How a recommendation is printed; `jobs` are the specs that would settle it, one a line."""

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
    output: Annotated[
        RecommendationOutput,
        typer.Option("--output", "-o", help="Format on stdout; `jobs` prints specs, one per line."),
    ] = RecommendationOutput.TABLE,
) -> None:
    """Recommend a method for a task within a budget, from stored results."""
    if (budget is None) == (fraction_of_base is None):
        raise UsageFault("Give either --budget or --fraction-of-base.")
    limit = {"fraction_of_base": fraction_of_base} if budget is None else budget
    with open_client(context) as client:
        found = client.recommendations.ask(
            _choice(task),
            base_model=base_model,
            budget=cast("int | dict[str, float]", limit),
            max_seconds=max_seconds,
            methods=[_choice(text) for text in method or ()],
        )
    match output:
        case RecommendationOutput.TABLE:
            _print(found)
        case RecommendationOutput.CSV:
            print_csv(FILED, map(_filed, found.measured))
        case RecommendationOutput.JOBS:
            for job in found.jobs:
                print(json_text(job.spec))
        case _:
            print_value(found, Output(output))


def _choice(text: str) -> str | dict[str, object]:
    value = read_value(text)
    if not isinstance(value, str | dict):
        raise UsageFault(f"{text!r} is neither a name nor a mapping such as {{name: lora}}.")
    return cast("str | dict[str, object]", value)


def _print(found: "Recommendation") -> None:
    print(one_line(found.text))
    if found.recommended is not None:
        print(one_line(f"Configuration: {json_text(found.recommended.method)}"))
    if found.measured:
        print()
        print_table(COLUMNS, map(_row, found.measured))
    if found.thin_evidence:
        print("\nThin evidence:")
        for one in found.thin_evidence:
            print(one_line(f"  {one.kind}: {one.text}"))
    _print_proposals(found)


def _row(one: "MeasuredMethod") -> list[object]:
    return [
        one.label,
        Share(one.score.mean),
        f"{100 * one.score.low:.1f} to {100 * one.score.high:.1f} %",
        *_facts(one),
    ]


def _filed(one: "MeasuredMethod") -> list[object]:
    """As `_row`, with every number as it is."""
    return [one.label, one.score.mean, one.score.low, one.score.high, *_facts(one)]


def _facts(one: "MeasuredMethod") -> list[object]:
    budget = one.budget
    return [
        "*" if one.could_be_best else "",
        len(one.seeds),
        one.trials,
        budget.trainable_parameters,
        budget.stored_bytes,
        budget.extra_context_tokens,
        one.seconds,
    ]


def _print_proposals(found: "Recommendation") -> None:
    if found.jobs:
        print("\nJobs that would settle it (--output jobs prints their specs):")
        rows = [
            [
                job.purpose,
                job.text,
                json_text(job.spec.get("seeds")),
                job.budget.trainable_parameters,
                job.estimate.seconds,
            ]
            for job in found.jobs
        ]
        print_table(PROPOSED, rows)
    if (study := found.first_study) is not None:
        print(f"\nFirst study, of {study.jobs} jobs and about {study.seconds:.0f} s of work:")
        print(json_text(study.spec, indent=2))
