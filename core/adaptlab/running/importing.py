"""Import of a published model or adapter, without training."""

from collections.abc import Mapping

import torch
from torch import Tensor

from adaptlab.engine.items.datasets import tokeniser_files
from adaptlab.engine.models.attachments import NOTHING_ATTACHED, Attachments
from adaptlab.engine.models.base_weights import BaseWeights, checked_folder
from adaptlab.engine.models.huggingface import load_checked
from adaptlab.engine.models.library_comparison import check_against_library
from adaptlab.engine.models.library_tokeniser import check_tokeniser
from adaptlab.engine.models.model import Model
from adaptlab.engine.models.plan import Plan
from adaptlab.engine.plugins import ENGINE_FAMILIES
from adaptlab.engine.tensors import Float
from adaptlab.engine.training.initial_tensors import with_companions
from adaptlab.errors import BadAdapter, BadModelFolder
from adaptlab.exchange.adapter_folder import read_placed
from adaptlab.exchange.peft_adapter import imported_adapter
from adaptlab.runs.events import ReplicateResult
from adaptlab.text.tokeniser import FILE as TOKENISER
from adaptlab.weights.placed_folder import PlacedFolder

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
"""The only replicate of an imported model or adapter, which is not trained."""


def imported_model(plan: Plan, folder: PlacedFolder | None, memory_bytes: int | None) -> Model:
    """Return the model in `folder`, with weights [1, ...] as if trained.

    Raises:
        BadModelFolder: if weights are not finite, the folder has changed since the job was
            created, or `transformers` computes other logits or reads texts otherwise.
        OutOfMemory: the model is larger than `memory_bytes`, or than the memory if that is None.
    """
    if folder is None:
        raise BadModelFolder(
            "The worker did not report where the model folder is. Update the worker."
        )
    checked = checked_folder(plan, folder, plan.dtype, memory_bytes)
    published = load_checked(checked, plan.dtype, plan.device)
    weights = {name: tensor.unsqueeze(0) for name, tensor in published.tensors.items()}
    _try_out(plan, weights)
    with torch.no_grad():
        check_against_library(checked)
    if any(file.name == TOKENISER for file in folder.files):
        check_tokeniser(tokeniser_files(folder), plan.shape.vocabulary)
    return Model(plan, {}, weights)


def adapted_model(plan: Plan, placed: PlacedFolder | None, source: BaseWeights) -> Model:
    """Return the base model with the adapter of a folder, as if trained.

    The adapter's tensors have the shape [1, ...].

    Raises:
        BadAdapter: the folder has changed since the job was created, or is read differently.
    """
    if placed is None:
        raise BadAdapter(
            "The worker did not report where the adapter's folder is. Update the worker."
        )
    base = source.read(plan, plan.spec.base_replicates, plan.dtype)
    adapter = imported_adapter(
        plan.family, read_placed(placed), lambda name: base[name][0].float().cpu().numpy()
    )
    if adapter.method != plan.method:
        raise BadAdapter(
            f"This worker reads the adapter in {placed.name} differently from the server that "
            "created the job. Update both to one version, and submit the adapter again."
        )
    trained = {
        name: torch.from_numpy(tensor).to(plan.device, plan.dtype).unsqueeze(0)
        for name, tensor in adapter.tensors.items()
    }
    return Model(plan, with_companions(plan, base), trained)


@torch.no_grad()
def _try_out(plan: Plan, weights: Mapping[str, Float[Tensor, "G ..."]]) -> None:
    """Compute two tokens or an image.

    An architecture that cannot be used says so here.

    Raises:
        BadModelFolder: the library reads the folder differently, or the output is not finite.
    """
    image = plan.family.image()
    count = 2 if image is None else image.tokens
    tokens = torch.zeros(1, 1, count, dtype=torch.int64, device=plan.device)
    forward, attached = ENGINE_FAMILIES.get(plan.family.name), NOTHING_ATTACHED
    if not plan.family.predicts_tokens():
        head = plan.family.shape_with_classes(1).class_head
        some = next(iter(weights.values()))
        ones = {n: some.new_ones(1, *t.shape) for n, t in head.items()}
        read = torch.full_like(tokens[..., 0], count)
        attached = Attachments(weights=ones, read=read, has_classes=True)
    output = forward(plan.family, weights, tokens, attached, slice(None))
    if not torch.isfinite(output).all():
        read = "two tokens" if image is None else "an image"
        raise BadModelFolder(f"The model's output for {read} is not finite.")
