"""Jobs to compare, and the settings in which they differ."""

from typing import Any

from pydantic import TypeAdapter
from tests.making import a_pretrain_document, an_adapt_document, an_environment

from adaptlab.comparisons.comparability import ComparedJob, comparability
from adaptlab.methods.lora import Lora
from adaptlab.runs.events import Environment
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve, resolve_adapter
from adaptlab.specs.resolved import write_resolved
from adaptlab.specs.spec import AdaptSpec, JobSpec, ModelFolder

MACHINE = an_environment(threads=2, code_version="abc")


def a_job(label: str, environment: Environment | None = MACHINE, **changes: Any) -> ComparedJob:
    spec = AdaptSpec.model_validate(an_adapt_document(**changes))
    resolved = write_resolved(resolve(spec, _base()))
    return ComparedJob(label=label, spec=resolved, environment=environment)


def an_imported_job(label: str, **changes: Any) -> ComparedJob:
    document = an_adapt_document(adapter="models/lora", **changes)
    for trained in ("method", "budget", "training", "seeds"):
        del document[trained]
    folder = ModelFolder(folder="models/lora", files=())
    resolved = resolve_adapter(AdaptSpec.model_validate(document), _base(), Lora(rank=1), folder)
    return ComparedJob(label=label, spec=write_resolved(resolved), environment=MACHINE)


def _base() -> BaseModelFacts:
    base = resolve(TypeAdapter[Any](JobSpec).validate_python(a_pretrain_document()), None)
    return BaseModelFacts(
        name="tiny-sort", digest="0" * 64, family=base.family, task=base.task, replicates=2
    )


def pointers(*jobs: ComparedJob) -> dict[str, str]:
    return {one.pointer: one.weight for one in comparability(jobs)}
