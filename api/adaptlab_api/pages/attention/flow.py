"""Attention to and from the label words of demonstrations, by layer."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from adaptlab.specs.resolved import UnreadSpec, read_resolved
from adaptlab_answers.attention import MapView
from adaptlab_answers.drawable_maps import without_padding
from adaptlab_answers.jobs import JobView
from adaptlab_api.pages.attention.charts import MOST_WEIGHTS, UNREADABLE
from adaptlab_api.pages.attention.view import MapPlace
from adaptlab_services.results import theory_reports
from adaptlab_services.results.attention_patterns import patterns_of_layers
from adaptlab_services.results.theory_reports import LayerSaliency


@dataclass(frozen=True, slots=True)
class Flow:
    """Shares of the attention of one layer on one sample, means over heads.

    `gathered` is what label words attend to before them, other labels left out, as a mean over the
    labels. `read` is what the position that predicts the answer attends to labels, and `other` what
    it attends to all tokens that are no labels.
    """

    layer: int
    gathered: float
    read: float
    other: float


@dataclass(frozen=True, slots=True)
class Flows:
    """The flow by layer, before and after adaptation.

    `labels` are the label words in the order of the demonstrations. `saliency` is what a theory
    check has measured of the base model on the same task.
    """

    labels: tuple[str, ...]
    base: tuple[Flow, ...]
    adapted: tuple[Flow, ...]
    saliency: LayerSaliency | None


def flows(session: Session, maps: Sequence[MapView], place: MapPlace, job: JobView) -> Flows | None:
    """Return the flow on a sample of one replicate, whose `maps` are given.

    None if the recorded items have no demonstrations with labels at known places.
    """
    read = read_resolved(job.resolved_spec)
    task = None if isinstance(read, UnreadSpec) else read.task
    labels = () if task is None else task.also_trained()  # the labels of demonstrations
    if task is None or not labels or not maps:
        return None
    tokens, answering = maps[0].tokens[place.sample], maps[0].first_answer(place.sample)
    found: dict[str, tuple[Flow, ...]] = {"base": (), "adapted": ()}
    for view in maps:
        _, layers, heads, rows, columns = view.shape
        if layers * heads * rows * columns > MOST_WEIGHTS:
            return None
        try:
            every = patterns_of_layers(session, view, place.sample, (0, layers))
        except UNREADABLE:
            return None
        weights = without_padding(every)[..., view.learned_positions :].mean(axis=1)
        found[view.source] = tuple(
            layer_flow(layer, pattern, labels, answering) for layer, pattern in enumerate(weights)
        )
    signs = tuple(task.written((tokens[at],)) for at in labels)
    saliency = _saliency(session, job, len(found["base"]))
    return Flows(signs, found["base"], found["adapted"], saliency)


def _saliency(session: Session, job: JobView, layers: int) -> LayerSaliency | None:
    """Return the measured saliency of a job's base model.

    None if it is not measured, or has another number of layers.
    """
    spec = job.resolved_spec
    name, digest = job.base_model, spec.base_digest
    if job.kind == "pretrain":
        name, digest = str(job.spec.get("name")), job.spec_digest
    if name is None or digest is None or spec.task is None:
        return None
    found = theory_reports.saliency_of(session, name, digest, spec.task)
    return found if found is not None and len(found.into_labels) == layers else None


def layer_flow(
    layer: int, pattern: NDArray[np.float64], labels: Sequence[int], answering: int
) -> Flow:
    """Return a layer's flow from its mean pattern [query, key] over content."""
    gathered = [
        sum(float(pattern[label, key]) for key in range(label) if key not in labels)
        for label in labels
    ]
    row = pattern[answering]
    read = sum(float(row[label]) for label in labels)
    return Flow(layer, sum(gathered) / len(labels), read, float(row.sum()) - read)
