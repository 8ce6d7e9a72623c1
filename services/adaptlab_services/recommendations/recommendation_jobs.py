"""Jobs that would settle a recommendation's open points, fully checked."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from adaptlab.comparisons.row_names import first_in_sentence
from adaptlab.errors import AdaptlabError
from adaptlab.specs.spec import AdaptSpec, ResolvedSpec
from adaptlab.statistics.leads import FEWEST_SEEDS
from adaptlab.studies.study import StudySpec
from adaptlab_answers.recommendations import ProposedJob, ProposedStudy, Purpose, ThinEvidence
from adaptlab_answers.studies import StudyPreview
from adaptlab_services.comparisons.comparison_rows import ComparedRow
from adaptlab_services.errors import StateConflict
from adaptlab_services.jobs import jobs
from adaptlab_services.jobs.jobs import Preview
from adaptlab_services.recommendations.recommendation_doubts import (
    fewer_trials,
    larger_at_budget,
    unmeasured,
)
from adaptlab_services.recommendations.recommendation_evidence import (
    RecommendationEvidence,
    ResolvedQuestion,
    name_of,
)
from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Rules

Document = dict[str, Any]  # Any: a spec as JSON, whose members are of many types

FIRST_TRIALS = 5
MOST_NAMES = 100
MOST_FIRST_SEEDS = 10


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job to propose, before it is checked."""

    purpose: Purpose
    text: str
    spec: Document
    methods: tuple[str, ...]


def proposed(
    session: Session, question: ResolvedQuestion, candidates: Sequence[Candidate]
) -> tuple[tuple[ProposedJob, ...], tuple[ThinEvidence, ...]]:
    """Return the candidates that can be run, and the errors of the others."""
    accepted: dict[str, ProposedJob] = {}
    refused: list[ThinEvidence] = []
    # The same checks as for a creation, on the same text.
    specs = [AdaptSpec.model_validate_json(json.dumps(c.spec), strict=True) for c in candidates]
    for candidate, preview in zip(candidates, jobs.preview_each(session, specs), strict=True):
        methods = candidate.methods
        if isinstance(preview, AdaptlabError):
            text = f"No job can be proposed for {', '.join(methods)}: {preview}"
            refused.append(ThinEvidence(kind="cannot_run", text=text, methods=methods))
        else:
            accepted.setdefault(preview.spec_digest, _proposed(question, candidate, preview))
    return tuple(accepted.values()), tuple(refused)


def first_study(session: Session, question: ResolvedQuestion, rules: Rules) -> ProposedStudy:
    """Return a study of all methods that fit, for use without results."""
    fitting = list(question.fitting())
    chosen: list[object] = [method.model_dump(mode="json") for method in question.methods]
    document: Document = {
        "name": "first",
        "base_models": [question.base.name],
        "tasks": [question.choice.model_dump(mode="json")],
        "methods": chosen or fitting,
        "budgets": [question.limit],
        "seeds": max(FEWEST_SEEDS, min(MOST_FIRST_SEEDS, question.base.replicates)),
        "tuning": {"trials": FIRST_TRIALS},
    }
    if question.max_seconds is not None:
        document["resources"] = {"max_seconds": max(1, int(question.max_seconds))}
    document["name"], preview = _under_a_free_name(session, question, document, rules)
    return ProposedStudy(
        spec=document,
        jobs=preview.new_jobs,
        seconds=preview.seconds,
        warnings=preview.warnings,
    )


def _under_a_free_name(
    session: Session, question: ResolvedQuestion, document: Document, rules: Rules
) -> tuple[str, StudyPreview]:
    """Return the first name that no study has, and the study's preview."""
    plain = f"first-{question.choice.name}-{question.base.name}".replace("_", "-")[:58]
    for number in range(1, MOST_NAMES):
        name = plain if number == 1 else f"{plain}-{number}"
        text = json.dumps(document | {"name": name})
        spec = StudySpec.model_validate_json(text, strict=True)
        try:
            return name, studies.preview(session, spec, rules)
        except StateConflict:
            continue
    raise StateConflict(
        f"{MOST_NAMES - 1} studies are named {plain} or {plain}-…, so no name is free for a new "
        "one. Run one of them instead."
    )


def _proposed(question: ResolvedQuestion, wanted: Candidate, preview: Preview) -> ProposedJob:
    resolved = preview.resolved_spec
    return ProposedJob(
        purpose=wanted.purpose,
        text=wanted.text,
        spec=wanted.spec,
        spec_digest=preview.spec_digest,
        method=resolved.method or {},
        budget=resolved.budget,
        estimate=preview.estimate,
        warnings=(*preview.warnings, *_shared_bases(question, resolved)),
    )


def _shared_bases(question: ResolvedQuestion, resolved: ResolvedSpec) -> tuple[str, ...]:
    replicates = question.base.replicates
    is_imported = question.base.folder is not None  # which the evidence says already
    if is_imported or all(seed < replicates for seed in resolved.seeds):
        return ()
    return (
        f"The base model has {replicates} replicates, so seeds from {replicates} on share one with "
        "another seed and are less informative than independent seeds.",
    )


def candidates_of(
    question: ResolvedQuestion, evidence: RecommendationEvidence
) -> Iterator[Candidate]:
    """Yield the jobs that would settle the evidence's open points.

    They are not checked yet.
    """
    if evidence.older_code is not None:
        yield from _with_current_code(question, evidence)
    else:
        retuned = {row.label for row in _shown(evidence) if fewer_trials(row, evidence)}
        yield from _retuned(question, evidence)
        yield from _more_seeds(question, evidence, retuned)
    for row in _shown(evidence):
        if size := larger_at_budget(row, question, evidence):
            text = f"{name_of(row)} at the requested budget: {size:,} parameters."
            spec = _new_spec(question, evidence, _given(question, name_of(row)))
            yield Candidate("asked_budget", text, spec, (name_of(row),))
    for name in unmeasured(question, evidence):
        text = f"{name} fits the budget and has no comparable run."
        yield Candidate(
            "missing_method", text, _new_spec(question, evidence, _given(question, name)), (name,)
        )


def _shown(evidence: RecommendationEvidence) -> tuple[ComparedRow, ...]:
    runner_up = evidence.runner_up
    return (evidence.recommended, *(() if runner_up is None else (runner_up,)))


def _given(question: ResolvedQuestion, name: str) -> Document:
    """Return the method with the knobs of the question."""
    matches = (method for method in question.methods if method.name == name)
    return next((method.model_dump(mode="json") for method in matches), {"name": name})


def _with_current_code(
    question: ResolvedQuestion, evidence: RecommendationEvidence
) -> Iterator[Candidate]:
    """Yield all seeds of the rows that may be the best.

    Results of the current code cannot be compared with those of older code.
    """
    best = evidence.comparison.cells[0].best
    labels = {*best, *(row.label for row in _shown(evidence))}
    for row in (candidate for candidate in evidence.rows if candidate.label in labels):
        seeds = sorted(_starts(row))
        name = first_in_sentence(row.label)
        text = f"{name} with the current code, so that new runs can be compared with it."
        yield Candidate("newer_code", text, _again(question, evidence, row, seeds), (row.label,))


def _retuned(question: ResolvedQuestion, evidence: RecommendationEvidence) -> Iterator[Candidate]:
    for row in _shown(evidence):
        if trials := fewer_trials(row, evidence):
            name = first_in_sentence(row.label)
            text = f"{name} with {trials} trials instead of {row.trials}, for equal effort."
            method = row.jobs[0].spec.method or {}
            spec = _new_spec(question, evidence, method)
            yield Candidate("equal_effort", text, spec, (row.label,))


def _more_seeds(
    question: ResolvedQuestion, evidence: RecommendationEvidence, retuned: set[str]
) -> Iterator[Candidate]:
    """Yield the missing seeds of the recommended row and of its competitors.

    Their number is what the verdicts need, or the fewest for valid intervals.
    """
    first = evidence.recommended
    best = evidence.comparison.cells[0].best
    wanted: dict[str, set[int]] = {}
    for other in evidence.rows:
        if other is first or not (other.label in best or other is evidence.runner_up):
            continue
        seeds = _seeds_to_settle(evidence, first, other)
        for row in (first, other):
            wanted.setdefault(row.label, set()).update(seeds)
    wanted.setdefault(first.label, set()).update(_extended(set(_starts(first)), FEWEST_SEEDS))
    for row in evidence.rows:
        lacking = sorted(wanted.get(row.label, set()) - set(_starts(row)))
        if lacking and row.label not in retuned:
            noun = "seed" if len(lacking) == 1 else "seeds"
            text = f"{first_in_sentence(row.label)} with {len(lacking)} more {noun}."
            yield Candidate(
                "more_seeds", text, _again(question, evidence, row, lacking), (row.label,)
            )


def _seeds_to_settle(
    evidence: RecommendationEvidence, first: ComparedRow, other: ComparedRow
) -> set[int]:
    """Return the seeds that both rows need, as the comparison predicts."""
    either = {*_starts(first), *_starts(other)}
    cell = evidence.comparison.cells[0]
    if cell.more_seeds is not None and other.label in cell.best:
        return _extended(either, len(either) + cell.more_seeds)
    fewest = min(len(_starts(first)), len(_starts(other)))
    return _extended(either, FEWEST_SEEDS) if fewest < FEWEST_SEEDS else set()


def _extended(seeds: set[int], count: int) -> set[int]:
    """Return these seeds and the next free ones, `count` in all."""
    extended = set(seeds)
    number = 0
    while len(extended) < count:
        extended.add(number)
        number += 1
    return extended


def _starts(row: ComparedRow) -> dict[int, int]:
    """Return the scored seeds of a row, with the base replicate of each."""
    scored = {evaluation.seed for evaluation in row.evaluations()}
    return {
        seed: base
        for job in row.jobs
        for seed, base in zip(job.spec.seeds, job.spec.base_replicates, strict=True)
        if seed in scored
    }


def _again(
    question: ResolvedQuestion,
    evidence: RecommendationEvidence,
    row: ComparedRow,
    seeds: Sequence[int],
) -> Document:
    """Return the row's requested spec for other seeds."""
    stored = evidence.runs[row.jobs[0].id]
    spec = {name: value for name, value in stored.spec.items() if name != "labels"}
    document = spec | {"base_model": question.base.name} | _seeded(question, evidence, seeds)
    return document | _limited(question, spec.get("resources") or {})


def _new_spec(
    question: ResolvedQuestion, evidence: RecommendationEvidence, method: Mapping[str, object]
) -> Document:
    """Return a job for a method with the rows' training, effort and seeds."""
    model = next((row for row in evidence.rows if row.parameters), evidence.rows[0])
    spec = model.jobs[0].spec
    training = spec.training.model_dump(mode="json", exclude={"trials", "halving"})
    trials = max((row.trials for row in evidence.rows if row.parameters), default=1)
    halving = spec.training.halving
    document: Document = {
        "kind": "adapt",
        "base_model": question.base.name,
        "task": question.choice.model_dump(mode="json"),
        "method": dict(method),
        "budget": {"trainable_parameters": question.limit},
        "training": training,
        "evaluation": {"samples": spec.evaluation_samples},
    }
    if _trains(question, method):
        document["tuning"] = {
            "trials": trials,
            "selection": spec.selection,
            "validation_samples": spec.validation_samples,
            **({} if halving is None else {"halving": halving.model_dump(mode="json")}),
        }
    seeds = sorted(set(_starts(evidence.recommended)) | _extended(set(), FEWEST_SEEDS))
    queue = {"queue": evidence.runs[model.jobs[0].id].queue}
    return document | _seeded(question, evidence, seeds) | _limited(question, queue)


def _trains(question: ResolvedQuestion, method: Mapping[str, object]) -> bool:
    budgets = (s.budget for s in question.solutions if s.name == method["name"])
    return any(budget is not None and budget.trainable_parameters > 0 for budget in budgets)


def _seeded(
    question: ResolvedQuestion, evidence: RecommendationEvidence, seeds: Sequence[int]
) -> Document:
    """Return the seeds, starting from the same base replicates as other rows."""
    starts = {seed: base for row in evidence.rows for seed, base in _starts(row).items()}
    replicates = question.base.replicates
    return {
        "seeds": list(seeds),
        "base_replicates": [starts.get(seed, seed % replicates) for seed in seeds],
    }


def _limited(question: ResolvedQuestion, resources: Mapping[str, object]) -> Document:
    if question.max_seconds is None:
        return {"resources": dict(resources)}
    return {"resources": {**resources, "max_seconds": max(1, int(question.max_seconds))}}
