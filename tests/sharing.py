"""Which tests each process runs, and in which order."""

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

SHARED_STACK = "tests/whole/"
WAITING = (SHARED_STACK, "tests/chaos/", "tests/stack/", "tests/worker/")
"""Tests that mostly wait for other processes; the rest compute."""


class FilesAndFolders(LoadFileScheduling):
    """A file at a time, but all tests of the whole installation together.

    Each process that ran some of them would start an installation of its own, which takes 11
    seconds of processor time. Every other process begins with the tests that wait, so that the
    processors have work meanwhile.
    """

    def _split_scope(self, nodeid: str) -> str:
        return SHARED_STACK if nodeid.startswith(SHARED_STACK) else super()._split_scope(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        begins_waiting = self.nodes.index(node) % 2 == 0
        for scope in self.workqueue:
            if scope.startswith(WAITING) == begins_waiting:
                self.workqueue.move_to_end(scope, last=False)
                break
        super()._assign_work_unit(node)
