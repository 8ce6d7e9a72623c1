"""Tokens of users for the hub, stored sealed."""

import re
from datetime import datetime
from typing import Annotated

from pydantic import Field
from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.values import Value
from adaptlab_answers.hub import HubTokenView
from adaptlab_db.tables import HubToken
from adaptlab_services.hub.hub_access import HubAccess
from adaptlab_services.hub.sealing import Seal
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings

_FORM = re.compile(r"[!-~]{8,500}")


class NewHubToken(Value):
    """A token of the hub; one that can only read is enough."""

    token: Annotated[str, Field(repr=False)]


def store(
    session: Session, principal: Principal, new: NewHubToken, settings: Settings
) -> HubTokenView:
    """Store the caller's token in place of an earlier one.

    Raises `InvalidSpec` for what cannot be a token, without showing it.
    """
    if not _FORM.fullmatch(new.token):
        detail = "The token is not one of 8 to 500 printable ASCII characters without spaces."
        raise InvalidSpec(Problem("/token", "bad_token", detail))
    endpoint = _endpoint(settings)
    sealed = Seal.of(settings).close(new.token, _place(principal.user_id, endpoint))
    now = func.clock_timestamp()
    row = {"user_id": principal.user_id, "endpoint": endpoint, "sealed": sealed, "set_at": now}
    session.execute(
        insert(HubToken)
        .values(row)
        .on_conflict_do_update(
            index_elements=["user_id", "endpoint"], set_={"sealed": sealed, "set_at": now}
        )
    )
    return look(session, principal, settings)


def look(session: Session, principal: Principal, settings: Settings) -> HubTokenView:
    """Return whether the caller has a token."""
    endpoint = _endpoint(settings)
    query = select(HubToken.set_at).where(*_of(principal.user_id, endpoint))
    set_at: datetime | None = session.scalars(query).one_or_none()
    return HubTokenView(endpoint=endpoint, is_set=set_at is not None, set_at=set_at)


def remove(session: Session, principal: Principal, settings: Settings) -> None:
    """Delete the caller's token, if there is one."""
    session.execute(delete(HubToken).where(*_of(principal.user_id, _endpoint(settings))))


def opened(session: Session, user_id: int, settings: Settings) -> str | None:
    """Return a user's token, None without any; raises `Unsealable`."""
    endpoint = _endpoint(settings)
    query = select(HubToken.sealed).where(*_of(user_id, endpoint))
    sealed = session.scalars(query).one_or_none()
    if sealed is None:
        return None
    return Seal.of(settings).open(sealed, _place(user_id, endpoint))


def _endpoint(settings: Settings) -> str:
    return HubAccess.of(settings, None).hosts.alias


def _of(user_id: int, endpoint: str) -> tuple[ColumnElement[bool], ...]:
    return HubToken.user_id == user_id, HubToken.endpoint == endpoint


def _place(user_id: int, endpoint: str) -> str:
    return f"{user_id} {endpoint}"
