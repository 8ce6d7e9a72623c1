"""The text of a decision: findings, warnings, question, verdicts, limits.

A change of the text needs another `contents.FORMAT`, because checks compare it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from adaptlab.bundle.contents import JOBS, FrozenStudy, Sources, StudyClaim
from adaptlab.comparisons.comparison import Comparison, ComparisonCell, ComparisonRow
from adaptlab.comparisons.frontier import frontier_lines
from adaptlab.comparisons.row_names import first_in_sentence, method_in_sentence, row_title
from adaptlab.comparisons.scores import task_labels
from adaptlab.comparisons.table_comparison import (
    ComparedMethod,
    MethodCarried,
    MethodForgetting,
    MethodRetention,
    TableComparison,
)
from adaptlab.comparisons.verdict_sentence import ITEMS_ONLY
from adaptlab.figures import percent
from adaptlab.plugins.sizing import LIMITED, UNITS
from adaptlab.statistics import Interval
from adaptlab.statistics.curves import CurveDifference
from adaptlab.studies.study import stored_axis

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|!~&$])")
_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2060-\u2069]+")
Lines = Iterable[str]


def decision_text(
    study: FrozenStudy, claim: StudyClaim, sources: Sources, digests: Mapping[str, str]
) -> str:
    """Return the decision as a complete document.

    `digests` are the digests of the members behind it, which the document names.
    """
    parts: tuple[Lines, ...] = (
        [f"# Decision of the study {plain(study.name)}"],
        _findings(claim),
        _state(study, claim),
        _warnings(claim),
        _question(study, claim),
        *(_table(table) for table in claim.tables),
        _evidence_limits(claim),
        _sources(study, sources, digests),
    )
    return "\n\n".join(block for part in parts for block in part) + "\n"


def _name(label: str) -> str:
    return plain(method_in_sentence(label))


def _title(label: str) -> str:
    return plain(row_title(label))


def plain(text: object) -> str:
    """Return a text escaped for Markdown, on one line."""
    return _MARKUP.sub(r"\\\1", _BREAKS.sub(" ", str(text)))


def _findings(claim: StudyClaim) -> Iterator[str]:
    """Yield the sentence of every table, with its place if there are several."""
    for table in claim.tables:
        found = " ".join(report.headline for report in table.reports) or "No scores."
        place = f"{plain(table.task)} on {plain(table.base_model)}: "
        yield f"{place if len(claim.tables) > 1 else ''}**{plain(found)}**"


def _state(study: FrozenStudy, claim: StudyClaim) -> Iterator[str]:
    if claim.partial:
        yield (
            f"**This decision is partial.** The study is {study.state}: jobs failed or were "
            "cancelled, and their scores are missing below."
        )


def _warnings(claim: StudyClaim) -> Iterator[str]:
    yield "## Read these warnings first"
    if not claim.warnings:
        yield "None."
        return
    yield _list(
        f"**{w.kind}** ({plain(w.task)} on {plain(w.base_model)}): {plain(w.text)}"
        for w in claim.warnings
    )


def _question(study: FrozenStudy, claim: StudyClaim) -> Iterator[str]:
    yield "## Question"
    limited = LIMITED[stored_axis(study.spec)]
    yield (
        f"Which of these methods works on these tasks at these budgets of {limited}, when each is "
        "tuned with the same effort?"
    )
    rows = [row for table in claim.tables for row in table.methods]
    facts = {
        "Base models": (table.base_model for table in claim.tables),
        "Tasks": (table.task for table in claim.tables),
        "Methods": (row.method for row in rows),
        "Budgets": (f"{row.budget:,}" for row in rows if row.budget is not None),
        "Seeds": (str(len(row.seeds)) for row in rows),
        "Trials a seed": (str(row.trials) for row in rows if row.parameters),
        "Steps": (f"{row.steps:,}" for row in rows if row.parameters),
        "Skipped": (row.text for table in claim.tables for row in table.missing if not row.job),
    }
    lines = [
        f"{name}: {', '.join(plain(value) for value in dict.fromkeys(values))}"
        for name, values in facts.items()
    ]
    yield _list(line for line in lines if not line.endswith(": "))
    yield (
        f"Intervals have the confidence level {claim.level:g}. Methods count as alike within "
        f"{_points(claim.margin)} of accuracy. The whole spec is in `specs/study.json`."
    )


def _table(table: TableComparison) -> Iterator[str]:
    yield f"## {plain(table.task)} on {plain(table.base_model)}"
    comparison = table.comparison
    if comparison is None:
        yield "No scores."
    else:
        for cell in comparison.cells:
            yield from _cell(comparison, cell, table.methods)
            yield from _verdicts(comparison, cell)
        yield from _over_budgets(comparison)
    yield from _section("Diagnosis", (plain(row.diagnosis.text) for row in table.diagnoses))
    yield from _section("Forgetting", _forgetting(table.forgetting))
    yield from _section("Retention", _retention(table.retention))
    for found in table.frontiers:
        at = "" if found.budget is None else f" at {found.budget:,}"
        yield from _section(f"Gain against retention{at}", map(plain, frontier_lines(found)))
    scores = ((_title(row.label), one) for row in table.groups for one in row.groups)
    yield from _section(
        "Groups of standard tasks",
        (f"{name} on {plain(one.title)}: {one.figure}." for name, one in scores),
    )
    yield from _section("On other base models", map(_carried, table.carried))
    yield from _section("Missing", (plain(row.text) for row in table.missing))


def _cell(
    comparison: Comparison, cell: ComparisonCell, methods: Sequence[ComparedMethod]
) -> Iterator[str]:
    units = UNITS[comparison.axis]
    yield f"### {'Without a budget' if cell.budget is None else f'At {cell.budget:,} {units}'}"
    references = {row.label for row in methods if row.role == "reference"}
    if cell.sentence != comparison.sentence:  # which is at the top of the document
        yield f"**{plain(cell.sentence)}**"
    head = "| method | trained parameters | score | interval | ranks | seeds | trials |"
    lines = [_row(row, is_reference=row.label in references) for row in cell.rows]
    yield "\n".join([head, "| --- | ---: | ---: | --- | --- | ---: | ---: |", *lines])
    if alike := [_name(row.method) for row in cell.rows if row.score.over_items_only]:
        yield ITEMS_ONLY.format(", ".join(alike))


def _row(row: ComparisonRow, *, is_reference: bool) -> str:
    name = f"{_title(row.method)}{' (reference)' if is_reference else ''}"
    score = f"{percent(row.score.mean)} | {_limits(row.score)}"
    ranks = _ranks(row.rank.low, row.rank.high)
    effort = f"{row.score.seeds} | {_number(row.trials)}"
    return f"| {name} | {_number(row.parameters)} | {score} | {ranks} | {effort} |"


def _verdicts(comparison: Comparison, cell: ComparisonCell) -> Iterator[str]:
    if comparison.voided:
        return  # the sentence at the top states it
    yield from _section("Pairs", (plain(verdict.text) for verdict in cell.verdicts))


def _over_budgets(comparison: Comparison) -> Iterator[str]:
    if comparison.voided:
        return
    lines = [
        f"{plain(first_in_sentence(crossing.higher_after))} overtakes "
        f"{_name(crossing.higher_before)} at a budget of "
        f"about {crossing.budget:,.0f} (between {_end(crossing.low)} and {_end(crossing.high)}"
        f"{'' if crossing.told else '; not told from chance'})."
        for crossing in comparison.crossings
    ]
    if (cheapest := comparison.cheapest) is not None:
        near = f"within {_points(cheapest.margin)} of {_name(cheapest.reference)}"
        lines += [
            f"Cheapest that is shown to be {near}: {_candidate(cheapest.shown)}.",
            f"Cheapest that may be {near}: {_candidate(cheapest.possible)}.",
        ]
    yield from _section("Over budgets", lines)


def _forgetting(rows: Sequence[MethodForgetting]) -> Iterator[str]:
    changes = [(row.label, change) for row in rows for change in row.changes]
    labels = task_labels([change.task for _, change in changes])
    for (label, change), task in zip(changes, labels, strict=True):
        yield (
            f"{_title(label)} on {plain(task)}, a task of the base model: "
            f"{percent(change.before.mean)} before, {percent(change.after.mean)} after."
        )


def _retention(rows: Sequence[MethodRetention]) -> Iterator[str]:
    every = [(row.label, one) for row in rows for one in row.tasks]
    labels = task_labels([one.task for _, one in every])
    for (label, one), task in zip(every, labels, strict=True):
        reason = "" if one.reason is None else f". {one.reason}"
        yield f"{_title(label)} on {plain(task)}: {one.figure}{plain(reason)}"
    drifted = [(row.label, one) for row in rows for one in row.drift]
    names = task_labels([one.task for _, one in drifted])
    for (label, one), text in zip(drifted, names, strict=True):
        yield (
            f"{_title(label)} on {plain(text)}: KL {one.kl_figure} nats per token from the base, "
            f"{one.bits_figure} bits per byte."
        )


def _carried(one: MethodCarried) -> str:
    change = one.change
    return (
        f"{_title(one.label)} on {plain(one.base_model)}: {percent(change.after.mean)} with what "
        f"was found, {percent(change.before.mean)} without, {percent(one.chance)} by guessing."
    )


def _evidence_limits(claim: StudyClaim) -> Iterator[str]:
    yield "## Limits of the evidence"
    limits = [text for table in claim.tables for text in _table_limits(table)]
    if claim.partial:
        limits.append("Scores are missing permanently, so the best method may be absent.")
    limits.append(
        "The answer was chosen by scores on the test items. Before you publish a number, "
        "re-run the configuration with new seeds."
    )
    yield _list(limits)


def _table_limits(table: TableComparison) -> Iterator[str]:
    comparison = table.comparison
    at = f"{plain(table.task)} on {plain(table.base_model)}"
    if comparison is None:
        yield f"{at}: no scores."
        return
    findings = [verdict.finding for cell in comparison.cells for verdict in cell.verdicts]
    undecided = sum(finding == "not_known" for finding in findings)
    alike = sum(finding == "cannot_be_told_apart" for finding in findings)
    if undecided or alike:
        yield (
            f"{at}: of {len(findings)} pairs, the order of {undecided} is not known and {alike} "
            "cannot be told apart."
        )
    yield (
        f"{at}: intervals cannot include failures that no seed showed. Up to "
        f"{percent(comparison.unseen_failure_rate, 0)} of seeds may fail where all "
        f"{comparison.seeds} that were run succeed."
    )
    for row in table.methods:
        yield from _rates(at, row)


def _rates(at: str, row: ComparedMethod) -> Iterator[str]:
    """Yield the limits of the learning rates that were tried."""
    rates = sorted({trial.learning_rate for trial in row.sweep})
    if not row.parameters or not rates:
        return
    if len(rates) == 1:
        yield f"{at}: {_name(row.label)} was trained with only one learning rate, {rates[0]:g}."
        return
    ends = [t for t in row.sweep if t.learning_rate in (rates[0], rates[-1])]
    if 2 * sum(trial.chosen for trial in ends) > sum(trial.chosen for trial in row.sweep):
        yield (
            f"{at}: most seeds of {_name(row.label)} chose a learning rate at an end of the "
            f"range {rates[0]:g} to {rates[-1]:g}. There may be a better one outside it."
        )


def _sources(study: FrozenStudy, sources: Sources, digests: Mapping[str, str]) -> Iterator[str]:
    yield "## Provenance"
    bases = [
        f"{plain(name)} (`{digest}`)"
        for name, digests in sources.base_models.items()
        for digest in digests
    ]
    lines = [
        (
            f"Study `{study.id}` of {plain(study.owner)} in the project {plain(study.project)}, "
            f"created {study.created_at}; {sources.jobs} jobs, listed in `specs/jobs.jsonl`."
        ),
        f"Code: {', '.join(f'`{code}`' for code in sources.code_versions) or 'not known'}.",
        f"Weights of the base models: {', '.join(bases) or 'not known'}.",
        *(f"Content of `{name}`: `{digest}`." for name, digest in digests.items()),
        f"Content of `{JOBS}`: `{sources.content}`.",
    ]
    yield _list(lines)


def _section(title: str, lines: Lines) -> Iterator[str]:
    if listed := [*lines]:
        yield f"**{title}**"
        yield _list(listed)


def _list(lines: Lines) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _candidate(candidate: CurveDifference | None) -> str:
    if candidate is None:
        return "none"
    low, high = 100 * candidate.low, 100 * candidate.high
    return (
        f"{_name(candidate.method)} with {candidate.parameters:,} parameters (difference "
        f"{100 * candidate.difference:+.1f} points, {low:+.1f} to {high:+.1f})"
    )


def _points(share: float) -> str:
    points = f"{100 * share:g}"
    return f"{points} point{'' if points == '1' else 's'}"


def _limits(score: Interval) -> str:
    return f"{100 * score.low:.1f} to {100 * score.high:.1f} %"


def _ranks(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} to {high}"


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _end(budget: float | None) -> str:
    return "no end" if budget is None else f"{budget:,.0f}"
