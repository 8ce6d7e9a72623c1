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
from adaptlab.comparisons.comparison import Comparison
from adaptlab.comparisons.report import report_lines
from adaptlab.comparisons.scores import ScoreChange
from adaptlab.comparisons.table_comparison import ComparedMethod, TableComparison
from adaptlab.figures import points
from adaptlab_client import (
    AttemptView,
    Client,
    JobView,
    StudyComparison,
    StudyPreview,
    StudyView,
)

BEGIN = "<!-- measured -->"
END = "<!-- end of measured -->"


@dataclass(frozen=True)
class Run:
    """A job with its latest attempt, `reused` if it existed before the study."""

    job: JobView
    attempt: AttemptView
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
        runs = [Run(job, client.jobs.attempts(job.id)[-1], job.id in reused) for job in ended]
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


def _run(comparison: StudyComparison, runs: Sequence[Run]) -> Iterator[str]:
    """Yield the time, the machine and the settings of the study."""
    machines = {_machine(run): None for run in runs}
    new = [run for run in runs if not run.reused] or runs
    wall = (max(run.end for run in new) - min(run.begin for run in new)).total_seconds()
    yield f"Study `{comparison.study.name}`, {comparison.study.state}: {len(new)} jobs"
    yield f"on {runs[0].begin:%-d %B %Y}, {wall / 60:.1f} minutes from the first claim to the last"
    yield f"result. {'; '.join(machines)}."
    yield from _settings(comparison)


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
    yield "; ".join(f"{name} {value}" for name, value in settings.items()) + "."
    yield "Pairs, limits and diagnoses: `adaptlab compare --all-pairs`; every item:"
    yield "`adaptlab studies bundle`."


def _tables(study: StudyComparison, runs: Sequence[Run], page: Path) -> Iterator[str]:
    for table in study.tables:
        yield f"\n## {table.task} on {table.base_model}"
        if table.comparison is None:
            yield "\nNothing is scored yet."
            continue
        comparison = Comparison.model_validate(table.comparison.model_dump(mode="json"))
        for report in table.reports:
            yield from ("\n```", *report_lines(report), "```")
        yield from _taken(table)
        yield from _carried(table)
        yield from _curves(table, comparison, page)
        yield from _sweeps(table, page)
        yield from _forgetting(table)
        yield from _left_out(table)


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
    """Yield the time and memory that the jobs took, next to the plan."""
    new = [run.seconds for run in runs if not run.reused]
    usages = [run.attempt.usage for run in runs if run.attempt.usage]
    most = max((usage.peak_memory_bytes for usage in usages), default=0)
    yield f"\n{len(new)} jobs took {sum(new) / 60:.1f} minutes one after the other, at most"
    yield f"{max(new, default=0):.0f} s and {most / 2**20:.0f} MiB each."
    if plan is not None:
        ratio = plan.seconds / sum(new)
        yield f"The plan estimated {plan.seconds / 60:.1f} minutes: a ratio of {ratio:.2f}."


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
