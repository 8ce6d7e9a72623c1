"""The content of datasets, read from files."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from adaptlab.plugins.dataset import WordList, read_words


def read_lists(files: Iterable[Path]) -> dict[str, WordList]:
    """Read word lists, by digest; raise `BadDataset` for a bad file."""
    contents = (file.read_bytes() for file in files)
    digests = ((hashlib.sha256(content).hexdigest(), content) for content in contents)
    return {digest: read_words(content, digest) for digest, content in digests}
