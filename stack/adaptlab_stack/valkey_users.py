"""Who may come to Valkey, and do what there: `valkey_users.acl` beside this file says it.

Found with MONITOR on a working stack, and read in kombu for what happens seldom: a message that
nobody acknowledged goes back to its queue. docker-compose.yml hands the same file to its broker,
by `deploy/broker.sh`. Without a line of its own a command is refused, and so is everybody else.
"""

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Literal

from adaptlab_db.rights import Part

OWNER = "lab"
"""May do everything; for the supervisor, tests and whoever mends something by hand."""
USERS: Mapping[Part, str] = {"api": "adaptlab_api", "worker": "adaptlab_worker"}
User = Literal["lab", "api", "worker"]


def users_file(passwords: Mapping[User, str]) -> str:
    """The file that Valkey reads: of each password it holds the SHA-256, which opens nothing."""
    text = files("adaptlab_stack").joinpath("valkey_users.acl").read_text()
    for user, password in passwords.items():
        digest = hashlib.sha256(password.encode()).hexdigest()
        text = text.replace(f"#{{{user}}}", f"#{digest}")
    return text
