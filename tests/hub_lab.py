"""A server's side of what it does with a hub, without its threads."""

import os
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_answers.hub import HubFetchView
from adaptlab_db.tables import HubFetch
from adaptlab_services.hub import fetches
from adaptlab_services.hub.fetcher import Fetcher
from adaptlab_services.hub.fetches import NewHubFetch
from adaptlab_services.hub.fetching import FetchAttempt
from adaptlab_services.hub.hub_child import HubPatience
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
REPO = "lab/tiny"


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
