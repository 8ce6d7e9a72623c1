"""Import of a published model as a base model, without training."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from adaptlab.engine.attachments import NOTHING_ATTACHED
from adaptlab.engine.huggingface import load_checked
from adaptlab.engine.model import Model
from adaptlab.engine.plan import Plan
from adaptlab.engine.plugins import ENGINE_FAMILIES
from adaptlab.engine.tensors import Float
from adaptlab.errors import BadModelFolder
from adaptlab.measurements.results import ReplicateResult
from adaptlab.weights.model_folder import CheckedFolder, check_folder, fingerprint

AS_FOUND = ReplicateResult(
    replicate=0,
    seed=0,
    trial=0,
    learning_rate=0,
    weight_decay=0,
    initial_scale=1,
    status="completed",
    selected=True,
    final_loss=None,
    validation_accuracy=None,
    steps=0,
)
"""The only replicate of an imported model, which is not trained."""


def imported_model(plan: Plan, folder: Path | None) -> Model:
    """Return the model in `folder`, with weights [1, ...] as if trained.

    Raises:
        BadModelFolder: if weights are not finite, or the folder has changed since the job was
            created.
    """
    if folder is None:
        raise BadModelFolder(
            "The worker did not report where the model folder is. Update the worker."
        )
    checked = check_folder(folder)
    _check_unchanged(plan, checked)
    published = load_checked(checked, plan.dtype)
    # Again, in case a file was written while it was read.
    _check_unchanged(plan, checked)
    weights = {n: t.to(plan.device).unsqueeze(0) for n, t in published.tensors.items()}
    _try_out(plan, weights)
    return Model(plan, {}, weights)


@torch.no_grad()
def _try_out(plan: Plan, weights: Mapping[str, Float[Tensor, "G ..."]]) -> None:
    """Compute two tokens; an architecture that cannot be used says so here.

    Raises:
        BadModelFolder: the library reads the folder differently, or the logits are not finite.
    """
    tokens = torch.zeros(1, 1, 2, dtype=torch.int64, device=plan.device)
    forward = ENGINE_FAMILIES.get(plan.family.name)
    logits = forward(plan.family, weights, tokens, NOTHING_ATTACHED, slice(None))
    if not torch.isfinite(logits).all():
        raise BadModelFolder("The model's logits of two tokens are not finite.")


def _check_unchanged(plan: Plan, checked: CheckedFolder) -> None:
    assert plan.spec.model_folder is not None
    expected = {file.name: file for file in plan.spec.model_folder.files}
    present = {file.name: file for file in fingerprint(checked)}
    names = sorted(expected.keys() | present.keys())
    if changed := [name for name in names if expected.get(name) != present.get(name)]:
        raise BadModelFolder(
            f"{', '.join(changed[:8])} changed after the job was created. Import the model again."
        )
    if checked.family != plan.family:
        raise BadModelFolder(
            "This version of adaptlab reads config.json differently from the one that created "
            "the job. Import the model again."
        )
