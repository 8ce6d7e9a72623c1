"""The open resources of an application."""

from dataclasses import dataclass

from fastapi import FastAPI
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_api.answers.feed import Feed
from adaptlab_api.limits.auditing import AuditWriter
from adaptlab_api.limits.buckets import Buckets
from adaptlab_api.limits.request_counts import RequestCounts
from adaptlab_api.limits.thread_turns import Turns
from adaptlab_services.comparisons.chart_drawer import ChartDrawer
from adaptlab_services.comparisons.comparison_runs import ComparisonRuns
from adaptlab_services.lifecycle.doorbell import Bell
from adaptlab_services.models.dataset_files import DatasetRoots
from adaptlab_services.models.model_folders import ModelRoots
from adaptlab_services.people.admission import Admissions
from adaptlab_services.server.operations import Operations
from adaptlab_services.server.readiness import Readiness
from adaptlab_services.settings import Settings


@dataclass(frozen=True, slots=True)
class Resources:
    """The open resources of an application, managed by its lifespan.

    A session of `sessions` sees nothing that belongs to a project, unless it is opened on behalf
    of a user: see `adaptlab_services.people.access.unit`. `worker_sessions` are only for the leases
    of workers: see `adaptlab_services.leases.token_leases`. `drawings` limits how many plots are
    drawn at a time for bundles, `drawer` draws the charts of pages, and `readings` limits how many
    files are read as records; `comparisons` computes one
    comparison at a time. `operations` and `request_counts` are the figures of `/metrics`.
    """

    settings: Settings
    sessions: sessionmaker[Session]
    worker_sessions: sessionmaker[Session]
    admissions: Admissions
    bell: Bell
    audit_log: AuditWriter
    feed: Feed
    buckets: Buckets
    readiness: Readiness
    drawings: Turns
    drawer: ChartDrawer
    readings: Turns
    comparisons: ComparisonRuns
    operations: Operations
    request_counts: RequestCounts

    @property
    def model_roots(self) -> ModelRoots:
        """The folders that may contain model folders, by alias."""
        return ModelRoots(self.settings.model_roots)

    @property
    def dataset_roots(self) -> DatasetRoots:
        """The folders with files that datasets can be made of, by alias."""
        return DatasetRoots(self.settings.dataset_roots)


def resources_of(app: FastAPI) -> Resources:
    """Return the resources of a started application."""
    resources = app.state.resources
    assert isinstance(resources, Resources)
    return resources
