"""Upkeep: remove and collect what has expired, and scrub the rest."""

import logging
from datetime import timedelta

from sqlalchemy.orm import Session, sessionmaker

from adaptlab_services.pace import Pace
from adaptlab_services.server.expiry import Expired, ExpiryPolicy, expire
from adaptlab_services.settings import Settings
from adaptlab_services.storage.collecting import Retention, collect
from adaptlab_services.storage.scrubbing import scrub
from adaptlab_worker.loop.app import STORAGE_SECONDS

log = logging.getLogger(__name__)


class StorageUpkeep:
    """The storage duty, which any number of workers may do at once."""

    def __init__(self, sessions: sessionmaker[Session], settings: Settings) -> None:
        self._sessions = sessions
        self._retention = Retention(settings.attention_days, settings.checkpoint_days)
        self._policy = ExpiryPolicy.of(settings)
        self._scrub_every = timedelta(days=settings.scrub_days)
        self._pace = Pace(STORAGE_SECONDS / 2)

    def tend(self) -> None:
        """Expire, collect and scrub once, and log the result."""
        if not self._pace.is_due():
            return
        removed = expire(self._sessions, self._policy)
        if removed != Expired():
            log.info(
                "by policy, deleted %d archived jobs, the curves of %d jobs and %d workers",
                removed.jobs, removed.curves, removed.workers,
            )  # fmt: skip
        gone = collect(self._sessions, self._retention)
        if gone.unreferenced or gone.expired or gone.strays or gone.uploads:
            log.info(
                "collected %d unreferenced and %d expired artifacts (%d bytes), %d uploads and %d "
                "stray files", gone.unreferenced, gone.expired, gone.size, gone.uploads,
                gone.strays,
            )  # fmt: skip
        scrubbed = scrub(self._sessions, self._scrub_every)
        if scrubbed.checked:
            log.info(
                "checked %d artifacts (%d bytes), quarantined %d",
                scrubbed.checked, scrubbed.size, len(scrubbed.quarantined),
            )  # fmt: skip
