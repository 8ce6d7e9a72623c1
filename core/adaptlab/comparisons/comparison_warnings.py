"""Warnings about the scores of a comparison and the settings behind them."""

from collections.abc import Mapping, Sequence
from typing import Literal

from adaptlab.comparisons.comparability import SettingDifference
from adaptlab.comparisons.row_names import first_in_sentence, method_in_sentence
from adaptlab.comparisons.row_pairs import unpaired
from adaptlab.comparisons.verdict import LEAST_SEEDS
from adaptlab.figures import counted
from adaptlab.statistics.leads import FEWEST_SEEDS
from adaptlab.statistics.scores import Scores
from adaptlab.values import Value

FEW_ITEMS = 100
"""With fewer test items, the normal quantile of their part makes intervals too narrow."""

WarningKind = Literal[
    "not_comparable",
    "base_not_learned",
    "unread",
    "unequal_effort",
    "unknown_effort",
    "missing_seeds",
    "few_seeds",
    "shared_bases",
    "imported_base",
    "few_items",
    "unpaired",
    "metric",
]


class ComparisonWarning(Value):
    """A fact to read before the table; `methods` are the rows concerned."""

    kind: WarningKind
    text: str
    methods: tuple[str, ...] = ()


def imported_base(base_model: str) -> ComparisonWarning:
    """Return the warning that replaces `shared_bases` for an import."""
    text = (
        f"All seeds start from the same weights, because {base_model} was imported, so the "
        "verdicts hold for this base model only."
    )
    return ComparisonWarning(kind="imported_base", text=text)


def comparison_warnings(
    rows: Sequence[Scores],
    differences: Sequence[SettingDifference],
    of_bases: Sequence[ComparisonWarning] = (),
    *,
    chose_seeds: bool = False,
) -> tuple[ComparisonWarning, ...]:
    """Return the warnings about `rows`, the differing settings and the bases.

    With `chose_seeds`, the study gave some seeds to some methods only, because the others could not
    change its answer any more. `of_bases` are warnings about the base models, such as those of
    `base_learned`. An imported base model has a single replicate by nature, so its warning replaces
    the advice to pretrain more.
    """
    kinds: dict[str, WarningKind] = {"voids": "not_comparable", "effort": "unequal_effort"}
    warnings = [
        ComparisonWarning(
            kind=kinds[one.weight],
            text=one.text,
            methods=tuple(job for value in one.values for job in value.jobs),
        )
        for one in differences
        if one.weight in kinds
    ]
    if not any(warning.kind == "unequal_effort" for warning in warnings):
        warnings += _unequal_effort(rows)
    shared = _shared_bases(rows)
    imported = [one for one in of_bases if shared and one.kind == "imported_base"]
    return (
        *(
            *warnings,
            *(_dropped_early(rows) if chose_seeds else _missing_seeds(rows)),
            *_few(rows),
            *(imported or shared),
            *_unpaired(rows),
            *_cautions(rows),
        ),
        *(one for one in of_bases if one.kind != "imported_base"),
    )


def _unequal_effort(rows: Sequence[Scores]) -> list[ComparisonWarning]:
    """Return a warning if rows that train had unequal numbers of trials."""
    trials = {row.label: row.trials for row in rows if row.trials and row.parameters != 0}
    if len(set(trials.values())) < 2:
        return []
    numbers = _numbers(trials)
    text = f"The methods were tuned with unequal effort. Trials per seed: {numbers}."
    return [ComparisonWarning(kind="unequal_effort", text=text, methods=tuple(trials))]


def _dropped_early(rows: Sequence[Scores]) -> list[ComparisonWarning]:
    """Return a warning that names the methods with fewer seeds than others."""
    most = max(len(row.seeds) for row in rows)
    fewer = {row.label: len(row.seeds) for row in rows if len(row.seeds) < most}
    if not fewer:
        return []
    numbers = _numbers(fewer)
    text = (
        f"Some methods have fewer than {most} seeds: {numbers}. The study gave them no more once "
        "they could not change its answer, which is allowed because its evidence holds at every "
        "look and compares each pair on the seeds that both have."
    )
    return [ComparisonWarning(kind="unequal_effort", text=text, methods=tuple(fewer))]


def _numbers(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{method_in_sentence(label)} {count}" for label, count in counts.items())


def _missing_seeds(rows: Sequence[Scores]) -> list[ComparisonWarning]:
    every = sorted({seed for row in rows for seed in row.trained})
    missing = {row.label: [seed for seed in every if seed not in row.trained] for row in rows}
    return [
        ComparisonWarning(
            kind="missing_seeds",
            text=(
                f"{first_in_sentence(label)} has no score for {named_seeds(seeds)}. Each pair is "
                "compared on the seeds that both methods have."
            ),
            methods=(label,),
        )
        for label, seeds in missing.items()
        if seeds
    ]


def named_seeds(seeds: Sequence[int]) -> str:
    """Return the seeds by their numbers: "seed 2", "seeds 2, 5"."""
    return f"seed{'' if len(seeds) == 1 else 's'} {', '.join(map(str, seeds))}"


def _few(rows: Sequence[Scores]) -> list[ComparisonWarning]:
    warnings: list[ComparisonWarning] = []
    seeds = min(len(row.trained) for row in rows)
    items = min(row.items for row in rows)
    if seeds < LEAST_SEEDS:
        text = (
            f"A row has only {counted(seeds, 'seed')}. Limits need {LEAST_SEEDS} seeds, and an "
            f"order of methods {FEWEST_SEEDS}."
        )
        warnings.append(ComparisonWarning(kind="few_seeds", text=text))
    if items < FEW_ITEMS:
        text = (
            f"A row was scored on only {counted(items, 'test item')}. Intervals are reliable from "
            f"{FEW_ITEMS} items on."
        )
        warnings.append(ComparisonWarning(kind="few_items", text=text))
    return warnings


def _shared_bases(rows: Sequence[Scores]) -> list[ComparisonWarning]:
    """Return a warning if seeds share starting weights.

    Such seeds are not independent.
    """
    shared = [row for row in rows if len(set(row.bases)) < len(row.bases)]
    if not shared:
        return []
    bases, seeds = len(set(shared[0].bases)), len(shared[0].seeds)
    text = (
        f"{seeds} seeds start from {counted(bases, 'replicate')} of the base model, so they are "
        "not independent and the intervals are too narrow. Pretrain the base model with "
        f"{seeds} seeds."
    )
    return [
        ComparisonWarning(
            kind="shared_bases", text=text, methods=tuple(row.label for row in shared)
        )
    ]


def _cautions(rows: Sequence[Scores]) -> list[ComparisonWarning]:
    """Return warnings about values of the task's metric."""
    labels: dict[str, list[str]] = {}
    for row in rows:
        for text in row.cautions():
            labels.setdefault(text, []).append(row.label)
    shared = len(labels) == 1
    return [
        ComparisonWarning(
            kind="metric",
            text=text if shared else f"{', '.join(map(first_in_sentence, methods))}: {text}",
            methods=tuple(methods),
        )
        for text, methods in labels.items()
    ]


def _unpaired(rows: Sequence[Scores]) -> list[ComparisonWarning]:
    return [
        ComparisonWarning(
            kind="unpaired",
            text=(
                f"{first_in_sentence(first.label)} and {method_in_sentence(second.label)} have no "
                "verdict, because they share no seed or were scored on different numbers of items "
                f"({first.items:,} and {second.items:,})."
            ),
            methods=(first.label, second.label),
        )
        for first, second in unpaired(rows)
    ]
