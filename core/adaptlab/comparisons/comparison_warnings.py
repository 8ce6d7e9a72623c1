"""Warnings about the scores of a comparison and the settings behind them."""

from collections.abc import Sequence
from typing import Literal

from adaptlab.comparisons.comparability import SettingDifference
from adaptlab.comparisons.row_pairs import unpaired
from adaptlab.comparisons.verdict import LEAST_SEEDS
from adaptlab.statistics.scores import Scores
from adaptlab.values import Value

FEW_ITEMS = 100
"""Below so many test items the normal quantile that stands for them is too near."""

WarningKind = Literal[
    "not_comparable",
    "base_not_learned",
    "unread",
    "unequal_effort",
    "missing_seeds",
    "few_seeds",
    "shared_bases",
    "few_items",
    "unpaired",
]


class ComparisonWarning(Value):
    """Something that a reader must know before the table; `methods` are the rows it touches."""

    kind: WarningKind
    text: str
    methods: tuple[str, ...] = ()


def comparison_warnings(
    rows: Sequence[Scores], differences: Sequence[SettingDifference]
) -> tuple[ComparisonWarning, ...]:
    """Return the warnings that follow from `rows` and from what `comparability` found.

    Those about the base models are in `base_learned`.
    """
    kinds: dict[str, WarningKind] = {"voids": "not_comparable", "effort": "unequal_effort"}
    found = [
        ComparisonWarning(
            kind=kinds[one.weight],
            text=one.text,
            methods=tuple(job for value in one.values for job in value.jobs),
        )
        for one in differences
        if one.weight in kinds
    ]
    named = {one.kind for one in found}
    if "unequal_effort" not in named:
        found += _unequal_effort(rows)
    return (*found, *_missing_seeds(rows), *_few(rows), *_shared_bases(rows), *_unpaired(rows))


def _unequal_effort(rows: Sequence[Scores]) -> list[ComparisonWarning]:
    """Rows that train something with unequal numbers of trials."""
    tried = {row.label: row.trials for row in rows if row.trials and row.parameters != 0}
    if len(set(tried.values())) < 2:
        return []
    told = ", ".join(f"{label} {trials}" for label, trials in tried.items())
    text = f"The methods were not tuned with the same effort. Trials per seed: {told}."
    return [ComparisonWarning(kind="unequal_effort", text=text, methods=tuple(tried))]


def _missing_seeds(rows: Sequence[Scores]) -> list[ComparisonWarning]:
    every = sorted({seed for row in rows for seed in row.seeds})
    missing = {row.label: [seed for seed in every if seed not in row.seeds] for row in rows}
    return [
        ComparisonWarning(
            kind="missing_seeds",
            text=f"{label} lacks seeds {seeds}. Pairs use only the seeds that both methods have.",
            methods=(label,),
        )
        for label, seeds in missing.items()
        if seeds
    ]


def _few(rows: Sequence[Scores]) -> list[ComparisonWarning]:
    found: list[ComparisonWarning] = []
    seeds = min(len(row.seeds) for row in rows)
    items = min(row.items for row in rows)
    if seeds < LEAST_SEEDS:
        text = (
            f"A row has only {seeds} seeds. The intervals are meant for {LEAST_SEEDS} seeds or "
            "more."
        )
        found.append(ComparisonWarning(kind="few_seeds", text=text))
    if items < FEW_ITEMS:
        text = (
            f"There are only {items} test items. The intervals are meant for {FEW_ITEMS} items "
            "or more."
        )
        found.append(ComparisonWarning(kind="few_items", text=text))
    return found


def _shared_bases(rows: Sequence[Scores]) -> list[ComparisonWarning]:
    """Seeds that start from the same weights say less than as many independent ones."""
    shared = [row for row in rows if len(set(row.bases)) < len(row.bases)]
    if not shared:
        return []
    bases, seeds = len(set(shared[0].bases)), len(shared[0].seeds)
    text = (
        f"{seeds} seeds start from {bases} replicates of the base model, so they are not "
        "independent and the intervals are too narrow. Pretrain the base model with as many "
        "seeds."
    )
    return [
        ComparisonWarning(
            kind="shared_bases", text=text, methods=tuple(row.label for row in shared)
        )
    ]


def _unpaired(rows: Sequence[Scores]) -> list[ComparisonWarning]:
    return [
        ComparisonWarning(
            kind="unpaired",
            text=(
                f"{first.label} and {second.label} share no seeds, or were scored on different "
                f"numbers of items ({first.items} and {second.items}). The pair has no verdict."
            ),
            methods=(first.label, second.label),
        )
        for first, second in unpaired(rows)
    ]
