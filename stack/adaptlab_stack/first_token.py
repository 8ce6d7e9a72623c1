"""`python -m adaptlab_stack.first_token` prints the first admin's token.

For installations whose processes share no folder, such as pods. Elsewhere `adaptlab up` and
`adaptlab_stack.prepare` write it to the data directory.
"""

import sys
from pathlib import Path

from adaptlab.errors import BadSettings
from adaptlab_db.session import close, session_factory
from adaptlab_services.people.tokens import ensure_admin_token
from adaptlab_services.settings import Settings
from adaptlab_stack.data_directory import DataDirectory


def first_token(database_url: str, data_dir: Path) -> str:
    """Return the token in a data directory, or one that replaces it.

    The role of the API has the rights for it.
    """
    path = DataDirectory(data_dir).token
    sessions = session_factory(database_url)
    try:
        with sessions.begin() as session:
            ensure_admin_token(session, path)
    finally:
        close(sessions)
    return path.read_text().strip()


if __name__ == "__main__":
    try:
        settings = Settings()  # pyright: ignore[reportCallIssue] - from the environment
    except BadSettings as error:
        sys.exit(str(error))
    print(first_token(settings.database_url, settings.data_dir))
