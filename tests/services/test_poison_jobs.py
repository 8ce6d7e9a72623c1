"""Jobs that fail by themselves end soon; bad luck costs no attempts."""

from uuid import UUID

import pytest
from tests.job_rows import AGO, Sessions, change, job, new_job, outcomes
from tests.making import a_claim, a_pretrain_spec

from adaptlab_db.tables import Job
from adaptlab_services.leases import leases
from adaptlab_services.leases.leases import DatabaseLedger
from adaptlab_services.leases.reaping import reap
from adaptlab_services.lifecycle.error_fingerprints import fingerprint
from adaptlab_services.lifecycle.transitions import Reason

ERROR = "ValueError: head 3 of /tmp/attempt-7xq/w.npy is empty (0x7f32aa)"
ALIKE = "ValueError: head 4 of /tmp/attempt-k2f/w.npy is empty (0x7f00bb)"


@pytest.fixture
def job_id(sessions: Sessions) -> UUID:
    # Long enough for every step that a worker reports here.
    training = {"steps": 1000, "batch_size": 4}
    return new_job(sessions, spec=a_pretrain_spec(training=training))


class Luck:
    """Attempts at one job, each of which ends badly."""

    def __init__(self, sessions: Sessions, ledger: DatabaseLedger, job_id: UUID) -> None:
        self._sessions = sessions
        self._ledger = ledger
        self._job_id = job_id

    def fail(self, step: int, error: str, reason: Reason = "system_error") -> Job:
        claim = a_claim(self._ledger)
        self._ledger.heartbeat(claim, step)
        self._ledger.fail(claim, reason, error, retry=True)
        return self._after()

    def lose(self, step: int) -> Job:
        self._ledger.heartbeat(a_claim(self._ledger), step)
        change(self._sessions, self._job_id, lease_expires_at=AGO)
        with self._sessions.begin() as session:
            assert reap(session).count == 1
        return self._after()

    def _after(self) -> Job:
        found = job(self._sessions, self._job_id)
        if found.state == "queued":
            change(self._sessions, self._job_id, run_at=AGO)
        return found


@pytest.fixture
def luck(sessions: Sessions, ledger: DatabaseLedger, job_id: UUID) -> Luck:
    return Luck(sessions, ledger, job_id)


def test_a_job_that_fails_alike_without_progress_is_not_tried_a_third_time(
    luck: Luck, sessions: Sessions, job_id: UUID
) -> None:
    assert luck.fail(100, ERROR).state == "queued"
    last = luck.fail(100, ALIKE)
    assert (last.state, last.reason, last.attempt) == ("failed", "repeated_failure", 2)
    assert last.error is not None
    assert ALIKE in last.error
    assert outcomes(sessions, job_id) == ["failed", "failed"]


def test_without_fingerprints_such_a_job_uses_all_its_attempts(
    luck: Luck, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "fingerprint", lambda *_: None)
    states = [luck.fail(100, ERROR).state for _ in range(3)]
    assert states == ["queued", "queued", "failed"]


def test_progress_another_error_and_a_kill_from_outside_are_no_repetition(luck: Luck) -> None:
    assert luck.fail(100, ERROR).state == "queued"
    assert luck.fail(101, ALIKE).state == "queued", "it got further"
    last = luck.fail(101, "KeyError: 'w'")
    assert (last.state, last.reason) == ("failed", "system_error"), "three attempts are spent"


def test_who_was_killed_from_outside_twice_is_tried_again(luck: Luck) -> None:
    states = [luck.fail(0, "The trainer was killed by SIGKILL.", "killed").state for _ in range(3)]
    assert states == ["queued", "queued", "failed"]


@pytest.mark.parametrize(
    "error",
    [
        "OSError: [Errno 28] No space left on device: '/scratch/state.safetensors'",
        "BytesMissing: The store has no bytes of artifact 12ab.",
    ],
)
def test_what_a_machine_is_short_of_is_not_the_fault_of_a_job(luck: Luck, error: str) -> None:
    states = [luck.fail(0, error).state for _ in range(3)]
    assert states == ["queued", "queued", "failed"]


def test_a_disk_that_was_full_twice_says_nothing_about_a_job(luck: Luck) -> None:
    error = "SafetensorError: I/O error: No space left on device (os error 28)"
    states = [luck.fail(0, error, "disk_full").state for _ in range(3)]
    assert states == ["queued", "queued", "failed"]


def test_of_too_little_memory_twice_more_is_said_than_that_it_was_twice(luck: Luck) -> None:
    error = "The trainer was killed by SIGKILL at step 0. A trainer held 512 MiB."
    assert luck.fail(0, error, "out_of_memory").state == "queued"
    last = luck.fail(0, error.replace("512", "600"), "out_of_memory")
    assert (last.state, last.reason, last.attempt) == ("failed", "out_of_memory", 2)


def test_attempts_that_got_further_before_their_worker_was_lost_do_not_count(luck: Luck) -> None:
    for step in range(1, 11):
        lost = luck.lose(step)
        assert (lost.state, lost.attempts_max - lost.attempt) == ("queued", 3)
    states = [luck.lose(10).state for _ in range(3)]
    assert states == ["queued", "queued", "failed"], "no further than before"


def test_no_job_is_tried_more_than_fifty_times(
    luck: Luck, sessions: Sessions, job_id: UUID
) -> None:
    change(sessions, job_id, attempt=0, attempts_max=50)
    states = [luck.lose(step).state for step in range(1, 51)]
    assert states == ["queued"] * 49 + ["failed"]


def test_attempts_that_got_further_before_they_were_killed_do_not_count(luck: Luck) -> None:
    told = "The trainer was killed by SIGKILL."
    for step in range(1, 11):
        killed = luck.fail(step, told, "killed")
        assert (killed.state, killed.attempts_max - killed.attempt) == ("queued", 3)
    states = [luck.fail(10, told, "killed").state for _ in range(3)]
    assert states == ["queued", "queued", "failed"], "no further than before"


def test_a_job_that_was_to_pause_is_paused_when_it_is_killed(
    luck: Luck, sessions: Sessions, job_id: UUID
) -> None:
    change(sessions, job_id, pause_requested_at=AGO)
    paused = luck.fail(1, "The trainer was killed by SIGKILL.", "killed")
    assert (paused.state, paused.attempts_max - paused.attempt) == ("paused", 3)
    assert paused.pause_requested_at is None


@pytest.mark.long("chaos at length")
def test_no_job_is_killed_more_than_fifty_times(
    luck: Luck, sessions: Sessions, job_id: UUID
) -> None:
    change(sessions, job_id, attempt=0, attempts_max=50)
    states = [luck.fail(step, "killed by SIGKILL", "killed").state for step in range(1, 51)]
    assert states == ["queued"] * 49 + ["failed"]


@pytest.mark.parametrize(
    ("error", "other", "is_alike"),
    [
        (ERROR, ALIKE, True),
        (ERROR, "ValueError: tail 3 of /tmp/attempt-7xq/w.npy is empty", False),
        ("of 41d2c0de99", "of 00ab12cd34", True),
        ("", "", True),
    ],
)
def test_errors_are_alike_but_for_numbers_identities_and_folders(
    error: str, other: str, is_alike: bool
) -> None:
    found = fingerprint("system_error", error), fingerprint("system_error", other)
    assert (found[0] == found[1]) is is_alike
    assert fingerprint("stalled", error) != found[0]
