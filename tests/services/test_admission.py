"""An admission holds for a second without a look at the database."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from sqlalchemy import Engine, delete, event, func, select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_member, a_project, a_token, a_user

from adaptlab.errors import InvalidSpec
from adaptlab_db.tables import Membership, Token, User
from adaptlab_services.errors import NotAuthorised
from adaptlab_services.people import admission
from adaptlab_services.people.admission import KEPT_SECONDS, Admissions, Admitted, Grant
from adaptlab_services.people.tokens import create_token

Sessions = sessionmaker[Session]
WRONG = Grant("al_" + "0" * 43 + "_0000000", False, None)


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Door:
    """The door of a server, a token, and the number of its statements."""

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
    with pytest.raises(NotAuthorised):
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
    with pytest.raises(NotAuthorised):
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
    for wrong, error in ((WRONG, NotAuthorised), (unknown, InvalidSpec)):
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


def lose_project(session: Session) -> None:
    session.execute(delete(Membership))


def lower_role(session: Session) -> None:
    session.execute(update(Membership).values(role="reader"))


def lower_scopes(session: Session) -> None:
    session.execute(update(Token).values(scopes=["read"]))


def bind_to_project(session: Session) -> None:
    session.execute(update(Token).values(project_id=a_project(session)))


def raise_role(session: Session) -> None:
    session.execute(update(Membership).values(role="admin"))


def another_project(session: Session) -> None:
    a_member(session, a_user(session, "bert"), project="another", role="reader")


def more_scopes(session: Session) -> None:
    session.execute(update(Token).values(scopes=["read", "submit", "admin"]))


def make_admin(session: Session) -> None:
    session.execute(update(User).values(is_admin=True))


LOSSES = (revoke, expire, shut_out, lose_project, lower_role, lower_scopes, bind_to_project)
GAINS = (raise_role, another_project, more_scopes, make_admin)


@pytest.mark.parametrize("change", [*LOSSES, *GAINS], ids=lambda change: change.__name__)
def test_only_a_loss_of_rights_ends_what_is_open(
    sessions: Sessions, change: Callable[[Session], None]
) -> None:
    with sessions.begin() as session:
        user = a_user(session, "bert")
        session.execute(delete(Membership))
        a_member(session, user, role="submitter")
        grant = Grant(create_token(session, user, "x", ("read", "submit")), False, None)
        before = admission.admitted(session, grant)
        change(session)
    with sessions.begin() as session:
        assert bool(admission.still_good(session, [before])) is (change in GAINS)


def test_an_admin_who_is_none_any_more(sessions: Sessions) -> None:
    with sessions.begin() as session:
        grant = Grant(a_token(session), False, None)
        before = admission.admitted(session, grant)
        assert before.access.visible is None
        session.execute(update(User).values(is_admin=False))
    with sessions.begin() as session:
        assert not admission.still_good(session, [before])
