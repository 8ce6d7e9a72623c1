"""`adaptlab methods`, `tasks`, `families` and `budgets solve`."""

from typing import TYPE_CHECKING, Annotated, cast

import typer

from adaptlab_client.cli import suggestions
from adaptlab_client.cli.exits import ExitCode, UsageError
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.printing.terminal import (
    Output,
    complain,
    json_text,
    print_in_full,
    print_list,
    print_rows,
    print_value,
    print_values,
)
from adaptlab_client.cli.session import BaseModelOption, OutputOption, open_client
from adaptlab_client.cli.specs import read_value

if TYPE_CHECKING:
    from adaptlab_answers.models import MethodAnswer, PlugIn

MethodArgument = Annotated[
    str | None,
    typer.Argument(help="Show only this one, in full.", autocompletion=suggestions.methods),
]
TaskArgument = Annotated[
    str | None,
    typer.Argument(help="Show only this one, in full.", autocompletion=suggestions.tasks),
]
FamilyArgument = Annotated[
    str | None,
    typer.Argument(help="Show only this one, in full.", autocompletion=suggestions.families),
]


def methods(
    context: typer.Context, name: MethodArgument = None, output: OutputOption = Output.TABLE
) -> None:
    """Show the server's adaptation methods."""
    with open_client(context) as client:
        if name is not None:
            print_in_full(client.methods.get(name), output, "name")
            return
        entries = client.methods.list()
    titles = ("name", "title", "size knob", "first layer's attention", "reference")
    print_list(
        entries,
        titles,
        lambda m: (m.name, m.title, m.size_knob, m.first_layer_attention, m.reference),
        output,
        "name",
    )


def tasks(
    context: typer.Context, name: TaskArgument = None, output: OutputOption = Output.TABLE
) -> None:
    """Show the server's tasks."""
    with open_client(context) as client:
        entries = client.tasks.list() if name is None else (client.tasks.get(name),)
    _print_plug_ins(entries, name is not None, output)


def families(
    context: typer.Context, name: FamilyArgument = None, output: OutputOption = Output.TABLE
) -> None:
    """Show the server's families of base models."""
    with open_client(context) as client:
        entries = client.families.list() if name is None else (client.families.get(name),)
    _print_plug_ins(entries, name is not None, output)


def solve(
    context: typer.Context,
    budget: Annotated[int | None, typer.Option(min=1, help="Trainable parameters.")] = None,
    fraction_of_base: Annotated[
        float | None, typer.Option(help="Budget as a share of the base model's parameters.")
    ] = None,
    context_tokens: Annotated[
        int | None, typer.Option(min=1, help="Budget in positions that are added to the context.")
    ] = None,
    base_model: BaseModelOption = None,
    family: Annotated[
        str | None,
        typer.Option(
            help=(
                "Family to use instead of a base model: a name or YAML such as '{name: minigpt, "
                "width: 96}'."
            )
        ),
    ] = None,
    task: Annotated[str | None, typer.Option(help="Task for --family.")] = None,
    fetch: Annotated[
        str | None, typer.Option(help="Id of a fetch from the hub, instead of a base model.")
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option(help="Only this method, as a name or YAML. Repeatable.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Find the configuration of every method that fits a budget; exit with 3 if none does."""
    given = {
        "trainable_parameters": budget,
        "fraction_of_base": fraction_of_base,
        "context_tokens": context_tokens,
    }
    limit = {name: value for name, value in given.items() if value is not None}
    if len(limit) != 1:
        raise UsageError("Give one of --budget, --fraction-of-base and --context-tokens.")
    with open_client(context) as client:
        answer = client.budgets.solve(
            limit,
            base_model=base_model,
            family=_choice(family),
            task=_choice(task),
            fetch=fetch,
            methods=[choice for text in method or () if (choice := _choice(text)) is not None],
        )
    if output in (Output.TABLE, Output.CSV):
        _print_solutions(answer.data, output)
    elif output is Output.ID:
        print_values([entry for entry in answer.data if entry.feasible], output, "name")
    else:
        print_value(answer, output)
    if not any(entry.feasible for entry in answer.data):
        complain("No method fits this budget.")
        raise typer.Exit(ExitCode.INFEASIBLE)


def budgets_application() -> typer.Typer:
    """Return the commands of `adaptlab budgets`."""
    return group("budgets", "Find configurations that fit a parameter budget.", {"solve": solve})


def _choice(text: str | None) -> str | dict[str, object] | None:
    value = None if text is None else read_value(text)
    if value is not None and not isinstance(value, str | dict):
        raise UsageError(f"{text!r} is neither a name nor a mapping such as {{name: lora}}.")
    return cast("str | dict[str, object] | None", value)


def _print_solutions(solutions: "tuple[MethodAnswer, ...]", output: Output) -> None:
    rows: list[list[object]] = []
    for entry in solutions:
        budget = entry.budget
        row: list[object] = [
            entry.name,
            _fit(entry),
            budget.trainable_parameters if budget else None,
            budget.gap if budget else None,
            budget.stored_bytes if budget else None,
            budget.extra_context_tokens if budget else None,
            json_text(entry.method) if entry.method else _hint(entry),
        ]
        rows.append(row)
    titles = (
        "method", "fits", "trainable", "unused", "stored bytes", "extra tokens", "configuration",
    )  # fmt: skip
    print_rows(titles, rows, output)


def _fit(entry: "MethodAnswer") -> str:
    """Return "yes" or "no", and whether the size is fixed."""
    return ("yes" if entry.feasible else "no") + (", fixed size" if entry.fixed_size else "")


def _hint(entry: "MethodAnswer") -> str:
    details = " ".join(problem.detail for problem in entry.problems)
    nearest = ", ".join(str(value) for value in entry.nearest)
    return f"{details} Nearest: {nearest}." if nearest and nearest not in details else details


def _print_plug_ins(entries: "tuple[PlugIn, ...]", in_full: bool, output: Output) -> None:
    if in_full:
        print_in_full(entries[0], output, "name")
        return
    print_list(
        entries,
        ("name", "title", "summary", "reference"),
        lambda entry: (entry.name, entry.title, entry.summary, entry.reference),
        output,
        "name",
    )
