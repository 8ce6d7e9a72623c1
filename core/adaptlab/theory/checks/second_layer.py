"""The four terms under a trained prefix as a job's check."""

from collections.abc import Iterable
from statistics import fmean

from adaptlab.runs.theory_report import Check
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory.prefix_effect import prefix_effects
from adaptlab.theory.second_layer import four_terms_of, second_layer_scores
from adaptlab.theory.subject import Subject
from adaptlab.theory_checks.second_layer import SecondLayer


@MEASURES.register("second_layer")
def measure(check: SecondLayer, subject: Subject) -> Iterable[Check]:
    """Report per adaptation the worst remainder and mean term sizes."""
    for label, files in subject.by_adaptation():
        missed: list[float] = []
        sizes: list[dict[str, float]] = []
        shares: list[float] = []
        for file in files:
            adapted = subject.load(file)
            tokens = adapted.tokens(check.samples)
            decomposition = second_layer_scores(adapted.base, tokens, adapted.attached)
            missed.append(decomposition.missed)
            sizes.append(decomposition.sizes())
            shares.append(
                float(prefix_effects(adapted.base, tokens, adapted.attached)[0].taken.mean())
            )
        means = {name: fmean(size[name] for size in sizes) for name in sizes[0]}
        report = four_terms_of(
            max(missed),
            samples=check.samples,
            replicates=len(files),
            seeds=tuple(file.seed for file in files),
            prefix_share=fmean(shares),
            **means,
        )
        yield report.model_copy(update={"name": f"{report.name}{label}"})
