"""The audit log of a server: what was done, whether it holds, and the whole of it as a file."""

from collections.abc import Iterator
from pathlib import Path

from adaptlab.audit_chain import Seal, SealFault
from adaptlab_client.answers import Answer
from adaptlab_client.connection import Connection, Query, Request, path_of
from adaptlab_client.paging import entries
from adaptlab_client.people_answers import AuditEntry

EXPORT_SECONDS = 600.0


class AuditVerification(Answer):
    """What of the log was held against its seals, and what does not hold.

    `unsealed` counts what follows the last seal, up to 10,000. `next_after` is the seal to go on
    after, if there are more.
    """

    holds: bool
    seals: int
    entries: int
    faults: tuple[SealFault, ...] = ()
    last_seal: Seal | None = None
    unsealed: int = 0
    next_after: int | None = None


class AuditLog:
    """What was done on a server; for admins."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self, query: Query | None = None) -> Iterator[AuditEntry]:
        """What was done and refused, newest first.

        The query may have `actor`, `action`, `object`, `since` and `until`.
        """
        return entries(self._connection, path_of("audit"), AuditEntry, query or {})

    def verify(self, noted: tuple[int, str] | None = None) -> AuditVerification:
        """Have the whole log held against its seals, request by request.

        `noted` is the number and the digest of a seal that was written down before: without one,
        whoever made the whole chain anew is not noticed.
        """
        if noted is None:
            return self._verified(0, None)
        number, digest = noted
        first = self._verified(0, number)
        if (told := _unlike(first.last_seal, number, digest)) is not None:
            fault = SealFault(seal=number, kind="chain", detail=f"{told}; {digest} was noted.")
            first = first.model_copy(update={"holds": False, "faults": (*first.faults, fault)})
        return _together(first, self._verified(number, None))

    def export(self, target: str | Path) -> Path:
        """Write the whole log into `target`, which appears when it is whole.

        `adaptlab.audit_chain.check_export` verifies its lines without a server.
        """
        target = Path(target)
        part = target.with_name(target.name + ".part")
        request = Request("GET", path_of("audit", "export"), seconds=EXPORT_SECONDS)
        try:
            with part.open("wb") as file, self._connection.open(request) as response:
                for piece in response.iter_bytes():
                    file.write(piece)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        return target

    def _verified(self, after: int, until: int | None) -> AuditVerification:
        found = self._ask(after, until)
        while found.next_after is not None:
            found = _together(found, self._ask(found.next_after, until))
        return found

    def _ask(self, after: int, until: int | None) -> AuditVerification:
        query: Query = {"after": after, "until": until}
        request = Request("GET", path_of("audit", "verification"), query=query)
        return self._connection.ask(request, AuditVerification)


def _unlike(seal: Seal | None, number: int, digest: str) -> str | None:
    if seal is None or seal.id != number:
        return "There is no such seal"
    return None if seal.digest == digest else f"Its digest is {seal.digest}"


def _together(first: AuditVerification, then: AuditVerification) -> AuditVerification:
    return AuditVerification(
        holds=first.holds and then.holds,
        seals=first.seals + then.seals,
        entries=first.entries + then.entries,
        faults=(*first.faults, *then.faults),
        last_seal=then.last_seal or first.last_seal,
        unsealed=then.unsealed,
        next_after=then.next_after,
    )
