"""`adaptlab recipes`: list, show, run and report."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli import suggestions
from adaptlab_client.cli.commands.studies import (
    KeyOption,
    StudyArgument,
    ValidateOption,
    say_made,
)
from adaptlab_client.cli.exits import UsageError
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.printing.study_plans import print_preview
from adaptlab_client.cli.printing.terminal import (
    Output,
    print_in_full,
    print_list,
    print_table,
    print_value,
    say,
)
from adaptlab_client.cli.session import OutputOption, open_client
from adaptlab_client.cli.waiting import TimeoutOption, followed, leave_unless_succeeded

if TYPE_CHECKING:
    from adaptlab_answers.recipes import RecipeView, StudyReport
    from adaptlab_client.client import Client
    from adaptlab_client.transport.connection import Identity

COLUMNS = ("recipe", "presets", "question")


class ReportOutput(StrEnum):
    """Formats of a report."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    MARKDOWN = "markdown"


RecipeArgument = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE",
        help="Name of a recipe, such as petrov2024/table-1.",
        autocompletion=suggestions.recipes,
    ),
]
PresetOption = Annotated[
    str,
    typer.Option(
        help=(
            "quick: minutes on two cores; small: hours; faithful: the paper's settings; fair: "
            "equal effort; text: a published model and public data."
        )
    ),
]
ReportOutputOption = Annotated[
    ReportOutput,
    typer.Option("--output", "-o", help="Format on stdout; csv has the scores without the claims."),
]


def list_recipes(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """List the recipes, with the table of a paper that each repeats."""
    with open_client(context) as client:
        recipes = client.recipes.list()
    print_list(
        recipes,
        COLUMNS,
        lambda recipe: (recipe.name, ", ".join(recipe.presets), recipe.question),
        output,
        "name",
    )


def show(
    context: typer.Context, recipe: RecipeArgument, output: OutputOption = Output.TABLE
) -> None:
    """Show one recipe: published scores, claims and presets."""
    with open_client(context) as client:
        view = client.recipes.get(recipe)
    if output is Output.TABLE:
        _print(view)
    else:
        print_in_full(view, output, "name")


def run(
    context: typer.Context,
    recipe: RecipeArgument,
    preset: PresetOption = "quick",
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Number of seeds. Default: that of the preset.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the study. Default: named after the recipe.")
    ] = None,
    queue: Annotated[str | None, typer.Option(help="Queue of the workers that run it.")] = None,
    base_model: Annotated[
        list[str] | None,
        typer.Option(
            help="Base model instead of one that the preset needs, in their order; repeatable.",
            autocompletion=suggestions.base_models,
        ),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Dataset instead of the one that the preset needs.",
            autocompletion=suggestions.datasets,
        ),
    ] = None,
    idempotency_key: KeyOption = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return at once instead of waiting for the end.")
    ] = False,
    validate_only: ValidateOption = False,
    timeout: TimeoutOption = None,
    output: ReportOutputOption = ReportOutput.TABLE,
) -> None:
    """Create the study of a recipe, wait for it, and report; exit with 1 if a job failed."""
    resources = None if queue is None else {"queue": queue}
    bases = base_model or ()
    with open_client(context) as client:
        if validate_only:
            preview = client.recipes.preview(
                recipe,
                preset=preset,
                seeds=seeds,
                name=name,
                resources=resources,
                base_models=bases,
                dataset=dataset,
            )
            print_preview(preview, _of_a_preview(output))
            return
        study = client.recipes.run(
            recipe,
            preset=preset,
            seeds=seeds,
            name=name,
            resources=resources,
            base_models=bases,
            dataset=dataset,
            idempotency_key=idempotency_key,
        )
        if detach:
            print(study.name)
            say(f"Run `adaptlab recipes report {study.name}` to see what it has measured.")
            return
        say_made(study)
        ended = followed(client, study.id, timeout)
        _print_report(client, study.id, output)
        leave_unless_succeeded([ended])


def report(
    context: typer.Context, study: StudyArgument, output: ReportOutputOption = ReportOutput.TABLE
) -> None:
    """Compare a recipe's study with the paper, as far as it has run."""
    with open_client(context) as client:
        _print_report(client, study, output)


def application() -> typer.Typer:
    """Return the commands of `adaptlab recipes`."""
    return group(
        "recipes",
        "List, show, run and report recipes: studies that repeat tables of a paper.",
        {"list": list_recipes, "show": show, "run": run, "report": report},
    )


def _print_report(client: "Client", study: "Identity", output: ReportOutput) -> None:
    from adaptlab_client.cli.printing.recipe_report import csv_text, print_report

    report = client.studies.report(study)
    match output:
        case ReportOutput.TABLE:
            print_report(report)
        case ReportOutput.JSON | ReportOutput.JSONL:
            print_value(report, Output(output))
        case ReportOutput.CSV:
            print(csv_text(report), end="")
        case ReportOutput.MARKDOWN:
            _print_markdown(client, report)


def _print_markdown(client: "Client", report: "StudyReport") -> None:
    from adaptlab_client.reports.recipe_markdown import markdown, ran

    print(markdown(report, ran(client, report)), end="")


def _of_a_preview(output: ReportOutput) -> Output:
    if output is ReportOutput.MARKDOWN:
        raise UsageError(
            "--validate-only runs nothing, so there is no report in Markdown. Use another --output."
        )
    return Output(output)


def _print(recipe: "RecipeView") -> None:
    from adaptlab_client.cli.printing.recipe_report import say_wrapped
    from adaptlab_client.reports.recipe_text import paper

    say_wrapped(recipe.title)
    say_wrapped(recipe.question)
    say_wrapped(recipe.source)
    for preset in recipe.presets:
        print()
        say_wrapped(f"{preset.preset}: {preset.note}")
        for need in preset.needs:
            noun = need.kind.replace("_", " ")
            say_wrapped(f"It needs the {noun} {need.name!r}: {need.description}.", "  ")
            for command in need.commands:
                print(f"    {command}")
    for table in recipe.tables:
        print()
        published = [row for row in table.rows if row.published]
        say_wrapped(f"{table.title} ({table.source}){', in per cent' if published else ''}")
        if not published:
            continue
        print_table(
            ["row", *(column.label for column in table.columns)],
            [[row.label, *map(paper, row.published)] for row in published],
        )
    print("\nClaims")
    for statement in recipe.statements():
        say_wrapped(f"{statement.claim} ({statement.version}): {statement.text}", "  ")
    say(
        f"Run it with `adaptlab recipes run {recipe.name}`. See the tests and specs with "
        "--output json."
    )
