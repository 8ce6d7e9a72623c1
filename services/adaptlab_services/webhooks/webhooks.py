"""Webhooks of projects: created, listed, changed, tested and deleted."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, cast

from pydantic import Field
from sqlalchemy import Select, delete, func, insert, select
from sqlalchemy.orm import Session, aliased

from adaptlab.errors import InvalidSpec, Problem
from adaptlab.values import Value
from adaptlab_answers.paging import Page
from adaptlab_answers.webhooks import (
    CreatedWebhook,
    DeliveryState,
    DeliveryView,
    WebhookEventName,
    WebhookFormat,
    WebhookView,
)
from adaptlab_db.tables import Project, User, Webhook, WebhookDelivery
from adaptlab_services import paging
from adaptlab_services.errors import Absent, Forbidden, StateConflict
from adaptlab_services.limits.addresses import LONGEST_URL, AddressRefused, AddressRules
from adaptlab_services.paging import Cursor
from adaptlab_services.people import access, audit
from adaptlab_services.people.access import Access, is_at_least
from adaptlab_services.people.tokens import Principal
from adaptlab_services.webhooks.signing import new_secret

MOST_WEBHOOKS = 20
"""Limit on the webhooks of a project."""
ALL_EVENTS: tuple[WebhookEventName, ...] = ("job.ended", "study.ended", "worker.lost")
Url = Annotated[str, Field(min_length=1, max_length=LONGEST_URL)]
Events = Annotated[tuple[WebhookEventName, ...], Field(min_length=1, max_length=len(ALL_EVENTS))]


class NewWebhook(Value):
    """A webhook to create in the request's project.

    `url` is the receiver, `events` are those that are sent to it. The format `slack` is that of
    Slack's incoming webhooks.
    """

    url: Url
    events: Events = ("study.ended", "worker.lost")
    format: WebhookFormat = "json"


class WebhookChanges(Value):
    """Changes of a webhook; members that are left out stay.

    While it is not `enabled`, no events are recorded for it, and pending messages wait.
    """

    url: Url | None = None
    events: Events | None = None
    enabled: bool | None = None


def create(
    session: Session, principal: Principal, rights: Access, new: NewWebhook, rules: AddressRules
) -> CreatedWebhook:
    """Create a webhook and return it with its secret.

    Raises:
        Forbidden: the caller is not an operator of the project.
        InvalidSpec: the server sends nothing to this address.
        StateConflict: the project has `MOST_WEBHOOKS`.
    """
    project_id = access.project_of(session)
    _check_operator(rights, project_id)
    _check_url(new.url, rules)
    # Locked, so that two requests at once cannot exceed the limit.
    session.execute(select(Project.id).where(Project.id == project_id).with_for_update())
    number = session.scalar(
        select(func.count()).select_from(Webhook).where(Webhook.project_id == project_id)
    )
    if (number or 0) >= MOST_WEBHOOKS:
        raise StateConflict(
            f"The project has {MOST_WEBHOOKS} webhooks, the limit. Delete one of them."
        )
    secret = new_secret()
    values = {
        "project_id": project_id,
        "owner_id": principal.user_id,
        "url": new.url,
        "format": new.format,
        "events": list(dict.fromkeys(new.events)),
        "secret": secret,
    }
    webhook_id = session.scalars(insert(Webhook).values(values).returning(Webhook.id)).one()
    audit.note(session, events=values["events"], format=new.format)
    return CreatedWebhook(**dict(get(session, rights, webhook_id)), secret=secret)


def page(
    session: Session,
    rights: Access,
    page_size: int = paging.DEFAULT_PAGE_SIZE,
    page_token: str | None = None,
) -> Page[WebhookView]:
    """Return the webhooks that the caller can manage, newest first.

    These are those of projects in which the caller is an operator.
    """
    query = _rows().order_by(Webhook.id.desc()).limit(paging.page_limit(page_size))
    if not rights.is_admin:
        mine = [id_ for id_, role in rights.roles if is_at_least(role, "operator")]
        query = query.where(Webhook.project_id.in_(mine))
    if page_token is not None:
        query = query.where(Webhook.id < paging.read(page_token, "webhooks").row())
    rows = session.execute(query).all()
    shown = rows[: paging.page_limit(page_size) - 1]
    token = None
    if len(rows) > len(shown):
        token = paging.written(Cursor("", str(shown[-1].Webhook.id)), "webhooks")
    return Page(data=_views(session, shown), next_page_token=token)


def get(session: Session, rights: Access, webhook_id: int) -> WebhookView:
    """Return a webhook; raises `Absent` and `Forbidden`."""
    row = session.execute(_rows().where(Webhook.id == webhook_id)).one_or_none()
    if row is None:
        raise Absent("webhook", webhook_id)
    _check_operator(rights, row.Webhook.project_id)
    return _views(session, [row])[0]


def change(
    session: Session, rights: Access, webhook_id: int, changes: WebhookChanges, rules: AddressRules
) -> WebhookView:
    """Change a webhook; raises what `get` raises, and `InvalidSpec`."""
    get(session, rights, webhook_id)
    if changes.url is not None:
        _check_url(changes.url, rules)
    row = session.get_one(Webhook, webhook_id)
    row.url = changes.url or row.url
    row.events = list(dict.fromkeys(changes.events or row.events))
    row.enabled = row.enabled if changes.enabled is None else changes.enabled
    audit.note(session, events=row.events, enabled=row.enabled, has_new_url=bool(changes.url))
    session.flush()
    return get(session, rights, webhook_id)


def remove(session: Session, rights: Access, webhook_id: int) -> None:
    """Delete a webhook with its deliveries; raises what `get` raises."""
    get(session, rights, webhook_id)
    session.execute(delete(Webhook).where(Webhook.id == webhook_id))


def send_test(session: Session, rights: Access, webhook_id: int) -> DeliveryView:
    """Have a message of the type `webhook.test` sent soon.

    Raises what `get` raises, and `StateConflict` if the webhook is not enabled.
    """
    get(session, rights, webhook_id)
    row = session.get_one(Webhook, webhook_id)
    if not row.enabled:
        raise StateConflict("The webhook is not enabled. Enable it to send a test.")
    delivery_id = uuid.uuid4()
    values = {
        "id": delivery_id,
        "webhook_id": webhook_id,
        "project_id": row.project_id,
        "event": "webhook.test",
        "key": f"test:{delivery_id}",
    }
    session.execute(insert(WebhookDelivery), [values])
    return _delivery(session.get_one(WebhookDelivery, delivery_id))


def deliveries(
    session: Session,
    rights: Access,
    webhook_id: int,
    page_size: int = paging.DEFAULT_PAGE_SIZE,
    page_token: str | None = None,
) -> Page[DeliveryView]:
    """Return the messages to a webhook, newest first.

    Raises what `get` raises.
    """
    get(session, rights, webhook_id)
    question = ("deliveries", str(webhook_id))
    row = WebhookDelivery
    query = select(row).where(row.webhook_id == webhook_id)
    if page_token is not None:
        query = query.where(
            paging.read(page_token, *question).older(WebhookDelivery.created_at, WebhookDelivery.id)
        )
    newest = query.order_by(row.created_at.desc(), row.id.desc())
    rows = session.scalars(newest.limit(paging.page_limit(page_size))).all()
    shown = rows[: paging.page_limit(page_size) - 1]
    token = None
    if len(rows) > len(shown):
        last = shown[-1]
        token = paging.written(Cursor(last.created_at.isoformat(), str(last.id)), *question)
    return Page(data=tuple(map(_delivery, shown)), next_page_token=token)


def _check_operator(rights: Access, project_id: int) -> None:
    # Readers see no webhooks either: the address of a receiver is often a secret by itself.
    if not is_at_least(rights.role_in(project_id), "operator"):
        raise Forbidden(
            "This requires the role `operator` in the project. Ask an admin of the project."
        )


def _check_url(url: str, rules: AddressRules) -> None:
    try:
        rules.check_url(url)
    except AddressRefused as error:
        raise InvalidSpec(Problem("/url", "refused_address", str(error))) from error


def _rows() -> Select[Any, Any, Any]:
    return (
        select(Webhook, Project.name, User.name)
        .join(Project, Project.id == Webhook.project_id)
        .join(User, User.id == Webhook.owner_id)
        .execution_options(populate_existing=True)
    )


def _views(session: Session, rows: Iterable[Any]) -> tuple[WebhookView, ...]:
    # Any: rows of `_rows`.
    read = list(rows)
    newest = _newest(session, [row.Webhook.id for row in read])
    return tuple(_view(*row, last=newest.get(row.Webhook.id)) for row in read)


def _newest(session: Session, webhook_ids: list[int]) -> Mapping[int, DeliveryView]:
    row, other = WebhookDelivery, aliased(WebhookDelivery)
    newest = (
        select(other.id)
        .where(other.webhook_id == Webhook.id)
        .order_by(other.created_at.desc(), other.id.desc())
        .limit(1)
        .correlate(Webhook)
        .scalar_subquery()
    )
    query = select(row).join(Webhook, row.id == newest).where(Webhook.id.in_(webhook_ids))
    return {one.webhook_id: _delivery(one) for one in session.scalars(query)}


def _view(row: Webhook, project: str, owner: str, last: DeliveryView | None) -> WebhookView:
    return WebhookView(
        id=row.id,
        project=project,
        owner=owner,
        url=row.url,
        format=cast("WebhookFormat", row.format),
        events=tuple(row.events),
        enabled=row.enabled,
        created_at=row.created_at,
        last_delivery=last,
    )


def _delivery(row: WebhookDelivery) -> DeliveryView:
    return DeliveryView(
        id=row.id,
        event=row.event,
        state=cast("DeliveryState", row.state),
        attempts=row.attempts,
        created_at=row.created_at,
        next_attempt_at=row.next_attempt_at if row.state == "pending" else None,
        ended_at=row.ended_at,
        status=row.status,
        error=row.error,
        job=row.job_id,
        study=row.study_id,
        worker=row.worker_id,
    )
