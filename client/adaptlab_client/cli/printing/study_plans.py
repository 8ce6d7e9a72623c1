"""The plan of a study: what would run, and how long it would take."""

from typing import TYPE_CHECKING

from adaptlab_client.cli.exits import UsageError
from adaptlab_client.cli.printing.questions import cost_text
from adaptlab_client.cli.printing.terminal import (
    Output,
    complain,
    print_rows,
    print_table,
    print_value,
    say,
)

if TYPE_CHECKING:
    from adaptlab.studies.study_plan import SkippedCell
    from adaptlab_answers.studies import PlannedCheckView, StudyCheckView, StudyPreview

PLANNED_CHECKS = ("check", "base model", "of", "task", "budget", "job")
PLANNED = ("base model", "task", "budget", "method", "trainable", "unused", "role", "jobs")


def print_preview(preview: "StudyPreview", output: Output) -> None:
    """Print the preview of a study; jobs and minutes go to stderr."""
    for warning in preview.warnings:
        complain(f"warning: {warning}")
    if output is Output.ID:
        raise UsageError(
            "--validate-only creates no study, so there is no id to print. Use another --output."
        )
    if output in (Output.JSON, Output.JSONL):
        print_value(preview, output)
        return
    shows = any(cell.demonstrations is not None for cell in preview.cells)
    existing = {job.spec_digest for job in preview.jobs if job.reused}
    rows = [
        [c.base_model, c.task, c.budget,
         method_title(c.method) if output is Output.TABLE else c.method,
         c.trainable_parameters, c.gap,
         "over budget" if c.over_budget else c.role,
         ", ".join("reused" if digest in existing else "new" for digest in c.jobs),
         *([c.demonstrations] if shows else [])]
        for c in preview.cells
    ]  # fmt: skip
    if rows or not preview.checks or output is Output.CSV:
        print_rows((*PLANNED, *(["demonstrations"] if shows else [])), rows, output)
    if preview.checks and output is Output.TABLE:
        print()
        checks = [[*place_of(c), "reused" if c.job in existing else "new"] for c in preview.checks]
        print_table(PLANNED_CHECKS, checks)
    say_skipped(preview.skipped)
    if preview.question is not None:
        say(cost_text(preview.question))
    new = [base.name for base in preview.base_models if base.is_new]
    say(
        f"{preview.new_jobs} new jobs and {preview.reused_jobs} existing ones, {len(new)} base "
        f"models to create, {preview.passes} passes, about {preview.seconds / 60:.1f} minutes "
        "one after the other"
    )


def place_of(check: "StudyCheckView | PlannedCheckView") -> list[object]:
    """Return the cells of a check: its label, and the cell that it measures."""
    method = None if check.method is None else method_title(check.method)
    return [check.label, check.base_model, method, check.task, check.budget]


def method_title(label: str) -> str:
    """Return the name of a cell's method as on pages: "LoRA" for "lora"."""
    from adaptlab.comparisons.row_names import row_title  # loads the methods

    return row_title(label)


def say_skipped(skipped: "tuple[SkippedCell, ...]") -> None:
    """Print the methods that are left out, with the reasons, to stderr."""
    for cell in skipped:
        place = cell.base_model if cell.budget is None else f"{cell.base_model} at {cell.budget}"
        method = method_title(cell.method)
        say(f"{method} is left out on {place}: {' '.join(p.detail for p in cell.problems)}")
