"""One job's page: what was asked for, how far it is, what came of it."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from sqlalchemy.orm import Session

from adaptlab.spec import ResolvedSpec
from adaptlab_api.pages.attention_view import attention_view
from adaptlab_api.pages.formats import integer, pretty, significant, words
from adaptlab_api.pages.job_list import ACTIVE_SECONDS, job_title, running_seconds, unserved_queues
from adaptlab_api.pages.scores import score_table
from adaptlab_services import attention, checkpoints, events, jobs, results

MOST_EVENTS = 500


def job_page(session: Session, job_id: UUID, now: datetime) -> dict[str, object]:
    """Everything that the template of a job shows; raises `NotFound`."""
    job = jobs.get(session, job_id)
    tried = results.replicates(session, job_id).data
    maps = attention.maps(session, job_id).data
    view = attention_view(maps)
    spec = job.resolved_spec
    return {
        "job": job,
        "title": job_title(job),
        "seconds": running_seconds(job, now),
        "base_job": _page_of(job.links.base_job),
        "unserved": unserved_queues(session, [job]),
        "seeds": len(spec.seeds),
        "trials": len(spec.training.learning_rates),
        "scores": score_table(results.evaluations(session, job_id).data, tried),
        "tried": tried,
        "maps": maps,
        "attention": view,
        "deviation": view.deviation if view else None,
        "facts": spec_facts(spec),
        "resolved_json": pretty(spec),
        "spec_json": pretty(job.spec),
        "attempts": results.attempts(session, job_id).data,
        "events": _latest_events(session, job_id),
        "checkpoints": checkpoints.of_job(session, job_id).data,
        "poll": None if job.terminal else ACTIVE_SECONDS,
    }


def _latest_events(session: Session, job_id: UUID) -> tuple[events.EventView, ...]:
    latest = events.pulse_of(session, job_id).sequence
    return events.after(session, job_id, after=max(0, latest - MOST_EVENTS)).data


def spec_facts(spec: ResolvedSpec) -> list[tuple[str, str]]:
    """The lines of the table that says what a job will do, in plain words."""
    training = spec.training
    rates = ", ".join(significant(rate) for rate in training.learning_rates)
    facts = [
        ("Kind", words(spec.kind)),
        ("Method", _configuration(spec.method) if spec.method else "–"),
        ("Task", _configuration(spec.task)),
        ("Base model", spec.base_model or "trained from scratch"),
        ("Family", _configuration(spec.family)),
        ("Steps × batch", f"{integer(training.steps)} × {integer(training.batch_size)}"),
        ("Learning rate", rates if len(training.learning_rates) == 1 else f"one of {rates}"),
        ("Schedule", f"{training.schedule}, {training.warmup_fraction:.0%} warm-up"),
        ("Weight decay", significant(training.weight_decay)),
        ("Gradient clip", significant(training.gradient_clip)),
        ("Precision", training.precision),
        ("Seeds", ", ".join(str(seed) for seed in spec.seeds)),
        ("Evaluated on", "; ".join(_configuration(task) for task in spec.evaluation_tasks)),
        ("Test items", integer(spec.evaluation_samples)),
    ]
    if spec.base_replicates:
        facts.append(("Base replicates", ", ".join(str(one) for one in spec.base_replicates)))
    return facts


def _configuration(plug_in: Mapping[str, object]) -> str:
    """A plug-in's name and its knobs: `lora (rank 1, alpha 2)`."""
    knobs = ", ".join(
        f"{words(name)} {_knob(value)}" for name, value in plug_in.items() if name != "name"
    )
    return f"{plug_in['name']} ({knobs})" if knobs else str(plug_in["name"])


def _knob(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return significant(value)
    return " + ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType] - JSON


def _page_of(link: str | None) -> str | None:
    """The page of a job from its address in the API."""
    return link.removeprefix("/v1") if link else None
