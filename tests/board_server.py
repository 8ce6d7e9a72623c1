"""A board on the loopback address, to which a server sends studies."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.client.boards import Board
from tests.making import a_project, a_user

from adaptlab_db.tables import TrackedStudy, Tracker
from adaptlab_services.settings import Settings
from adaptlab_services.trackers.tracker_sender import TrackerSender
from adaptlab_services.webhooks.relay import relay

Sessions = sessionmaker[Session]


@dataclass
class ServedBoard:
    """A board behind an address, with what it was asked.

    `refusals` are statuses to answer with instead, in their order.
    """

    url: str
    board: Board = field(default_factory=Board)
    asked: list[str] = field(default_factory=list)
    tokens: set[str | None] = field(default_factory=set)
    refusals: list[int] = field(default_factory=list)
    before: Callable[[], object] | None = None
    message: str = "not now"

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path.rpartition("mlflow/")[2])
        self.tokens.add(request.headers.get("authorization"))
        if self.before is not None:
            self.before()
        if self.refusals:
            return httpx.Response(self.refusals.pop(0), json={"message": self.message})
        return self.board.answer(request)


@contextmanager
def a_board() -> Generator[ServedBoard]:
    """A board on a port of the loopback address while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length", 0)))
            url = f"http://board{self.path}"
            headers = dict(self.headers.items())
            asked = httpx.Request(self.command, url, headers=headers, content=content)
            try:
                answer = served.answer(asked)
            except httpx.ReadError:
                self.close_connection = True
                return
            self.send_response(answer.status_code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST  # noqa: N815 - as in the base

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        served = ServedBoard(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


def a_tracker(session: Session, url: str, project: str = "default") -> int:
    """The id of a new tracker without a token, and without earlier studies."""
    row = {
        "project_id": a_project(session, project),
        "owner_id": a_user(session),
        "kind": "mlflow",
        "url": url,
        "experiment": "lab",
    }
    return session.scalars(insert(Tracker).values(row).returning(Tracker.id)).one()


def send_due(sessions: Sessions, settings: Settings) -> int:
    """Send what is due until nothing is; return how many studies were sent."""
    with sessions.begin() as session:
        while relay(session):
            pass
    before = _claims(sessions)
    sender = TrackerSender(sessions, settings, 1.0)
    while sender.round():
        pass
    sender.close()
    return _claims(sessions) - before


def _claims(sessions: Sessions) -> int:
    with sessions() as session:
        return session.scalars(select(func.coalesce(func.sum(Tracker.claims), 0))).one()


def in_time(sessions: Sessions) -> None:
    """Let the time come at which trackers and studies are due."""
    now = func.clock_timestamp()
    with sessions.begin() as session:
        session.execute(update(Tracker).values(next_attempt_at=now))
        waiting = update(TrackedStudy).where(TrackedStudy.due_at.is_not(None))
        session.execute(waiting.values(due_at=now))
