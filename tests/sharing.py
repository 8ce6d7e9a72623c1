"""Which tests one process runs: those that share what is slow to start."""

from xdist.scheduler import LoadFileScheduling

SHARED_STACK = "tests/whole/"


class FilesAndFolders(LoadFileScheduling):
    """A file at a time, but all tests of the whole installation together.

    Each process that ran some of them would start an installation of its own, which takes 11
    seconds of processor time.
    """

    def _split_scope(self, nodeid: str) -> str:
        return SHARED_STACK if nodeid.startswith(SHARED_STACK) else super()._split_scope(nodeid)
