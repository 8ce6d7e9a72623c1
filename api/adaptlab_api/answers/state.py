"""What one application holds while it runs, and how a request reaches it."""

from dataclasses import dataclass

from fastapi import FastAPI
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_api.answers.feed import Feed
from adaptlab_api.limits.auditing import AuditLog
from adaptlab_api.limits.buckets import Buckets
from adaptlab_api.limits.turns import Turns
from adaptlab_services.comparisons.comparison_runs import ComparisonRuns
from adaptlab_services.lifecycle.doorbell import Bell
from adaptlab_services.models.model_folders import ModelRoots
from adaptlab_services.people.admission import Admissions
from adaptlab_services.server.readiness import Readiness
from adaptlab_services.settings import Settings


@dataclass(frozen=True, slots=True)
class Resources:
    """The open resources of a running application; the lifespan opens and closes them.

    A session of `sessions` sees nothing that belongs to a project, unless it is opened on behalf
    of somebody: see `adaptlab_services.people.access.unit`. `worker_sessions` are for the leases of
    workers alone: see `adaptlab_services.leases.token_leases`. `drawings` are the turns to draw
    plots, and `comparisons` are computed one at a time.
    """

    settings: Settings
    sessions: sessionmaker[Session]
    worker_sessions: sessionmaker[Session]
    admissions: Admissions
    bell: Bell
    audit_log: AuditLog
    feed: Feed
    buckets: Buckets
    readiness: Readiness
    drawings: Turns
    comparisons: ComparisonRuns

    @property
    def model_roots(self) -> ModelRoots:
        """Where model folders may lie."""
        return ModelRoots(self.settings.model_roots)


def resources_of(app: FastAPI) -> Resources:
    """The resources of a started application."""
    found = app.state.resources
    assert isinstance(found, Resources)
    return found
