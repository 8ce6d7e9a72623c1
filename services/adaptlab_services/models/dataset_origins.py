"""Origins of fetched datasets, beside their digests in resolved specs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from adaptlab.specs.spec import ResolvedSpec
from adaptlab.weights.hub_name import FetchedDataset
from adaptlab_db.tables import Dataset
from adaptlab_services.people import access

Key = tuple[str, str]
"""The name and the digest of a dataset."""
MEMBER = "dataset"
TASKS = {"task", "evaluation_tasks", "base_tasks", "checks", "adaptations"}
KEPT = set(FetchedDataset.model_fields)


def with_origins(session: Session, documents: Sequence[ResolvedSpec]) -> Sequence[ResolvedSpec]:
    """Return resolved specs with the origins of the datasets that they read.

    One query for all of them. Of equal datasets, that of the request's project counts.
    """
    read = [dict.fromkeys(_datasets_in(one.model_dump(include=TASKS))) for one in documents]
    if not (keys := {key for of_one in read for key in of_one}):
        return documents
    origins = _origins(session, keys)
    return [
        document.model_copy(
            update={"dataset_origins": tuple(origins[key] for key in of_one if key in origins)}
        )
        for document, of_one in zip(documents, read, strict=True)
    ]


def _origins(session: Session, keys: set[Key]) -> Mapping[Key, FetchedDataset]:
    key = (Dataset.name, Dataset.artifact_sha256)
    rows = session.execute(
        select(*key, Dataset.origin)
        .where(tuple_(*key).in_(keys))
        .order_by(Dataset.project_id == access.project_of(session))  # the last one is kept
    )
    return {
        (name, digest): FetchedDataset.model_validate(
            {"name": name, "digest": digest}
            | {member: value for member, value in origin.items() if member in KEPT}
        )
        for name, digest, origin in rows
        if origin is not None
    }


def _datasets_in(part: object) -> Iterator[Key]:
    if isinstance(part, Sequence) and not isinstance(part, str):
        for entry in cast("Sequence[object]", part):
            yield from _datasets_in(entry)
    elif isinstance(part, Mapping):
        for name, value in cast("Mapping[str, object]", part).items():
            if name == MEMBER and isinstance(value, Mapping):
                reference = cast("Mapping[str, object]", value)
                yield str(reference["name"]), str(reference["digest"])
            else:
                yield from _datasets_in(value)
