"""The webhooks of a server: messages to other servers about events."""

from builtins import list as list_of
from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from adaptlab_answers.webhooks import CreatedWebhook, DeliveryView, WebhookFormat, WebhookView
from adaptlab_client.transport.connection import Connection, Request, path_of
from adaptlab_client.transport.paging import entries


class Webhooks:
    """Webhooks of the projects in which you are an operator."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(
        self,
        url: str,
        events: Sequence[str] | None = None,
        *,
        format: WebhookFormat = "json",  # noqa: A002
    ) -> CreatedWebhook:
        """Create a webhook in the client's project; the answer has its secret.

        `events` are `job.ended`, `study.ended` and `worker.lost`, by default the last two. The
        format `slack` is that of Slack's incoming webhooks.
        """
        body: dict[str, JsonValue] = {"url": url, "format": format}
        if events is not None:
            body["events"] = list_of(events)
        # Not repeatable: if the answer is lost, so is the secret.
        request = Request("POST", path_of("webhooks"), body=body, repeatable=False)
        return self._connection.ask(request, CreatedWebhook)

    def list(self) -> Iterator[WebhookView]:
        """Iterate over the webhooks, newest first."""
        return entries(self._connection, path_of("webhooks"), WebhookView)

    def get(self, webhook_id: int) -> WebhookView:
        """Return a webhook; raises `NotFound`."""
        return self._connection.ask(Request("GET", path_of("webhooks", webhook_id)), WebhookView)

    def change(
        self,
        webhook_id: int,
        *,
        url: str | None = None,
        events: Sequence[str] | None = None,
        enabled: bool | None = None,
    ) -> WebhookView:
        """Change the members that are given."""
        named: JsonValue = None if events is None else list_of(events)
        members: dict[str, JsonValue] = {"url": url, "enabled": enabled, "events": named}
        body: dict[str, JsonValue] = {k: v for k, v in members.items() if v is not None}
        request = Request("PATCH", path_of("webhooks", webhook_id), body=body)
        return self._connection.ask(request, WebhookView)

    def deliveries(self, webhook_id: int) -> Iterator[DeliveryView]:
        """Iterate over the messages of the last 30 days, newest first."""
        path = path_of("webhooks", webhook_id, "deliveries")
        return entries(self._connection, path, DeliveryView)

    def test(self, webhook_id: int) -> DeliveryView:
        """Have a test message sent; `deliveries` shows when it has arrived."""
        request = Request("POST", path_of("webhooks", webhook_id, "test"), repeatable=False)
        return self._connection.ask(request, DeliveryView)

    def delete(self, webhook_id: int) -> None:
        """Delete a webhook with its messages; pending ones are not sent."""
        self._connection.send(Request("DELETE", path_of("webhooks", webhook_id)))
