"""What a worker does for the stored bytes: lets go of what is over, and checks the rest."""

import logging
from datetime import timedelta

from sqlalchemy.orm import Session, sessionmaker

from adaptlab_services.settings import Settings
from adaptlab_services.storage.collecting import Retention, collect
from adaptlab_services.storage.scrubbing import scrub
from adaptlab_worker.app import STORAGE_SECONDS
from adaptlab_worker.maintenance import Pace

UPKEEP_SECONDS = 3600.0

log = logging.getLogger(__name__)


class StorageUpkeep:
    """Collects and scrubs when beat says so; any number of workers may do so at once."""

    def __init__(self, sessions: sessionmaker[Session], settings: Settings) -> None:
        self._sessions = sessions
        self._retention = Retention(settings.attention_days, settings.checkpoint_days)
        self._scrub_every = timedelta(days=settings.scrub_days)
        self._pace = Pace(STORAGE_SECONDS / 2)

    def tend(self) -> None:
        """One round, and a line of the log about what it found."""
        if not self._pace.is_due():
            return
        gone = collect(self._sessions, self._retention)
        if gone.unreferenced or gone.expired or gone.strays or gone.uploads:
            log.info(
                "collected %d unreferenced and %d expired artifacts (%d bytes), %d uploads and %d "
                "stray files", gone.unreferenced, gone.expired, gone.size, gone.uploads,
                gone.strays,
            )  # fmt: skip
        found = scrub(self._sessions, self._scrub_every)
        if found.checked:
            log.info(
                "checked %d artifacts (%d bytes), quarantined %d",
                found.checked, found.size, len(found.quarantined),
            )  # fmt: skip
