"""Adaptations of base weights in four bits, and those weights as floats."""

from collections.abc import Iterable, Iterator

from torch import Tensor

from adaptlab.engine.models.nf4 import Packed
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedAdapt, ResolvedImport, spec_digest
from adaptlab.specs.spec import AdaptSpec


def a_job(spec: ResolvedImport, precision: str = "float64", steps: int = 4) -> ResolvedAdapt:
    facts = BaseModelFacts(
        name="tiny",
        digest=spec_digest(spec),
        family=spec.family,
        task=None,
        replicates=1,
        folder=spec.model_folder,
    )
    document = {
        "base_model": "tiny",
        "task": {"name": "sort_descending", "length": 4, "alphabet": 5},
        "method": {"name": "lora", "rank": 1},
        "seeds": 2,
        "training": {
            "steps": steps, "batch_size": 4, "precision": precision, "base_weights": "nf4",
        },
        "evaluation": {"samples": 30},
        "capture": {"attention": {"samples": 1}},
    }  # fmt: skip
    return resolve(AdaptSpec.model_validate(document), facts)


def restored(
    tensors: Iterable[tuple[str, Tensor]], names: frozenset[str]
) -> Iterator[tuple[str, Tensor]]:
    """What `nf4.quantised` yields, as floats."""
    for name, tensor in tensors:
        exact = Packed.of(tensor).restored(tensor.dtype) if name in names else tensor
        yield name, exact.unsqueeze(0)
