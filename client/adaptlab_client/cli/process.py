"""The command line as a process among others: its streams may be closed or speak no Unicode."""

import io
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

from adaptlab_client.cli.exits import ExitCode


@contextmanager
def kind_to_its_streams() -> Generator[None]:
    """Write what a terminal cannot show as escapes, and leave quietly when nobody reads on.

    A pipe that `head` has closed is no fault and no failed job: the exit code is that of a
    program that SIGPIPE ends, which is 141.
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
        # What is still in the buffer would fail again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(ExitCode.PIPE_CLOSED) from None
