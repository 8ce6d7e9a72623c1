"""What is known of a job's adaptation by those who measure it afterwards."""

from pathlib import Path
from uuid import UUID

from adaptlab.values import Value


class Adaptation(Value):
    """An adaptation that a job makes: of what, by what, and for which seeds.

    `digest` is that of the job's spec and `method` what is kept of the method; `base_replicates`
    says for each of `seeds` which replicate of the base it starts from.
    """

    # As JSON; `adaptlab.plugins.theory_check.Measured` is the same with its plug-ins.

    job: UUID
    digest: str
    base_model: str
    base_digest: str | None
    method: dict[str, object]
    task: dict[str, object]
    seeds: tuple[int, ...]
    base_replicates: tuple[int, ...]


class AdapterFile(Value):
    """The trained tensors of one replicate of an adaptation, as a safetensors file.

    `adaptation` is the place of the adaptation among those of the resolved spec.
    """

    adaptation: int
    seed: int
    path: Path
