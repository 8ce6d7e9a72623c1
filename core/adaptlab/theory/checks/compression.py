"""Compressed demonstrations as a job's check."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from adaptlab.runs.theory_report import Check, Detail
from adaptlab.theory.compression import kept_places, logits, overlap, random_words, text_logits
from adaptlab.theory.demonstrated import View, by_replicate, used, views
from adaptlab.theory.over_replicates import mean_limits
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory.subject import Subject
from adaptlab.theory_checks.compression import Compression

RANDOM, TOP = "hidden_random", "hidden_random_top"
ANCHOR, TEXT = "hidden_anchor", "text_anchor"
CLAIMS = {
    "random": (ANCHOR, RANDOM, "states of the formatting and of as many random words"),
    "random-top": (ANCHOR, TOP, "the best of all draws of random words in each replicate"),
    "text": (ANCHOR, TEXT, "a text of the same tokens"),
    "labels-alone": ("hidden_labels", "hidden_breaks", "states of the line breaks alone"),
}


@dataclass(frozen=True)
class CompressedItems:
    """Loyalties and accuracy of compressed demonstrations, by item."""

    loyalty: Tensor
    word_loyalty: Tensor
    accuracy: Tensor


@MEASURES.register("compression")
def measure(check: Compression, subject: Subject) -> Iterable[Check]:
    """Report whether demonstrations are used; if so, compressed ones."""
    replicates = views(check, subject)
    premises = tuple(used(check, replicates, "compression"))
    yield from premises
    if not all(premise.holds for premise in premises):
        return
    parts = [_of_base(check, view, subject.seed) for view in replicates]
    every = {
        kind: CompressedItems(
            torch.stack([part[kind].loyalty for part in parts]),
            torch.stack([part[kind].word_loyalty for part in parts]),
            torch.stack([part[kind].accuracy for part in parts]),
        )
        for kind in parts[0]
    }
    yield from _claims(every, {**premises[0].details})


def _of_base(check: Compression, view: View, seed: int) -> Mapping[str, CompressedItems]:
    """Return what one replicate keeps by kind, [B] each."""
    base, shown = view.base, view.shown
    full, places, labels = logits(base, shown), kept_places(shown), shown.words

    def compared(given: Tensor) -> CompressedItems:
        answer = given[:, labels].argmax(-1)
        return CompressedItems(
            (answer == full[:, labels].argmax(-1)).double(),
            overlap(given, full),
            (answer == shown.right).double(),
        )

    draws = [
        compared(logits(base, shown, random_words(shown, seed, draw)))
        for draw in range(check.draws)
    ]
    return {
        ANCHOR: compared(logits(base, shown, places["anchors"])),
        TEXT: compared(text_logits(base, shown, places["anchors"])),
        RANDOM: _mean(draws),
        TOP: max(draws, key=lambda draw: float(draw.loyalty.mean())),
        "hidden_labels": compared(logits(base, shown, places["labels"])),
        "hidden_breaks": compared(logits(base, shown, places["breaks"])),
    }


def _mean(draws: list[CompressedItems]) -> CompressedItems:
    return CompressedItems(
        torch.stack([draw.loyalty for draw in draws]).mean(0),
        torch.stack([draw.word_loyalty for draw in draws]).mean(0),
        torch.stack([draw.accuracy for draw in draws]).mean(0),
    )


def _claims(every: Mapping[str, CompressedItems], premise: dict[str, Detail]) -> Iterator[Check]:
    details = {name: premise[name] for name in ("samples", "replicates", "accuracy")}
    for kind, kept in every.items():
        details[f"loyalty_{kind}"] = by_replicate(kept.loyalty)
        details[f"word_loyalty_{kind}"] = by_replicate(kept.word_loyalty)
        details[f"accuracy_{kind}"] = by_replicate(kept.accuracy)
    samples = premise["samples"]
    assert isinstance(samples, int)
    for name, (kind, other, noun) in CLAIMS.items():
        what = "labels and formatting" if kind == ANCHOR else "the labels alone"
        differences = every[kind].loyalty - every[other].loyalty
        low, high = mean_limits(differences)
        more: dict[str, Detail] = {"difference": float(differences.mean())}
        more |= {"low": low, "high": high, "opposite": 0.0}
        yield Check.at_least(
            f"compression.{name}",
            f"A query that reads only the states of {what} keeps more answers than one that reads "
            f"{noun}.",
            low,
            1 / samples,  # more than one item of all
            **details,
            **more,
        )
