"""The audit log at the command line: listed, exported, and verified with and without the server."""

from pathlib import Path

from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import Invoke

from adaptlab_api.sealing import seal_all

OLD = text("""
    INSERT INTO audit_entries (at, actor, action, status, request_id)
    VALUES (clock_timestamp() - interval '1 minute', 'ada', 'cancel_job', 200, gen_random_uuid())
    """)


def test_a_log_is_verified_and_a_forged_one_is_not(
    invoke: Invoke, sessions: sessionmaker[Session], tmp_path: Path
) -> None:
    with sessions.begin() as session:
        for _ in range(3):
            session.execute(OLD)
    assert seal_all(sessions) == 3
    done = invoke("audit", "verify")
    assert done.exit_code == 0, done.output
    assert "The log holds. Entries that are sealed: 3; seals: 1." in done.stdout
    seal = invoke("audit", "verify", "--output", "id").stdout.strip()
    assert seal.startswith("1:")
    file = tmp_path / "my log.jsonl"
    assert invoke("audit", "export", str(file)).exit_code == 0
    for given in ((), (str(file),)):
        assert invoke("audit", "verify", *given, "--seal", seal).exit_code == 0
        other = invoke("audit", "verify", *given, "--seal", "1:" + "0" * 64)
        assert (other.exit_code, "seal 1: chain" in other.stderr) == (65, True)
        missing = invoke("audit", "verify", *given, "--seal", "2" + seal[1:])
        assert (missing.exit_code, "There is no such seal" in missing.stderr) == (65, True)
    assert invoke("audit", "verify", "--seal", "1:2").exit_code == 2
    forge(sessions, file)
    for given in ((), (str(file),)):
        forged = invoke("audit", "verify", *given)
        assert (forged.exit_code, "seal 1: changed" in forged.stderr) == (65, True)
    file.write_text("no log\n")
    assert invoke("audit", "verify", str(file)).exit_code == 65


def forge(sessions: sessionmaker[Session], file: Path) -> None:
    """Let somebody else have done it, in the database and in the file."""
    with sessions.begin() as session:
        session.execute(text("SET LOCAL session_replication_role = replica"))
        session.execute(text("UPDATE audit_entries SET actor = 'eve' WHERE id = 2"))
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([lines[0], lines[1].replace("ada", "eve"), *lines[2:]]))
