"""Users of Valkey and their permissions, from `valkey_users.acl`.

The commands were found with MONITOR on a working stack, and in kombu's source for rare cases, such
as an unacknowledged message that returns to its queue. `deploy/broker.sh` gives the same file to
the broker of docker-compose.yml. Commands and users without a line in it are refused.
"""

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Literal

from adaptlab_db.rights import Part

OWNER = "lab"
"""The user with all permissions, for supervisor, tests and manual repairs."""
USERS: Mapping[Part, str] = {"api": "adaptlab_api", "worker": "adaptlab_worker"}
User = Literal["lab", "api", "worker"]


def users_file(passwords: Mapping[User, str]) -> str:
    """Return Valkey's user file, which has only SHA-256 digests of passwords."""
    text = files("adaptlab_stack").joinpath("valkey_users.acl").read_text()
    for user, password in passwords.items():
        digest = hashlib.sha256(password.encode()).hexdigest()
        text = text.replace(f"#{{{user}}}", f"#{digest}")
    return text
