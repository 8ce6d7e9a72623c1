"""Write what a study measured into a page: python examples/write_results.py STUDY PAGE [PLAN].

Replaces what stands between the two marks in PAGE, and draws the pictures beside it. Everything
comes from the server, so no number is copied by hand. PLAN is what `adaptlab studies create FILE
--validate-only -o json` printed before the study was made, to hold the plan against the run.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import UUID

from adaptlab import charts
from adaptlab.comparisons.comparison import Comparison, ComparisonCell
from adaptlab.comparisons.table_comparison import ComparedMethod, TableComparison
from adaptlab_client import (
    AttemptView,
    AttentionSummary,
    Client,
    JobView,
    StudyComparison,
    StudyPreview,
    StudyView,
)

BEGIN = "<!-- measured -->"
END = "<!-- end of measured -->"
FINDINGS = {
    "better": "better",
    "worse": "worse",
    "cannot_be_told_apart": "cannot be told apart",
    "not_known": "order not known over all seeds",
}


@dataclass(frozen=True)
class Run:
    """A job with its latest attempt, and what its first layer's heads do when it is adapted.

    It is `reused` if it was there before the study.
    """

    job: JobView
    attempt: AttemptView
    heads: tuple[AttentionSummary, ...]
    reused: bool

    @property
    def begin(self) -> datetime:
        """When a worker took it."""
        assert self.attempt.started_at is not None
        return self.attempt.started_at

    @property
    def end(self) -> datetime:
        """When its attempt ended."""
        assert self.attempt.ended_at is not None
        return self.attempt.ended_at

    @property
    def seconds(self) -> float:
        """From the claim to the end."""
        return (self.end - self.begin).total_seconds()


def main(study: str, page: Path, plan: Path | None) -> None:
    """Fetch, draw and write."""
    with Client() as client:
        found = client.comparisons.study(study)
        ended = [job for job in client.studies.jobs(study) if job.succeeded]
        reused = _reused(client.studies.get(study))
        runs = [_run_of(client, job, reused=job.id in reused) for job in ended]
    preview = None if plan is None else StudyPreview.model_validate_json(plan.read_text())
    runs.sort(key=lambda run: run.begin)
    lines = [*_run(found, runs), *_tables(found, runs, page), *_effort(runs, preview)]
    before, rest = page.read_text().split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(before + BEGIN + "\n\n" + "\n".join(lines).strip() + "\n\n" + END + after)


def _reused(study: StudyView) -> set[UUID]:
    """The jobs of a study that were there before it."""
    bases = [base.job for base in study.base_models]
    return {job.id for job in (*bases, *(j for c in study.cells for j in c.jobs)) if job.reused}


def _run_of(client: Client, job: JobView, *, reused: bool) -> Run:
    maps = client.jobs.attention(job.id, layer=0, source="adapted") if job.method else ()
    heads = tuple(head for one in maps for head in one.summaries)
    return Run(job, client.jobs.attempts(job.id)[-1], heads, reused)


def _run(found: StudyComparison, runs: Sequence[Run]) -> Iterator[str]:
    """When, where and with what."""
    machines = {_machine(run): None for run in runs}
    new = [run for run in runs if not run.reused] or runs
    wall = (max(run.end for run in new) - min(run.begin for run in new)).total_seconds()
    yield f"Study `{found.study.name}`, {found.study.state}: {len(new)} jobs"
    yield f"on {runs[0].begin:%-d %B %Y}, {wall / 60:.1f} minutes from the first claim to the last"
    yield f"result. {'; '.join(machines)}."
    yield from _settings(found)
    for warning in found.warnings:
        yield f"\n**Warning** ({warning.task}): {warning.text}"


def _machine(run: Run) -> str:
    known = {} if run.attempt.environment is None else run.attempt.environment
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in known.items() if value)


def _settings(found: StudyComparison) -> Iterator[str]:
    """What holds for every method, by the server's word."""
    rows = [one for table in found.tables for one in table.methods if one.trials > 1]
    seeds = sorted({seed for one in rows for seed in one.seeds})
    named = {
        "Seeds": ", ".join(map(str, seeds)),
        "steps": ", ".join(sorted({f"{one.steps:,}" for one in rows})),
        "batch": ", ".join(sorted({str(one.batch_size) for one in rows})),
        "trials a seed": ", ".join(sorted({str(one.trials) for one in rows})),
    }
    yield "; ".join(f"{name} {value}" for name, value in named.items()) + "."
    yield f"Intervals are at {found.level:.0%}; a difference below {_percent(found.margin)} of the"
    yield "items counts as none."


def _tables(found: StudyComparison, runs: Sequence[Run], page: Path) -> Iterator[str]:
    for table in found.tables:
        yield f"\n## {table.task} on {table.base_model}"
        if table.comparison is None:
            yield "\nNothing is scored yet."
            continue
        comparison = Comparison.model_validate(table.comparison.model_dump(mode="json"))
        for cell in table.comparison.cells:
            yield from _cell(cell)
        yield from _curves(table, comparison, page)
        yield from _diagnoses(table)
        yield from _attention(table, runs)
        yield from _sweeps(table, page)
        yield from _forgetting(table)
        yield from _left_out(table)


def _cell(cell: ComparisonCell) -> Iterator[str]:
    title = "Without a budget" if cell.budget is None else f"Budget {cell.budget:,}"
    yield f"\n### {title}\n"
    yield "| method | trained | score | interval | possible ranks | could be best | trials |"
    yield "| --- | ---: | ---: | ---: | ---: | --- | ---: |"
    for row in cell.rows:
        low, high = row.rank.low, row.rank.high
        ranks = str(low) if low == high else f"{low} to {high}"
        yield (
            f"| {row.method} | {row.parameters or 0:,} | {_percent(row.score.mean)} | "
            f"{_percent(row.score.low)} to {_percent(row.score.high)} | {ranks} | "
            f"{'yes' if row.could_be_best else ''} | {row.trials} |"
        )
    yield from _verdicts(cell)


def _verdicts(cell: ComparisonCell) -> Iterator[str]:
    counted = dict.fromkeys(FINDINGS, 0)
    for one in cell.verdicts:
        counted[one.finding] += 1
    told = ", ".join(f"{count} {FINDINGS[name]}" for name, count in counted.items() if count)
    yield f"\n<details><summary>{len(cell.verdicts)} verdicts: {told}</summary>\n"
    yield from (f"- {one.text}" for one in cell.verdicts)
    yield "\n</details>"


def _curves(table: TableComparison, comparison: Comparison, page: Path) -> Iterator[str]:
    yield "\n### Over budgets\n"
    if len(comparison.cells) > 1:
        title = f"{table.task}: score against budget"
        chart = charts.score_against_budget(
            comparison.curves,
            crossings=comparison.crossings,
            references=[row for row in comparison.cells[0].rows if row.budget is None],
            methods=_names(table),
            title=title,
        )
        yield _picture(page, f"{page.stem}-{table.task}-budgets", chart, title) + "\n"
    for one in comparison.crossings:
        ends = " to ".join(f"{end:,.0f}" if end else "no end" for end in (one.low, one.high))
        sure = "" if one.told else "; not told from chance"
        yield (
            f"- {one.higher_after} overtakes {one.higher_before} at about {one.budget:,.0f} "
            f"trained parameters ({ends}{sure})"
        )
    yield from _cheapest(comparison)


def _cheapest(comparison: Comparison) -> Iterator[str]:
    cheapest = comparison.cheapest
    if cheapest is None:
        return
    near = f"within {_percent(cheapest.margin)} of {cheapest.reference}"
    for word, one in (("is shown to be", cheapest.shown), ("may be", cheapest.possible)):
        name = "none" if one is None else f"{one.method} with {one.parameters:,} parameters"
        yield f"- Cheapest that {word} {near}: {name}."


def _diagnoses(table: TableComparison) -> Iterator[str]:
    yield "\n### Diagnosis\n"
    if not table.diagnoses:
        yield "Nothing to diagnose: every method that trains could be the best."
    for one in table.diagnoses:
        yield f"- **{one.label}: {one.diagnosis.cause}.** {one.diagnosis.text}"


def _attention(table: TableComparison, runs: Sequence[Run]) -> Iterator[str]:
    heads = {run.job.id: run.heads for run in runs}
    rows = [(one.label, [head for job in one.jobs for head in heads[job]]) for one in table.methods]
    if not any(found for _, found in rows):
        return
    yield "\n### Attention of the first layer\n"
    yield "Over the heads and seeds. Moved: the largest change of an attention weight relative to"
    yield "the other content, from the base; learned: the mean attention on learned positions.\n"
    yield "| method | moved | learned |"
    yield "| --- | ---: | ---: |"
    for label, found in rows:
        moved = max((head.relative_deviation or 0.0 for head in found), default=0.0)
        masses = [head.learned_mass for head in found if head.learned_mass is not None]
        learned = _percent(sum(masses) / len(masses)) if masses else ""
        yield f"| {label} | {moved:.2g} | {learned} |"


def _sweeps(table: TableComparison, page: Path) -> Iterator[str]:
    tried = [one for one in table.methods if one.trials > 1 and one.sweep]
    if not any(trial.validation_accuracy is not None for one in tried for trial in one.sweep):
        return
    yield "\n### Learning rates\n"
    for budget in sorted({one.budget for one in tried if one.budget is not None}):
        here = {one.method: [*_points(one)] for one in tried if one.budget in (None, budget)}
        title = f"{table.task} at {budget:,}: learning rates tried"
        chart = charts.rate_sweeps(here, methods=_names(table), title=title)
        yield _picture(page, f"{page.stem}-{table.task}-rates-{budget}", chart, title)
    yield "\nMean accuracy on the validation split, and in how many seeds the rate was chosen.\n"
    yield "| method | " + " | ".join(f"trial {n + 1}" for n in range(len(tried[0].sweep))) + " |"
    yield "| --- |" + " ---: |" * len(tried[0].sweep)
    for one in tried:
        yield f"| {one.label} | " + " | ".join(map(_trial, _points(one))) + " |"
    if ends := [one.label for one in tried if one.sweep[0].chosen or one.sweep[-1].chosen]:
        yield f"\nSome seed chose an end of the range of rates with {', '.join(ends)}:"
        yield "the range may be too narrow there."


def _points(method: ComparedMethod) -> Iterator[charts.SweepPoint]:
    for one in method.sweep:
        yield charts.SweepPoint(
            learning_rate=one.learning_rate,
            accuracy=one.validation_accuracy,
            seeds=one.seeds,
            chosen=one.chosen,
            diverged=one.diverged,
        )


def _trial(point: charts.SweepPoint) -> str:
    score = "diverged" if point.accuracy is None else _percent(point.accuracy)
    chosen = f" (chosen {point.chosen})" if point.chosen else ""
    return f"{point.learning_rate:.2g}: {score}{chosen}"


def _forgetting(table: TableComparison) -> Iterator[str]:
    rows = [(one.label, change) for one in table.forgetting for change in one.changes]
    if not rows:
        return
    yield "\n<details><summary>What happens to the tasks of the base</summary>\n"
    yield "| method | task of the base | before | after | change |"
    yield "| --- | --- | ---: | ---: | ---: |"
    for label, change in rows:
        knob = f" {change.task['k']}" if "k" in change.task else ""
        yield (
            f"| {label} | {change.task.get('name')}{knob} | {_percent(change.before.mean)} | "
            f"{_percent(change.after.mean)} | {100 * change.mean:+.1f} |"
        )
    yield "\n</details>"


def _left_out(table: TableComparison) -> Iterator[str]:
    if table.missing:
        yield "\n### Left out\n"
        yield from (f"- {one.text}" for one in table.missing)


def _effort(runs: Sequence[Run], plan: StudyPreview | None) -> Iterator[str]:
    """How long every job took, beside what the plan said of it."""
    planned = {} if plan is None else {one.spec_digest: one.estimate for one in plan.jobs}
    yield "\n## What it took\n"
    if plan is not None:
        told = sum(run.seconds for run in runs if not run.reused)
        yield f"The plan said {plan.seconds / 60:.1f} minutes beforehand; the jobs, one after the"
        yield f"other, took {told / 60:.1f}: a ratio of {plan.seconds / told:.2f}.\n"
    yield "| job | trained | planned | took | of it training | memory |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for run in runs:
        budget, usage = run.job.budget, run.attempt.usage
        estimate = planned.get(run.job.spec_digest or "")
        yield " | ".join(
            (
                f"| {run.job.method or run.job.base_model or run.job.name} on {run.job.task}",
                f"{budget.trainable_parameters:,}" if budget else "",
                f"{estimate.seconds:.0f} s" if estimate else "",
                f"{run.seconds:.0f} s{', before' if run.reused else ''}",
                f"{usage.training_seconds:.0f} s" if usage else "",
                f"{usage.peak_memory_bytes / 2**20:.0f} MiB |" if usage else "|",
            )
        )


def _names(table: TableComparison) -> list[str]:
    return list(dict.fromkeys(one.method for one in table.methods))


def _picture(page: Path, name: str, chart: charts.Chart, words: str) -> str:
    """Draw beside the page; what Markdown shows it by."""
    (page.parent / f"{name}.svg").write_text(charts.svg(chart) + "\n")
    return f"![{words}]({name}.svg)"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)
