"""The worker's folder on disk: one folder per attempt, and cached weights."""

import fcntl
import hashlib
import itertools
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
    """The folders of one slot, to which its trainer is confined.

    Attributes:
        given: files that the worker fetched, by attempt; the trainer only reads there.
        run: files that a run writes, by attempt.
        temporary: temporary files of the trainer and the programs that it starts.
    """

    def __init__(self, root: Path) -> None:
        self.given = root / "given"
        self.run = root / "run"
        self.temporary = root / "tmp"
        # Traversable but not listable: a trainer may run as another user.
        for folder, mode in ((root, 0o711), (self.given, 0o711), *((f, 0o700) for f in self._own)):
            folder.mkdir(exist_ok=True)
            folder.chmod(mode)

    @property
    def _own(self) -> tuple[Path, Path]:
        return self.run, self.temporary

    def give_to(self, user: int, group: int) -> None:
        """Give the trainer's own folders to the user as which it runs."""
        for folder in self._own:
            os.chown(folder, user, group)

    @contextmanager
    def attempt(self, name: str) -> Generator[Path]:
        """Yield a fresh folder in `given`; at the end remove all files."""
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
        """Remove the temporary files of a trainer that has ended."""
        _empty(self.temporary)


class Scratch:
    """Folders for attempts, below a root that workers may share.

    Every worker holds a lock file, which distinguishes the folders of live and killed workers.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(parents=True, exist_ok=True)
        with (root / "starting.lock").open("ab") as starting:
            # One at a time, so that no new folder is mistaken for an abandoned one.
            fcntl.flock(starting, fcntl.LOCK_EX)
            self._own = Path(tempfile.mkdtemp(prefix="worker-", dir=root))
            # Traversable but not listable: a trainer may run as another user.
            self._own.chmod(0o711)
            self._lock: IO[bytes] = _lock_file(self._own).open("ab")
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            self._remove_abandoned()
        self._numbers: list[IO[bytes]] = []

    def slot(self, name: str) -> SlotFolders:
        """Return the folders of a slot, removed together with the worker's."""
        return SlotFolders(self._own / name)

    def free_number(self) -> int:
        """Return the lowest number that no slot of any worker below the root has.

        It is free again after `close`, or when the worker has ended.
        """
        return next(filter(self._takes_number, itertools.count()))

    def _takes_number(self, number: int) -> bool:
        lock = (self._root / f"slot-{number}.lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return False
        self._numbers.append(lock)
        return True

    def close(self) -> None:
        """Remove this worker's folders, and free the numbers of its slots."""
        _remove(self._own)
        for lock in (self._lock, *self._numbers):
            lock.close()

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
    """Artifacts in files named by SHA-256, shared by the workers of a machine."""

    def __init__(self, root: Path, largest: int = LARGEST_CACHE) -> None:
        self._root = root
        self._largest = largest
        root.mkdir(parents=True, exist_ok=True)

    def place(self, sha256: str, fetch: Fetch, destination: Path) -> None:
        """Place the artifact at `destination`, fetched only if it is not cached.

        The destination is a second link to the cached file, so it survives eviction. A cached file
        is checked against its digest first, because a run may have written to it.

        Raises:
            DamagedArtifact: the fetched bytes have another digest.
        """
        cached = self._root / sha256
        try:
            _check_digest(cached, sha256)
            os.link(cached, destination)
        except FileNotFoundError:
            self._fetch(sha256, fetch, destination)
            self._shrink()
        else:
            os.utime(destination)  # marks the cached file, which is the same, as recently used

    def _fetch(self, sha256: str, fetch: Fetch, destination: Path) -> None:
        """Fetch to a temporary name first, so that final names are complete."""
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
        """Evict the least recently used files until the cache fits."""
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
    """Remove a cached file with another digest and raise `FileNotFoundError`."""
    with cached.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sha256:
        log.error("the cached artifact %s has the SHA-256 %s; it is fetched again", sha256, digest)
        cached.unlink(missing_ok=True)
        raise FileNotFoundError(cached)


def _lock_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


def _empty(folder: Path) -> None:
    """Empty a folder but keep it: a running trainer's rules refer to it."""
    with suppress(OSError):
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    _lock_file(folder).unlink(missing_ok=True)
