"""Version of the code that computed a result."""

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path


@cache
def code_version() -> str:
    """Return the installed version and a digest of the core's sources."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return f"{version('adaptlab')}+{digest.hexdigest()[:12]}"
