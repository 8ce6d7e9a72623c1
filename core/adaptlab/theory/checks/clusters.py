"""Clusters of trained prefixes as a job's check."""

from collections.abc import Iterable, Iterator
from statistics import fmean

import torch

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.runs.inputs import PlacedAdapterFile
from adaptlab.runs.theory_report import Check
from adaptlab.theory.clusters import prefix_clusters, random_clusters
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory.subject import Adapted, Subject, tokens_of
from adaptlab.theory_checks.clusters import FEWEST, Clusters

Group = tuple[Adapted, ...]


@MEASURES.register("clusters")
def measure(check: Clusters, subject: Subject) -> Iterable[Check]:
    """Report three checks of the worst group of prefixes that share a base."""
    groups = [_of(check, group) for group in _groups(check, subject)]
    if not groups:
        detail = "Fewer than two prefixes that could be told apart were trained."
        raise InvalidSpec(Problem("/adaptation", "nothing_trained", detail))
    before, after, control = zip(*groups, strict=True)
    for of_groups, worst_of in ((before, max), (after, min), (control, max)):
        worst = worst_of(of_groups, key=lambda report: report.measured)
        accuracies = tuple(report.measured for report in of_groups)
        more = {"accuracy_by_group": accuracies, "mean_accuracy": fmean(accuracies)}
        yield worst.model_copy(update={"details": {**worst.details, **more}})


def _groups(check: Clusters, subject: Subject) -> Iterator[Group]:
    """Yield the groups of trained prefixes to distinguish."""
    there = {(file.adaptation, file.seed): file for file in subject.files}
    for group in check.groups(subject.adaptations):
        files: list[PlacedAdapterFile] = [there[place] for place in group if place in there]
        if len(files) >= FEWEST:
            yield tuple(subject.load(file) for file in files)


def _of(check: Clusters, group: Group) -> tuple[Check, Check, Check]:
    """Check one group, with questions of the prefixes' tasks in turn."""
    base, kinds = group[0].base, len(group)
    inputs = [tokens_of(base.family, adapted.measured.task, check.samples) for adapted in group]
    length = min(tokens.shape[-1] for tokens in inputs)
    tasks = torch.arange(check.samples) // check.folds % kinds
    asked = torch.stack([tokens[0, :, :length] for tokens in inputs])
    tokens = asked[tasks, torch.arange(check.samples)].unsqueeze(0)
    position, where = group[0].last_of_question, {"layer": check.layer, "folds": check.folds}
    trained, drawn = (
        [adapted.attached for adapted in group],
        [adapted.random() for adapted in group],
    )
    return (
        *prefix_clusters(base, tokens, tasks, trained, position, **where),
        random_clusters(base, tokens, drawn, position, **where),
    )
