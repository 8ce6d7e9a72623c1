"""Trained adaptations as theory checks refer to them."""

from uuid import UUID

from adaptlab.values import Value


class Adaptation(Value):
    """The adaptation that a job trains: base model, method, task and seeds.

    `digest` is the digest of the job's spec, and `method` the part of the method that is stored.
    `base_replicates` has, for each of `seeds`, the replicate of the base that it starts from.
    """

    # As JSON; `adaptlab.plugins.theory_check.MeasuredAdaptation` is the same with plug-ins as
    # values.

    job: UUID
    digest: str
    base_model: str
    base_digest: str | None
    method: dict[str, object]
    task: dict[str, object]
    seeds: tuple[int, ...]
    base_replicates: tuple[int, ...]
