"""Which code a result was computed with."""

import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path


@cache
def code_version() -> str:
    """The installed version and a digest of the core's sources, so that edits show."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return f"{version('adaptlab')}+{digest.hexdigest()[:12]}"
