"""The form that fetches from the hub, and the fetches above it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from adaptlab.weights.hub_name import SPLIT_SIGN
from adaptlab_answers.hub import HubFetchView, RepositoryKind
from adaptlab_api.answers.problems import status_of
from adaptlab_api.answers.state import Resources
from adaptlab_api.limits.auditing import noted
from adaptlab_api.pages.rendering.form_faults import REFUSALS, faults_of
from adaptlab_api.pages.rendering.forms import small_form_fields
from adaptlab_api.pages.rendering.renderer import Renderer
from adaptlab_api.requests.dependencies import ResourcesDep, SessionDep, SubmitterDep, valid
from adaptlab_api.requests.rules import needs
from adaptlab_services.errors import Absent, Forbidden, StateConflict
from adaptlab_services.hub import fetches
from adaptlab_services.hub.fetches import NewHubFetch
from adaptlab_services.people.tokens import Principal

MOST_SHOWN = 10
"""Fetches on the page that have not succeeded; the API lists all."""

FieldsDep = Annotated[Mapping[str, Sequence[str]], Depends(small_form_fields)]
_FETCH = TypeAdapter(NewHubFetch)


@dataclass(frozen=True, slots=True)
class FetchForm:
    """The fields of the form, as typed."""

    source: str = ""
    name: str = ""
    config: str = ""
    split: str = ""

    @classmethod
    def read(cls, fields: Mapping[str, Sequence[str]]) -> "FetchForm":
        """Return the fields of a form."""

        def text(name: str) -> str:
            return next(iter(fields.get(name, ())), "").strip()

        return cls(text("source"), text("name"), text("config"), text("split"))

    def asked(self, kind: RepositoryKind) -> NewHubFetch:
        """Return the new fetch; raises `InvalidSpec`, or `Refused` for NUL."""
        part = f"{self.config}/{self.split}" if self.config else self.split
        source = f"{self.source}{SPLIT_SIGN}{part}" if part else self.source
        document = {"kind": kind, "source": source, "name": self.name}
        return valid(_FETCH, json.dumps(document).encode())


@dataclass(frozen=True, slots=True)
class FetchPage:
    """A page that has things fetched: its address, template and their kind."""

    here: str
    template: str
    kind: RepositoryKind

    def panel(
        self,
        session: Session,
        opened: Resources,
        form: FetchForm | None = None,
        faults: Sequence[str] = (),
    ) -> dict[str, object]:
        """Return the values of the template's form and table."""
        newest = fetches.page(session, fetches.SHOWN_FROM).data
        fetched = [one for one in newest if one.checkpoint_id is None and not one.plan_only]
        ours = [one for one in fetched if one.kind == self.kind]
        shown = [one for one in ours if one.state != "succeeded"][:MOST_SHOWN]
        values = {
            "noun": self.kind,
            "address": f"{self.here}/fetches",
            "form": form or FetchForm(),
            "faults": faults,
            "is_on": opened.settings.hub == "on",
            "fetches": [(one, _share(one)) for one in shown],
        }
        return {"fetching": values}

    @property
    def fields(self) -> Mapping[str, str]:
        """The labels of the form by the members of a fetch."""
        return {"/name": "Name", "/source": self.kind.capitalize()}


Listed = Callable[[Session, Principal, Resources], dict[str, object]]
"""The values of the page beside the form and the fetches."""


def add_fetching(router: APIRouter, renderer: Renderer, page: FetchPage, listed: Listed) -> None:
    """Add the routes of the form, and of the buttons of each fetch."""
    here = page.here

    @router.post("/fetches")
    @needs("submitter")
    def fetch_form(  # pyright: ignore[reportUnusedFunction] - the router keeps it
        fields: FieldsDep,
        request: Request,
        session: SessionDep,
        principal: SubmitterDep,
        opened: ResourcesDep,
    ) -> Response:
        form = FetchForm.read(fields)
        try:
            with session.begin_nested():
                fetches.create(session, principal, form.asked(page.kind), opened.settings)
        except REFUSALS as refusal:
            shown: dict[str, object] = {"principal": principal, "here": here}
            shown |= listed(session, principal, opened)
            shown |= page.panel(session, opened, form, faults_of(refusal, page.fields))
            return renderer.page(page.template, shown, status_of(refusal))
        return noted(session, request, RedirectResponse(here, 303))

    @router.post("/fetches/{fetch_id}/cancel")
    @needs("submitter")
    def cancel_fetch_form(  # pyright: ignore[reportUnusedFunction] - the router keeps it
        fetch_id: UUID, request: Request, session: SessionDep, principal: SubmitterDep
    ) -> Response:
        act = _Act(renderer, session, request, principal, here)
        return act(lambda: fetches.cancel(session, fetch_id))

    @router.post("/fetches/{fetch_id}/retry")
    @needs("submitter")
    def retry_fetch_form(  # pyright: ignore[reportUnusedFunction] - the router keeps it
        fetch_id: UUID,
        request: Request,
        session: SessionDep,
        principal: SubmitterDep,
        opened: ResourcesDep,
    ) -> Response:
        act = _Act(renderer, session, request, principal, here)
        return act(lambda: fetches.retry(session, fetch_id, opened.settings))


@dataclass(frozen=True, slots=True)
class _Act:
    """A change of a fetch by a button, after which the page is shown again."""

    renderer: Renderer
    session: Session
    request: Request
    principal: Principal
    here: str

    def __call__(self, change: Callable[[], object]) -> Response:
        """Change the fetch, or say why not."""
        shown: dict[str, object] = {"principal": self.principal, "here": self.here}
        try:
            change()
        except Absent:
            gone = "It may be deleted."
            return self.renderer.fault(404, "There is no such fetch", gone, shown)
        except Forbidden as refusal:
            return self.renderer.fault(403, "You cannot change this fetch", str(refusal), shown)
        except StateConflict as refusal:
            return self.renderer.fault(409, "This is not possible now", str(refusal), shown)
        return noted(self.session, self.request, RedirectResponse(self.here, 303))


def _share(fetch: HubFetchView) -> float | None:
    """Return how much of a fetch is there, from 0 to 1."""
    return fetch.bytes_done / fetch.bytes_total if fetch.bytes_total else None
