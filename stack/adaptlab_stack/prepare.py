"""Preparation of the database before the API starts.

It runs in a process of its own, so that the supervisor stays small and free of threads.
"""

import os
import sys
from pathlib import Path

from adaptlab.errors import BadSettings
from adaptlab_db.errors import TablesTooOld
from adaptlab_db.migrate import upgrade
from adaptlab_db.role_passwords import RolePasswords
from adaptlab_db.roles import make_logins
from adaptlab_db.session import session_factory
from adaptlab_services.people.tokens import ensure_admin_token
from adaptlab_services.settings import Settings
from adaptlab_stack.data_directory import DataDirectory


def prepare(database_url: str, data_dir: Path) -> None:
    """Migrate tables, roles and rights, and create the admin token if needed."""
    passwords = RolePasswords.given(os.environ)
    if passwords is not None:
        make_logins(database_url, passwords)
    upgrade(database_url)
    with session_factory(database_url).begin() as session:
        ensure_admin_token(session, DataDirectory(data_dir).token)


if __name__ == "__main__":
    try:
        Settings()  # pyright: ignore[reportCallIssue] - from the environment, as in other processes
        prepare(os.environ["ADAPTLAB_DATABASE_URL"], Path(os.environ["ADAPTLAB_DATA_DIR"]))
    except (BadSettings, TablesTooOld) as error:
        sys.exit(str(error))
