"""`adaptlab answers`: test items with the answers that models gave."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli import suggestions
from adaptlab_client.cli.printing.terminal import Output, RowOutput, print_rows, print_values, say
from adaptlab_client.cli.session import JobArgument, open_client

if TYPE_CHECKING:
    from adaptlab.runs.events import Excerpt
    from adaptlab_answers.item_answers import GivenAnswer, ItemAnswers

COLUMNS = (
    "task", "item", "line", "seed", "prompt", "expected", "detached", "detached right", "attached",
    "attached right",
)  # fmt: skip
OF_OTHER = ("other", "other right")
WANTED = ("item", "seed", "expected", "detached", "attached", "attached right", "prompt")
LONGEST_SHOWN = 60
"""Characters of a text in a table."""


class AnswerOutcome(StrEnum):
    """Outcomes of an answer."""

    RIGHT = "right"
    WRONG = "wrong"


AnswersOutput = Annotated[RowOutput, typer.Option("--output", "-o", help="Format on stdout.")]


def answers(
    context: typer.Context,
    job: JobArgument,
    task: Annotated[
        str | None, typer.Option(help="Only items of this task. Default: all scored tasks.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Only answers for this seed. Default: all seeds.")
    ] = None,
    outcome: Annotated[
        AnswerOutcome | None,
        typer.Option(help="Only items whose attached answer is right, or wrong."),
    ] = None,
    differs: Annotated[
        bool, typer.Option("--differs", help="Only items that base and adapted model answer apart.")
    ] = False,
    other: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="JOB",
            help="Only items that this job answers otherwise for the same seed.",
            autocompletion=suggestions.jobs,
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Rows to show; 0 shows all.")] = 50,
    output: AnswersOutput = RowOutput.TABLE,
) -> None:
    """List the first test items of a job, with expected and given answers."""
    with open_client(context) as client:
        entries = client.jobs.answers(
            job,
            task=task,
            seed=seed,
            outcome=None if outcome is None else outcome.value,
            differs=differs,
            other=other,
        )
        if limit:
            entries, more = _first(entries, limit)
            if more:
                say(f"These are the first {limit} rows. Set `--limit 0` to show all.")
        _print(entries, Output(output), with_other=other is not None)


def _first(entries: "Iterator[ItemAnswers]", limit: int) -> "tuple[Iterator[ItemAnswers], bool]":
    """Return the first entries, and True if there are more."""
    read = list(islice(entries, limit + 1))
    return iter(read[:limit]), len(read) > limit


def _print(entries: "Iterator[ItemAnswers]", output: Output, *, with_other: bool) -> None:
    if output in (Output.TABLE, Output.CSV):
        titles = (*COLUMNS, *OF_OTHER) if with_other else COLUMNS
        is_short = output is Output.TABLE
        rows = (_row(entry, with_other=with_other, is_short=is_short) for entry in entries)
        print_rows(titles, rows, output, WANTED)
    else:
        print_values(entries, output)


def _row(entry: "ItemAnswers", *, with_other: bool, is_short: bool) -> Sequence[object]:
    given = (entry.detached, entry.attached, *((entry.other,) if with_other else ()))
    place = (entry.task_name, entry.item, entry.line, entry.seed)
    texts = (_text(entry.prompt, is_short=is_short), _text(entry.expected, is_short=is_short))
    return [*place, *texts, *(cell for one in given for cell in _answer(one, is_short=is_short))]


def _answer(given: "GivenAnswer | None", *, is_short: bool) -> tuple[object, object]:
    if given is None:
        return None, None
    return _text(given, is_short=is_short), given.right


def _text(excerpt: "Excerpt", *, is_short: bool) -> str:
    """Return a text, with a mark if it goes on."""
    text = excerpt.text
    if is_short and len(text) > LONGEST_SHOWN:
        return f"{text[: LONGEST_SHOWN - 2]} \N{HORIZONTAL ELLIPSIS}"
    return f"{text} \N{HORIZONTAL ELLIPSIS}" if excerpt.is_shortened else text
