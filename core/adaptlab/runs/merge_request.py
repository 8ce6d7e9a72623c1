"""What the merging process is asked, and what it answers; without torch."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from adaptlab.specs.spec import ResolvedSpec
from adaptlab.values import Value

MODULE = "adaptlab.running.merging"


class MergeRequest(Value):
    """A checkpoint to write in another form, and the folder of its base.

    `form` is `merged` for the merged model, `lora` for the nearest LoRA of a `rank`, and `own` for
    the form that PEFT has for the method. Adapters are folders for PEFT, or one file for llama.cpp
    if `is_gguf`. `base_name` is the base's name for users of the adapter.
    """

    spec: ResolvedSpec
    checkpoint: Path
    base: Path
    folder: Path
    form: Literal["merged", "lora", "own"] = "merged"
    rank: int = Field(default=8, ge=1, le=4096)
    is_gguf: bool = False
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
