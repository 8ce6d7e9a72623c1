"""Exit codes, and the code of every error.

Importing this module does not load the client: error classes are loaded only if there is an error.
"""

import os
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit status of every command; the meaning of a code never changes."""

    DONE = 0
    JOB_FAILED = 1
    """A job that was waited for failed or was cancelled."""
    USAGE = 2
    """The arguments, the spec or the request is invalid."""
    INFEASIBLE = 3
    """No configuration meets the budget."""
    AUTHENTICATION = 4
    """The token is missing, unknown or lacks the permission."""
    NOT_FOUND = 5
    """There is no such job, base model, checkpoint or page."""
    INVALID_FILE = 65
    """A file is damaged or contradicts its own contents (EX_DATAERR)."""
    UNREACHABLE = 69
    """No server was found, or it does not answer (EX_UNAVAILABLE)."""
    INTERNAL = 70
    """A bug in the server or in this program (EX_SOFTWARE)."""
    TEMPORARY = 75
    """The server cannot do this at present; the same command may succeed later (EX_TEMPFAIL)."""
    TIMED_OUT = 124
    """The time limit of the wait was reached, as with timeout(1)."""
    INTERRUPTED = 130
    """Ctrl-C; jobs and studies go on."""
    PIPE_CLOSED = 141
    """The reader of stdout, such as `head`, closed it."""


def exit_code(error: Exception) -> ExitCode:
    """Return the exit code for an error that reached the command line."""
    from adaptlab import errors as core
    from adaptlab_client import errors as client

    if isinstance(error, client.ApiError) and "infeasible_budget" in error.codes:
        return ExitCode.INFEASIBLE
    table: tuple[tuple[type[Exception] | tuple[type[Exception], ...], ExitCode], ...] = (
        (core.InfeasibleBudget, ExitCode.INFEASIBLE),
        ((core.InvalidSpec, core.BadSettings, client.InvalidRequest), ExitCode.USAGE),
        ((client.Conflict, client.TooLarge), ExitCode.USAGE),
        ((client.Unauthorised, client.UnsafeFile), ExitCode.AUTHENTICATION),
        (client.NotFound, ExitCode.NOT_FOUND),
        (core.BrokenBundle, ExitCode.INVALID_FILE),
        ((core.BadModelFolder, core.BadAdapter), ExitCode.INVALID_FILE),
        (client.FetchFailed, ExitCode.JOB_FAILED),
        (client.ServerStarting, ExitCode.TEMPORARY),
        ((client.ServerUnreachable, client.NoServer, core.TrackerRefused), ExitCode.UNREACHABLE),
        (
            (client.ServerUnavailable, client.TooManyRequests, client.DigestMismatch),
            ExitCode.TEMPORARY,
        ),
        (client.WaitTimedOut, ExitCode.TIMED_OUT),
        ((client.SeveralMaps, client.CannotConvert), ExitCode.USAGE),
        ((OSError, UsageError), ExitCode.USAGE),
    )
    return next((code for kind, code in table if isinstance(error, kind)), ExitCode.INTERNAL)


def message(error: Exception) -> str:
    """Return the text of an error without what only an HTTP client could do."""
    return str(error).replace(" Send `Authorization: Bearer <token>`.", "")


def next_step(error: Exception) -> str | None:
    """Return what to do about an error, if that is not in its text."""
    from adaptlab_client import errors as client

    if isinstance(error, client.Unauthorised) and error.status == 401:
        if os.environ.get("ADAPTLAB_TOKEN"):
            return (
                "It is that of ADAPTLAB_TOKEN. Set another, or unset it and run `adaptlab login`."
            )
        return "Run `adaptlab login` to store a valid token, or set ADAPTLAB_TOKEN."
    if isinstance(error, client.ServerUnreachable):
        return (
            "Check the address and that the server runs. `adaptlab up` starts one on this machine."
        )
    return None


class UsageError(Exception):
    """Arguments contradict each other, or a file is not a spec."""
