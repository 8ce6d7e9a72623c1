"""A report as a page in Markdown: when, where and with what it was run, tables, claims, notes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from adaptlab.reproductions.claims import ClaimVerdict
from adaptlab.reproductions.recipe_report import ReportCell, ReportRow, ReportTable
from adaptlab_answers.jobs import JobView
from adaptlab_answers.recipes import StudyReport
from adaptlab_answers.results import AttemptView
from adaptlab_answers.studies import StudyView
from adaptlab_client.client import Client
from adaptlab_client.reports.recipe_text import (
    NOTHING,
    finding,
    interval,
    mean,
    measured_seeds,
    met,
    paper,
    wording,
)

PLACE = ("device", "precision", "threads", "compiled", "platform")
VERSIONS = {"code_version": "adaptlab", "torch_version": "torch", "python_version": "Python"}


@dataclass(frozen=True)
class Ran:
    """A job of the study that succeeded, with its last attempt; `reused` if it was there before."""

    job: JobView
    attempt: AttemptView
    reused: bool

    @property
    def seconds(self) -> float:
        """From the claim to the end; zero while it runs."""
        begin, end = self.attempt.started_at, self.attempt.ended_at
        return 0.0 if end is None else (end - begin).total_seconds()


def ran(client: Client, report: StudyReport) -> tuple[Ran, ...]:
    """The jobs behind a report, by the time at which they were begun."""
    reused = _reused(client.studies.get(report.study.id))
    found = [
        Ran(job, client.jobs.attempts(job.id)[-1], job.id in reused)
        for job in client.studies.jobs(report.study.id)
        if job.succeeded
    ]
    return tuple(sorted(found, key=_begin))


def _begin(one: Ran) -> float:
    return one.attempt.started_at.timestamp()


def markdown(report: StudyReport, jobs: Sequence[Ran]) -> str:
    """The page, as measured; what was found is for a person to add."""
    lines = [
        f"# {report.title}\n",
        f"{report.question}\n",
        f"Held against {report.source}.\n",
        *_run(report, jobs),
        *(line for table in report.tables for line in _table(report, table)),
        *_claims(report),
        *_effort(jobs),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _reused(study: StudyView) -> set[UUID]:
    jobs = [base.job for base in study.base_models]
    jobs += [job for cell in study.cells for job in cell.jobs]
    jobs += [check.job for check in study.checks]
    return {job.id for job in jobs if job.reused}


def _run(report: StudyReport, jobs: Sequence[Ran]) -> Iterator[str]:
    """When, where and with what."""
    seeds = measured_seeds(report)
    yield "## The run\n"
    yield f"- Recipe `{report.recipe}`, preset `{report.preset}`; study `{report.study.name}`,"
    yield f"  {report.study.state}."
    yield from _when(jobs)
    if seeds:
        yield f"- {len(seeds)} seeds: {', '.join(map(str, seeds))}."
    for label, names in (("Machine", PLACE), ("Versions", tuple(VERSIONS))):
        for place in dict.fromkeys(_environment(one, names) for one in jobs):
            yield f"- {label}: {place}."
    if report.departures:
        yield f"- Not as the recipe asks in: {', '.join(report.departures)}."
    if report.note:
        yield f"- This preset: {report.note}"
    given = f" --seeds {len(seeds)}" if seeds == tuple(range(len(seeds))) and seeds else ""
    yield f"- Again: `adaptlab recipes run {report.recipe} --preset {report.preset}{given}`."


def _when(jobs: Sequence[Ran]) -> Iterator[str]:
    """The day, and the time from the first claim to the last result, of what the study ran."""
    new = [one.attempt for one in jobs if not one.reused] or [one.attempt for one in jobs]
    begins = [one.started_at for one in new]
    ends = [one.ended_at for one in new if one.ended_at]
    if not begins or not ends:
        return
    minutes = (max(ends) - min(begins)).total_seconds() / 60
    reused = len(jobs) - len(new)
    others = f" {reused} more were there before." if reused else ""
    yield (
        f"- {min(begins):%-d %B %Y}: {len(new)} jobs, {minutes:.1f} minutes from the first claim "
        f"to the last result.{others}"
    )


def _environment(one: Ran, names: Sequence[str]) -> str:
    known = one.attempt.environment or {}
    return ", ".join(_fact(name, known[name]) for name in names if known.get(name) is not None)


def _fact(name: str, value: object) -> str:
    if isinstance(value, bool):
        return name if value else f"not {name}"
    if name in VERSIONS:
        return f"{VERSIONS[name]} {value}"
    return f"{value} {name}" if name == "threads" else f"{value}"


def _table(report: StudyReport, table: ReportTable) -> Iterator[str]:
    """Two lines a cell: the paper's score, and the measured one with its interval."""
    rows = [row for row in table.rows if not row.is_empty]
    if not rows:
        return
    over = "" if table.published_seeds is None else f" over {table.published_seeds} seeds"
    yield f"\n## {table.title}\n"
    yield f"{table.source}. In per cent: the paper's mean ± standard deviation{over}; below it, in"
    yield f"bold, the measured mean with its {report.level:.0%} interval.\n"
    yield f"| | {' | '.join(map(_cell_text, table.columns))} | trained | steps | trials |"
    yield f"| --- |{' ---: |' * (len(table.columns) + 3)}"
    for row in rows:
        cells = " | ".join(_beside(cell) for cell in row.cells)
        yield f"| {_label(row)} | {cells} | {_effort_of(row)} |"
    if left_out := [row.label for row in table.rows if row.is_empty]:
        yield f"\nControls of other presets: {', '.join(left_out)}."
    yield from _reasons(table)


def _beside(cell: ReportCell) -> str:
    shown = f"**{mean(cell)}** {interval(cell)}" if cell.measured else mean(cell)
    return f"{paper(cell.published)}<br>{shown}".replace(f"{NOTHING}<br>", "")


def _label(row: ReportRow) -> str:
    return f"{_cell_text(row.label)}{' (control)' if row.control else ''}"


def _effort_of(row: ReportRow) -> str:
    numbers = (row.parameters, row.steps, row.trials)
    return " | ".join("" if number is None else f"{number:,}" for number in numbers)


def _reasons(table: ReportTable) -> Iterator[str]:
    """Why scores are missing, each reason once."""
    cells = [cell for row in table.rows for cell in row.cells if cell.state != "absent"]
    reasons = dict.fromkeys(cell.reason for cell in cells if cell.reason)
    if reasons:
        yield ""
        yield from (f"- {reason}" for reason in reasons)


def _claims(report: StudyReport) -> Iterator[str]:
    yield "\n## Claims\n"
    yield "| claim | in | is | because |"
    yield "| --- | --- | --- | --- |"
    for one in report.claims:
        yield (
            f"| {_cell_text(one.text)} | {wording(report, one)} | **{finding(one)}** | "
            f"{_cell_text(one.evidence)}{_controls(one)} |"
        )


def _controls(verdict: ClaimVerdict) -> str:
    """The controls of a claim, a line each."""
    return "".join(
        f"<br>Control, {met(one)}: {_cell_text(one.evidence)}" for one in verdict.controls
    )


def _effort(jobs: Sequence[Ran]) -> Iterator[str]:
    if not jobs:
        return
    yield "\n## What it took\n"
    yield "| job | trained | took | of it training | memory |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for one in jobs:
        usage, budget = one.attempt.usage, one.job.budget
        what = one.job.method or one.job.name or one.job.kind
        yield " | ".join(
            (
                f"| {_cell_text(what)}{f' on {one.job.task}' if one.job.task else ''}",
                f"{budget.trainable_parameters:,}" if budget else "",
                f"{one.seconds:.0f} s{', before' if one.reused else ''}",
                f"{usage.training_seconds:.0f} s" if usage else "",
                f"{usage.peak_memory_bytes / 2**20:.0f} MiB |" if usage else "|",
            )
        )


def _cell_text(text: str) -> str:
    """Text that stays in its cell."""
    return text.replace("|", "\\|").replace("\n", " ")
