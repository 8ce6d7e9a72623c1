"""The weights of a base model, wherever they are."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.engine.kernels.memory import all_bytes
from adaptlab.engine.models import nf4
from adaptlab.engine.models.checkpoint import read_bases
from adaptlab.engine.models.huggingface import each_mapped
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.tensors import Float
from adaptlab.errors import BadModelFolder, OutOfMemory
from adaptlab.runs.inputs import LocalFile
from adaptlab.specs.quantised import base_bytes
from adaptlab.weights.model_folder import CheckedFolder
from adaptlab.weights.placed_folder import PlacedFolder


@dataclass(frozen=True)
class BaseWeights:
    """The weights of a base model, from its files or from a folder.

    They are the stored `files` of its replicates, or those of the model's `folder`. Replicates of a
    model from a folder are all the same. `memory_bytes` is the memory of a run, None for all that
    the process may have.
    """

    files: tuple[LocalFile, ...] = ()
    folder: PlacedFolder | None = None
    memory_bytes: int | None = None

    def read(
        self, plan: Plan, replicates: Sequence[int], dtype: torch.dtype
    ) -> dict[str, Float[Tensor, "G ..."]]:
        """Return the weights of some replicates.

        There is one group for all replicates that are the same. If the task has a head for classes,
        it is among them in place of the model's own, untrained.

        Weights in a folder are mapped if possible; see `huggingface.mapped_tensors`. The import has
        checked their numbers.

        Raises:
            BadCheckpoint: a stored file is damaged.
            BadModelFolder: the folder is no longer the one that was imported.
            OutOfMemory: the model in the folder is larger than the memory.
        """
        if self.folder is None:
            files = tuple(self.files[replicate].path for replicate in replicates)
            read = read_bases(files, plan.family.shape(), plan.device, dtype)
            tensors = {name: tensor for name, tensor in read.items() if name in plan.shape.tensors}
        else:
            checked = checked_folder(plan, self.folder, dtype, self.memory_bytes)
            mapped = each_mapped(checked, plan.shape.tensors, dtype, plan.device)
            tensors = dict(nf4.quantised(mapped, plan.quantised))
        for name, head in plan.shape.class_head.items():  # of the base alone, untrained
            tensors[name] = torch.zeros(1, *head.shape, dtype=dtype, device=plan.device)
        return tensors

    def check_unchanged(self) -> None:
        """Raise `BadModelFolder` if the folder has changed.

        It can change while it is mapped.
        """
        if self.folder is not None:
            self.folder.checked()


def checked_folder(
    plan: Plan, folder: PlacedFolder, dtype: torch.dtype, memory_bytes: int | None
) -> CheckedFolder:
    """Return the folder if it is the imported one and fits in memory.

    Raises:
        BadModelFolder: it is not the one.
        OutOfMemory: its weights in `dtype` are larger than the memory.
    """
    checked = folder.checked()
    if checked.family != plan.family:
        raise BadModelFolder(
            f"This version of adaptlab reads config.json of {folder.name} differently from the one "
            "that created its import. Import it again under another name."
        )
    shape, is_quantised = plan.shape, plan.spec.quantises
    limit = all_bytes(plan.device) if memory_bytes is None else memory_bytes
    if (needed := base_bytes(shape, dtype.itemsize, is_quantised=is_quantised)) > limit:
        form = str(dtype).removeprefix("torch.") + (", in part nf4" if is_quantised else "")
        raise OutOfMemory(
            f"The model in {folder.name} has {shape.parameters:,} parameters, which need "
            f"{needed:,} bytes in {form}. This worker has {limit:,} bytes for a run. "
            "Use a worker with more memory. If its ADAPTLAB_MEMORY_BYTES is the limit, raise it."
        )
    return checked
