"""`adaptlab doctor`: check this machine, its token and the server."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli.exits import ExitCode
from adaptlab_client.cli.printing.terminal import Output, print_list, say
from adaptlab_client.cli.session import OutputOption, open_client

if TYPE_CHECKING:
    from adaptlab_client.machine.doctor import CheckResult

TITLES = ("check", "state", "found", "next step")
# The first failed check decides: later failures may follow from it.
CODES = {
    "log-in file": ExitCode.AUTHENTICATION,
    "server": ExitCode.UNREACHABLE,
    "database": ExitCode.TEMPORARY,
    "token": ExitCode.AUTHENTICATION,
}


def doctor(
    context: typer.Context,
    scratch: Annotated[
        Path, typer.Option(help="Folder in which a worker would keep its files.")
    ] = Path(".adaptlab"),
    output: OutputOption = Output.TABLE,
) -> None:
    """Check the server, the token and this machine's clock, versions, disk, torch and compiler.

    Each line is ok, warn or fail, with the next step. Exits with 0 unless a check failed.
    """
    from adaptlab_client.machine.doctor import examine

    findings = tuple(examine(lambda: open_client(context), scratch))
    print_list(findings, TITLES, _row, output, "check")
    failed = [finding for finding in findings if finding.state == "fail"]
    if failed:
        raise typer.Exit(CODES.get(failed[0].check, ExitCode.INTERNAL))
    warned = sum(finding.state == "warn" for finding in findings)
    say(f"everything works, with {warned} warnings" if warned else "everything works")


def _row(finding: "CheckResult") -> list[object]:
    return [finding.check, finding.state, finding.found, finding.next_step]
