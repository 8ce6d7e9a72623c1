"""A report as a Markdown page.

The page has the findings, the tables, the claims and the run.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from adaptlab.figures import counted, percent
from adaptlab.reproductions.claim_verdicts import ClaimVerdict, Decision
from adaptlab.reproductions.recipe_report import EffortRow, ReportCell, ReportTable
from adaptlab_answers.jobs import JobView
from adaptlab_answers.recipes import StudyReport
from adaptlab_answers.results import AttemptView
from adaptlab_answers.studies import StudyView
from adaptlab_client.client import Client
from adaptlab_client.reports.recipe_text import (
    NOTHING,
    interval,
    mean,
    measured_seeds,
    met,
    paper,
)

PLACE = ("device", "precision", "threads", "compiled", "platform")
VERSIONS = {"code_version": "adaptlab", "torch_version": "torch", "python_version": "Python"}


@dataclass(frozen=True)
class Ran:
    """A succeeded job of the study with its last attempt.

    `reused` if the job is older than the study.
    """

    job: JobView
    attempt: AttemptView
    reused: bool

    @property
    def seconds(self) -> float:
        """Seconds from the claim to the end; 0 while it runs."""
        begin, end = self.attempt.started_at, self.attempt.ended_at
        return 0.0 if end is None else (end - begin).total_seconds()


def ran(client: Client, report: StudyReport) -> tuple[Ran, ...]:
    """Return the succeeded jobs behind a report, in order of their start."""
    reused = _reused(client.studies.get(report.study.id))
    jobs = [
        Ran(job, client.jobs.attempts(job.id)[-1], job.id in reused)
        for job in client.studies.jobs(report.study.id)
        if job.succeeded
    ]
    return tuple(sorted(jobs, key=_start))


def _start(job: Ran) -> float:
    return job.attempt.started_at.timestamp()


def markdown(report: StudyReport, jobs: Sequence[Ran]) -> str:
    """Return the page with the measurements; a person adds the conclusions."""
    lines = [
        f"# {report.title}\n",
        f"{report.question}\n",
        f"{report.summary()} Compared with {report.source}.",
        *(line for table in report.tables for line in _table(report, table)),
        *_claims(report),
        *_run(report, jobs),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _reused(study: StudyView) -> set[UUID]:
    jobs = [base.job for base in study.base_models]
    jobs += [job for cell in study.cells for job in cell.jobs]
    jobs += [check.job for check in study.checks]
    return {job.id for job in jobs if job.reused}


def _run(report: StudyReport, jobs: Sequence[Ran]) -> Iterator[str]:
    """Yield a list of when, where and with what the study was run."""
    seeds = measured_seeds(report)
    yield "\n## The run\n"
    yield f"- Recipe `{report.recipe}`, preset `{report.preset}`; study `{report.study.name}`,"
    yield f"  {report.study.state}."
    yield from _when(jobs)
    yield from _effort(report, jobs)
    if seeds:
        yield f"- {len(seeds)} seeds: {', '.join(map(str, seeds))}."
    for label, names in (("Machine", PLACE), ("Versions", tuple(VERSIONS))):
        for environment in dict.fromkeys(_environment(job, names) for job in jobs):
            yield f"- {label}: {environment}."
    if report.departures:
        yield f"- Departures from the recipe: {', '.join(report.departures)}."
    if report.note:
        yield f"- This preset: {report.note}"
    option = f" --seeds {len(seeds)}" if seeds == tuple(range(len(seeds))) and seeds else ""
    yield f"- Re-run: `adaptlab recipes run {report.recipe} --preset {report.preset}{option}`."


def _when(jobs: Sequence[Ran]) -> Iterator[str]:
    """Yield the day, and the time from the first claim to the last result."""
    new = [job.attempt for job in jobs if not job.reused] or [job.attempt for job in jobs]
    starts = [attempt.started_at for attempt in new]
    ends = [attempt.ended_at for attempt in new if attempt.ended_at]
    if not starts or not ends:
        return
    minutes = (max(ends) - min(starts)).total_seconds() / 60
    reused = len(jobs) - len(new)
    verb = "was" if reused == 1 else "were"
    others = f" {counted(reused, 'earlier job')} {verb} reused." if reused else ""
    yield (
        f"- {min(starts):%-d %B %Y}: {counted(len(new), 'job')}, {minutes:.1f} minutes from the "
        f"first claim to the last result.{others}"
    )


def _environment(job: Ran, names: Sequence[str]) -> str:
    facts = job.attempt.environment or {}
    return ", ".join(_fact(name, facts[name]) for name in names if facts.get(name) is not None)


def _fact(name: str, value: object) -> str:
    if isinstance(value, bool):
        return name if value else f"not {name}"
    if name in VERSIONS:
        return f"{VERSIONS[name]} {value}"
    return f"{value} {name}" if name == "threads" else f"{value}"


def _table(report: StudyReport, table: ReportTable) -> Iterator[str]:
    """Yield a table; each cell has the published and the measured score."""
    rows = [row for row in table.rows if not row.is_empty]
    if not rows:
        return
    over = "" if table.published_seeds is None else f" over {table.published_seeds} seeds"
    yield f"\n## {table.title}\n"
    yield f"{table.source}. In per cent: the paper's mean ± standard deviation{over}; below it, in"
    yield f"bold, the measured mean with its {percent(report.level, 0)} interval.\n"
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


def _label(row: EffortRow) -> str:
    return f"{_cell_text(row.label)}{' (control)' if row.control else ''}"


def _effort_of(row: EffortRow) -> str:
    numbers = (row.parameters, row.steps, row.trials)
    return " | ".join("" if number is None else f"{number:,}" for number in numbers)


def _reasons(table: ReportTable) -> Iterator[str]:
    """Yield the reasons for missing scores, without repetition."""
    cells = [cell for row in table.rows for cell in row.cells if cell.state != "absent"]
    reasons = dict.fromkeys(cell.reason for cell in cells if cell.reason)
    if reasons:
        yield ""
        yield from (f"- {reason}" for reason in reasons)


def _claims(report: StudyReport) -> Iterator[str]:
    """Yield the claims, and below them each of their controls once."""
    controls = _numbered_controls(report)
    yield "\n## Claims\n"
    yield "| claim | version | finding | evidence | controls |"
    yield "| --- | --- | --- | --- | --- |"
    for verdict in report.claims:
        numbers = dict.fromkeys(controls[control] for control in verdict.controls)
        evidence = _cell_text(_evidence(verdict, controls))
        yield (
            f"| {_cell_text(verdict.text)} | {report.version_of(verdict)} | "
            f"**{report.words_of(verdict)}** | {evidence} | {', '.join(numbers)} |"
        )
    if controls:
        yield "\nControls:\n"
    for control, number in controls.items():
        yield f"- {number}, {met(control)}: {_cell_text(control.evidence)}"


def _numbered_controls(report: StudyReport) -> dict[Decision, str]:
    """Return the controls of all claims with their names on the page."""
    controls = dict.fromkeys(c for verdict in report.claims for c in verdict.controls)
    return {control: f"C{place}" for place, control in enumerate(controls, start=1)}


def _evidence(verdict: ClaimVerdict, controls: Mapping[Decision, str]) -> str:
    """Return the evidence, in which controls that are not met are only named."""
    text = verdict.evidence
    for control in verdict.controls:
        text = text.replace(control.evidence.removesuffix("."), controls[control])
    return text


def _effort(report: StudyReport, jobs: Sequence[Ran]) -> Iterator[str]:
    """Yield the run times and the largest memory of the jobs."""
    if not jobs:
        return
    seconds = sorted(job.seconds for job in jobs)
    usages = [job.attempt.usage for job in jobs if job.attempt.usage]
    times = f"{sum(seconds):,.0f} s"
    if len(seconds) > 1:
        times += f" in all, {seconds[0]:,.0f} to {seconds[-1]:,.0f} s per job"
    most = max((usage.peak_memory_bytes for usage in usages), default=0)
    memory = f"; at most {most / 2**20:,.0f} MiB of memory" if most else ""
    yield f"- Run time: {times}{memory}. Job by job: `adaptlab studies jobs {report.study.name}`."


def _cell_text(text: str) -> str:
    """Return text that cannot break out of its table cell."""
    return text.replace("|", "\\|").replace("\n", " ")
