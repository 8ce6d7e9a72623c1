"""The span of a trained prefix as a job's check."""

from collections.abc import Iterable, Sequence
from statistics import fmean

import torch

from adaptlab.runs.theory_report import Check
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory.prefix_effect import prefix_effects
from adaptlab.theory.span import SpanUse, most_beyond, spans_at_most, uses_of
from adaptlab.theory.subject import Subject
from adaptlab.theory_checks.span import Span


@MEASURES.register("span")
def measure(check: Span, subject: Subject) -> Iterable[Check]:
    """Report per adaptation the worst replicate and the use of the span."""
    for label, files in subject.by_adaptation():
        beyond: list[float] = []
        uses: list[tuple[SpanUse, ...]] = []
        for file in files:
            adapted = subject.load(file)
            effects = prefix_effects(adapted.base, adapted.tokens(check.samples), adapted.attached)
            beyond.append(most_beyond(effects))
            uses.append(uses_of(effects))
        report = spans_at_most(
            max(beyond),
            samples=check.samples,
            replicates=len(files),
            seeds=tuple(file.seed for file in files),
            prefix_length=subject.adaptations[files[0].adaptation].method.extra_context_tokens(),
            mean_effective_rank=_mean_rank([use for adapted in uses for use in adapted]),
            effective_rank_by_layer=_by_layer(uses),
            effective_rank_by_replicate=tuple(map(_mean_rank, uses)),
            share_of_singular_values=_shares([use for adapted in uses for use in adapted]),
        )
        yield report.model_copy(update={"name": f"{report.name}{label}"})


def _mean_rank(uses: Sequence[SpanUse]) -> float:
    return fmean(use.effective_rank for use in uses)


def _by_layer(uses: Sequence[Sequence[SpanUse]]) -> tuple[float, ...]:
    every = [use for of_replicate in uses for use in of_replicate]
    layers = sorted({use.layer for use in every})
    return tuple(_mean_rank([use for use in every if use.layer == layer]) for layer in layers)


def _shares(uses: Sequence[SpanUse]) -> tuple[float, ...]:
    """Return each singular value's mean share of their sum."""
    values = torch.tensor([use.singular_values for use in uses], dtype=torch.float64)
    total = values.sum(-1, keepdim=True).clamp_min(torch.finfo(values.dtype).tiny)
    return tuple((values / total).mean(0).tolist())
