"""Weak points of the evidence for a recommendation."""

from collections import Counter
from collections.abc import Iterator, Sequence

from adaptlab.comparisons.row_names import first_in_sentence, method_in_sentence
from adaptlab_answers.recommendations import ThinEvidence
from adaptlab_services.comparisons.comparison_rows import ComparedRow, compared_method
from adaptlab_services.recommendations.recommendation_evidence import (
    RecommendationEvidence,
    ResolvedQuestion,
    name_of,
)


def doubts(question: ResolvedQuestion, evidence: RecommendationEvidence) -> Iterator[ThinEvidence]:
    """Yield all weak points, the comparison's own warnings first."""
    for warning in evidence.comparison.warnings:
        yield ThinEvidence(kind=warning.kind, text=warning.text, methods=warning.methods)
    yield from _chosen_by_score(evidence)
    shown = [evidence.recommended, *([evidence.runner_up] if evidence.runner_up else [])]
    for row in shown:
        yield from _tuning(row)
        yield from _other_budget(row, question, evidence)
    yield from _not_run(question, evidence)
    yield from _not_compared(question, evidence)


def unmeasured(question: ResolvedQuestion, evidence: RecommendationEvidence) -> tuple[str, ...]:
    """Return the methods that fit the budget and have no comparable run."""
    measured = {name_of(row) for row in (*evidence.rows, *evidence.too_slow)}
    return tuple(name for name in question.fitting() if name not in measured)


def larger_at_budget(
    row: ComparedRow, question: ResolvedQuestion, evidence: RecommendationEvidence
) -> int | None:
    """Return the row's method's size at the requested budget, if not yet run.

    None if a run of that size or larger exists.
    """
    tried = max(other.parameters for other in evidence.rows if name_of(other) == name_of(row))
    sizes = (
        solution.budget.trainable_parameters
        for solution in question.solutions
        if solution.name == name_of(row) and solution.budget is not None
    )
    size = max(sizes, default=0)
    return size if size > tried else None


def fewer_trials(row: ComparedRow, evidence: RecommendationEvidence) -> int | None:
    """Return the most trials of any row, if this one had fewer and trains."""
    most = max(other.trials for other in evidence.rows if other.parameters or other is row)
    return most if row.parameters and row.trials < most else None


def _chosen_by_score(evidence: RecommendationEvidence) -> Iterator[ThinEvidence]:
    best = evidence.comparison.cells[0].best
    if len(best) > 1:
        text = (
            f"{len(best)} configurations may be the best; the one with the highest mean on the "
            "test items was chosen. That mean is biased upwards, and its interval ignores this."
        )
        yield ThinEvidence(kind="chosen_by_score", text=text, methods=best)


def _tuning(row: ComparedRow) -> Iterator[ThinEvidence]:
    """Yield a single learning rate, or a best one at the end of its range."""
    if not row.parameters:
        return
    sweep = compared_method(row).sweep
    rates = sorted({trial.learning_rate for trial in sweep})
    if len(rates) == 1:
        text = (
            f"{first_in_sentence(row.label)} was trained with one learning rate, {rates[0]:g}; "
            "another may be better."
        )
        yield ThinEvidence(kind="one_learning_rate", text=text, methods=(row.label,))
        return
    chosen: Counter[float] = Counter()
    for trial in sweep:
        chosen[trial.learning_rate] += trial.chosen
    rate, seeds = chosen.most_common(1)[0]
    if rate in (rates[0], rates[-1]) and seeds:
        text = (
            f"Most seeds of {method_in_sentence(row.label)} chose the learning rate {rate:g}, at "
            f"an end of the range {rates[0]:g} to {rates[-1]:g}; a rate beyond it may score higher."
        )
        yield ThinEvidence(kind="rate_at_the_end", text=text, methods=(row.label,))


def _other_budget(
    row: ComparedRow, question: ResolvedQuestion, evidence: RecommendationEvidence
) -> Iterator[ThinEvidence]:
    size = larger_at_budget(row, question, evidence)
    if size is not None:
        text = (
            f"{first_in_sentence(row.label)} trains {row.parameters:,} parameters; within "
            f"{question.limit:,} the method could train {size:,}, which has not been run."
        )
        yield ThinEvidence(kind="other_budget", text=text, methods=(row.label,))


def _not_run(
    question: ResolvedQuestion, evidence: RecommendationEvidence
) -> Iterator[ThinEvidence]:
    if names := unmeasured(question, evidence):
        text = f"No comparable run of {_listed(names)}; the budget allows it."
        yield ThinEvidence(kind="no_run", text=text, methods=names)


def _not_compared(
    question: ResolvedQuestion, evidence: RecommendationEvidence
) -> Iterator[ThinEvidence]:
    """Yield the runs that were excluded, with the reason."""
    yield from too_slow(question, evidence.too_slow)
    if evidence.other_settings:
        names = {str((job.spec.method or {})["name"]) for job in evidence.other_settings}
        text = (
            f"{len(evidence.other_settings)} more jobs ({_listed(sorted(names))}) were excluded: "
            "they differ in a setting that makes their scores incomparable."
        )
        yield ThinEvidence(kind="other_settings", text=text, methods=tuple(sorted(names)))
    if evidence.older_code is not None:
        text = (
            f"The runs used code version {evidence.older_code}, not this server's; new runs "
            "cannot be compared with them."
        )
        yield ThinEvidence(kind="older_code", text=text)
    if evidence.left_out:
        text = f"{evidence.left_out} smaller configurations were excluded, to limit the comparison."
        yield ThinEvidence(kind="left_out", text=text)


def too_slow(question: ResolvedQuestion, rows: Sequence[ComparedRow]) -> Iterator[ThinEvidence]:
    """Yield the rows that took longer than requested, if any."""
    if rows:
        labels = tuple(row.label for row in rows)
        text = f"Excluded, because a job took longer than {question.max_seconds:g} s: "
        yield ThinEvidence(kind="too_slow", text=f"{text}{_listed(labels)}.", methods=labels)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(method_in_sentence, names))
