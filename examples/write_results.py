"""Write a study's results into a page.

Usage: python examples/write_results.py STUDY PAGE [PLAN]. Replaces the text between the two marks
in PAGE and writes the plots next to it. Everything comes from the server, so no number is copied by
hand. The page has what a reader needs to judge the study; `adaptlab studies bundle STUDY` has every
verdict in full, every seed and every item. PLAN is the output of `adaptlab studies create FILE
--validate-only -o json` from before the study, to compare the plan with the run.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from uuid import UUID

from adaptlab import charts
from adaptlab.comparisons.comparison import Comparison, ComparisonCell
from adaptlab.comparisons.diagnosis import LABEL
from adaptlab.comparisons.scores import ScoreChange
from adaptlab.comparisons.table_comparison import ComparedMethod, TableComparison
from adaptlab.comparisons.verdict import Verdict
from adaptlab.figures import points
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
    "not_known": "order not known",
}


@dataclass(frozen=True)
class Run:
    """A job with its latest attempt and the attention of its first layer.

    It is `reused` if it existed before the study.
    """

    job: JobView
    attempt: AttemptView
    heads: tuple[AttentionSummary, ...]
    reused: bool

    @property
    def begin(self) -> datetime:
        """The time of the claim."""
        assert self.attempt.started_at is not None
        return self.attempt.started_at

    @property
    def end(self) -> datetime:
        """The time at which the attempt ended."""
        assert self.attempt.ended_at is not None
        return self.attempt.ended_at

    @property
    def seconds(self) -> float:
        """The duration from the claim to the end."""
        return (self.end - self.begin).total_seconds()


def main(study: str, page: Path, plan: Path | None) -> None:
    """Fetch the results, draw the plots and write the page."""
    with Client() as client:
        comparison = client.comparisons.study(study)
        ended = [job for job in client.studies.jobs(study) if job.succeeded]
        reused = _reused(client.studies.get(study))
        runs = [_run_of(client, job, reused=job.id in reused) for job in ended]
    preview = None if plan is None else StudyPreview.model_validate_json(plan.read_text())
    runs.sort(key=lambda run: run.begin)
    results = [*_run(comparison, runs), *_tables(comparison, runs, page)]
    lines = [*results, *_effort(runs, preview)]
    before, rest = page.read_text().split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(before + BEGIN + "\n\n" + "\n".join(lines).strip() + "\n\n" + END + after)


def _reused(study: StudyView) -> set[UUID]:
    """Return the jobs of a study that existed before it."""
    bases = [base.job for base in study.base_models]
    return {job.id for job in (*bases, *(j for c in study.cells for j in c.jobs)) if job.reused}


def _run_of(client: Client, job: JobView, *, reused: bool) -> Run:
    maps = client.jobs.attention(job.id, layer=0, source="adapted") if job.method else ()
    heads = tuple(head for attention_map in maps for head in attention_map.summaries)
    return Run(job, client.jobs.attempts(job.id)[-1], heads, reused)


def _run(comparison: StudyComparison, runs: Sequence[Run]) -> Iterator[str]:
    """Yield the time, the machine and the settings of the study."""
    machines = {_machine(run): None for run in runs}
    new = [run for run in runs if not run.reused] or runs
    wall = (max(run.end for run in new) - min(run.begin for run in new)).total_seconds()
    yield f"Study `{comparison.study.name}`, {comparison.study.state}: {len(new)} jobs"
    yield f"on {runs[0].begin:%-d %B %Y}, {wall / 60:.1f} minutes from the first claim to the last"
    yield f"result. {'; '.join(machines)}."
    yield from _settings(comparison)
    for warning in comparison.warnings:
        yield f"\n**Warning** ({warning.task}): {warning.text}"


def _machine(run: Run) -> str:
    facts = {} if run.attempt.environment is None else run.attempt.environment
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items() if value)


def _settings(comparison: StudyComparison) -> Iterator[str]:
    """Yield the settings that hold for every method."""
    methods = [m for table in comparison.tables for m in table.methods]
    rows = [m for m in methods if m.trials > 1] or [m for m in methods if m.backward_passes]
    seeds = sorted({seed for row in rows for seed in row.seeds})
    settings = {
        "Seeds": ", ".join(map(str, seeds)),
        "steps": ", ".join(sorted({f"{row.steps:,}" for row in rows})),
        "batch": ", ".join(sorted({str(row.batch_size) for row in rows})),
        "trials per seed": ", ".join(sorted({str(row.trials) for row in rows})),
    }
    margin = _percent(comparison.margin)
    yield "; ".join(f"{name} {value}" for name, value in settings.items()) + "."
    yield f"Intervals are at {100 * comparison.level:.0f} %; a difference below {margin} of the"
    yield "items counts as none. Differences are in points, p-values corrected for all pairs of a"
    yield "task. Each verdict in full, with seeds and items: `adaptlab studies bundle` and"
    yield "`adaptlab compare --all-pairs`."


def _tables(study: StudyComparison, runs: Sequence[Run], page: Path) -> Iterator[str]:
    for table in study.tables:
        yield f"\n## {table.task} on {table.base_model}"
        if table.comparison is None:
            yield "\nNothing is scored yet."
            continue
        comparison = Comparison.model_validate(table.comparison.model_dump(mode="json"))
        for cell in table.comparison.cells:
            yield from _cell(cell, comparison)
        yield from _taken(table)
        yield from _carried(table)
        yield from _curves(table, comparison, page)
        yield from _diagnoses(table)
        yield from _attention(table, runs)
        yield from _sweeps(table, page)
        yield from _forgetting(table)
        yield from _left_out(table)


def _cell(cell: ComparisonCell, comparison: Comparison) -> Iterator[str]:
    unit = " context tokens" if comparison.axis == "context_tokens" else ""
    title = "Without a budget" if cell.budget is None else f"Budget {cell.budget:,}{unit}"
    yield f"\n### {title}\n"
    yield f"{cell.sentence}\n"
    yield "| method | trained | score | interval | possible ranks | could be best | failing seeds |"
    yield "| --- | ---: | ---: | ---: | ---: | --- | ---: |"
    for row in cell.rows:
        low, high = row.rank.low, row.rank.high
        ranks = str(low) if low == high else f"{low} to {high}"
        yield (
            f"| {row.method} | {row.parameters or 0:,} | {_percent(row.score.mean)} | "
            f"{_percent(row.score.low)} to {_percent(row.score.high)} | {ranks} | "
            f"{'yes' if row.could_be_best else ''} | {row.failing.failing} of {row.failing.seeds} |"
        )
    yield from _verdicts(cell)


def _verdicts(cell: ComparisonCell) -> Iterator[str]:
    """Yield the verdicts on all pairs as a table, counted in its heading."""
    counts = dict.fromkeys(FINDINGS, 0)
    for verdict in cell.verdicts:
        counts[verdict.finding] += 1
    summary = ", ".join(f"{count} {FINDINGS[name]}" for name, count in counts.items() if count)
    yield f"\n<details><summary>{len(cell.verdicts)} verdicts: {summary}</summary>\n"
    yield "| pair | finding | difference | p |"
    yield "| --- | --- | ---: | ---: |"
    yield from map(_verdict, cell.verdicts)
    yield "\n</details>"


def _verdict(verdict: Verdict) -> str:
    pair, p = verdict.pair, verdict.corrected_p
    return (
        f"| {pair.first}, {pair.second} | {FINDINGS[verdict.finding]} | "
        f"{_difference(pair.difference, pair.low, pair.high)} | "
        f"{'' if p is None else f'{p:.2g}'} |"
    )


def _difference(difference: float, low: float, high: float) -> str:
    return f"{points(difference)} ({points(low)} to {points(high)})"


def _taken(table: TableComparison) -> Iterator[str]:
    """Yield what methods take and cost, if they are matched by context tokens."""
    if table.comparison is None or table.comparison.axis != "context_tokens":
        return
    yield "\n### What the methods take\n"
    yield "Passes over batches of training items, of all seeds and trials together.\n"
    yield "| method | context tokens | trained | stored bits | forward passes | backward passes |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for method in table.methods:
        bits = "" if method.stored_bits is None else f"{method.stored_bits:,}"
        yield (
            f"| {method.label} | {method.context_tokens:,} | {method.parameters:,} | {bits} | "
            f"{method.forward_passes:,} | {method.backward_passes:,} |"
        )


def _carried(table: TableComparison) -> Iterator[str]:
    """Yield the scores of what was found on other base models."""
    if not table.carried:
        return
    yield "\n### On other base models\n"
    yield f"Guessing scores {_percent(table.carried[0].chance)}.\n"
    yield "| method | base model | alone | with what was found | change |"
    yield "| --- | --- | ---: | ---: | ---: |"
    for one in table.carried:
        change = one.change
        yield (
            f"| {one.label} | {one.base_model} | {_percent(change.before.mean)} | "
            f"{_percent(change.after.mean)} ({_percent(change.after.low)} to "
            f"{_percent(change.after.high)}) | "
            f"{_difference(change.mean, change.low, change.high)} |"
        )


def _curves(table: TableComparison, comparison: Comparison, page: Path) -> Iterator[str]:
    if len(comparison.cells) > 1 or comparison.cheapest is not None:
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
    for crossing in comparison.crossings:
        limits = (crossing.low, crossing.high)
        ends = " to ".join(f"{end:,.0f}" if end else "no limit" for end in limits)
        sure = "" if crossing.told else "; may be chance"
        yield (
            f"- {crossing.higher_after} overtakes {crossing.higher_before} at about "
            f"{crossing.budget:,.0f} trained parameters ({ends}{sure})"
        )
    yield from _cheapest(comparison)


def _cheapest(comparison: Comparison) -> Iterator[str]:
    cheapest = comparison.cheapest
    if cheapest is None:
        return
    near = f"within {_percent(cheapest.margin)} of {cheapest.reference}"
    for word, row in (("is shown to be", cheapest.shown), ("may be", cheapest.possible)):
        name = "none" if row is None else f"{row.method} with {row.parameters:,} parameters"
        yield f"- Cheapest that {word} {near}: {name}."


def _diagnoses(table: TableComparison) -> Iterator[str]:
    yield "\n### Diagnosis\n"
    if not table.diagnoses:
        yield "Nothing to diagnose: every method that trains could be the best."
    else:
        yield f"{LABEL}\n"
    for method in table.diagnoses:
        said = method.diagnosis
        yield f"- **{method.label}: {said.cause}.** {said.text} {' '.join(said.reasons)}"


def _attention(table: TableComparison, runs: Sequence[Run]) -> Iterator[str]:
    by_job = {run.job.id: run.heads for run in runs}
    rows = [
        (m.label, [head for job in m.jobs for head in by_job.get(job, ())]) for m in table.methods
    ]
    if not any(heads for _, heads in rows):
        return
    yield "\n### Attention of the first layer\n"
    yield "Over the heads and seeds. Moved: the largest change of an attention weight relative to"
    yield "the other content, from the base; learned: the mean attention on learned positions.\n"
    yield "| method | moved | learned |"
    yield "| --- | ---: | ---: |"
    for label, heads in rows:
        moved = max((head.relative_deviation or 0.0 for head in heads), default=0.0)
        masses = [head.learned_mass for head in heads if head.learned_mass is not None]
        learned = _percent(sum(masses) / len(masses)) if masses else ""
        yield f"| {label} | {moved:.2g} | {learned} |"


def _sweeps(table: TableComparison, page: Path) -> Iterator[str]:
    swept = [m for m in table.methods if m.trials > 1 and m.sweep and m.seed_scores]
    if not any(trial.validation_accuracy is not None for m in swept for trial in m.sweep):
        return
    yield "\n### Learning rates\n"
    for budget in sorted({m.budget for m in swept if m.budget is not None}):
        sweeps = {m.method: [*_points(m)] for m in swept if m.budget in (None, budget)}
        title = f"{table.task} at {budget:,}: learning rates tried"
        chart = charts.rate_sweeps(sweeps, methods=_names(table), title=title)
        yield _picture(page, f"{page.stem}-{table.task}-rates-{budget}", chart, title)
    yield "\n<details><summary>Every trial</summary>\n"
    yield "Mean accuracy on the validation split, and in how many seeds the rate was chosen.\n"
    yield "| method | " + " | ".join(f"trial {n + 1}" for n in range(len(swept[0].sweep))) + " |"
    yield "| --- |" + " ---: |" * len(swept[0].sweep)
    for method in swept:
        yield f"| {method.label} | " + " | ".join(map(_trial, _points(method))) + " |"
    yield "\n</details>"
    if ends := [m.label for m in swept if m.sweep[0].chosen or m.sweep[-1].chosen]:
        yield f"\nSome seed chose an end of the range of rates with {', '.join(ends)}:"
        yield "the range may be too narrow there."


def _points(method: ComparedMethod) -> Iterator[charts.SweepPoint]:
    for trial in method.sweep:
        yield charts.SweepPoint(
            learning_rate=trial.learning_rate,
            accuracy=trial.validation_accuracy,
            seeds=trial.seeds,
            chosen=trial.chosen,
            diverged=trial.diverged,
        )


def _trial(point: charts.SweepPoint) -> str:
    score = "diverged" if point.accuracy is None else _percent(point.accuracy)
    chosen = f" (chosen {point.chosen})" if point.chosen else ""
    return f"{point.learning_rate:.2g}: {score}{chosen}"


def _forgetting(table: TableComparison) -> Iterator[str]:
    """Yield the accuracy on every task of the base, before and after."""
    rows = {
        method.label: {_base_task(change): change for change in method.changes}
        for method in table.forgetting
        if method.changes
    }
    if not rows:
        return
    tasks = list(dict.fromkeys(task for changes in rows.values() for task in changes))
    yield "\n<details><summary>What happens to the tasks of the base, before and after</summary>\n"
    yield f"| method | {' | '.join(tasks)} |"
    yield f"| --- |{' ---: |' * len(tasks)}"
    for label, changes in rows.items():
        cells = (_change(changes[task]) if task in changes else "" for task in tasks)
        yield f"| {label} | {' | '.join(cells)} |"
    yield "\n</details>"


def _base_task(change: ScoreChange) -> str:
    knob = f" {change.task['k']}" if "k" in change.task else ""
    return f"{change.task.get('name')}{knob}"


def _change(change: ScoreChange) -> str:
    return f"{_percent(change.before.mean)} to {_percent(change.after.mean)}"


def _left_out(table: TableComparison) -> Iterator[str]:
    if table.missing:
        yield "\n### Left out\n"
        yield from (f"- {missing.text}" for missing in table.missing)


def _effort(runs: Sequence[Run], plan: StudyPreview | None) -> Iterator[str]:
    """Yield the duration of every job, next to its estimate in the plan."""
    planned = {} if plan is None else {job.spec_digest: job.estimate for job in plan.jobs}
    yield "\n## What it took\n"
    if plan is not None:
        seconds = sum(run.seconds for run in runs if not run.reused)
        yield f"The plan estimated {plan.seconds / 60:.1f} minutes; the jobs, one after the other,"
        yield f"took {seconds / 60:.1f}: a ratio of {plan.seconds / seconds:.2f}.\n"
    usages = [run.attempt.usage for run in runs if run.attempt.usage]
    if usages:
        most = max(usage.peak_memory_bytes for usage in usages)
        yield f"No job used more than {most / 2**20:.0f} MiB.\n"
    yield "<details><summary>Job by job</summary>\n"
    yield "| job | trained | planned | took |"
    yield "| --- | ---: | ---: | ---: |"
    for run in runs:
        budget, estimate = run.job.budget, planned.get(run.job.spec_digest or "")
        yield (
            f"| {run.job.method or run.job.base_model or run.job.name}"
            f"{f' on {run.job.task}' if run.job.task else ''} | "
            f"{f'{budget.trainable_parameters:,}' if budget else ''} | "
            f"{f'{estimate.seconds:.0f} s' if estimate else ''} | "
            f"{run.seconds:.0f} s{', before' if run.reused else ''} |"
        )
    yield "\n</details>"


def _names(table: TableComparison) -> list[str]:
    return list(dict.fromkeys(method.method for method in table.methods))


def _picture(page: Path, name: str, chart: charts.Chart, words: str) -> str:
    """Draw a chart next to the page; return its Markdown."""
    file = f"{re.sub(r'[^a-z0-9_-]+', '-', name.lower())}.svg"
    (page.parent / file).write_text(charts.svg(chart) + "\n")
    return f"![{words}]({file})"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)
