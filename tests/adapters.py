"""Stored adapters of a small GPT-2, as rows and files."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save
from sqlalchemy.orm import Session
from tests.making import a_base_model, a_job, a_pretrain_spec, an_adapt_spec
from tests.texts import CLASSIFICATION, Stored

from adaptlab.plugins.dataset import NO_DATASETS
from adaptlab.plugins.shapes import TensorShape
from adaptlab.specs.base_models import BaseModelFacts
from adaptlab.specs.resolve import resolve
from adaptlab.specs.resolved import ResolvedAdapt, spec_digest, write_resolved
from adaptlab_db.artifacts import ArtifactStore
from adaptlab_db.tables import CheckpointRow

Arrays = dict[str, NDArray[np.float32]]
BASE = "tiny-gpt2"
SEED = 1
HEAD: dict[str, Any] = {
    **CLASSIFICATION,
    "score": "head",
    "label": {"field": "label"},
    "tokens": {"longest": 40},
}
"""Texts that a head answers."""


def an_adapter(
    session: Session, method: Mapping[str, object], data: Stored | None = None, **family: Any
) -> tuple[int, ResolvedAdapt, Arrays, Arrays]:
    """A checkpoint's id and job, its tensors, and those of its base.

    The checkpoint is that of the second seed.

    The base is a GPT-2 of one layer, or another model that `family` describes. With `data`, a head
    for the labels of its texts is trained with the method.
    """
    described = {"name": "gpt2", "layers": 1, "heads": 2, "width": 8} | family
    datasets = NO_DATASETS if data is None else data.datasets
    before, task = ({}, {}) if data is None else ({"task": CLASSIFICATION}, {"task": HEAD})
    pretraining = a_pretrain_spec(name=BASE, seeds=2, family=described, **before)
    pretrained = resolve(pretraining, None, datasets)
    facts = BaseModelFacts(
        name=BASE,
        digest=spec_digest(pretrained),
        family=pretrained.family,
        task=pretrained.task,
        replicates=2,
    )
    spec = an_adapt_spec(base_model=BASE, method=method, budget={}, **task)
    resolved = resolve(spec, facts, datasets)
    assert isinstance(resolved, ResolvedAdapt)
    shape = resolved.family.shape()
    bases = [drawn(shape.tensors, seed) for seed in range(2)]
    stored_base = write_resolved(pretrained).model_dump(mode="json")
    weights = [save(base) for base in bases]
    a_base_model(session, BASE, contents=weights, family="gpt2", resolved_spec=stored_base)
    document = write_resolved(resolved).model_dump(mode="json")
    plain = an_adapt_spec(base_model=BASE, method=method, budget={})
    job = a_job(session, plain, state="succeeded", base_model=BASE, resolved_spec=document)
    if (classes := resolved.task.classes()) is not None:
        shape = resolved.family.shape_with_classes(classes)
    tensors = drawn(resolved.method.kept().trained(shape), 7)
    row = CheckpointRow(
        job_id=job,
        attempt=1,
        replicate=SEED,
        seed=SEED,
        kind="adapter",
        artifact_sha256=ArtifactStore(session).write([save(tensors)]).sha256,
        parameters=sum(tensor.size for tensor in tensors.values()),
        tensors={name: [*tensor.shape] for name, tensor in tensors.items()},
    )
    session.add(row)
    session.flush()
    return row.id, resolved, tensors, bases[SEED]


def drawn(shapes: Mapping[str, TensorShape], seed: int) -> Arrays:
    """Random numbers for tensors."""
    generator = np.random.default_rng(seed)
    return {
        name: generator.normal(size=tensor.shape).astype(np.float32)
        for name, tensor in shapes.items()
    }
