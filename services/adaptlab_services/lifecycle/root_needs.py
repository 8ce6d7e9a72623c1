"""Model roots that jobs need, and whether workers can read them."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Select, exists, select
from sqlalchemy.orm import Session

from adaptlab.runs.inputs import folders_of
from adaptlab_db.job_states import PENDING_STATES
from adaptlab_db.tables import CheckpointRow, Job, Worker
from adaptlab_services.lifecycle.held_leases import Claim
from adaptlab_services.lifecycle.workers import is_live

IS_READABLE = """NOT EXISTS (
    SELECT 1 FROM (VALUES
        (resolved_spec #>> '{model_folder,folder}'),
        (resolved_spec #>> '{adapter,folder}'),
        ((SELECT maker.resolved_spec #>> '{model_folder,folder}'
            FROM base_models base JOIN jobs maker ON maker.id = base.job_id
            WHERE base.name = jobs.base_model AND base.project_id = jobs.project_id
                AND NOT EXISTS (SELECT 1 FROM checkpoints stored
                    WHERE stored.job_id = maker.id AND stored.kind = 'base_model')))
        UNION ALL SELECT other #>> '{folder,folder}'
            FROM jsonb_array_elements(resolved_spec -> 'evaluation_bases') other
    ) needed (folder) WHERE split_part(needed.folder, '/', 1) <> ALL(:roots))"""
"""The condition on a row of jobs that all its roots are among `:roots`, as SQL."""


def roots_of(claim: Claim) -> frozenset[str]:
    """Return the aliases of the roots that a claimed job needs."""
    return frozenset(_alias(needed.folder) for needed in folders_of(claim.inputs))


def readable_by(session: Session, worker_id: UUID) -> Sequence[str] | None:
    """Return the roots that a worker can read, None if it did not report any."""
    return session.scalars(select(Worker.model_roots).where(Worker.id == worker_id)).one_or_none()


def unread_roots(session: Session, job: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the roots that a pending job needs and no live worker can read.

    Only workers of its queue count. None is named if there is no such worker, or if one of them did
    not report its roots. `job` is a row of `job_rows`; most jobs take no query.
    """
    if job["state"] not in PENDING_STATES or not (needed := _needed(session, job)):
        return ()
    of_queue = Worker.queues.contains([job["queue"]]), is_live()
    reported = session.scalars(select(Worker.model_roots).where(*of_queue)).all()
    if not reported or None in reported:
        return ()
    readable = {alias for roots in reported for alias in roots or ()}
    return tuple(sorted(needed - readable))


def _needed(session: Session, job: Mapping[str, Any]) -> set[str]:
    spec = job["resolved_spec"]
    folders = [spec[member] for member in ("model_folder", "adapter") if spec.get(member)]
    folders += [o["folder"] for o in spec.get("evaluation_bases", ()) if o.get("folder")]
    needed = {_alias(folder["folder"]) for folder in folders}
    # A base model that was pretrained here has tasks, unless a head took the place of its own.
    if job["base_job_id"] is not None and not spec.get("base_tasks"):
        folder = session.scalars(_folder_of(job["base_job_id"])).one_or_none()
        needed |= {_alias(folder)} if folder is not None else set()
    return needed


def _folder_of(base_job_id: UUID) -> Select[str | None]:
    """Select the folder of a base model whose weights are not stored."""
    stored = exists().where(CheckpointRow.job_id == Job.id, CheckpointRow.kind == "base_model")
    folder = Job.resolved_spec[("model_folder", "folder")].astext
    return select(folder).where(Job.id == base_job_id, ~stored)


def _alias(folder: str) -> str:
    return folder.partition("/")[0]
