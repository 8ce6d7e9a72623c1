"""The page of one job: its spec, progress and results."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import cast
from urllib.parse import quote
from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.comparisons.task_measures import loss_rows, measure_rows, near_tie_counts
from adaptlab.plugins.adaptation import Adaptation
from adaptlab.plugins.metric import metric_named
from adaptlab.runs.events import ReplicateResult
from adaptlab.specs.halving import rung_steps, stages
from adaptlab.specs.resolved import UnreadSpec, read_resolved
from adaptlab.specs.spec import EarlyStopping, ResolvedSpec, ResolvedTraining
from adaptlab_answers.jobs import EventView, JobView
from adaptlab_api.pages.attention.view import attention_view
from adaptlab_api.pages.jobs.curves import MOST_REPLICATES
from adaptlab_api.pages.jobs.listing import ACTIVE_SECONDS, running_seconds, unserved_queues
from adaptlab_api.pages.jobs.scores import (
    carried_rows,
    confusion_tables,
    retention_rows,
    score_table,
)
from adaptlab_api.pages.rendering.annotation_form import form_of
from adaptlab_api.pages.rendering.formats import (
    NOTHING,
    integer,
    method_title,
    pretty,
    significant,
    words,
)
from adaptlab_api.pages.rendering.job_titles import MAKING_TITLES, job_title
from adaptlab_api.pages.studies.page import studies_of_job
from adaptlab_db.job_states import PAUSABLE_STATES
from adaptlab_services.hub.fetches import pushes_of
from adaptlab_services.jobs import jobs, rights
from adaptlab_services.lifecycle import events
from adaptlab_services.results import attention, attention_heads, checkpoints, results
from adaptlab_services.results.attention_heads import MapOutline

MOST_EVENTS = 500
MOST_FILES = 100
HEADS_SHOWN = 12
DIGEST_LENGTH, SHOWN_OF_DIGEST = 64, 12
"""Digits of a SHA-256, and those that a page shows."""


def job_page(session: Session, job_id: UUID, now: datetime) -> dict[str, object]:
    """Return the values of the template; raise `Absent`."""
    job = jobs.get(session, job_id)
    tried = results.replicates(session, job_id).data
    maps = attention_heads.outlines(session, job_id)
    spec = job.resolved_spec
    scored = results.evaluations(session, job_id)
    evaluations = [one for one in scored.data if one.base_model is None]
    latest = _latest_events(session, job_id)
    return {
        "job": job,
        "title": job_title(job),
        "seconds": running_seconds(job, now),
        "base_page": job.links.base_job and f"/base-models/{quote(job.base_model or '', safe='')}",
        "unserved": unserved_queues(session, [job]),
        "seeds": len(spec.seeds),
        "trials": len(spec.training.learning_rates),
        "scores": score_table(evaluations, tried, spec.task),
        "groups": scored.groups,
        "confusions": confusion_tables(evaluations, spec.task),
        "losses": loss_rows(evaluations, spec.task),
        "measures": measure_rows(evaluations, spec.task),
        "cautions": (*results.metric_cautions(session, job_id), *near_tie_counts(evaluations)),
        "retention": retention_rows(evaluations, spec, scored.retention),
        "drift": scored.drift,
        "carried": carried_rows(scored.data, spec),
        "not_carried": scored.not_carried,
        "tried": tried,
        "metric": _chosen_by(spec, tried),
        "prompts": [replicate for replicate in tried if replicate.prompt is not None],
        "demonstrates": "demonstrations" in (spec.method or {}),
        "trained_steps": sum(replicate.steps for replicate in tried),
        "rungs": rungs(spec, tried),
        "decays_vary": _vary(spec, "weight_decay"),
        "scales_vary": _vary(spec, "initial_scale"),
        "maps": maps[:MOST_FILES],
        "more_maps": max(0, len(maps) - MOST_FILES),
        **_attention(session, job, maps),
        "unread": unread_text(spec),
        "facts": spec_facts(spec),
        "resolved_json": pretty(spec),
        "spec_json": pretty(job.spec),
        "theory": results.theory(session, job_id).data,
        "attempts": results.attempts(session, job_id).data,
        "events": latest,
        "most_events": MOST_EVENTS,
        "can_pause": job.state in PAUSABLE_STATES,
        "may_change": rights.may_change(session, job_id),
        "may_delete": rights.may_delete(session, job.project),
        "annotation": form_of(job.labels, job.notes),
        "editable_name": None if job.kind in MAKING_TITLES else job.name or "",
        "studies": studies_of_job(session, job_id),
        "checkpoints": checkpoints.of_job(session, job_id).data[:MOST_FILES],
        "pushes": pushes_of(session, job_id),
        "undrawn": max(0, len(tried) - MOST_REPLICATES),
        "poll": None if job.terminal else ACTIVE_SECONDS,
        "stream": None if job.terminal else _stream(job_id, latest),
    }


def _attention(session: Session, job: JobView, maps: Sequence[MapOutline]) -> dict[str, object]:
    """Return the choices and the first heads; the attention page has the rest."""
    nothing: dict[str, object] = {"attention": None, "deviation": None, "heads": ()}
    if not maps:
        return nothing
    wanted = attention.MapFilter(replicate=maps[0].replicate, layer=0, head=0)
    ours = [view for view in attention.maps(session, job.id, wanted).data if view.is_drawable]
    if not ours:
        return nothing
    view = attention_view(maps, ours[0], job.resolved_spec)
    layers = attention_heads.layers(session, maps)
    first = next((layer for layer in layers if layer.layer == 0), None)
    rows = attention_heads.heads(session, maps, maps[0].replicate, limit=HEADS_SHOWN)
    return {
        "attention": view,
        "deviation": None if first is None else first.relative_deviation,
        "heads": rows,
    }


def _latest_events(session: Session, job_id: UUID) -> tuple[EventView, ...]:
    latest = events.pulse_of(session, job_id).sequence
    return events.after(session, job_id, after=max(0, latest - MOST_EVENTS)).data


def _stream(job_id: UUID, shown: Sequence[EventView]) -> str:
    """Return the address of the events after those on the page."""
    return f"/v1/jobs/{job_id}/events?after={shown[-1].sequence if shown else 0}"


def unread_text(spec: ResolvedSpec) -> str | None:
    """Return what this server lacks to read the spec, or None if nothing."""
    resolved = read_resolved(spec)
    return resolved.text if isinstance(resolved, UnreadSpec) else None


def spec_facts(spec: ResolvedSpec) -> list[tuple[str, str]]:
    """Return the lines of the table that describes a job, in words."""
    folder = spec.model_folder
    source = "trained from scratch" if folder is None else f"from the folder {folder.folder}"
    if spec.checks:
        return _theory_facts(spec)
    facts = [
        ("Kind", words(spec.kind)),
        ("Method", _configuration(spec.method) if spec.method else NOTHING),
        ("Task", _configuration(spec.task) if spec.task else NOTHING),
        ("Base model", spec.base_model or source),
        ("Family", _family(spec.family)),
        *_training_facts(spec),
        ("Seeds", ", ".join(str(seed) for seed in spec.seeds)),
        ("Evaluated on", "; ".join(map(_configuration, spec.evaluation_tasks)) or NOTHING),
        ("Test items", integer(spec.evaluation_samples)),
        ("Shown items", integer(spec.evaluation_shown)),
    ]
    if spec.evaluation_bases:
        names = ", ".join(other.name for other in spec.evaluation_bases)
        facts.append(("Also evaluated on the base models", names))
    if spec.base_tasks:
        own = "; ".join(_configuration(task) for task in spec.base_tasks)
        facts.append(("Base pretrained on", own))
    if spec.base_replicates:
        facts.append(("Base replicates", ", ".join(str(number) for number in spec.base_replicates)))
    return facts


def _theory_facts(spec: ResolvedSpec) -> list[tuple[str, str]]:
    return [
        ("Kind", words(spec.kind)),
        ("Checks", "; ".join(map(_configuration, spec.checks))),
        ("Base model", spec.base_model or "built by the checks"),
        *(("Adaptation", _measured(adaptation)) for adaptation in spec.adaptations),
        ("Seed", str(spec.seeds[0])),
    ]


def _measured(adaptation: Adaptation) -> str:
    seeds = ", ".join(str(seed) for seed in adaptation.seeds)
    return f"{_configuration(adaptation.method)}; job {adaptation.job}, seeds {seeds}"


def _training_facts(spec: ResolvedSpec) -> list[tuple[str, str]]:
    training = spec.training
    if spec.adapter is not None:
        where = f"imported from the folder {spec.adapter.folder}, not trained here"
        return [("Training", where), ("Precision", training.precision)]
    if spec.task is None:
        return []
    facts = [
        ("Steps × batch", f"{integer(training.steps)} × {integer(training.batch_size)}"),
        ("Learning rate", _tried(trial.learning_rate for trial in training.trials)),
        (
            "Schedule",
            f"{training.schedule}, {100 * training.warmup_fraction:.0f}\N{NO-BREAK SPACE}% warm-up",
        ),
        ("Weight decay", _tried(trial.weight_decay for trial in training.trials)),
        ("Gradient clip", significant(training.gradient_clip)),
        ("Precision", training.precision),
    ]
    if training.base_weights != "stored":
        facts.append(("Base weights", training.base_weights))
    if _vary(spec, "initial_scale"):
        facts.append(("Initial scale", _tried(trial.initial_scale for trial in training.trials)))
    if len(training.trials) > 1:
        facts.append(("Trial kept", _CHOICES[spec.selection]))
    if training.halving is not None:
        facts.append(("Successive halving", _halving(training)))
    if training.accumulation > 1:
        facts.append(("Gradient accumulation", f"{training.accumulation} parts per batch"))
    if (rule := training.early_stopping) is not None:
        facts.append(("Early stopping", _stopping(rule, spec.task.get("metric"))))
    return facts


_CHOICES = {"per_seed": "best for each seed", "pooled": "best on average over seeds"}


def _stopping(rule: EarlyStopping, metric: object) -> str:
    """Return the condition for early stopping by a task's metric, in words."""
    better = f" by {significant(rule.min_delta)}" if rule.min_delta else ""
    improved = f"a lower loss{better}"
    measured = metric_named(metric)
    if measured is not None and measured.is_share:
        higher = f"a higher {measured.in_sentence}{better}"
        improved = f"{higher}, or {improved} where that stays"
    return f"after {rule.patience} validations without {improved}; the best is kept"


def _halving(training: ResolvedTraining) -> str:
    """Return the number of trials after each rung, in words."""
    first, *others = stages(training)
    later = ", ".join(f"{stage.trials} after step {integer(stage.first)}" for stage in others)
    return f"{first.trials} trials, then at most {later}"


def rungs(spec: ResolvedSpec, tried: Sequence[ReplicateResult]) -> str:
    """Return the replicates kept at each rung, in words; empty without rungs."""
    parts: list[str] = []
    for step in rung_steps(spec.training.steps, spec.training.halving):
        kept = sum(replicate.steps > step for replicate in tried)
        lost = sum(
            replicate.status == "eliminated" and replicate.steps == step for replicate in tried
        )
        if lost:
            parts.append(f"{kept} of {kept + lost} after step {integer(step)}")
    return f"Replicates kept: {'; '.join(parts)}." if parts else ""


def _chosen_by(spec: ResolvedSpec, tried: Sequence[ReplicateResult]) -> str | None:
    """Return the metric by which trials were chosen; None for accuracy."""
    if all(one.validation_metric is None for one in tried):
        return None
    metric = metric_named((spec.task or {}).get("metric"))
    return "Metric" if metric is None else metric.title


def _vary(spec: ResolvedSpec, knob: str) -> bool:
    """Return True if the trials differ in a knob."""
    return len({getattr(trial, knob) for trial in spec.training.trials}) > 1


def _tried(values: Iterable[float]) -> str:
    """Return the distinct values of a knob over the trials, in words."""
    shown = list(dict.fromkeys(significant(value) for value in values))
    return shown[0] if len(shown) == 1 else f"one of {', '.join(shown)}"


def _family(family: Mapping[str, object]) -> str:
    """Return a family's name and knobs, without a model's files."""
    files = ("config", "stored")
    return _configuration({name: value for name, value in family.items() if name not in files})


def _configuration(plug_in: Mapping[str, object]) -> str:
    """Return a plug-in's name and set knobs: `LoRA (rank 1, alpha 2)`."""
    knobs = ", ".join(
        f"{words(name)} {_knob(value)}"
        for name, value in plug_in.items()
        if name != "name" and value is not None
    )
    name = method_title(str(plug_in["name"]))
    return f"{name} ({knobs})" if knobs else name


def _knob(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) or value is None:
        return "none" if value is None else significant(value)
    if isinstance(value, list | tuple):
        return " + ".join(map(_knob, cast("Sequence[object]", value)))
    if isinstance(value, dict):
        members = cast("Mapping[str, object]", value)
        if "name" in members:
            return _configuration(members)
        known = {name: member for name, member in members.items() if member is not None}
        return f"({', '.join(f'{name} {_knob(member)}' for name, member in known.items())})"
    if isinstance(value, str):
        return _text(value)
    return str(value)


def _text(value: str) -> str:
    """Return a text in quotes if spaces matter, and a digest by its start."""
    if len(value) == DIGEST_LENGTH and set(value) <= set("0123456789abcdef"):
        return value[:SHOWN_OF_DIGEST]
    return json.dumps(value, ensure_ascii=False) if any(map(str.isspace, value)) else value
