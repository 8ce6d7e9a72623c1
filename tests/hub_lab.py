"""A server's side of what it does with a hub, without its threads."""

import os
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pydantic import TypeAdapter
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.specs.spec import AnySpec, JobSpec
from adaptlab_answers.hub import HubFetchView
from adaptlab_answers.jobs import JobView
from adaptlab_db.tables import HubFetch
from adaptlab_services.hub import fetches, plans
from adaptlab_services.hub.fetcher import Fetcher
from adaptlab_services.hub.fetches import NewHubFetch
from adaptlab_services.hub.fetching import FetchAttempt
from adaptlab_services.hub.hub_child import HubPatience
from adaptlab_services.jobs import jobs
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
REPO = "lab/tiny"
_SPEC: TypeAdapter[AnySpec] = TypeAdapter(JobSpec)


class Lab:
    """A server's side of a fetch: created, run, looked at."""

    def __init__(self, sessions: Sessions, settings: Settings, who: Principal) -> None:
        self.sessions, self.settings, self.who = sessions, settings, who

    def create(
        self, name: str = "tiny", source: str = f"hub:{REPO}", **members: Any
    ) -> HubFetchView:
        new = NewHubFetch(name=name, source=source, **members)
        with self.sessions.begin() as session:
            return fetches.create(session, self.who, new, self.settings)[0]

    def submit(self, document: Mapping[str, Any]) -> JobView:
        """Submit a job as a request does, after the plan of its model."""
        spec: AnySpec = _SPEC.validate_python(document)
        with self.sessions.begin() as session:
            sources = plans.sources_in(spec)
            begun = plans.begin(session, self.who, sources, self.settings)
        for _ in begun:
            self.attempt().run()
        with self.sessions.begin() as session:
            return jobs.create(session, self.who, spec).job

    def job(self, job: JobView) -> JobView:
        with self.sessions() as session:
            return jobs.get(session, job.id)

    def base_job(self, job: JobView) -> JobView:
        """The import that makes the base model of a job."""
        assert job.links.base_job is not None
        with self.sessions() as session:
            return jobs.get(session, UUID(job.links.base_job.rpartition("/")[2]))

    def fetches(self) -> list[HubFetchView]:
        """The fetches that are no plans, newest first."""
        with self.sessions() as session:
            return [one for one in fetches.page(session).data if not one.plan_only]

    def attempt(self, patience: HubPatience | None = None) -> FetchAttempt:
        self.make_due()
        attempt = Fetcher(self.sessions, self.settings, lambda _: None, patience).claim()
        assert attempt is not None
        return attempt

    def make_due(self) -> None:
        """Let the time come at which active fetches are due."""
        with self.sessions.begin() as session:
            session.execute(
                update(HubFetch)
                .where(HubFetch.state.in_(("pending", "running")))
                .values(next_attempt_at=func.clock_timestamp())
            )

    def environment(self) -> dict[str, str]:
        """The environment of a process with these settings."""
        own = {
            name: str(getattr(self.settings, name))
            for name in ("database_url", "broker_url", "data_dir", "hub_endpoint")
        }
        own["hub_hosts"] = ",".join(self.settings.hub_hosts)
        return dict(os.environ) | {f"ADAPTLAB_{name.upper()}": text for name, text in own.items()}

    def run(self, patience: HubPatience | None = None, **members: Any) -> HubFetchView:
        fetch = self.create(**members)
        self.attempt(patience).run()
        return self.look(fetch)

    def look(self, fetch: HubFetchView) -> HubFetchView:
        with self.sessions() as session:
            return fetches.get(session, fetch.id)

    def count(self, table: type[Any]) -> int:
        with self.sessions() as session:
            return session.scalar(select(func.count()).select_from(table)) or 0
