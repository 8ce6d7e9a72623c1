"""A file of records on the terminal."""

import sys
from collections.abc import Mapping

from adaptlab.figures import counted, percent
from adaptlab.inspection.file_inspection import FieldReport, Inspection, Pairs
from adaptlab_client.cli.printing.recipe_report import say_wrapped
from adaptlab_client.cli.printing.spec_text import spec_text
from adaptlab_client.cli.printing.terminal import Output, inert, one_line, print_rows, print_table

MOST_VALUES = 12
"""Values of a field that are listed with their shares; further ones are counted."""

_MENDS: Mapping[str | None, str] = {
    "drop_empty": " --drop-empty leaves them out.",
    "merge_labels": " --merge-labels writes them in the first way.",
    "encoding": " --encoding says another.",
}
TITLES = ("field", "values", "empty", "min", "median", "95 %", "max")
CSV_TITLES = (
    *("field", "distinct", "empty", "bytes min", "bytes median", "bytes 95", "bytes max"),
    *("tokens min", "tokens median", "tokens 95", "tokens max", "nearly equal"),
)


def print_inspection(report: Inspection) -> None:
    """Print the answer first, then the columns, their oddities, and the spec."""
    say_wrapped(_answer(report))
    say_wrapped(f"Read as {report.reading.title}.")
    for finding in report.findings:
        say_wrapped(f"- {finding.detail}{_MENDS.get(finding.option, '')}")
    for number, record in enumerate(report.first, 1):
        shown = ", ".join(f"{name} {value!r}" for name, value in record.items())
        say_wrapped(f"{number}. {shown}", "   ")
    _print_lengths(report, "bytes")
    if any(field.tokens for field in report.fields):
        _print_lengths(report, "tokens")
    print()
    for field in report.fields:
        _print_conversations(field, report)
        _print_answers(field, report)
        _print_values(field, report)
    if report.copies:
        verb = "is a copy" if report.copies == 1 else "are copies"
        say_wrapped(f"{counted(report.copies, 'record')} {verb} of an earlier one.")
    told = any(finding.code == "label_in_two_writings" for finding in report.findings)
    for field in report.fields:
        if told and report.roles and field.name == report.roles.answer:
            continue
        _print_pairs(f"Values of {field.name} nearly equal to an earlier one", field.nearly_equal)
    if report.contradictions and report.roles:
        roles = report.roles
        title = f"Records with nearly equal {roles.text} and another {roles.answer}"
        _print_pairs(title, report.contradictions)
    _print_spec(report)


def print_fields(report: Inspection) -> None:
    """Print one line of CSV per field."""
    rows = (_csv_row(field) for field in report.fields)
    print_rows(CSV_TITLES, rows, Output.CSV)


def _answer(report: Inspection) -> str:
    names = [field.name for field in report.fields]
    fields = f"the field {names[0]}"
    if len(names) > 1:
        fields = f"the fields {', '.join(names[:-1])} and {names[-1]}"
    known = f"{report.file}: {counted(report.records, 'record')} with {fields}."
    if report.roles is None:
        return (
            f"{known} No task fits: none has a text beside a label of 2 to 64 different values, a "
            "prompt beside a completion, or conversations that end with the assistant's turn."
        )
    if report.roles.task == "chat_completion":
        return (
            f"{known} The task that fits is chat_completion, with the assistant's last turn in "
            f"{report.roles.text} as the answer."
        )
    if report.roles.task == "image_classification":
        return (
            f"{known} The task that fits is image_classification, with {report.roles.text} as the "
            f"image and {report.roles.answer} as the label."
        )
    answer = "label" if report.roles.task == "text_classification" else "answer"
    return (
        f"{known} The task that fits is {report.roles.task}, with {report.roles.title} as the text "
        f"and {report.roles.answer} as the {answer}."
    )


def _print_lengths(report: Inspection, unit: str) -> None:
    print(f"\nLengths in {unit}")
    rows: list[list[object]] = []
    for field in report.fields:
        spread = field.tokens if unit == "tokens" else field.bytes
        assert spread is not None
        lengths = (spread.least, spread.median, spread.percentile_95, spread.most)
        counts = (field.distinct, field.empty, *lengths)
        rows.append([field.name, *(f"{count:,}" for count in counts)])
    print_table(TITLES, rows, TITLES)


def _print_conversations(field: FieldReport, report: Inspection) -> None:
    """Print the figures of a field with conversations."""
    if (figures := field.conversations) is None:
        return
    mean = figures.messages / report.records
    say_wrapped(
        f"{field.name}: conversations of {mean:.1f} messages on average and {figures.longest} at "
        f"most, {figures.with_system:,} with a system message, and {figures.unanswered:,} that do "
        f"not end with the assistant's turn. The longest last turn has {figures.longest_answer:,} "
        "bytes."
    )


def _print_answers(field: FieldReport, report: Inspection) -> None:
    """Print the figures of a field with several right answers."""
    if report.roles and field.name == report.roles.answer and (figures := field.answers):
        without = f", {figures.unanswered:,} records without one" if figures.unanswered else ""
        say_wrapped(f"{field.name}: up to {figures.most:,} accepted answers per record{without}.")


def _print_values(field: FieldReport, report: Inspection) -> None:
    """Print the shares of a field's values, if they are few."""
    if (
        field.answers
        or field.values is None
        or len(field.values) >= report.records
        or field.conversations
    ):
        return
    ordered = sorted(field.values, key=lambda entry: (-entry.count, entry.value))
    shares = [
        f"{entry.value or '(empty)'} {entry.count:,} ({percent(entry.count / report.records)})"
        for entry in ordered[:MOST_VALUES]
    ]
    if more := len(ordered) - MOST_VALUES:
        shares += [f"{more} more values"] if more > 0 else []
    say_wrapped(f"{field.name}: {', '.join(shares)}")


def _print_pairs(title: str, pairs: Pairs) -> None:
    if not pairs.count:
        return
    say_wrapped(f"{title}: {pairs.count:,}")
    for example in pairs.examples:
        lines, values = example.lines, example.values
        say_wrapped(f"lines {lines[0]:,} and {lines[1]:,}: {values[0]!r}, {values[1]!r}", "  ")


def _print_spec(report: Inspection) -> None:
    if splits := report.splits:
        say_wrapped(
            f"Splits of the task below: train {splits.train:,}, validation {splits.validation:,}, "
            f"test {splits.test:,}"
        )
    for note in report.notes:
        say_wrapped(note)
    if report.spec is not None:
        print()
        sys.stdout.write(inert(spec_text(report.spec)))


def _csv_row(field: FieldReport) -> list[object]:
    spreads = [
        [None] * 4 if spread is None
        else [spread.least, spread.median, spread.percentile_95, spread.most]
        for spread in (field.bytes, field.tokens)
    ]  # fmt: skip
    counts = [one_line(field.name), field.distinct, field.empty]
    return [*counts, *spreads[0], *spreads[1], field.nearly_equal.count]
