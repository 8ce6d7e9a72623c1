"""Tokens of users for the hub, stored sealed."""

import re
from typing import Annotated

from pydantic import Field
from sqlalchemy import ColumnElement, delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.values import Value
from adaptlab_answers.hub import HubAccount, HubTokenView
from adaptlab_db.tables import HubToken
from adaptlab_services.hub.hub_access import HubAccess
from adaptlab_services.hub.hub_child import HubChild, HubFailure, HubPatience
from adaptlab_services.hub.sealing import Seal
from adaptlab_services.people.tokens import Principal
from adaptlab_services.settings import Settings

PATIENCE = HubPatience(silent_seconds=10.0)
"""How long a request waits for the hub."""
_FORM = re.compile(r"[!-~]{8,500}")


class NewHubToken(Value):
    """A token of the hub; one that can only read is enough."""

    token: Annotated[str, Field(repr=False)]


def account_of(new: NewHubToken, settings: Settings) -> HubAccount | None:
    """Return the account of a token, None if the hub cannot be asked.

    Raises `InvalidSpec` for what is no token, or not of this hub, without showing it.
    """
    if not _FORM.fullmatch(new.token):
        detail = "The token is not one of 8 to 500 printable ASCII characters without spaces."
        raise InvalidSpec(Problem("/token", "bad_token", detail))
    if settings.hub == "off":
        return None
    try:
        with HubChild(HubAccess.of(settings, new.token), patience=PATIENCE) as hub:
            return hub.account()
    except HubFailure as failure:
        if failure.code != "bad_token":
            return None
        detail = (
            f"{_endpoint(settings)} does not know this token. Copy it again from the page where it "
            "was created, or create another one that can read."
        )
        raise InvalidSpec(Problem("/token", "bad_token", detail)) from failure


def store(
    session: Session,
    principal: Principal,
    new: NewHubToken,
    account: HubAccount | None,
    settings: Settings,
) -> HubTokenView:
    """Store the caller's token, and its account, in place of an earlier one."""
    endpoint = _endpoint(settings)
    sealed = Seal.of(settings).close(new.token, _place(principal.user_id, endpoint))
    now = func.clock_timestamp()
    values = {
        "sealed": sealed,
        "set_at": now,
        "account": None if account is None else account.model_dump(mode="json"),
    }
    session.execute(
        insert(HubToken)
        .values({"user_id": principal.user_id, "endpoint": endpoint, **values})
        .on_conflict_do_update(index_elements=["user_id", "endpoint"], set_=values)
    )
    return look(session, principal, settings)


def look(session: Session, principal: Principal, settings: Settings) -> HubTokenView:
    """Return whether the caller has a token, and whose it is."""
    endpoint = _endpoint(settings)
    query = select(HubToken.set_at, HubToken.account).where(*_of(principal.user_id, endpoint))
    row = session.execute(query).one_or_none()
    if row is None:
        return HubTokenView(endpoint=endpoint, is_set=False, set_at=None)
    account = None if row.account is None else HubAccount.model_validate(row.account)
    return HubTokenView(endpoint=endpoint, is_set=True, set_at=row.set_at, account=account)


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
