"""Answers that no server has made, whole as the client expects them."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid5

from tests.making import a_resolved_spec

from adaptlab_answers.jobs import JobLinks, JobView, QueuePlace, RunProgress
from adaptlab_answers.studies import StudyLinks, StudyView

NAMES = UUID("00000000-0000-7000-8000-000000000000")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def identity(name: str) -> UUID:
    """An id that is the same for the same name."""
    return uuid5(NAMES, name)


def a_job_answer(name: str = "j1", **changes: Any) -> dict[str, Any]:
    """The JSON of a job that waits in the queue."""
    resolved = a_resolved_spec()
    links = dict.fromkeys(JobLinks.model_fields, "/v1/jobs")
    job = JobView(
        id=identity(name), name=None, kind="adapt", state="queued", terminal=False, reason=None,
        error=None, cancel_requested=False, pause_requested=False, retry_of=None, attempt=0,
        attempts_max=3, base_model="tiny-sort", family="minigpt", task="sort_descending",
        method="lora", checks=(), budget_requested=None, trainable_parameters=16,
        spec_digest="0" * 64, progress=RunProgress(step=0, total=4, eta_seconds=None),
        queue=QueuePlace(name="cpu", priority=0, position=1), worker=None, owner="ada",
        project="default", labels={}, created_at=NOON, started_at=None, finished_at=None,
        heartbeat_at=None, spec={"kind": "adapt"}, resolved_spec=resolved, budget=resolved.budget,
        links=JobLinks(**links),
    )  # fmt: skip
    return job.model_dump(mode="json") | changes


def a_study_answer(name: str = "small", **changes: Any) -> StudyView:
    """A study that runs and has no cells."""
    study: dict[str, Any] = {
        "id": identity(name), "name": name, "state": "running", "terminal": False, "jobs": {},
        "owner": "ada", "project": "default", "recipe": None, "created_at": NOON,
        "extended_at": None, "cancelled_at": None, "spec": {}, "base_models": [], "cells": [],
        "checks": [], "skipped": [],
        "links": dict.fromkeys(StudyLinks.model_fields, "/v1/studies"),
    }  # fmt: skip
    return StudyView.model_validate(study | changes)
