"""The worker's own folder on disk: one folder an attempt, and the weights it has fetched before."""

import fcntl
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from adaptlab_worker.errors import DamagedArtifact

LARGEST_CACHE = 4 * 2**30  # bytes

Fetch = Callable[[str], Iterable[bytes]]

log = logging.getLogger(__name__)


class SlotFolders:
    """The folders of one slot, which a trainer is given when it starts and cannot leave.

    Attributes:
        given: what the worker fetched, by attempt; the trainer only reads there.
        run: what a run writes, by attempt.
        temporary: for what the trainer keeps as long as it lives, and the programs that it starts.
    """

    def __init__(self, root: Path) -> None:
        self.given = root / "given"
        self.run = root / "run"
        self.temporary = root / "tmp"
        # To pass through, not to look into: a trainer may run as another user.
        for folder, mode in ((root, 0o711), (self.given, 0o711), *((f, 0o700) for f in self._own)):
            folder.mkdir(exist_ok=True)
            folder.chmod(mode)

    @property
    def _own(self) -> tuple[Path, Path]:
        return self.run, self.temporary

    def give_to(self, user: int, group: int) -> None:
        """Make the trainer's own folders those of the user as whom it runs."""
        for folder in self._own:
            os.chown(folder, user, group)

    @contextmanager
    def attempt(self, name: str) -> Generator[Path]:
        """Yield a fresh folder in `given`; it and what runs wrote is removed at the end."""
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.given))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            _empty(self.run)

    def run_folder(self, attempt: Path) -> Path:
        """The folder in which the run of an attempt writes."""
        return self.run / attempt.name

    def forget_trainer(self) -> None:
        """Remove what a trainer that has ended left behind."""
        _empty(self.temporary)


class Scratch:
    """Folders for attempts, below a root that workers on one machine may share.

    Every worker holds a lock file, so that what a killed worker left behind can be told from what
    another one still uses.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(parents=True, exist_ok=True)
        with (root / "starting.lock").open("ab") as starting:
            # One after the other, so that none takes a folder for abandoned that is being made.
            fcntl.flock(starting, fcntl.LOCK_EX)
            self._own = Path(tempfile.mkdtemp(prefix="worker-", dir=root))
            # To pass through, not to look into: a trainer may run as another user.
            self._own.chmod(0o711)
            self._lock: IO[bytes] = _lock_file(self._own).open("ab")
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            self._remove_abandoned()

    def slot(self, name: str) -> SlotFolders:
        """The folders of a slot, removed with this worker's other ones."""
        return SlotFolders(self._own / name)

    def close(self) -> None:
        """Remove what is this worker's own."""
        _remove(self._own)
        self._lock.close()

    def _remove_abandoned(self) -> None:
        for lock_path in self._root.glob("worker-*.lock"):
            if lock_path == _lock_file(self._own):
                continue
            with lock_path.open("ab") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue  # its worker lives
                _remove(lock_path.with_suffix(""))


class AssetCache:
    """Artifacts on disk, each in a file named by its SHA-256; shared by workers of one machine."""

    def __init__(self, root: Path, largest: int = LARGEST_CACHE) -> None:
        self._root = root
        self._largest = largest
        root.mkdir(parents=True, exist_ok=True)

    def place(self, sha256: str, fetch: Fetch, destination: Path) -> None:
        """Make the artifact appear at `destination`, fetched only if it is not at hand.

        The destination is a second link to the cached file: it stays whole when the cache drops it.
        What is at hand is read and held against its digest first: a run may have written to it.

        Raises:
            DamagedArtifact: what was fetched is something else.
        """
        cached = self._root / sha256
        try:
            _check_digest(cached, sha256)
            os.link(cached, destination)
        except FileNotFoundError:
            self._fetch(sha256, fetch, destination)
            self._shrink()
        else:
            os.utime(destination)  # the same file as the cached one: it was used just now

    def _fetch(self, sha256: str, fetch: Fetch, destination: Path) -> None:
        """Write to a file of another name first, so that a name always stands for whole content."""
        digest = hashlib.sha256()
        with tempfile.NamedTemporaryFile(dir=self._root, prefix="fetching-", delete=False) as file:
            partial = Path(file.name)
            try:
                for chunk in fetch(sha256):
                    digest.update(chunk)
                    file.write(chunk)
                file.flush()
                if digest.hexdigest() != sha256:
                    raise DamagedArtifact(
                        f"Artifact {sha256} arrived with the SHA-256 {digest.hexdigest()}."
                    )
                os.link(partial, destination)
                partial.replace(self._root / sha256)
            finally:
                partial.unlink(missing_ok=True)

    def _shrink(self) -> None:
        """Drop what was not used for longest until the cache fits."""
        held = 0
        for _, size, path in sorted(self._files(), reverse=True):
            held += size
            if held > self._largest:
                path.unlink(missing_ok=True)

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        for path in self._root.iterdir():
            try:
                status = path.stat()
            except FileNotFoundError:
                continue  # another worker dropped it
            yield status.st_mtime, status.st_size, path


def _check_digest(cached: Path, sha256: str) -> None:
    """Forget a cached file that is something else by now; raises `FileNotFoundError` then."""
    with cached.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sha256:
        log.error("the cached artifact %s has the SHA-256 %s; it is fetched again", sha256, digest)
        cached.unlink(missing_ok=True)
        raise FileNotFoundError(cached)


def _lock_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


def _empty(folder: Path) -> None:
    """Remove all that is in a folder, but not the folder: a running trainer is bound to it."""
    with suppress(OSError):
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    _lock_file(folder).unlink(missing_ok=True)
