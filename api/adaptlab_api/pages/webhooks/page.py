"""The page of webhooks: the form, and each webhook with its last messages."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from adaptlab_answers.webhooks import CreatedWebhook, DeliveryView, WebhookView
from adaptlab_api.pages.rendering.team_tabs import team_tabs
from adaptlab_api.requests.dependencies import valid
from adaptlab_services.limits.addresses import AddressRules
from adaptlab_services.people import access, projects
from adaptlab_services.people.access import Access
from adaptlab_services.people.tokens import Principal
from adaptlab_services.trackers import trackers
from adaptlab_services.webhooks import webhooks
from adaptlab_services.webhooks.webhooks import NewWebhook

HERE = "/webhooks"
MOST_SHOWN = 50
"""Webhooks on the page; the API lists more."""
LAST_MESSAGES = 5
MEANINGS = {
    "job.ended": "a job has ended",
    "study.ended": "a study has ended, with its verdict",
    "worker.lost": "a worker sends no more heartbeats",
}
USUAL_EVENTS = ("study.ended", "worker.lost")
FORMATS = {"json": "JSON, for programs", "slack": "Slack's incoming webhooks"}
FIELDS = {"/url": "Address", "/events": "Events", "/format": "Format"}
NO_PROJECT = "Project: you cannot see a project with this name."

_WEBHOOK = TypeAdapter(NewWebhook)


@dataclass(frozen=True, slots=True)
class WebhookForm:
    """The fields of the form, as typed."""

    url: str = ""
    events: tuple[str, ...] = USUAL_EVENTS
    format: str = "json"
    project: str = ""

    @classmethod
    def read(cls, fields: Mapping[str, Sequence[str]]) -> "WebhookForm":
        """Return the fields of a form."""

        def text(name: str) -> str:
            return next(iter(fields.get(name, ())), "").strip()

        return cls(text("url"), tuple(fields.get("event", ())), text("format"), text("project"))

    def asked(self) -> NewWebhook:
        """Return the new webhook; raises `InvalidSpec`, or `Refused` for NUL."""
        document = {"url": self.url, "events": self.events, "format": self.format}
        return valid(_WEBHOOK, json.dumps(document).encode())


@dataclass(frozen=True, slots=True)
class WebhookPart:
    """A webhook with its last messages."""

    webhook: WebhookView
    messages: tuple[DeliveryView, ...]


def create(
    session: Session, principal: Principal, rights: Access, form: WebhookForm, rules: AddressRules
) -> CreatedWebhook:
    """Create the webhook of a form; raises what `REFUSALS` lists."""
    new = form.asked()
    project_id = projects.id_of(session, rights, form.project)
    with access.inside(session, project_id):
        return webhooks.create(session, principal, rights, new, rules)


def webhook_page(
    session: Session, rights: Access, form: WebhookForm | None = None
) -> dict[str, object]:
    """Return the values of the template."""
    listed = webhooks.page(session, rights, MOST_SHOWN)
    allowed = tuple(
        one.name for one in projects.listed(session, rights).data if _is_operator(one.role)
    )
    return {
        "parts": tuple(_part(session, rights, webhook) for webhook in listed.data),
        "cut": listed.next_page_token is not None,
        "trackers": trackers.listed(session, rights).data,
        "form": form or WebhookForm(project=rights.project or ""),
        "projects": allowed,
        "meanings": MEANINGS,
        "formats": FORMATS,
        "made": None,
        "faults": (),
        "tabs": team_tabs(rights),
    }


def _is_operator(role: str | None) -> bool:
    return role in ("operator", "admin")


def _part(session: Session, rights: Access, webhook: WebhookView) -> WebhookPart:
    return WebhookPart(
        webhook, webhooks.deliveries(session, rights, webhook.id, LAST_MESSAGES).data
    )
