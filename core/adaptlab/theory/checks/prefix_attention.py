"""Attention over learned positions as a job's check."""

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, stdev

from adaptlab.runs.inputs import PlacedAdapterFile
from adaptlab.runs.theory_report import Check
from adaptlab.statistics.distributions import student_quantile
from adaptlab.theory.learned_attention import LearnedAttention, learned_attention
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory.span import CONCENTRATED
from adaptlab.theory.subject import Subject
from adaptlab.theory_checks.prefix_attention import PrefixAttention

Layers = tuple[LearnedAttention, ...]
LEVEL = 0.95


@MEASURES.register("prefix_attention")
def measure(check: PrefixAttention, subject: Subject) -> Iterable[Check]:
    """Report per adaptation the layer whose attention varies most, on average."""
    for label, files in subject.by_adaptation():
        replicates = [_of(check, subject, file) for file in files]
        gaps = _by_layer(replicates, lambda _, layer: layer.gap)
        yield Check.at_most(
            f"attention-over-prefix{label}",
            "Appendix B: attention over the prefix positions varies little over inputs.",
            max(gaps),
            CONCENTRATED,
            **_limits(replicates),
            samples=check.samples,
            replicates=len(replicates),
            seeds=tuple(file.seed for file in files),
            gap_by_layer=gaps,
            gap_by_layer_of_paper_head=_by_layer(replicates, lambda i, layer: layer.gap_of_head(i)),
            top_share_by_layer=_by_layer(replicates, lambda _, layer: layer.top_share),
            prefix_share_by_layer=_by_layer(replicates, lambda _, layer: layer.share),
            largest_gap_by_replicate=tuple(
                max(layer.gap for layer in layers) for layers in replicates
            ),
        )


def _limits(each: Sequence[Layers]) -> dict[str, float]:
    """Return the 95 % limits of the largest gap; none for a single replicate.

    These are Student's limits of every layer's mean, simultaneous by Bonferroni.
    """
    if len(each) < 2:
        return {}
    tail = (1 - LEVEL) / 2 / len(each[0])
    factor = student_quantile(len(each) - 1, 1 - tail) / math.sqrt(len(each))
    layers = [[one.gap for one in replicates] for replicates in zip(*each, strict=True)]
    reaches = [(fmean(gaps), factor * stdev(gaps)) for gaps in layers]
    return {
        "low": max(0.0, *(mean - reach for mean, reach in reaches)),
        "high": max(mean + reach for mean, reach in reaches),
    }


def _of(check: PrefixAttention, subject: Subject, file: PlacedAdapterFile) -> Layers:
    adapted = subject.load(file)
    parts = adapted.parts(check.samples)
    return learned_attention(adapted.base, parts, adapted.attached, adapted.last_of_question)


def _by_layer(
    each: list[Layers], figure: Callable[[int, LearnedAttention], float]
) -> tuple[float, ...]:
    """Return the mean over replicates of a figure of every layer."""
    layers = enumerate(zip(*each, strict=True))
    return tuple(fmean(figure(i, layer) for layer in replicates) for i, replicates in layers)
