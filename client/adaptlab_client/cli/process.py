"""Handling of closed pipes, and of terminals without Unicode."""

import io
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

from adaptlab_client.cli.exits import ExitCode


@contextmanager
def kind_to_its_streams() -> Generator[None]:
    """Escape what a stream cannot encode; exit quietly if a pipe is closed.

    A pipe closed by `head` is neither an error nor a failed job. The exit code is 141, as for a
    program that SIGPIPE ends.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes the buffer at exit, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(ExitCode.PIPE_CLOSED) from None
