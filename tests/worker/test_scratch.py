"""Files that a worker keeps on disk, and files that it removes."""

import hashlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from adaptlab_worker.errors import DamagedArtifact
from adaptlab_worker.trainer.scratch import AssetCache, Scratch
from adaptlab_worker.trainer.trainer_process import TrainerOptions, TrainerProcess


class Source:
    """Serves contents by their SHA-256 and counts the requests."""

    def __init__(self, *contents: bytes) -> None:
        self.contents = {hashlib.sha256(content).hexdigest(): content for content in contents}
        self.requests = 0

    def fetch(self, sha256: str) -> Iterator[bytes]:
        self.requests += 1
        yield self.contents[sha256][:2]
        yield self.contents[sha256][2:]


def test_an_artifact_is_fetched_once_and_stands_whole_at_every_destination(tmp_path: Path) -> None:
    source = Source(b"weights")
    (sha256,) = source.contents
    for name in ("one", "two"):
        AssetCache(tmp_path / "cache").place(sha256, source.fetch, tmp_path / name)
        assert (tmp_path / name).read_bytes() == b"weights"
    assert source.requests == 1


def test_what_came_damaged_is_refused_and_not_kept(tmp_path: Path) -> None:
    wanted = "0" * 64
    source = Source()
    source.contents[wanted] = b"something else"
    with pytest.raises(DamagedArtifact, match=wanted):
        AssetCache(tmp_path / "cache").place(wanted, source.fetch, tmp_path / "one")
    assert not (tmp_path / "one").exists()
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_fetch_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    def broken(sha256: str) -> Iterator[bytes]:
        yield b"wei"
        raise ConnectionError(sha256)

    with pytest.raises(ConnectionError):
        AssetCache(tmp_path / "cache").place("0" * 64, broken, tmp_path / "one")
    assert list((tmp_path / "cache").iterdir()) == []


def test_what_was_not_used_for_longest_is_dropped_but_stays_where_it_was_placed(
    tmp_path: Path,
) -> None:
    source = Source(b"a" * 10, b"b" * 10, b"c" * 10)
    cache = AssetCache(tmp_path / "cache", largest=25)
    names = list(source.contents)
    for age, sha256 in enumerate(names):
        cache.place(sha256, source.fetch, tmp_path / f"placed-{age}")
        os.utime(tmp_path / f"placed-{age}", (age, age))
    assert {path.name for path in (tmp_path / "cache").iterdir()} == set(names[1:])
    assert (tmp_path / "placed-0").read_bytes() == b"a" * 10


def test_the_folder_of_an_attempt_is_gone_after_it_even_when_it_failed(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)

    def fail_with_a_file_in_it() -> None:
        with scratch.slot("slot").attempt("job-1") as folder:
            (folder / "checkpoint").write_bytes(b"x")
            raise RuntimeError("a bug")

    with pytest.raises(RuntimeError):
        fail_with_a_file_in_it()
    assert [path for path in tmp_path.rglob("*") if path.name.startswith("job-1")] == []
    scratch.close()


def test_what_a_dead_worker_left_is_removed_and_what_a_live_one_uses_is_not(tmp_path: Path) -> None:
    alive = Scratch(tmp_path)
    dead = tmp_path / "worker-dead"
    dead.mkdir()
    (dead / "checkpoint").write_bytes(b"x")
    dead.with_name("worker-dead.lock").touch()  # that nobody holds
    with alive.slot("slot").attempt("job-1") as folder:
        newcomer = Scratch(tmp_path)
        assert folder.exists()
        assert not dead.exists()
        assert not dead.with_name("worker-dead.lock").exists()
        newcomer.close()
    alive.close()


def test_a_trainer_that_is_killed_while_it_warms_up_leaves_no_folders(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    folders = scratch.slot("slot")
    trainer = TrainerProcess(TrainerOptions(), folders)
    try:
        process = psutil.Process(trainer.pid)
        assert process.environ()["TMPDIR"] == str(folders.temporary)
        (folders.temporary / "torch-cache").mkdir()  # as libraries do while they are imported
        assert not trainer.is_ready
        os.kill(trainer.pid, signal.SIGKILL)
    finally:
        trainer.close()
    assert list(folders.temporary.iterdir()) == []
    scratch.close()
    assert [left.name for left in tmp_path.iterdir()] == ["starting.lock"]


def test_a_cached_file_that_somebody_wrote_to_is_fetched_again(tmp_path: Path) -> None:
    source = Source(b"weights")
    (sha256,) = source.contents
    cache = AssetCache(tmp_path / "cache")
    cache.place(sha256, source.fetch, tmp_path / "one")
    (tmp_path / "one").write_bytes(b"poison!")  # the same file, by another name
    cache.place(sha256, source.fetch, tmp_path / "two")
    assert (tmp_path / "two").read_bytes() == b"weights"
    assert source.requests == 2


def test_slots_of_all_workers_have_numbers_of_their_own(tmp_path: Path) -> None:
    first, second = Scratch(tmp_path), Scratch(tmp_path)
    assert [first.free_number(), second.free_number(), first.free_number()] == [0, 1, 2]
    first.close()
    assert [second.free_number(), second.free_number()] == [0, 2], "free again"
    second.close()
