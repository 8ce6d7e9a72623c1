"""Recommendations: the method for a task and budget that results support."""

from collections.abc import Iterator

from sqlalchemy.orm import Session

from adaptlab.comparisons.row_names import method_in_sentence
from adaptlab.comparisons.verdict import LEAST_SEEDS
from adaptlab.comparisons.verdict_sentence import FLOORS
from adaptlab.errors import InvalidSpec, Problem
from adaptlab.figures import percent
from adaptlab.plugins.registry import as_json
from adaptlab.plugins.sizing import PARAMETERS
from adaptlab.specs.choices import resolve_task
from adaptlab_answers.recommendations import (
    MeasuredMethod,
    ProposedJob,
    ProposedStudy,
    Recommendation,
    ThinEvidence,
)
from adaptlab_services.comparisons.comparison_rows import ComparedRow
from adaptlab_services.comparisons.comparison_runs import Units
from adaptlab_services.models import base_models, budgets, datasets
from adaptlab_services.models.budgets import BudgetQuestion
from adaptlab_services.recommendations.recommendation_doubts import doubts, too_slow
from adaptlab_services.recommendations.recommendation_evidence import (
    NoEvidence,
    RecommendationEvidence,
    ResolvedQuestion,
    evidence_of,
    name_of,
    read_runs,
)
from adaptlab_services.recommendations.recommendation_jobs import (
    candidates_of,
    first_study,
    proposed,
)
from adaptlab_services.recommendations.recommendation_views import RecommendationQuestion
from adaptlab_services.studies.studies import Rules


def recommend(units: Units, question: RecommendationQuestion, rules: Rules) -> Recommendation:
    """Return a recommendation from the results that the caller can see.

    Without results there is no score, and a study is proposed instead. `units` opens the units of
    work that read the results and check the proposals. None is open during the statistics, which
    can take seconds.

    Raises:
        InvalidSpec: the question is invalid.
    """
    with units() as session:
        resolved = _resolved(session, question)
        read = read_runs(session, resolved, include_shared=question.include_shared)
    evidence = evidence_of(resolved, read)
    if isinstance(evidence, NoEvidence):
        with units() as session:
            study = first_study(session, resolved, rules)
        thin = tuple(too_slow(resolved, evidence.too_slow))
        return _recommendation(resolved, None, thin, (), study)
    candidates = tuple(candidates_of(resolved, evidence))
    with units() as session:
        jobs, refused = proposed(session, resolved, candidates)
    thin = (*doubts(resolved, evidence), *refused)
    return _recommendation(resolved, evidence, thin, jobs, None)


def _resolved(session: Session, question: RecommendationQuestion) -> ResolvedQuestion:
    if question.budget.axis != PARAMETERS:
        detail = (
            "A recommendation is for a budget in trainable parameters. Give trainable_parameters "
            "or fraction_of_base."
        )
        raise InvalidSpec(Problem("/budget/context_tokens", "budget_of_other_axis", detail))
    task = resolve_task(question.task, "/task", datasets.known(session))
    base = base_models.facts(session, question.base_model)
    solved = budgets.answer(
        session,
        BudgetQuestion(
            base_model=question.base_model, budget=question.budget, methods=question.methods
        ),
    )
    if solved.requested is None:
        detail = "Give a number of trainable parameters, or fraction_of_base."
        raise InvalidSpec(Problem("/budget", "missing", detail))
    return ResolvedQuestion(
        base=base,
        choice=question.task,
        task=task,
        limit=solved.requested,
        max_seconds=question.max_seconds,
        methods=question.methods,
        solutions=solved.data,
    )


def _recommendation(
    question: ResolvedQuestion,
    evidence: RecommendationEvidence | None,
    thin: tuple[ThinEvidence, ...],
    jobs: tuple[ProposedJob, ...],
    study: ProposedStudy | None,
) -> Recommendation:
    first = runner_up = verdict = None
    if evidence is not None and evidence.works(evidence.recommended):
        first, runner_up = evidence.recommended, evidence.runner_up
        verdict = None if runner_up is None else evidence.verdict(first, runner_up)
    return Recommendation(
        text=_text(question, evidence),
        base_model=question.base.name,
        base_digest=question.base.digest,
        task=as_json(question.task),
        requested=question.limit,
        max_seconds=question.max_seconds,
        recommended=None if evidence is None or first is None else _measured(evidence, first),
        runner_up=None if evidence is None or runner_up is None else _measured(evidence, runner_up),
        verdict=verdict,
        chosen=None if evidence is None or first is None else evidence.chosen,
        thin_evidence=thin,
        measured=()
        if evidence is None
        else tuple(_measured(evidence, row) for row in evidence.rows),
        jobs=jobs,
        first_study=study,
    )


def _measured(evidence: RecommendationEvidence, row: ComparedRow) -> MeasuredMethod:
    (entry,) = (r for r in evidence.comparison.cells[0].rows if r.label == row.label)
    spec = row.jobs[0].spec
    return MeasuredMethod(
        label=row.label,
        method=spec.method or {},
        score=entry.score,
        rank=entry.rank,
        standing=entry.standing,
        could_be_best=entry.could_be_best,
        budget=spec.budget,
        seconds=evidence.seconds(row),
        seeds=tuple(sorted(evaluation.seed for evaluation in row.evaluations())),
        trials=row.trials,
        learning_rates=tuple(sorted(set(spec.training.learning_rates))) if row.parameters else (),
        jobs=tuple(job.id for job in row.jobs),
    )


def _text(question: ResolvedQuestion, evidence: RecommendationEvidence | None) -> str:
    return " ".join(_sentences(question, evidence))


def _sentences(
    question: ResolvedQuestion, evidence: RecommendationEvidence | None
) -> Iterator[str]:
    where = f"{question.task.name} on {question.base.name} within {question.limit:,} parameters"
    if evidence is None:
        in_time = "" if question.max_seconds is None else f" and {question.max_seconds:g} s per job"
        yield f"There are no comparable results for {where}{in_time}: run the first study."
        return
    row = evidence.recommended
    score = evidence.score(row)
    if not evidence.works(row):
        yield _nothing_works(where, evidence, row)
        return
    yield (
        f"For {where}: {method_in_sentence(row.label)}, which scored {percent(score.mean)} "
        f"({percent(score.level, 0)} interval {percent(score.low)} to {percent(score.high)}, "
        f"{score.seeds} seeds)."
    )
    if (chosen := evidence.chosen) is not None and chosen.candidates > 1:
        yield (
            f"It was chosen as the best of {chosen.candidates}: corrected for that, expect "
            f"{percent(chosen.corrected)} ({percent(chosen.score.low)} to "
            f"{percent(chosen.score.high)})."
        )
    if score.seeds < LEAST_SEEDS:
        yield f"No method has {LEAST_SEEDS} seeds yet, so this is preliminary."
    if evidence.runner_up is None:
        is_alone = len({name_of(other) for other in evidence.rows}) == 1
        yield "No other method has been measured." if is_alone else "No other method works."
    else:
        yield evidence.comparison.cells[0].sentence


def _nothing_works(where: str, evidence: RecommendationEvidence, row: ComparedRow) -> str:
    score = evidence.score(row)
    floor = evidence.comparison.floor
    assert floor is not None, "only stored results of older versions lack it"
    best = method_in_sentence(row.label)
    return (
        f"Nothing measured works for {where}: the best, {best}, scores {percent(score.mean)} "
        f"({percent(score.level, 0)} interval {percent(score.low)} to {percent(score.high)}, "
        f"{score.seeds} seeds), "
        f"and the floor is {percent(floor.accuracy)} ({FLOORS[floor.kind]}). Try a larger budget, "
        "another method or a wider range of learning rates."
    )
