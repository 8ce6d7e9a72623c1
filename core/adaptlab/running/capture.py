"""Attention patterns of the base and the adapted model."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from adaptlab.engine.measuring.layer_recorder import LayerRecorder
from adaptlab.engine.measuring.phase_progress import PhaseProgress
from adaptlab.engine.measuring.recorded_items import Given, recorded_items
from adaptlab.engine.models.model import Model
from adaptlab.engine.observer import Observer
from adaptlab.engine.tensors import Bool
from adaptlab.runs.events import (
    AttentionCaptured,
    AttentionPatterns,
    AttentionSource,
    AttentionSummary,
)
from adaptlab.theory.attention import entropy, jensen_shannon, largest_deviation, learned_mass


@torch.no_grad()
def capture_attention(
    model: Model,
    seeds: tuple[int, ...],
    replicates: tuple[int, ...],
    scratch: Path,
    observer: Observer,
) -> Iterator[AttentionCaptured]:
    """Record the attention of every replicate, base first, then adapted.

    The model is computed in float64; only the stored array is rounded to float16. `seeds` and
    `replicates` name the rows of the model for the report.
    """
    plan = model.plan
    assert plan.spec.attention is not None
    sides = 1 if plan.method is None else 2
    pace = PhaseProgress(observer, "recording_attention", 2 * sides * len(seeds))
    items = recorded_items(plan, plan.spec.attention, len(seeds))
    base = LayerRecorder()
    sources: list[tuple[AttentionSource, LayerRecorder, tuple[Given, ...]]] = []
    if plan.method is None:
        sources.append(("base", base, items.observed(model, base, attached=True)))
        pace.advance(len(seeds))
    else:
        adapted = LayerRecorder()
        sources.append(("base", base, items.observed(model, base, attached=False)))
        pace.advance(len(seeds))
        sources.append(("adapted", adapted, items.observed(model, adapted, attached=True)))
        pace.advance(len(seeds))
    for source, recorder, given in sources:
        for row, (seed, replicate) in enumerate(zip(seeds, replicates, strict=True)):
            path = scratch / f"attention-{replicate}-{source}.npy"
            array = torch.stack([pattern[row] for pattern in recorder.patterns], 1)  # B,L,H,T,K
            if items.is_content is not None:
                array = array * items.is_content[:, None, None, :, None]
            np.save(path, array.to(torch.float16).cpu().numpy(), allow_pickle=False)
            yield AttentionCaptured(
                path=path,
                attention=AttentionPatterns(
                    replicate=replicate,
                    seed=seed,
                    source=source,
                    shape=tuple(array.shape),
                    learned_positions=array.shape[-1] - items.content,
                    target_start=items.start,
                    tokens=items.tokens,
                    predictions=given[row].predictions,
                    texts=given[row].texts,
                    summaries=tuple(_summaries(recorder, base, row, items.is_content)),
                ),
            )
            pace.advance(1)


def _summaries(
    recorder: LayerRecorder, base: LayerRecorder, row: int, is_content: Bool[Tensor, "B T"] | None
) -> Iterator[AttentionSummary]:
    for layer, relative in enumerate(recorder.relative):
        pattern, reference = recorder.patterns[layer][row], base.relative[layer][row]
        for head in range(relative.shape[2]):
            whole, here, there = (
                rows if is_content is None else rows[is_content]
                for rows in (pattern[:, head], relative[row][:, head], reference[:, head])
            )
            yield AttentionSummary(
                layer=layer,
                head=head,
                entropy=float(entropy(here).mean()),
                learned_mass=float(learned_mass(whole, here.shape[-1]).mean()),
                divergence=float(jensen_shannon(here, there).mean()),
                relative_deviation=float(largest_deviation(here, there)),
            )
