"""Resolution of specs of theory checks."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from uuid import UUID

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.families.formal import Formal
from adaptlab.plugins.dataset import NO_DATASETS, Datasets
from adaptlab.plugins.theory_check import THEORY_CHECKS, MeasuredAdaptation, TheoryCheck
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.budget import whole_model
from adaptlab.specs.choices import configured
from adaptlab.specs.model_shapes import family_shape
from adaptlab.specs.resolved import ResolvedAdapt, ResolvedTheory
from adaptlab.specs.spec import TheorySpec

BUILT = Formal(vocabulary=4, context=4)
"""The family of a job without a base model, whose checks build models by formula."""


def resolve_theory(
    spec: TheorySpec,
    base: BaseModelFacts | None,
    adaptations: Sequence[MeasuredAdaptation] = (),
    datasets: Datasets = NO_DATASETS,
) -> ResolvedTheory:
    """Return the job of a spec of theory checks.

    Args:
        spec: the spec as submitted.
        base: the base model that `measured_base` names, if any.
        adaptations: the adaptations that the spec names, in its order.
        datasets: the uploaded datasets that tasks of checks may name.

    Raises:
        InvalidSpec: a check is not registered or cannot run.
    """
    kept = _kept(spec, base, adaptations)
    family = BUILT if base is None else base.family
    checks = _all(base, kept) if spec.checks == "all" else _chosen(spec, base, kept, datasets)
    return ResolvedTheory(
        base_model=None if base is None else base.name,
        base_digest=None if base is None else base.digest,
        checks=checks,
        adaptations=kept,
        base_replicates=_replicates(spec, base, checks),
        family=family,
        budget=whole_model(family_shape(family)).model_copy(
            update={"trainable_parameters": 0, "stored_bytes": 0, "tensors": {}}
        ),
        seed=spec.seed,
    )


def _replicates(
    spec: TheorySpec, base: BaseModelFacts | None, checks: Sequence[TheoryCheck]
) -> tuple[int, ...]:
    """Return the replicates of the base model that are measured."""
    if base is None:
        return ()
    if not any(check.each_replicate for check in checks):
        return (0,)
    most = base.replicates if spec.replicates == "all" else spec.replicates
    return tuple(range(min(most, base.replicates)))


def measured_base(spec: TheorySpec, adaptations: Sequence[MeasuredAdaptation]) -> str | None:
    """Return the name of the base model that is measured, if any.

    It is the base model of the adaptations or, without any, the one that the spec names.

    Raises:
        InvalidSpec: the adaptations belong to several base models, or not to the one of the spec.
    """
    names = tuple(dict.fromkeys(adaptation.base_model for adaptation in adaptations))
    if len(names) > 1:
        detail = (
            f"The adaptations belong to {', '.join(names)}. Name adaptations of one base model."
        )
        raise InvalidSpec(Problem("/adaptation", "several_base_models", detail))
    if names and spec.base_model not in (None, *names):
        detail = (
            f"The adaptation belongs to {names[0]!r}, not to {spec.base_model!r}. Leave it out."
        )
        raise InvalidSpec(Problem("/base_model", "another_base_model", detail, nearest=names))
    return names[0] if names else spec.base_model


def adaptation_of(job: UUID, digest: str, resolved: ResolvedAdapt) -> MeasuredAdaptation:
    """Return the adaptation that a job trains."""
    return MeasuredAdaptation(
        job=job,
        digest=digest,
        base_model=resolved.base_model,
        base_digest=resolved.base_digest,
        method=resolved.method.kept(),
        task=resolved.task,
        seeds=resolved.seeds,
        base_replicates=resolved.base_replicates,
    )


def _kept(
    spec: TheorySpec, base: BaseModelFacts | None, adaptations: Sequence[MeasuredAdaptation]
) -> tuple[MeasuredAdaptation, ...]:
    """Return the adaptations, each with the seeds that are measured."""
    if tuple(adaptation.job for adaptation in adaptations) != spec.adaptations:
        raise ValueError("Theory checks are resolved against the adaptations that they name.")
    measured_base(spec, adaptations)
    for adaptation in adaptations:
        if adaptation.task.needs_tokeniser:
            detail = (
                f"Job {adaptation.job} was adapted to texts. Theory checks measure adaptations to "
                "generated tasks."
            )
            raise InvalidSpec(Problem("/adaptation", "adapted_to_texts", detail))
        if base is None or adaptation.base_digest != base.digest:
            detail = (
                f"The base model {adaptation.base_model!r} was replaced after job "
                f"{adaptation.job} had adapted it. Name a job that adapted the present one."
            )
            raise InvalidSpec(Problem("/adaptation", "base_model_replaced", detail))
    if spec.replicates == "all":
        return tuple(adaptations)
    return tuple(adaptation.of_first(spec.replicates) for adaptation in adaptations)


def _all(
    base: BaseModelFacts | None, adaptations: Sequence[MeasuredAdaptation]
) -> tuple[TheoryCheck, ...]:
    """Return every check that can run, with its default options."""
    checks = [THEORY_CHECKS.get(name)(name=name) for name in THEORY_CHECKS.names()]
    return tuple(check for check in checks if not _reasons_against(check, base, adaptations))


def _chosen(
    spec: TheorySpec,
    base: BaseModelFacts | None,
    adaptations: Sequence[MeasuredAdaptation],
    datasets: Datasets,
) -> tuple[TheoryCheck, ...]:
    checks: list[TheoryCheck] = []
    problems: list[Problem] = []
    assert spec.checks != "all"
    for index, choice in enumerate(spec.checks):
        pointer = f"/checks/{index}"
        kind = THEORY_CHECKS.get(choice.name, f"{pointer}/name")
        check = configured(kind, choice, pointer).settled(datasets)
        checks.append(check)
        problems += (
            _below(pointer, problem) for problem in _reasons_against(check, base, adaptations)
        )
    if problems:
        raise InvalidSpec(*dict.fromkeys(problems))
    return tuple(checks)


def _below(pointer: str, problem: Problem) -> Problem:
    """Return a problem with its pointer to the check's place in the spec."""
    return replace(problem, pointer=re.sub(r"^/check(?=/)", pointer, problem.pointer))


def _reasons_against(
    check: TheoryCheck, base: BaseModelFacts | None, adaptations: Sequence[MeasuredAdaptation]
) -> tuple[Problem, ...]:
    """Return the reasons why a check cannot run."""
    if check.needs_adaptation and not adaptations:
        detail = f"The check {check.name!r} measures an adaptation. Name its job in adaptation."
        return (Problem("/adaptation", "adaptation_needed", detail),)
    if not check.needs_base:
        return ()
    if base is None:
        detail = f"The check {check.name!r} measures a base model. Name one in base_model."
        return (Problem("/base_model", "base_model_needed", detail),)
    if not base.has_tokeniser and any(task.needs_tokeniser for task in check.own_tasks()):
        detail = f"{base.name!r} was imported without a tokeniser, so it cannot read texts."
        return (Problem("/base_model", "no_tokeniser", detail),)
    problems = check.problems(base.family)
    if problems or not check.needs_adaptation:
        return problems
    return (*_moved(adaptations), *check.adaptation_problems(base.family, tuple(adaptations)))


def _moved(adaptations: Sequence[MeasuredAdaptation]) -> Iterator[Problem]:
    """Yield the problem of adaptations whose questions have other positions."""
    for adaptation in adaptations:
        if adaptation.method.moves_content:
            detail = (
                f"Checks compare equal positions, and {adaptation.method.name} of job "
                f"{adaptation.job} moves the question. Name a job of another method."
            )
            yield Problem("/adaptation", "question_moves", detail)
