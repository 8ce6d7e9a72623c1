"""The page of tokens: those that there are, the form that makes one, and what its reader used."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from adaptlab.errors import InvalidSpec
from adaptlab_api.answers.problems import Refused
from adaptlab_api.requests.dependencies import valid
from adaptlab_services.errors import Forbidden, NotFound
from adaptlab_services.limits import quotas
from adaptlab_services.people import issued_tokens, projects
from adaptlab_services.people.access import Access
from adaptlab_services.people.issued_tokens import DEFAULT_DAYS, MOST_DAYS, NewToken
from adaptlab_services.people.token_rights import covered
from adaptlab_services.people.tokens import Principal

HERE = "/tokens"
PAGE_SIZE = 50
# Not `worker`: that one is for machines and opens no page.
SCOPES = {
    "read": "view",
    "submit": "create and change",
    "admin": "manage project members; for an admin of the server, everything",
}
USUAL_SCOPES = ("read", "submit")
FIELDS = {"/name": "Name", "/scopes": "Scopes", "/project": "Project", "/expires_in_days": "Days"}

_TOKEN = TypeAdapter(NewToken)


@dataclass(frozen=True, slots=True)
class TokenForm:
    """What the form holds, as it was typed."""

    name: str = ""
    scopes: tuple[str, ...] = USUAL_SCOPES
    project: str = ""
    days: str = str(DEFAULT_DAYS)
    forever: bool = False

    @classmethod
    def read(cls, fields: Mapping[str, Sequence[str]]) -> "TokenForm":
        """From the fields of a form."""

        def one(name: str) -> str:
            return next(iter(fields.get(name, ())), "").strip()

        scopes = tuple(fields.get("scope", ()))
        return cls(one("name"), scopes, one("project"), one("days"), bool(one("forever")))

    def asked(self) -> NewToken:
        """The token that it asks for; raises `InvalidSpec`, and `Refused` for NUL in a text."""
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
    found: Access,
    page_token: str | None = None,
    form: TokenForm | None = None,
) -> dict[str, object]:
    """Everything that the template shows; raises `InvalidSpec` for a wrong `page_token`."""
    page = issued_tokens.page(session, principal, found, None, PAGE_SIZE, page_token)
    following = page.next_page_token
    offered = offered_scopes(principal)
    seen = projects.listed(session, found).data
    return {
        "tokens": page.data,
        "of_everybody": found.is_admin,
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
    """The scopes that whoever asks may give a token."""
    return tuple(name for name in SCOPES if name in covered(principal.scopes))


def faults_of(refusal: InvalidSpec | Refused | Forbidden | NotFound) -> tuple[str, ...]:
    """What is wrong with a form, one sentence for each field."""
    match refusal:
        case InvalidSpec():
            return tuple(f"{_field(one.pointer)}: {one.detail}" for one in refusal.problems)
        case NotFound():
            return ("Project: you cannot see a project with this name.",)
        case _:
            return (str(refusal),)


def _field(pointer: str) -> str:
    """What the form calls the place of a fault."""
    return next((name for place, name in FIELDS.items() if pointer.startswith(place)), "The form")
