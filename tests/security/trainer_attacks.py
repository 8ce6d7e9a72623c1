"""A stand-in for the engine that attacks from a confined trainer.

It reads `targets` in RUNNER_CONTROL, a list of paths, tries to read, write, replace and open each
to everybody, and reports what it could do. It changes no content: files are opened to append, and
what it can create or change the mode of it puts back.
"""

import json
import os
import socket
import stat
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.worker.runners import Given, finish, runner

DONE = "done"


@runner
def attack(given: Given) -> None:
    """Try everything on every target, and then do the job."""
    control = Path(os.environ["RUNNER_CONTROL"])
    targets = [Path(target) for target in json.loads((control / "targets").read_text())]
    report = {str(target): attempts_on(target) for target in targets}
    report["own"] = {
        "user": str(os.geteuid()),
        "base": _outcome(lambda: given.bases[0].read_bytes()),
        "write_base": _outcome(lambda: given.bases[0].open("ab").close()),
        "run": _outcome(lambda: (given.scratch / "note").write_text("of this run")),
        "socket": _outcome(lambda: _connect(control / "socket")),
        "thread": _outcome(_name_a_thread),
        "thread_of_worker": _outcome(lambda: _rename(os.getppid(), os.getppid())),
    }
    (control / "report.partial").write_text(json.dumps(report))
    (control / "report.partial").rename(control / "report")
    finish(given)


def attempts_on(target: Path) -> Mapping[str, str]:
    """What came of each attempt on a file: `done`, or the name of the error."""
    return {
        "read": _outcome(lambda: target.open("rb").close()),
        "write": _outcome(lambda: target.open("ab").close()),
        "truncate": _outcome(lambda: os.truncate(target, target.stat().st_size)),
        **_mode_of(target),
        **_create(target.parent),
    }


def _mode_of(target: Path) -> Mapping[str, str]:
    return {"chmod": _outcome(lambda: target.chmod(stat.S_IMODE(target.stat().st_mode)))}


def _create(folder: Path) -> Mapping[str, str]:
    def create() -> None:
        planted = folder / "planted-by-a-trainer"
        planted.touch()
        planted.unlink()

    return {"create beside": _outcome(create)}


def _connect(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def _name_a_thread() -> None:
    """Name a thread that was started, as CUDA does to find a GPU."""
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        assert other.native_id is not None
        _rename(os.getpid(), other.native_id)
    finally:
        done.set()
        other.join()


def _rename(process: int, thread: int) -> None:
    place = "self" if process == os.getpid() else process
    Path(f"/proc/{place}/task/{thread}/comm").write_text("renamed")


def _outcome(deed: Callable[[], object]) -> str:
    try:
        deed()
    except OSError as error:
        return type(error).__name__
    return DONE
