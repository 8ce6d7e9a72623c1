"""The page of tokens: the list, the form, and the reader's usage."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from adaptlab_api.requests.dependencies import valid
from adaptlab_services.limits import quotas
from adaptlab_services.people import issued_tokens, projects
from adaptlab_services.people.access import Access
from adaptlab_services.people.issued_tokens import DEFAULT_DAYS, MOST_DAYS, NewToken
from adaptlab_services.people.token_rights import covered
from adaptlab_services.people.tokens import Principal

HERE = "/tokens"
PAGE_SIZE = 50
# Not `worker` and `metrics`, which are for machines and open no page.
SCOPES = {
    "read": "view",
    "submit": "create and change",
    "admin": "manage project members; for an admin of the server, everything",
}
USUAL_SCOPES = ("read", "submit")
NO_PROJECT = "Project: you cannot see a project with this name."
FIELDS = {"/name": "Name", "/scopes": "Scopes", "/project": "Project", "/expires_in_days": "Days"}

_TOKEN = TypeAdapter(NewToken)


@dataclass(frozen=True, slots=True)
class TokenForm:
    """The fields of the form, as typed."""

    name: str = ""
    scopes: tuple[str, ...] = USUAL_SCOPES
    project: str = ""
    days: str = str(DEFAULT_DAYS)
    forever: bool = False

    @classmethod
    def read(cls, fields: Mapping[str, Sequence[str]]) -> "TokenForm":
        """Return the fields of a form."""

        def text(name: str) -> str:
            return next(iter(fields.get(name, ())), "").strip()

        scopes = tuple(fields.get("scope", ()))
        return cls(text("name"), scopes, text("project"), text("days"), bool(text("forever")))

    def asked(self) -> NewToken:
        """Return the new token; raises `InvalidSpec`, or `Refused` for NUL."""
        is_number = self.days.isascii() and self.days.isdigit() and len(self.days) < 6
        days = int(self.days) if is_number else self.days
        document = {
            "name": self.name,
            "scopes": self.scopes,
            "project": self.project or None,
            "expires_in_days": None if self.forever else days,
        }
        return valid(_TOKEN, json.dumps(document).encode())


def token_page(
    session: Session,
    principal: Principal,
    access: Access,
    page_token: str | None = None,
    form: TokenForm | None = None,
) -> dict[str, object]:
    """Return the values of the template; raises `InvalidSpec`."""
    page = issued_tokens.page(session, principal, access, None, PAGE_SIZE, page_token)
    following = page.next_page_token
    offered = offered_scopes(principal)
    seen = projects.listed(session, access).data
    return {
        "tokens": page.data,
        "of_everybody": access.is_admin,
        "own_id": principal.token_id,
        "first": HERE if page_token else None,
        "following": following and f"{HERE}?{urlencode({'page_token': following})}",
        "form": form or TokenForm(scopes=tuple(name for name in offered if name in USUAL_SCOPES)),
        "scopes": {name: SCOPES[name] for name in offered},
        "projects": tuple(project.name for project in seen),
        "one_project": principal.project_id is not None,
        "most_days": MOST_DAYS,
        "usage": quotas.usage(session, principal.user_id),
        "made": None,
        "faults": (),
    }


def offered_scopes(principal: Principal) -> tuple[str, ...]:
    """Return the scopes that the caller can give a token."""
    return tuple(name for name in SCOPES if name in covered(principal.scopes))
