"""The supervisor alone, over small children."""

import errno
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from adaptlab_stack.data_directory import trim_log
from adaptlab_stack.disk_room import DiskRoom
from adaptlab_stack.errors import StartFailed
from adaptlab_stack.process import ProcessSpec, StopStep
from adaptlab_stack.signs_of_life import SAMPLE_SECONDS, SignsOfLife, processor_seconds
from adaptlab_stack.supervisor import Supervisor
from adaptlab_stack.waiting import Polling

SLEEP = "import signal; signal.pause()"


class Until(Polling):
    """Asks for the end as soon as a condition holds."""

    def __init__(self, condition: Callable[[], bool]) -> None:
        self._condition = condition
        self._deadline = time.monotonic() + 60

    @property
    def stop_requested(self) -> bool:
        assert time.monotonic() < self._deadline
        return self._condition()


def never() -> bool:
    return False


TOTAL = 2**40


class Disk:
    """A disk of which a test says how much is free."""

    free = TOTAL

    def __call__(self, folder: Path) -> int:
        return self.free


class Bench:
    """A supervisor with what it said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.enough: Callable[[], bool] = never
        self.supervisor = Supervisor(
            Until(lambda: self.enough()), lambda name: folder / name, self.said.append
        )

    def spec(self, name: str, code: str = SLEEP, **fields: object) -> ProcessSpec:
        argv = (sys.executable, "-c", code)
        return ProcessSpec(name, argv, {}, self.folder, **fields)  # type: ignore[arg-type]


@pytest.fixture
def bench(tmp_path: Path) -> Generator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.supervisor.stop()


def test_what_dies_is_started_again(bench: Bench):
    bench.supervisor.start([bench.spec("one"), bench.spec("two")])
    first = dict(bench.supervisor.processes)
    psutil.Process(first["one"]).kill()
    bench.enough = lambda: bench.supervisor.processes.get("one", first["one"]) != first["one"]
    bench.supervisor.watch()
    assert bench.supervisor.processes["two"] == first["two"]
    assert bench.said == ["one was killed by SIGKILL; restarting it in 0.1 s"]


def test_the_delay_doubles_for_what_keeps_dying(bench: Bench):
    # Not before it counts as started: what ends earlier is tried again without a word.
    code = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.01)\nexit(3)"
    bench.supervisor.start([bench.spec("poor", code)])
    (bench.folder / "go").touch()
    bench.enough = lambda: len(bench.said) == 3
    bench.supervisor.watch()
    assert [line.rsplit("in ", 1)[1] for line in bench.said] == ["0.1 s", "0.2 s", "0.4 s"]
    assert "exited with status 3" in bench.said[0]


def test_a_failed_start_shows_the_end_of_the_log(bench: Bench):
    poor = bench.spec("poor", "print('no luck'); raise SystemExit(3)", ready=never)
    with pytest.raises(StartFailed, match=r"poor exited with status 3.*\nno luck"):
        bench.supervisor.start([poor])


def test_a_silent_start_fails(bench: Bench):
    silent = bench.spec("slow", "print('begun'); " + SLEEP, ready=never, silence_seconds=1)
    with pytest.raises(StartFailed, match=r"slow is not ready.* neither written.*\nbegun"):
        bench.supervisor.start([replace(silent, environment={"PYTHONUNBUFFERED": "1"})])


def test_a_start_may_take_long_while_its_log_grows(bench: Bench):
    code = "import time\nfor n in range(9): print(n, flush=True); time.sleep(0.3)\nopen('up', 'w')"
    up = bench.folder / "up"
    spec = bench.spec("slow", f"{code}; {SLEEP}", ready=up.exists, silence_seconds=2)
    bench.supervisor.start([spec])
    assert up.exists()


def test_computing_is_a_sign_of_life(tmp_path: Path):
    now = 0.0
    signs = SignsOfLife(tmp_path / "log", lambda: now)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        assert signs.silence(busy.pid) == 0
        while processor_seconds(busy.pid) < 1.5:
            time.sleep(0.05)
        now = SAMPLE_SECONDS
        assert signs.silence(busy.pid) == 0
        now = SAMPLE_SECONDS + 1
        assert signs.silence(busy.pid) == 1
        busy.kill()


def test_a_refused_first_start_is_tried_again(bench: Bench):
    code = (
        "import pathlib, signal\n"
        "seen = pathlib.Path('seen'); before = seen.exists(); seen.touch()\n"
        "if not before: raise SystemExit(1)\n"
        "pathlib.Path('up').touch(); signal.pause()"
    )
    up = bench.folder / "up"
    bench.supervisor.start([bench.spec("shy", code, ready=up.exists)])
    assert bench.supervisor.processes.keys() == {"shy"}


def test_what_is_retired_ends_by_its_own_signal_and_stays_away(bench: Bench):
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGUSR2, lambda *_: sys.exit(print('left')))\n"
        "open(sys.argv[1], 'w').close()\nwhile True: signal.pause()"
    )
    up = bench.folder / "up"
    spec = bench.spec("guest", code, ready=up.exists, leave=StopStep(signal.SIGUSR2, 60))
    spec = replace(spec, argv=(*spec.argv, "up"))
    bench.supervisor.start([spec, bench.spec("host")])
    bench.supervisor.retire(["guest"])
    assert bench.supervisor.processes.keys() == {"host"}
    assert (bench.folder / "guest").read_text() == "left\n"
    assert bench.said == []


def test_what_does_not_leave_in_time_is_killed(bench: Bench):
    bench.supervisor.start([bench.spec("deaf", leave=StopStep(signal.SIGCONT, 0.2))])
    deaf = psutil.Process(bench.supervisor.processes["deaf"])
    bench.supervisor.retire(["deaf"])
    assert not deaf.is_running()
    assert bench.said == ["deaf did not end in time and was killed"]


def test_stages_end_one_after_the_other(bench: Bench):
    code = (
        "import signal, sys, time\n"
        "def end(*_):\n"
        "    print('begin', time.monotonic_ns()); time.sleep(0.2)\n"
        "    print('end', time.monotonic_ns(), flush=True); sys.exit()\n"
        "signal.signal(signal.SIGTERM, end); open(sys.argv[1] + '.up', 'w').close()\n"
        "while True: signal.pause()"
    )
    specs: list[ProcessSpec] = []
    for stage, name in ((1, "server"), (0, "client")):
        argv = (sys.executable, "-c", code, name)
        ready = (bench.folder / f"{name}.up").exists
        patient = (StopStep(signal.SIGTERM, 60),)
        specs.append(
            ProcessSpec(name, argv, {}, bench.folder, ready=ready, stop=patient, stop_stage=stage)
        )
    bench.supervisor.start(specs)
    bench.supervisor.stop()
    client, server = ((bench.folder / n).read_text().split() for n in ("client", "server"))
    assert int(client[3]) < int(server[1])


def test_who_will_not_stop_is_killed_with_its_children(bench: Bench):
    code = (
        "import signal, subprocess, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"subprocess.Popen([sys.executable, '-c', {SLEEP!r}]); open('up', 'w').close()\n"
        "while True: signal.pause()"
    )
    up = bench.folder / "up"
    stop = (StopStep(signal.SIGTERM, 0.2),)
    bench.supervisor.start([bench.spec("deaf", code, stop=stop, ready=up.exists)])
    leader = psutil.Process(bench.supervisor.processes["deaf"])
    family = [leader, *leader.children()]
    assert len(family) == 2
    bench.supervisor.stop()
    assert psutil.wait_procs(family, timeout=60)[1] == []


def test_a_full_disk_is_waited_for_and_said_and_then_all_goes_on(tmp_path: Path):
    """The list of processes is on that disk; a failed write ended it once."""
    disk, said, published = Disk(), list[str](), list[set[str]]()
    enough: list[Callable[[], bool]] = [never]

    def publish(running: Mapping[str, int]) -> None:
        if not disk.free:
            raise OSError(errno.ENOSPC, "No space left on device")
        published.append(set(running))

    def fill_while_it_is_down() -> bool:
        disk.free = 0
        psutil.Process(supervisor.processes["one"]).kill()
        enough[0] = lambda: any("restarting it" in line for line in said)
        return False

    def empty_once_it_was_said() -> bool:
        disk.free = TOTAL
        enough[0] = lambda: (
            len(published) > 1
            and published[-1] == {"one"}
            and "enough free space again" in " ".join(said)
        )
        return False

    supervisor = Supervisor(
        Until(lambda: enough[0]()),
        lambda name: tmp_path / name,
        said.append,
        publish,
        DiskRoom(tmp_path, said.append, disk),
    )
    try:
        supervisor.start([ProcessSpec("one", (sys.executable, "-c", SLEEP), {}, tmp_path)])
        first = supervisor.processes["one"]
        for step in (fill_while_it_is_down, empty_once_it_was_said):
            step()
            supervisor.watch()
        assert supervisor.processes["one"] != first
        assert len([line for line in said if "until 32 MiB are free" in line]) == 1, "said once"
    finally:
        disk.free = TOTAL
        supervisor.stop()


def test_a_start_that_fails_while_the_disk_is_full_is_tried_until_there_is_room(tmp_path: Path):
    disk, said = Disk(), list[str]()
    disk.free = 0
    mark, log = tmp_path / "has room", tmp_path / "one"
    code = f"import pathlib, sys; pathlib.Path({str(mark)!r}).exists() or sys.exit('full'); {SLEEP}"
    failed = 0

    def count() -> bool:
        nonlocal failed
        failed = len([line for line in log.read_text().splitlines() if line])
        if failed > 3 and not mark.exists():
            disk.free = TOTAL
            mark.touch()
        return False

    supervisor = Supervisor(
        Until(count),
        lambda name: tmp_path / name,
        said.append,
        room=DiskRoom(tmp_path, said.append, disk),
    )
    try:
        spec = ProcessSpec("one", (sys.executable, "-c", code), {}, tmp_path, ready=mark.exists)
        supervisor.start([spec])
        assert failed > spec.start_attempts
    finally:
        supervisor.stop()


def test_only_the_main_thread_starts_processes(bench: Bench):
    caught: list[BaseException] = []

    def start() -> None:
        try:
            bench.supervisor.start([bench.spec("one")])
        except RuntimeError as error:
            caught.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert "main thread" in str(caught[0])


def test_a_log_stays_small(tmp_path: Path):
    log = tmp_path / "a.log"
    with log.open("ab") as stream:
        stream.write(b"x" * 11)
        stream.flush()
        trim_log(log, limit=10)
        stream.write(b"next")
    assert log.read_bytes() == b"next"
    assert (tmp_path / "a.log.1").read_bytes() == b"x" * 11
