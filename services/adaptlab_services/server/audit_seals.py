"""Seals of the audit log: made some seconds behind it, and held against it.

Whoever writes an entry takes no lock and waits for nobody. An entry whose transaction was slow may
so become visible after ones with higher ids; what a seal did not find it names, and it is sealed by
a later seal, for an hour. Transactions that idle are ended after seconds, so none takes that long,
and what turns up afterwards was put there past the server.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from sqlalchemy import ColumnElement, RowMapping, func, insert, select, text
from sqlalchemy.orm import Session

from adaptlab.audit_chain import (
    FIRST_ID,
    START,
    JsonEntry,
    Seal,
    SealFault,
    canonical,
    digest_of,
    gaps,
    inserted,
)
from adaptlab.audit_chain import faults as faults_of
from adaptlab.values import Value
from adaptlab_db.tables import AuditEntry, AuditSeal
from adaptlab_services.moments import Moment
from adaptlab_services.results.bulk_rows import Units

SEALED_AFTER = timedelta(seconds=5)
LATE_FOR = timedelta(hours=1)
AT_ONCE = 1000
"""Entries of one seal."""
VERIFIED_AT_ONCE = 10_000
"""Entries after which a verification stops, to be gone on with."""
MOST_UNSEALED = 10_000
SEALS_OF_A_PIECE = 10


class Verification(Value):
    """What of the audit log was held against its seals, and what does not hold.

    `next_after` is the seal to go on after, if there are more. `unsealed` counts what follows the
    last seal, up to 10,000; the oldest of it is from `unsealed_since`.
    """

    object: Literal["audit.verification"] = "audit.verification"
    holds: bool
    seals: int
    entries: int
    faults: tuple[SealFault, ...]
    last_seal: Seal | None
    unsealed: int
    unsealed_since: Moment | None
    next_after: int | None


def seal(session: Session) -> int:
    """Seal some entries that are old enough; how many, 0 where another process is at it."""
    if not session.execute(_ONE_AT_A_TIME).scalar_one():
        return 0
    last = _last(session)
    first_id = FIRST_ID if last is None else last.last_id + 1
    fresh = _due(session, first_id)
    late = _late(session)
    if not fresh and not late:
        return 0
    ids = [int(row["id"]) for row in fresh]
    last_id = ids[-1] if ids else first_id - 1
    made = Seal(
        id=1 if last is None else last.id + 1,
        first_id=first_id,
        last_id=last_id,
        entries=len(fresh) + len(late),
        absent=gaps(first_id, last_id, ids),
        late=tuple(int(row["id"]) for row in late),
        previous=START if last is None else last.digest,
        digest="",
        sealed_at=_written(session.execute(select(func.clock_timestamp())).scalar_one()),
    )
    _insert(session, made, _in_order(late, fresh))
    return made.entries


def verify(session: Session, after: int = 0, until: int | None = None) -> Verification:
    """Hold the entries against the seals after one and until another, some thousands of them."""
    before = _seals(session, AuditSeal.id == after)[:1] if after else ()
    previous = before[0] if before else None
    found = [] if after else _before_the_first(session)
    seals = entries = 0
    following = _seals(session, AuditSeal.id > after, until)
    for one in following:
        if entries >= VERIFIED_AT_ONCE:
            break
        members = _members(session, one)
        found += faults_of(one, previous, members, _inserted(session, one))
        previous, seals, entries = one, seals + 1, entries + one.entries
    is_over = seals == len(following) and len(following) < AT_ONCE
    unsealed, since = _unsealed(session, previous) if is_over else (0, None)
    return Verification(
        holds=not found,
        seals=seals,
        entries=entries,
        faults=tuple(found),
        last_seal=previous,
        unsealed=unsealed,
        unsealed_since=since,
        next_after=None if is_over or previous is None else previous.id,
    )


def exported(units: Units) -> Iterator[bytes]:
    """The whole log as JSON lines: the entries of each seal, then the seal, then the rest.

    Each piece is read in a unit of work of its own. Entries that no seal holds, though their place
    was sealed long ago, stand with that place.
    """
    after_seal, after_id = 0, 0
    while True:
        with units() as session:
            found = _seals(session, AuditSeal.id > after_seal)[:SEALS_OF_A_PIECE]
            pieces = [_sealed_lines(session, one) for one in found]
            late: Sequence[RowMapping] = () if found else _late(session)
        if not found:
            yield _lines({"entry": _document(row)} for row in late)
            break
        yield from pieces
        after_seal, after_id = found[-1].id, found[-1].last_id
    while True:
        with units() as session:
            query = select(_ENTRIES).where(_ENTRIES.c.id > after_id).order_by(_ENTRIES.c.id)
            rows = session.execute(query.limit(AT_ONCE)).mappings().all()
        if not rows:
            return
        yield _lines({"entry": _document(row)} for row in rows)
        after_id = rows[-1]["id"]


def _sealed_lines(session: Session, one: Seal) -> bytes:
    strays = _by_ids(session, _inserted(session, one))
    rows = _in_order(_rows_of(session, one), strays)
    entries: list[Mapping[str, object]] = [{"entry": _document(row)} for row in rows]
    return _lines([*entries, {"seal": one.model_dump(mode="json")}])


def _lines(documents: Iterable[Mapping[str, object]]) -> bytes:
    return b"".join(canonical(document) + b"\n" for document in documents)


def _document(row: RowMapping) -> JsonEntry:
    """An entry as its seal takes it."""
    apart = {"at": _written(row["at"]), "request_id": str(row["request_id"])}
    return {name: apart.get(name, row[name]) for name in _ENTRIES.c.keys()}  # noqa: SIM118 - columns


_ENTRIES = AuditEntry.metadata.tables[AuditEntry.__tablename__]
_ONE_AT_A_TIME = text("SELECT pg_try_advisory_xact_lock(hashtextextended('adaptlab.seals', 0))")
# What recent seals did not find and no later one has found.
_LATE = text("""
    SELECT entry.id FROM audit_seals seal
    CROSS JOIN jsonb_array_elements(seal.absent) gap
    JOIN audit_entries entry ON entry.id BETWEEN (gap->>0)::bigint AND (gap->>1)::bigint
    WHERE seal.sealed_at > clock_timestamp() - CAST(:late_for AS interval) AND NOT EXISTS (
        SELECT FROM audit_seals later WHERE later.id > seal.id AND entry.id = ANY(later.late)
    )
    ORDER BY entry.id LIMIT :most""")
_INSERTED = text("""
    SELECT entry.id FROM audit_seals seal
    CROSS JOIN jsonb_array_elements(seal.absent) gap
    JOIN audit_entries entry ON entry.id BETWEEN (gap->>0)::bigint AND (gap->>1)::bigint
    WHERE seal.id = :seal AND seal.sealed_at <= clock_timestamp() - CAST(:late_for AS interval)
        AND NOT EXISTS (
            SELECT FROM audit_seals later WHERE later.id > seal.id AND entry.id = ANY(later.late)
        )
    ORDER BY entry.id LIMIT :most""")


def _last(session: Session) -> Seal | None:
    row = session.scalars(select(AuditSeal).order_by(AuditSeal.id.desc()).limit(1)).one_or_none()
    return None if row is None else _seal(row)


def _due(session: Session, first_id: int) -> Sequence[RowMapping]:
    """Entries from an id on, up to the first that is too young."""
    is_old = _ENTRIES.c.at < func.clock_timestamp() - SEALED_AFTER
    query = select(_ENTRIES, is_old.label("is_old")).where(_ENTRIES.c.id >= first_id)
    rows = session.execute(query.order_by(_ENTRIES.c.id).limit(AT_ONCE)).mappings().all()
    found: list[RowMapping] = []
    for row in rows:
        if not row["is_old"]:
            break
        found.append(row)
    return found


def _late(session: Session) -> Sequence[RowMapping]:
    given = {"late_for": LATE_FOR, "most": AT_ONCE}
    return _by_ids(session, list(session.execute(_LATE, given).scalars()))


def _inserted(session: Session, one: Seal) -> Sequence[int]:
    """Entries that are in the place of what was absent, and that no later seal has taken up."""
    if not one.absent:
        return ()
    given = {"seal": one.id, "late_for": LATE_FOR, "most": AT_ONCE}
    return list(session.execute(_INSERTED, given).scalars())


def _by_ids(session: Session, ids: Sequence[int]) -> Sequence[RowMapping]:
    if not ids:
        return ()
    query = select(_ENTRIES).where(_ENTRIES.c.id.in_(ids)).order_by(_ENTRIES.c.id)
    return session.execute(query).mappings().all()


def _members(session: Session, one: Seal) -> Sequence[JsonEntry]:
    return [_document(row) for row in _rows_of(session, one)]


def _rows_of(session: Session, one: Seal) -> Sequence[RowMapping]:
    """The entries there are of those that a seal holds, by id."""
    within = _ENTRIES.c.id.between(one.first_id, one.last_id)
    outside = [~_ENTRIES.c.id.between(first, last) for first, last in one.absent]
    query = select(_ENTRIES).where(within, *outside).order_by(_ENTRIES.c.id)
    return _in_order(_by_ids(session, one.late), session.execute(query).mappings().all())


def _before_the_first(session: Session) -> list[SealFault]:
    query = select(_ENTRIES.c.id).where(_ENTRIES.c.id < FIRST_ID).limit(AT_ONCE)
    return [inserted(FIRST_ID, one) for one in session.scalars(query)]


def _in_order(*lists: Sequence[RowMapping]) -> Sequence[RowMapping]:
    return sorted((row for rows in lists for row in rows), key=lambda row: row["id"])


def _unsealed(session: Session, last: Seal | None) -> tuple[int, datetime | None]:
    after = 0 if last is None else last.last_id
    some = (
        select(_ENTRIES.c.at).where(_ENTRIES.c.id > after).order_by(_ENTRIES.c.id)
        .limit(MOST_UNSEALED).subquery()
    )  # fmt: skip
    row = session.execute(select(func.count(), func.min(some.c.at)).select_from(some)).one()
    return row[0], row[1]


def _seals(
    session: Session, which: ColumnElement[bool], until: int | None = None
) -> Sequence[Seal]:
    query = select(AuditSeal).where(which).order_by(AuditSeal.id).limit(AT_ONCE)
    if until is not None:
        query = query.where(AuditSeal.id <= until)
    return [_seal(row) for row in session.scalars(query)]


def _seal(row: AuditSeal) -> Seal:
    return Seal(
        id=row.id,
        first_id=row.first_id,
        last_id=row.last_id,
        entries=row.entries,
        absent=tuple((first, last) for first, last in row.absent),
        late=tuple(row.late),
        previous=row.previous,
        digest=row.digest,
        sealed_at=_written(row.sealed_at),
    )


def _insert(session: Session, made: Seal, members: Sequence[RowMapping]) -> None:
    row = made.model_dump(mode="json") | {
        "digest": digest_of(made, [_document(one) for one in members]),
        "sealed_at": datetime.fromisoformat(made.sealed_at),
    }
    session.execute(insert(AuditSeal).values(row))


def _written(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds")
