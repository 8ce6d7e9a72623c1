"""System calls of a confined process: those that it needs, and no others."""

import json
import os
import platform
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.worker.conftest import ROOT

from adaptlab_worker.confinement.confinement import TrainerLimits
from adaptlab_worker.confinement.installation import file_rules
from adaptlab_worker.confinement.system_call_numbers import AARCH64, X86_64, system_calls
from adaptlab_worker.confinement.system_calls import MACHINES, can_refuse
from adaptlab_worker.trainer.trainer_process import TrainerOptions, trainer_environment

GIB = 2**30
FORBIDDEN, MISSING = "EACCES", "ENOSYS"
ORDINARY = (
    *("own limits", "own cores", "own priority", "own thread", "program", "shell", "fork"),
    *("routes", "pair of streams", "listener", "temporary file", "private memory", "timer"),
    *("lock of a file", "entropy", "event"),
)
WITHOUT_FILTER = (
    *("limits of another", "cores of another", "priority of another", "scheduler of another"),
    *("disk priority of another", "signal by a file", "kind of signal by a file", "keys"),
    *("shared segment", "semaphores", "messages", "unnamed file", "shared memory"),
    *("shared zeros", "datagram", "pair of datagrams", "netlink diagnosis", "internet"),
)
"""What everybody can do on any kernel, so that the test shows the filter."""
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in MACHINES or not can_refuse(),
    reason="of Linux's system call filter",
)

Outcomes = Mapping[str, str]


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A socket that takes datagrams from anyone, as service managers have."""
    path = tmp_path_factory.mktemp("receiver") / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(path))
        yield path


def outcomes(receiver: Path, limits: TrainerLimits | None) -> Outcomes:
    """What came of everything that was tried, confined or not."""
    confined = (
        [] if limits is None else ["adaptlab_worker.confinement.confined", limits.model_dump_json()]
    )
    tried = subprocess.run(
        [sys.executable, "-m", *confined, f"{__package__}.forbidden_calls", str(receiver)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert tried.returncode == 0, tried.stderr
    return json.loads(tried.stdout)


@pytest.fixture(scope="module")
def confined(receiver: Path) -> Outcomes:
    return outcomes(receiver, TrainerLimits(memory_bytes=2 * GIB))


def test_nothing_beyond_the_list_is_done(confined: Outcomes) -> None:
    tried = {name: outcome for name, outcome in confined.items() if name not in ORDINARY}
    assert len(tried) > 50
    others = {name: outcome for name, outcome in tried.items()
              if outcome not in (FORBIDDEN, MISSING)}  # fmt: skip
    assert others in ({}, {"shared zeros": "done"}), "the rules for files close that one"


def test_everything_ordinary_is_done(confined: Outcomes) -> None:
    assert {name: confined[name] for name in ORDINARY} == dict.fromkeys(ORDINARY, "done")


def test_without_the_filter_the_same_is_done(receiver: Path) -> None:
    free = outcomes(receiver, None)
    assert {name: free[name] for name in WITHOUT_FILTER} == dict.fromkeys(WITHOUT_FILTER, "done")


def test_namespaces_are_refused_and_a_missing_clone3_is_not_needed(confined: Outcomes) -> None:
    refused = {name: outcome for name, outcome in confined.items() if "namespace" in name}
    assert set(refused.values()) == {FORBIDDEN}
    assert confined["clone3"] == MISSING


def test_zeros_cannot_be_shared_under_the_rules_for_files(tmp_path: Path) -> None:
    rules = file_rules(os.environ, (), (), network=False)
    assert "/dev/zero" in rules.readable
    assert "/dev/zero" not in rules.devices


@pytest.mark.parametrize("network", [False, True])
def test_a_plug_in_with_network_gets_no_more_than_the_network(
    receiver: Path, *, network: bool
) -> None:
    tried = outcomes(receiver, TrainerLimits(memory_bytes=2 * GIB, network=network))
    reached = {name for name, outcome in tried.items() if outcome == "done"} - {*ORDINARY}
    of_network = {"internet", "datagram", "pair of datagrams", "raw local"}
    netlink = {name for name in tried if name.startswith("netlink")}
    others = {"virtual machine", "bluetooth", "encryption", "shared zeros"}
    assert reached - others - netlink <= (of_network if network else set())


def test_a_trainer_with_a_gpu_shares_memory(receiver: Path) -> None:
    tried = outcomes(receiver, TrainerLimits(memory_bytes=2 * GIB, shared_memory=True))
    assert (tried["unnamed file"], tried["shared memory"]) == ("done", "done")
    assert tried["shared segment"] == FORBIDDEN


@pytest.mark.long("every combination")
def test_threads_that_are_pinned_by_the_environment_start() -> None:
    """OpenMP would end the process: its call can also pin other processes."""
    given = {"OMP_PROC_BIND": "true", "OMP_PLACES": "cores", "OMP_NUM_THREADS": "2"}
    kept = trainer_environment(os.environ | given, TrainerOptions())
    code = "import torch; torch.ones(300, 300) @ torch.ones(300, 300); print('computed')"
    script = f"import sys; sys.argv = ['x']; {code}"
    limits = TrainerLimits(memory_bytes=4 * GIB).model_dump_json()
    confine = (
        "from adaptlab_worker.confinement.confinement import TrainerLimits, confine; "
        f"confine(TrainerLimits.model_validate_json({limits!r})); {script}"
    )
    done = subprocess.run(
        [sys.executable, "-c", confine], env=kept, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "computed"), done.stderr


HEADERS = {
    X86_64: Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    AARCH64: Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.mark.parametrize("column", HEADERS)
def test_numbers_are_those_of_the_kernels_headers(column: int) -> None:
    if not HEADERS[column].exists():
        pytest.skip("the kernel's headers are not installed")
    defined = dict(re.findall(r"#define __NR\w*?_(\w+)\s+(\d+)", HEADERS[column].read_text()))
    known = {int(number) for number in defined.values()}
    calls = system_calls(column)
    newest = max(known)
    listed = calls.allowed | calls.refused
    assert {number for number in listed if number <= newest and number != 335} <= known
    for name, number in calls.named.items():
        assert int(defined.get(name, number)) == number, name
    assert not calls.allowed & calls.refused
