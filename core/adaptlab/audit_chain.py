"""How an audit log is sealed: each seal holds some entries and the seal before to what they were.

Entries are written in one way, as JSON with sorted names and without spaces, so that whoever has an
export of the log can follow the chain without the server. A seal says which ids it covers and which
of these were not there: an entry may be committed after one with a higher id has been sealed, and
is then sealed late, by a later seal.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pydantic import ValidationError

from adaptlab.errors import BrokenLog
from adaptlab.values import Value

START = "0" * 64
"""What stands for the digest of the seal before the first."""
FIRST_ID = 1

JsonEntry = Mapping[str, object]


class Seal(Value):
    """One link of the chain.

    Of the ids `first_id` to `last_id` all are held but the ranges in `absent`; `late` are earlier
    ids that a seal before found absent. `digest` is the SHA-256 of everything else here and of the
    `entries`, `previous` that of the seal before, and `sealed_at` is RFC 3339 in UTC.
    """

    id: int
    first_id: int
    last_id: int
    entries: int
    absent: tuple[tuple[int, int], ...]
    late: tuple[int, ...]
    previous: str
    digest: str
    sealed_at: str


class SealFault(Value):
    """What does not hold: the seal, and whether entries were changed, removed or inserted.

    Of the kind `chain` is a seal that does not follow the one before it.
    """

    seal: int
    kind: Literal["changed", "removed", "inserted", "chain"]
    detail: str


class CheckedLog(Value):
    """What was found of an export of the log; `last_seal` is None where nothing was sealed."""

    seals: int
    entries: int
    unsealed: int
    faults: tuple[SealFault, ...]
    last_seal: Seal | None


def canonical(document: Mapping[str, object]) -> bytes:
    """The one way in which an entry, or a seal without its digest, is written."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def inserted(seal: int, entry_id: int) -> SealFault:
    """The fault of an entry that stands where there was none."""
    detail = f"The entry {entry_id} was not there when its place was sealed, nor soon after."
    return SealFault(seal=seal, kind="inserted", detail=detail)


def digest_of(seal: Seal, members: Iterable[JsonEntry]) -> str:
    """What `seal.digest` has to be, given the entries it holds, by id."""
    digest = hashlib.sha256()
    for document in (seal.model_dump(mode="json", exclude={"digest"}), *members):
        digest.update(canonical(document) + b"\n")
    return digest.hexdigest()


def gaps(first_id: int, last_id: int, there: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The ranges of `first_id` to `last_id` of which none is in `there`, which is sorted."""
    found: list[tuple[int, int]] = []
    expected = first_id
    for one in (*there, last_id + 1):
        if one > expected:
            found.append((expected, one - 1))
        expected = one + 1
    return tuple(found)


def is_held(seal: Seal, entry_id: int) -> bool:
    """Whether the entry of this id is one of those that the seal holds."""
    if entry_id in seal.late:
        return True
    if not seal.first_id <= entry_id <= seal.last_id:
        return False
    return not any(first <= entry_id <= last for first, last in seal.absent)


def faults(
    seal: Seal, before: Seal | None, members: Sequence[JsonEntry], strays: Sequence[int] = ()
) -> tuple[SealFault, ...]:
    """What does not hold of one seal.

    Args:
        seal: the one that is looked at.
        before: the seal before it; None for the first.
        members: the entries there are of those it holds, by id.
        strays: ids of entries there are that no seal holds, though they are in its range.
    """
    found = list(_of_chain(seal, before))
    found += [inserted(seal.id, one) for one in strays]
    if len(members) < seal.entries:
        detail = f"Of {seal.entries} entries {seal.entries - len(members)} are not there."
        found.append(SealFault(seal=seal.id, kind="removed", detail=detail))
    elif digest_of(seal, members) != seal.digest:
        detail = (
            f"The entries {seal.first_id} to {seal.last_id}, or what the seal says, are not what "
            "was sealed."
        )
        found.append(SealFault(seal=seal.id, kind="changed", detail=detail))
    return tuple(found)


def _of_chain(seal: Seal, before: Seal | None) -> Iterable[SealFault]:
    expected = (1, FIRST_ID, START)
    if before is not None:
        expected = (before.id + 1, before.last_id + 1, before.digest)
    if (seal.id, seal.first_id, seal.previous) != expected:
        detail = f"The seal {seal.id} does not follow seal {expected[0] - 1}; one was taken out."
        yield SealFault(seal=seal.id, kind="chain", detail=detail)


def check_export(lines: Iterable[bytes], noted: tuple[int, str] | None = None) -> CheckedLog:
    """Follow the chain through an export: the entries of each seal, then the seal, line by line.

    `noted` is the number and the digest of a seal that was written down elsewhere: without one,
    whoever forged the whole chain, or cut off its end, is not noticed. Raises `BrokenLog`.
    """
    found: list[SealFault] = []
    held: list[JsonEntry] = []
    seals, entries, last = 0, 0, None
    for number, line in enumerate(lines, 1):
        seal, entry = _read(line, number)
        if seal is None:
            held.append(entry)
            continue
        members = [one for one in held if is_held(seal, _id_of(one))]
        strays = [_id_of(one) for one in held if not is_held(seal, _id_of(one))]
        found += faults(seal, last, members, strays)
        if noted is not None and seal.id == noted[0]:
            found += _of_noted(seal, noted)
        seals, entries, last, held = seals + 1, entries + len(members), seal, []
    if noted is not None and (last is None or last.id < noted[0]):
        found += _of_noted(None, noted)
    return CheckedLog(
        seals=seals, entries=entries, unsealed=len(held), faults=tuple(found), last_seal=last
    )


def _of_noted(seal: Seal | None, noted: tuple[int, str]) -> Iterable[SealFault]:
    number, digest = noted
    if seal is None or seal.digest != digest:
        what = "There is no such seal" if seal is None else f"Its digest is {seal.digest}"
        yield SealFault(seal=number, kind="chain", detail=f"{what}; {digest} was noted.")


def _read(line: bytes, number: int) -> tuple[Seal | None, JsonEntry]:
    try:
        document = json.loads(line)
        if set(document) == {"seal"}:
            return Seal.model_validate_json(json.dumps(document["seal"]), strict=True), {}
        if set(document) == {"entry"} and type(document["entry"]["id"]) is int:
            return None, document["entry"]
    except (ValueError, TypeError, KeyError, RecursionError, ValidationError) as error:
        raise BrokenLog(
            f"Line {number} is neither an entry nor a seal; export the log anew."
        ) from error
    raise BrokenLog(f"Line {number} is neither an entry nor a seal; export the log anew.")


def _id_of(entry: JsonEntry) -> int:
    found = entry["id"]
    assert isinstance(found, int)
    return found
