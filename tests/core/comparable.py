"""Jobs to compare, and the settings in which they differ."""

from typing import Any

from pydantic import TypeAdapter
from tests.making import a_pretrain_document, an_adapt_document, an_environment

from adaptlab.comparisons.comparability import ComparedJob, comparability
from adaptlab.measurements.results import Environment
from adaptlab.specs.resolve import BaseModelFacts, resolve
from adaptlab.specs.resolved import write_resolved
from adaptlab.specs.spec import AdaptSpec, JobSpec

MACHINE = an_environment(threads=2, code_version="abc")


def a_job(label: str, environment: Environment | None = MACHINE, **changes: Any) -> ComparedJob:
    base = resolve(TypeAdapter[Any](JobSpec).validate_python(a_pretrain_document()), None)
    facts = BaseModelFacts(
        name="tiny-sort", digest="0" * 64, family=base.family, task=base.task, replicates=2
    )
    spec = AdaptSpec.model_validate(an_adapt_document(**changes))
    return ComparedJob(
        label=label, spec=write_resolved(resolve(spec, facts)), environment=environment
    )


def pointers(*jobs: ComparedJob) -> dict[str, str]:
    return {one.pointer: one.weight for one in comparability(jobs)}
