"""Who was let in is let in again for a second without a look at the database, and no longer."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from sqlalchemy import Engine, event, func, select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_token

from adaptlab.errors import InvalidSpec
from adaptlab_db.tables import Membership, Token, User
from adaptlab_services import admission
from adaptlab_services.admission import KEPT_SECONDS, Admissions, Admitted, Grant
from adaptlab_services.errors import Unauthorised

Sessions = sessionmaker[Session]
WRONG = Grant("al_" + "0" * 43 + "_0000000", False, None)


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Door:
    """The door of a server, what is presented at it, and how many statements it has asked."""

    admissions: Admissions
    clock: Clock
    grant: Grant
    statements: list[str]

    def admitted(self, grant: Grant | None = None) -> Admitted:
        """As the gate does it."""
        asked = grant or self.grant
        return self.admissions.known(asked) or self.admissions.admit(asked)

    def looks(self, grant: Grant | None = None) -> bool:
        """Whether letting in takes a look at the database."""
        before = len(self.statements)
        self.admitted(grant)
        return len(self.statements) > before


@pytest.fixture
def door(sessions: Sessions) -> Door:
    with sessions.begin() as session:
        token = a_token(session)
    statements: list[str] = []
    engine: Engine = sessions.kw["bind"]

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    clock = Clock()
    return Door(Admissions(sessions, clock), clock, Grant(token, False, None), statements)


def revoke(session: Session) -> None:
    session.execute(update(Token).values(revoked_at=func.clock_timestamp()))


def expire(session: Session) -> None:
    session.execute(update(Token).values(expires_at=func.clock_timestamp()))


def shut_out(session: Session) -> None:
    session.execute(update(User).values(deactivated_at=func.clock_timestamp()))


def test_the_same_one_is_looked_up_once_a_second(door: Door) -> None:
    first = door.admitted()
    assert not door.looks()
    assert door.admitted() == first
    door.clock.now += KEPT_SECONDS
    assert door.looks()


def test_what_is_kept_lasts_no_longer_than_a_second() -> None:
    assert KEPT_SECONDS <= 1


@pytest.mark.parametrize("end", [revoke, expire, shut_out])
def test_whose_right_ended_is_refused_within_a_second(
    door: Door, sessions: Sessions, end: Callable[[Session], None]
) -> None:
    door.admitted()
    with sessions.begin() as session:
        end(session)
    door.clock.now += 0.99
    door.admitted()  # so long it may take
    door.clock.now += 0.01
    with pytest.raises(Unauthorised):
        door.admitted()


def test_a_role_that_was_taken_is_gone_within_a_second(door: Door, sessions: Sessions) -> None:
    with sessions.begin() as session:
        session.execute(update(User).values(is_admin=False))
    before = door.admitted().access
    with sessions.begin() as session:
        session.execute(update(Membership).values(role="reader"))
    door.clock.now += KEPT_SECONDS
    after = door.admitted().access
    assert before != after
    assert {role for _, role in after.roles} == {"reader"}


def test_a_server_that_changes_rights_forgets_at_once(door: Door, sessions: Sessions) -> None:
    door.admitted()
    with sessions.begin() as session:
        revoke(session)
    door.admissions.forget()
    with pytest.raises(Unauthorised):
        door.admitted()


def test_a_look_that_began_before_rights_were_changed_is_not_kept(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordinary = admission.admitted

    def slow(session: Session, grant: Grant) -> Admitted:
        found = ordinary(session, grant)
        door.admissions.forget()  # somebody else's request, meanwhile
        return found

    monkeypatch.setattr(admission, "admitted", slow)
    door.admitted()
    assert door.looks()


def test_nothing_is_kept_of_what_opens_nothing(door: Door) -> None:
    unknown = replace(door.grant, project="none")
    for wrong, error in ((WRONG, Unauthorised), (unknown, InvalidSpec)):
        for _ in range(2):
            with pytest.raises(error):
                door.admitted(wrong)
        assert door.admissions.known(wrong) is None


def test_a_token_is_no_cookie_and_each_project_is_its_own(door: Door) -> None:
    door.admitted()
    assert door.admissions.known(replace(door.grant, is_browser=True)) is None
    inside = replace(door.grant, project="default")
    assert door.admissions.known(inside) is None
    assert door.admitted(inside).access.visible != door.admitted().access.visible


def test_so_many_are_kept_and_the_oldest_go(
    door: Door, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "MOST_KEPT", 2)
    with sessions.begin() as session:
        grants = [Grant(a_token(session, name), False, None) for name in ("ben", "cleo", "dan")]
    for grant in grants:
        door.admitted(grant)
    assert [door.admissions.known(one) is None for one in grants] == [True, False, False]


def test_the_use_of_a_token_is_noted_though_it_is_kept(door: Door, sessions: Sessions) -> None:
    door.admitted()
    with sessions.begin() as session:
        assert session.scalars(select(Token.last_used_at)).one() is not None
