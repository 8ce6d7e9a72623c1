"""Room for what is fetched: limits, quotas and disks, before its bytes."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.orm import Session, sessionmaker

from adaptlab_db.tables import HubFetch
from adaptlab_services.hub.due_fetches import ClaimedFetch
from adaptlab_services.hub.hub_child import HubFailure
from adaptlab_services.limits import quotas
from adaptlab_services.settings import Settings

FREE_BYTES = 2**28
"""Bytes that stay free on the disk of the server."""
LOCAL = ("", "localhost", "127.0.0.1", "::1")


def check_room(
    sessions: sessionmaker[Session], settings: Settings, claimed: ClaimedFetch, size: int, most: int
) -> None:
    """Raise an error for more bytes than `most`, the quota or a disk allow."""
    if size > most:
        raise HubFailure("too_many_bytes", f"{size:,} bytes of {most:,} allowed")
    with sessions.begin() as session:
        has_begun = session.get_one(HubFetch, claimed.id).bytes_done > 0
        quotas.check_room(session, claimed.owner_id, 0 if has_begun else size)
    for folder in _disks(settings):
        free = shutil.disk_usage(folder).free - FREE_BYTES
        if size > free:
            detail = f"the {claimed.kind} has {size:,} bytes and {max(0, free):,} are free"
            raise HubFailure("disk_full", detail)


def _disks(settings: Settings) -> Iterator[Path]:
    """Yield folders of the disks that the bytes go to, if they are here."""
    if settings.artifact_store == "directory" and settings.artifact_folder is not None:
        yield settings.artifact_folder
    if (make_url(settings.database_url).host or "") in LOCAL and settings.data_dir.is_dir():
        yield settings.data_dir
