"""Attention over learned positions as a job's check."""

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, stdev

from adaptlab.measurements.theory_report import Check
from adaptlab.plugins.adaptation import AdapterFile
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
    """One report an adaptation: the layer in which attention varies most, mean over replicates."""
    for label, files in subject.by_adaptation():
        each = [_of(check, subject, file) for file in files]
        gaps = _by_layer(each, lambda _, layer: layer.gap)
        yield Check.at_most(
            f"attention-over-prefix{label}",
            "Appendix B: attention over the prefix positions varies little over inputs.",
            max(gaps),
            CONCENTRATED,
            **_limits(each),
            samples=check.samples,
            replicates=len(each),
            seeds=tuple(file.seed for file in files),
            gap_by_layer=gaps,
            gap_by_layer_of_paper_head=_by_layer(each, lambda i, layer: layer.gap_of_head(i)),
            top_share_by_layer=_by_layer(each, lambda _, layer: layer.top_share),
            prefix_share_by_layer=_by_layer(each, lambda _, layer: layer.share),
            largest_gap_by_replicate=tuple(max(layer.gap for layer in one) for one in each),
        )


def _limits(each: Sequence[Layers]) -> dict[str, float]:
    """The 95 % limits `low` and `high` of the largest gap over replicates; none of one replicate.

    Student's limits of every layer's mean, which hold together (Bonferroni).
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


def _of(check: PrefixAttention, subject: Subject, file: AdapterFile) -> Layers:
    one = subject.load(file)
    parts = one.parts(check.samples)
    return learned_attention(one.base, parts, one.attached, one.last_of_question)


def _by_layer(
    each: list[Layers], figure: Callable[[int, LearnedAttention], float]
) -> tuple[float, ...]:
    """A figure of every layer, the mean over replicates."""
    layers = enumerate(zip(*each, strict=True))
    return tuple(fmean(figure(i, layer) for layer in replicates) for i, replicates in layers)
