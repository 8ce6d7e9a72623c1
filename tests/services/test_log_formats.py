"""The two formats of logs: what lines have, and what never gets into them."""

import json
import logging
import threading
from collections.abc import Iterator

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_token

from adaptlab_services import log_formats
from adaptlab_services.log_formats import LogFormat, about, extra
from adaptlab_services.server import logs
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
log = logging.getLogger("adaptlab_services.test")


class Written:
    """What has been written to stderr."""

    def __init__(self, captured: pytest.CaptureFixture[str]) -> None:
        self._captured = captured
        self._text = ""

    def getvalue(self) -> str:
        self._text += self._captured.readouterr().err
        return self._text


@pytest.fixture
def stderr(capsys: pytest.CaptureFixture[str]) -> Iterator[Written]:
    """What a process writes; the test's own log is put back."""
    root = logging.getLogger()
    loggers = [root, *map(logging.getLogger, log_formats.PACKAGES)]
    handlers, levels = root.handlers[:], [own.level for own in loggers]
    yield Written(capsys)
    root.handlers[:] = handlers
    for own, level in zip(loggers, levels, strict=True):
        own.setLevel(level)


def lines(stderr: Written) -> list[dict[str, object]]:
    return [json.loads(line) for line in stderr.getvalue().splitlines()]


def test_a_line_of_json_says_what_it_is_about(stderr: Written) -> None:
    log_formats.set_up("json")
    with about(job_id="7", attempt=2):
        log.warning("took %d s", 5, extra=extra(status=200, route=None))
    log.info("later")
    first, second = lines(stderr)
    assert list(first)[:4] == ["time", "level", "logger", "message"]
    assert (first["level"], first["message"]) == ("warning", "took 5 s")
    assert {key: first[key] for key in ("job_id", "attempt", "status")} == {
        "job_id": "7",
        "attempt": 2,
        "status": 200,
    }
    assert str(first["time"]).endswith("Z")
    assert {"job_id", "route"}.isdisjoint(second)


def test_a_fact_cannot_replace_what_every_line_has(stderr: Written) -> None:
    log_formats.set_up("json")
    log.info("true", extra=extra(message="false", level="error", time="never"))
    (line,) = lines(stderr)
    assert (line["message"], line["level"]) == ("true", "info")
    assert line["time"] != "never"


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize("forged", ["a\nb INFO x: y", "a\rb", "a\u2028b", "a\x1b[2Jb", "a\x00b"])
def test_no_message_looks_like_two_lines(stderr: Written, form: LogFormat, forged: str) -> None:
    log_formats.set_up(form)
    log.info("asked for %s", forged, extra=extra(path=forged))
    written = stderr.getvalue()
    assert len(written.splitlines()) == 1
    assert written.rstrip("\n").isprintable()


def test_text_has_facts_and_indented_tracebacks(stderr: Written) -> None:
    log_formats.set_up("text", name="trainer")
    with about(job_id="7"):
        try:
            raise ValueError("odd\nnews")
        except ValueError:
            log.exception("it failed")
    first, *rest = stderr.getvalue().splitlines()
    assert first.endswith("ERROR trainer: it failed job_id=7")
    assert rest[0] == "  Traceback (most recent call last):"
    assert all(line.startswith("  ") for line in rest)


def test_a_traceback_is_one_member_of_json(stderr: Written) -> None:
    log_formats.set_up("json")
    try:
        raise ValueError("odd\nnews")
    except ValueError:
        log.exception("it failed")
    (line,) = lines(stderr)
    assert "ValueError: odd\nnews" in str(line["exception"])


def test_lower_levels_are_left_out_and_libraries_stay_quiet(stderr: Written) -> None:
    log_formats.set_up("json", "warning")
    log.info("no")
    log.warning("yes")
    log_formats.set_up("json", "debug")
    log.debug("too")
    logging.getLogger("httpcore").debug("Authorization: Bearer x")
    assert [line["message"] for line in lines(stderr)] == ["yes", "too"]


@pytest.mark.parametrize("form", ["json", "text"])
def test_secrets_are_left_out_of_every_part_of_a_line(
    stderr: Written, sessions: Sessions, form: LogFormat
) -> None:
    with sessions.begin() as session:
        token = a_token(session)
    settings = Settings(
        database_url="postgresql://lab:p%40ssword9@db/lab",
        broker_url="redis://lab:Br0kerSecret@broker/0",
        s3_access_key_id="AKIAEXAMPLE",
        s3_secret_access_key="S3/secret+key",
        log_format=form,
    )
    logs.set_up(settings)
    secrets = (token, "p@ssword9", "p%40ssword9", "Br0kerSecret", "AKIAEXAMPLE", "S3/secret+key")
    for secret in secrets:
        try:
            raise ValueError(f"raised {secret}")
        except ValueError:
            log.exception("said %s", secret, extra=extra(fact=secret))
    written = stderr.getvalue()
    assert written.count("raised") >= len(secrets)
    for secret in secrets:
        assert secret not in written, secret


def test_what_a_thread_is_about_is_its_own(stderr: Written) -> None:
    log_formats.set_up("json")

    def work() -> None:
        with about(job_id="8"):
            log.info("inside")

    with about(job_id="7"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        log.info("outside")
    assert [line["job_id"] for line in lines(stderr)] == ["8", "7"]


def test_a_line_has_an_end(stderr: Written) -> None:
    log_formats.set_up("json")
    log.info("x" * 10**6, extra=extra(path="y" * 10**6))
    assert len(stderr.getvalue()) < 3 * log_formats.LONGEST_MESSAGE


@pytest.mark.parametrize(
    ("environment", "is_json", "shown"),
    [
        ({}, False, 1),
        ({"ADAPTLAB_LOG_FORMAT": "json", "ADAPTLAB_LOG_LEVEL": "warning"}, True, 0),
        ({"ADAPTLAB_LOG_FORMAT": "xml", "ADAPTLAB_LOG_LEVEL": "loud"}, False, 1),
    ],
)
def test_a_child_logs_as_its_parent_does(
    stderr: Written, environment: dict[str, str], is_json: bool, shown: int
) -> None:
    log_formats.set_up_child(environment, "trainer")
    log.info("news")
    log.error("bad news")
    written = stderr.getvalue().splitlines()
    assert len(written) == shown + 1
    assert written[-1].startswith("{") == is_json


@pytest.mark.parametrize(("name", "value"), [("log_format", "xml"), ("log_level", "loud")])
def test_a_wrong_setting_names_what_is_allowed(
    settings: Settings, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"ADAPTLAB_{name.upper()}", value)
    with pytest.raises(Exception, match=f"ADAPTLAB_{name.upper()} is '{value}'.*'text'|'debug'"):
        Settings(database_url=settings.database_url, broker_url=settings.broker_url)
