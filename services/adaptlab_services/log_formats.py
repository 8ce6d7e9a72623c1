"""Formats of the log of every process: text, or JSON in lines.

What a line is about, such as the request or the job, is set once where the work begins, and every
line that the work logs has it. structlog and python-json-logger were considered: the first would
replace the calls of the standard library's logging, the second adds no context.
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal

LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
Facts = Mapping[str, object]

FORMAT_VARIABLE = "ADAPTLAB_LOG_FORMAT"
LEVEL_VARIABLE = "ADAPTLAB_LOG_LEVEL"
PACKAGES = ("adaptlab", "adaptlab_api", "adaptlab_db", "adaptlab_services", "adaptlab_worker")
LONGEST_MESSAGE = 20_000
"""Characters of a message, a traceback or a fact."""

_NO_FACTS: Facts = MappingProxyType({})
_FACTS: ContextVar[Facts] = ContextVar("adaptlab_log_facts", default=_NO_FACTS)
_EXTRA = "facts"


def set_facts(**facts: object) -> None:
    """Add facts to every later line of this task or thread."""
    _FACTS.set({**_FACTS.get(), **facts})


@contextmanager
def about(**facts: object) -> Generator[None]:
    """Add facts to the lines of a block, in its thread."""
    token = _FACTS.set({**_FACTS.get(), **facts})
    try:
        yield
    finally:
        _FACTS.reset(token)


def fact(name: str) -> object | None:
    """Return a fact that was set, or None."""
    return _FACTS.get().get(name)


def extra(**facts: object) -> dict[str, dict[str, object]]:
    """Return the `extra` of a call of a logger, for facts of one line."""
    return {_EXTRA: facts}


def set_up(
    form: LogFormat = "text",
    level: LogLevel = "info",
    redact: Callable[[str], str] = str,
    name: str | None = None,
) -> None:
    """Send every logger of the process to stderr in this format.

    Args:
        form: the format.
        level: the least level that is logged.
        redact: returns a text without its secrets; applied to every message, traceback and fact.
        name: shown in place of the loggers' names.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormat(redact, name) if form == "json" else TextFormat(redact, name))
    root = logging.getLogger()
    for former in root.handlers[:]:
        root.removeHandler(former)
    root.addHandler(handler)
    # Libraries never log more than this: some would log the headers of requests.
    root.setLevel(max(logging.INFO, logging.getLevelNamesMapping()[level.upper()]))
    for own in PACKAGES:
        logging.getLogger(own).setLevel(level.upper())
    # Without a level of its own, uvicorn prepares a line for every connection.
    logging.getLogger("uvicorn.error").setLevel(root.level)


def set_up_child(environment: Mapping[str, str] = os.environ, name: str | None = None) -> None:
    """Set up the log of a child process like its parent's."""
    form, level = environment.get(FORMAT_VARIABLE), environment.get(LEVEL_VARIABLE, "info")
    known: dict[str, LogLevel] = {"debug": "debug", "warning": "warning", "error": "error"}
    set_up("json" if form == "json" else "text", known.get(level, "info"), name=name)


class _Format(logging.Formatter):
    """The parts of a line that both formats have."""

    def __init__(self, redact: Callable[[str], str], name: str | None) -> None:
        super().__init__()
        self._redact = redact
        self._name = name

    def source(self, record: logging.LogRecord) -> str:
        return self._name or record.name

    def message(self, record: logging.LogRecord) -> str:
        return self.safe(record.getMessage())

    def safe(self, text: str) -> str:
        """Return a text without secrets, cut to its limit."""
        shown = self._redact(text)
        return shown if len(shown) <= LONGEST_MESSAGE else f"{shown[:LONGEST_MESSAGE]}…"

    def facts(self, record: logging.LogRecord) -> dict[str, object]:
        given: Facts = {**_FACTS.get(), **getattr(record, _EXTRA, _NO_FACTS)}
        return {name: self._plain(value) for name, value in given.items() if value is not None}

    def traceback(self, record: logging.LogRecord) -> str | None:
        if not record.exc_info:
            return None
        return self.safe(self.formatException(record.exc_info))

    def _plain(self, value: object) -> object:
        return value if isinstance(value, bool | int | float) else self.safe(str(value))


class JsonFormat(_Format):
    """One JSON object per line, with time, level, logger, message and facts.

    A traceback is in `exception`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": self.source(record),
            "message": self.message(record),
            "process": record.process,
        }
        line = {**self.facts(record), **line}
        traceback = self.traceback(record)
        if traceback is not None:
            line["exception"] = traceback
        ordered = sorted(line, key=lambda key: key not in ("time", "level", "logger", "message"))
        # Escaped throughout, so that no reader takes a separator of Unicode for the end of a line.
        return json.dumps({key: line[key] for key in ordered}, allow_nan=True)


class TextFormat(_Format):
    """Time, level, logger, message and facts on one line; tracebacks below.

    Control characters are escaped, so that no message looks like two lines.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        facts = "".join(f" {name}={_printable(str(v))}" for name, v in self.facts(record).items())
        line = (
            f"{self.formatTime(record)} {record.levelname} {self.source(record)}: "
            f"{_printable(self.message(record))}{facts}"
        )
        traceback = self.traceback(record)
        if traceback is None:
            return line
        return "\n".join([line, *(f"  {_printable(part)}" for part in traceback.split("\n"))])


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
