"""Attention patterns of the base and the adapted model."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from adaptlab.engine.digits import items_of, make_items, target_rows
from adaptlab.engine.items import Items
from adaptlab.engine.making import ITEM_SEED, as_digit_task
from adaptlab.engine.model import Model
from adaptlab.engine.plan import Plan
from adaptlab.engine.tensors import Float
from adaptlab.measurements.results import (
    AttentionCaptured,
    AttentionMap,
    AttentionSource,
    AttentionSummary,
)
from adaptlab.specs.spec import AttentionSpec
from adaptlab.theory.attention import entropy, jensen_shannon, largest_deviation, learned_mass

Patterns = list[Tensor]  # one tensor [R, B, H, T, keys] a layer


@dataclass
class Recorder:
    """The patterns of every layer: whole softmax and softmax over content."""

    patterns: Patterns = field(default_factory=list[Tensor])
    relative: Patterns = field(default_factory=list[Tensor])

    def record(
        self, layer: int, pattern: Float[Tensor, "R B H T K"], relative: Float[Tensor, "R B H T T"]
    ) -> None:
        """Append the patterns of the next layer."""
        self.patterns.append(pattern)
        self.relative.append(relative)


@torch.no_grad()
def capture_attention(
    plan: Plan, model: Model, seeds: tuple[int, ...], replicates: tuple[int, ...], scratch: Path
) -> Iterator[AttentionCaptured]:
    """Record the attention of every replicate, base first, then adapted.

    The model is computed in float64; only the stored array is rounded to float16. `seeds` and
    `replicates` name the rows of the model for the report.
    """
    assert plan.spec.attention is not None
    family, items = plan.family, _items(plan, plan.spec.attention, len(seeds))
    content = torch.cat([items.tokens, items.targets[..., -1:]], -1)
    content = content[..., : family.content_length(items.tokens.shape[-1])]
    base = Recorder()
    sources: list[tuple[AttentionSource, Recorder, Tensor]] = []
    rows = slice(None)
    if plan.method is None:
        sources.append(("base", base, model.logits(items.tokens, rows, base)))
    else:
        adapted = Recorder()
        sources.append(("base", base, model.base_logits(items.tokens, rows, base)))
        sources.append(("adapted", adapted, model.logits(items.tokens, rows, adapted)))
    for source, recorder, logits in sources:
        for row, (seed, replicate) in enumerate(zip(seeds, replicates, strict=True)):
            path = scratch / f"attention-{replicate}-{source}.npy"
            array = torch.stack([pattern[row] for pattern in recorder.patterns], 1)  # B,L,H,T,K
            np.save(path, array.to(torch.float16).cpu().numpy(), allow_pickle=False)
            yield AttentionCaptured(
                path=path,
                attention=AttentionMap(
                    replicate=replicate,
                    seed=seed,
                    source=source,
                    shape=tuple(array.shape),
                    learned_positions=array.shape[-1] - content.shape[-1],
                    target_start=family.answer_start(plan.task.input_length()),
                    tokens=_rows_of(content[row]),
                    predictions=_rows_of(logits[row].argmax(-1)[:, target_rows(plan.task)]),
                    summaries=tuple(_summaries(recorder, base, row)),
                ),
            )


def _items(plan: Plan, attention: AttentionSpec, replicates: int) -> Items:
    """Return the items to record: those given, or test items."""
    task, seeds = as_digit_task(plan.task), torch.tensor([ITEM_SEED], device=plan.device)
    if attention.inputs:
        inputs = torch.tensor(attention.inputs, dtype=torch.int64, device=plan.device)
        items = items_of(task, inputs.unsqueeze(0))
    else:
        items = make_items(task, "test", seeds, 0, attention.samples)
    return items.each(lambda tensor: tensor.expand(replicates, -1, -1).contiguous())


def _summaries(recorder: Recorder, base: Recorder, row: int) -> Iterator[AttentionSummary]:
    for layer, relative in enumerate(recorder.relative):
        pattern, reference = recorder.patterns[layer][row], base.relative[layer][row]
        for head in range(relative.shape[2]):
            here, there = relative[row][:, head], reference[:, head]  # B, T, T
            yield AttentionSummary(
                layer=layer,
                head=head,
                entropy=float(entropy(here).mean()),
                learned_mass=float(learned_mass(pattern[:, head], here.shape[-1]).mean()),
                divergence=float(jensen_shannon(here, there).mean()),
                relative_deviation=float(largest_deviation(here, there)),
            )


def _rows_of(tokens: Tensor) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(row) for row in tokens.tolist())
