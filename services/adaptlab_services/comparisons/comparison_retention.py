"""Retention, gain and group scores of rows, from the scores of their jobs."""

from collections.abc import Sequence

from adaptlab.comparisons.comparison import Comparison
from adaptlab.comparisons.drift import drifts
from adaptlab.comparisons.frontier import Frontier, PlacedRow, frontier
from adaptlab.comparisons.group_scores import group_scores
from adaptlab.comparisons.retention import gained, old_tasks, retention
from adaptlab.comparisons.table_comparison import MethodGroups, MethodRetention
from adaptlab_services.comparisons.comparison_rows import ComparedRow
from adaptlab_services.results.scored_jobs import watched_scores


def kept(row: ComparedRow, level: float) -> MethodRetention | None:
    """Return the row's retention and drift, None if nothing is watched."""
    watched = watched_scores(row.jobs)
    spec = row.jobs[0].spec
    tasks = retention(watched, spec.task, level, spec.mode)
    drift = drifts(watched, level)
    if not tasks and not drift:
        return None
    place = {"method": row.method, "label": row.label, "budget": row.budget}
    return MethodRetention.model_validate({**place, "tasks": tasks, "drift": drift})


def of_groups(row: ComparedRow, level: float) -> MethodGroups | None:
    """Return the row's scores of groups, None if no whole group is watched."""
    spec = row.jobs[0].spec
    if not spec.evaluation_groups:
        return None
    watched = watched_scores(row.jobs)
    scores = group_scores(spec.evaluation_groups, spec.evaluation_tasks, watched, level)
    place = {"method": row.method, "label": row.label, "budget": row.budget}
    return MethodGroups.model_validate({**place, "groups": scores}) if scores else None


def _placed(row: ComparedRow) -> PlacedRow | None:
    """Return the row's scores for gain against retention, if measured.

    An adaptation that is routed has no retention.
    """
    if row.jobs[0].spec.mode == "routed":
        return None
    scored, new = watched_scores(row.jobs), row.jobs[0].spec.task
    gain, old = gained(scored, new), [*old_tasks(scored, new)]
    return None if gain is None or not old else PlacedRow(gain, old)


def frontiers(rows: Sequence[ComparedRow], comparison: Comparison | None) -> tuple[Frontier, ...]:
    """Return gain against retention of every cell where it was measured."""
    if comparison is None or not (measured := {r.label: p for r in rows if (p := _placed(r))}):
        return ()
    found = (frontier(comparison, cell, measured) for cell in comparison.cells)
    return tuple(one for one in found if one is not None)
