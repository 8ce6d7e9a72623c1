"""A receiver of webhooks: a real HTTP server that answers as a test says."""

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from typing import Any

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_project, a_user

from adaptlab_db.tables import Webhook, WebhookDelivery
from adaptlab_services.settings import Settings
from adaptlab_services.webhooks.delivering import Deliveries
from adaptlab_services.webhooks.signing import new_secret

Sessions = sessionmaker[Session]


@dataclass(frozen=True)
class Received:
    """A request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        return json.loads(self.body)

    def is_signed_with(self, secret: str) -> bool:
        """Whether the signature is that of Standard Webhooks, computed here."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        content = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode()
        digest = hmac.new(key, content + self.body, hashlib.sha256).digest()
        expected = f"v1,{base64.b64encode(digest).decode()}"
        return expected in self.headers["webhook-signature"].split()


@dataclass
class Receiver:
    """What arrived, and what is answered: by default 204."""

    url: str
    received: list[Received] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    location: str | None = None
    before: Callable[[], object] | None = None

    @property
    def ids(self) -> list[str]:
        return [one.headers["webhook-id"] for one in self.received]


@contextmanager
def receiving() -> Generator[Receiver]:
    """A receiver on a port of the loopback address while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.received.append(Received(self.path, headers, body))
            if receiver.before is not None:
                receiver.before()
            self.send_response(receiver.answers.pop(0) if receiver.answers else 204)
            if receiver.location is not None:
                self.send_header("location", receiver.location)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        receiver = Receiver(f"http://127.0.0.1:{server.server_port}/hook")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


def open_to_loopback(settings: Settings) -> Settings:
    """The settings of a server that may send to this machine."""
    networks = (ip_network("127.0.0.0/8"),)
    return settings.model_copy(update={"webhook_networks": networks, "webhook_http": "allowed"})


def a_webhook(session: Session, url: str, *events: str, **columns: Any) -> int:
    """The id of a new webhook of `default`, with the secret `SECRET`."""
    row = {
        "project_id": a_project(session),
        "owner_id": a_user(session),
        "url": url,
        "format": "json",
        "events": list(events or ("job.ended", "study.ended", "worker.lost")),
        "secret": SECRET,
    } | columns
    return session.scalars(insert(Webhook).values(row).returning(Webhook.id)).one()


SECRET = new_secret()


def deliver(sessions: Sessions, settings: Settings) -> None:
    """Send what is due until nothing is.

    In a thread, as a worker does: a browser of other tests keeps a loop of events in this one.
    """
    deliveries = Deliveries(sessions, settings)
    with ThreadPoolExecutor(1) as thread:
        while thread.submit(deliveries.round).result():
            pass
    deliveries.close()


def later(sessions: Sessions) -> None:
    """Let the time come at which pending messages are due."""
    row = WebhookDelivery
    with sessions.begin() as session:
        pending = update(row).where(row.state == "pending")
        session.execute(pending.values(next_attempt_at=func.clock_timestamp()))


def outcomes(sessions: Sessions) -> list[tuple[str, str, int]]:
    """Event, state and attempts of every message, in order of creation."""
    row = WebhookDelivery
    with sessions() as session:
        rows = session.execute(
            select(row.event, row.state, row.attempts).order_by(row.created_at, row.event)
        )
        return [(event, state, attempts) for event, state, attempts in rows]
