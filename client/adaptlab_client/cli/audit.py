"""`adaptlab audit`: what was done on the server, and whether its log of that holds."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli.exits import ExitCode, UsageFault
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.session import OutputOption, open_client
from adaptlab_client.cli.terminal import Output, complain, one_line, print_list, print_value, say

if TYPE_CHECKING:
    from adaptlab.audit_chain import CheckedLog, Seal
    from adaptlab_client.audit_log import AuditVerification
    from adaptlab_client.people_answers import AuditEntry

AUDIT = ("at", "who", "token", "from", "action", "object", "status")
DIGITS = 64


def list_entries(
    context: typer.Context,
    actor: Annotated[str | None, typer.Option(help="Only what this user did.")] = None,
    action: Annotated[str | None, typer.Option(help="Only this, such as cancel_job.")] = None,
    of: Annotated[str | None, typer.Option("--object", help="Only of this id or name.")] = None,
    since: Annotated[str | None, typer.Option(help="From then on, as 2026-01-31T12:00Z.")] = None,
    until: Annotated[str | None, typer.Option(help="Up to then.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 50,
    output: OutputOption = Output.TABLE,
) -> None:
    """List what was done and refused, newest first; for admins."""
    asked = {"actor": actor, "action": action, "object": of, "since": since, "until": until}
    with open_client(context) as client:
        found = islice(client.audit.list({**asked, "page_size": min(limit, 200)}), limit)
        print_list(found, AUDIT, _entry, output)


def export(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to.")],
) -> None:
    """Save the whole log with its seals, as JSON lines that can be verified without the server."""
    with open_client(context) as client:
        print(one_line(client.audit.export(file)))


def verify(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="An export; else the server's log.")
    ] = None,
    noted: Annotated[
        str | None,
        typer.Option("--seal", metavar="N:DIGEST", help="A seal that was noted down before."),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Hold the audit log against its seals; exits with 65 when one does not hold.

    Note the last seal, which `--output id` prints, where nobody who owns the database can change
    it.
    """
    seal = None if noted is None else _seal(noted)
    found: CheckedLog | AuditVerification
    if file is None:
        with open_client(context) as client:
            found = client.audit.verify(seal)
    else:
        from adaptlab.audit_chain import check_export

        with file.open("rb") as lines:
            found = check_export(lines, seal)
    if output is Output.TABLE:
        _print(found)
    elif output is not Output.ID:
        print_value(found, output)
    elif found.last_seal is not None:
        print(_noted(found.last_seal))
    for fault in found.faults:
        complain(f"adaptlab: seal {fault.seal}: {fault.kind}: {fault.detail}")
    if found.faults:
        raise typer.Exit(ExitCode.UNSOUND)


def application() -> typer.Typer:
    """The commands below `adaptlab audit`."""
    about = "What was done on the server, and whether its log holds: list, export, verify."
    return group("audit", about, {"list": list_entries, "export": export, "verify": verify})


def _entry(entry: "AuditEntry") -> list[object]:
    who = (entry.actor, entry.token_id, entry.address)
    return [entry.at, *who, entry.action, entry.object, entry.status]


def _print(found: "CheckedLog | AuditVerification") -> None:
    holds = "does not hold" if found.faults else "holds"
    print(f"The log {holds}. Entries that are sealed: {found.entries}; seals: {found.seals}.")
    print(f"Entries that are not sealed yet: {found.unsealed}.")
    if found.last_seal is not None:
        say("Note the last seal:")
        print(_noted(found.last_seal))


def _noted(seal: "Seal") -> str:
    return one_line(f"{seal.id}:{seal.digest}")


def _seal(noted: str) -> tuple[int, str]:
    number, _, digest = noted.partition(":")
    if not number.isdecimal() or len(number) > 15 or len(digest) != DIGITS:
        raise UsageFault(f"{noted!r} is not N:DIGEST, as `adaptlab audit verify` prints it.")
    return int(number), digest.lower()
