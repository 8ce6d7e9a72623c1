"""What the merging process is asked, and what it answers; without torch."""

from pathlib import Path

from pydantic import Field

from adaptlab.specs.spec import ResolvedSpec
from adaptlab.values import Value

MODULE = "adaptlab.running.merging"


class MergeRequest(Value):
    """A checkpoint to merge into the folder of its base, or to write as LoRA.

    `rank` is that of the LoRA, None for the merged model. `base_name` is the base's name for users
    of the LoRA.
    """

    spec: ResolvedSpec
    checkpoint: Path
    base: Path
    folder: Path
    rank: int | None = Field(default=None, ge=1, le=4096)
    base_name: str | None = None


class Merged(Value):
    """What became of one tensor.

    `change` is its size relative to the base's tensor, None where that is zero. `rounding` is the
    error relative to the change: of rounding to the base's dtype, or of the lower rank.
    """

    name: str
    change: float | None
    rounding: float


class MergeReport(Value):
    """What was written: changed tensors, and the ones that LoRA cannot change."""

    sites: tuple[Merged, ...]
    lost: tuple[str, ...] = ()

    @property
    def worst(self) -> Merged | None:
        """The tensor with the largest relative error."""
        return max(self.sites, key=lambda one: one.rounding, default=None)
