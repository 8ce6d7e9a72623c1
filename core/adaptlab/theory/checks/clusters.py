"""Clusters of trained prefixes as a job's check."""

from collections.abc import Iterable, Iterator
from statistics import fmean

import torch

from adaptlab.adaptation import AdapterFile
from adaptlab.errors import InvalidSpec, Problem
from adaptlab.theory.clusters import prefix_clusters
from adaptlab.theory.plugins import MEASURES
from adaptlab.theory.subject import Adapted, Subject, tokens_of
from adaptlab.theory_checks.clusters import FEWEST, Clusters
from adaptlab.theory_report import Check

Group = tuple[Adapted, ...]


@MEASURES.register("clusters")
def measure(check: Clusters, subject: Subject) -> Iterable[Check]:
    """Two reports: of all groups of prefixes that share a base, the one that fits least."""
    found = [_of(check, group) for group in _groups(check, subject)]
    if not found:
        detail = "Fewer than two prefixes that could be told apart were trained."
        raise InvalidSpec(Problem("/adaptation", "nothing_trained", detail))
    before = max((pair[0] for pair in found), key=lambda report: report.measured)
    after = min((pair[1] for pair in found), key=lambda report: report.measured)
    for worst, place in ((before, 0), (after, 1)):
        accuracies = tuple(pair[place].measured for pair in found)
        more = {"accuracy_by_group": accuracies, "mean_accuracy": fmean(accuracies)}
        yield worst.model_copy(update={"details": {**worst.details, **more}})


def _groups(check: Clusters, subject: Subject) -> Iterator[Group]:
    """The prefixes that are told apart, of which some may not have been trained."""
    there = {(file.adaptation, file.seed): file for file in subject.files}
    for group in check.groups(subject.adaptations):
        files: list[AdapterFile] = [there[place] for place in group if place in there]
        if len(files) >= FEWEST:
            yield tuple(subject.load(file) for file in files)


def _of(check: Clusters, group: Group) -> tuple[Check, Check]:
    """Questions of every prefix's task in turn, none of which is bound to a fold."""
    base, kinds = group[0].base, len(group)
    each = [tokens_of(base.family, one.measured.task, check.samples) for one in group]
    length = min(tokens.shape[-1] for tokens in each)
    tasks = torch.arange(check.samples) // check.folds % kinds
    asked = torch.stack([tokens[0, :, :length] for tokens in each])
    tokens = asked[tasks, torch.arange(check.samples)].unsqueeze(0)
    return prefix_clusters(
        base,
        tokens,
        tasks,
        [one.attached for one in group],
        group[0].last_of_question,
        layer=check.layer,
        folds=check.folds,
    )
