"""Transfer of a Postgres cluster's files to the user that runs its server."""

import os
import stat
import time
from pathlib import Path

from adaptlab_stack.errors import ClusterNotMovable
from adaptlab_stack.identity import Identity

STOP_SECONDS = 20.0
LOOK_SECONDS = 0.1


def give_cluster(cluster: Path, identity: Identity) -> None:
    """Change the owner of every file of a cluster, unless it is correct.

    The folder itself comes last, so an interrupted change is repeated at the next start. The
    previous owner may have been `nobody`, which other programs run as. Therefore links are not
    followed, and files with a second name are refused.

    Raises:
        ClusterNotMovable: a server still runs on it, or it contains links.
    """
    if cluster.stat().st_uid == identity.user:
        return
    _await_end_of_server(cluster)
    for folder, names, files, descriptor in os.fwalk(cluster, topdown=False, follow_symlinks=False):
        for name in (*names, *files):
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode) or (
                stat.S_ISREG(status.st_mode) and status.st_nlink > 1
            ):
                raise ClusterNotMovable(cluster, f"{Path(folder, name)} is a link", identity.user)
            os.chown(name, identity.user, identity.group, dir_fd=descriptor, follow_symlinks=False)
    os.chown(cluster, identity.user, identity.group)


def _await_end_of_server(cluster: Path) -> None:
    """Wait for the shutdown of a server whose supervisor was killed."""
    end = time.monotonic() + STOP_SECONDS
    while (process := _server_of(cluster)) is not None:
        if time.monotonic() > end:
            raise ClusterNotMovable(cluster, f"process {process} still serves it", None)
        time.sleep(LOOK_SECONDS)


def _server_of(cluster: Path) -> int | None:
    """Return the process that serves the cluster, from its `postmaster.pid`."""
    try:
        process = int((cluster / "postmaster.pid").read_text().split()[0])
        os.kill(process, 0)
        owner = Path(f"/proc/{process}").stat().st_uid
    except (OSError, ValueError, IndexError):
        return None
    return process if owner == cluster.stat().st_uid else None
