"""What a study of pretrained bases comes to."""

from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import spec_digest
from adaptlab.specs.spec import PretrainSpec
from adaptlab.studies.study import StudySpec
from adaptlab.studies.study_expansion import expand
from adaptlab.studies.study_plan import StudyPlan

MOST_JOBS = 500


def pretrained(spec: StudySpec) -> list[PretrainSpec]:
    return [base for base in spec.base_models if isinstance(base, PretrainSpec)]


def planned(spec: StudySpec) -> StudyPlan:
    """What a study comes to whose base models are all given inline."""
    facts: list[BaseModelFacts] = []
    for base in pretrained(spec):
        resolved = resolve(base, None)
        facts.append(
            BaseModelFacts(
                name=base.name,
                digest=spec_digest(resolved),
                family=resolved.family,
                task=resolved.task,
                replicates=len(resolved.seeds),
            )
        )
    return expand(spec, facts, MOST_JOBS)
