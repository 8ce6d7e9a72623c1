"""The Celery app: what it must not do, and the periodic duties."""

import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis
from celery.beat import Scheduler
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kombu.exceptions import OperationalError
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_job, a_pretrain_spec

from adaptlab_services.lifecycle.doorbell import DOORBELL as RUNG
from adaptlab_services.lifecycle.doorbell import messages, ring
from adaptlab_services.pace import Pace
from adaptlab_services.settings import Settings
from adaptlab_worker.loop import app as worker_app
from adaptlab_worker.loop.app import celery_app, doorbell_queue, pending_doorbells
from adaptlab_worker.loop.maintenance import Maintenance

DAY = timedelta(days=1)


def test_celery_keeps_nothing_and_delivers_at_most_once(settings: Settings) -> None:
    conf = celery_app(settings).conf
    assert conf.result_backend is None
    assert conf.task_ignore_result is True
    assert conf.task_acks_late is False
    assert list(conf.accept_content) == ["json"]
    assert conf.worker_disable_prefetch is True
    assert conf.beat_scheduler == "celery.beat:Scheduler"  # in memory
    # Leases are taken back whether the broker lives or not, so beat has no part in it.
    assert {entry["task"] for entry in conf.beat_schedule.values()} == {
        worker_app.SWEEP,
        worker_app.STORAGE,
        worker_app.WEBHOOKS,
    }


def test_storage_is_tended_soon_after_the_start(settings: Settings) -> None:
    """Beat alone would wait for an hour, and forever if often restarted."""
    beat = Scheduler(celery_app(settings))
    assert beat.schedule["storage"].is_due()[0]
    again = next(beat.schedule["storage"])
    assert not again.is_due()[0]
    assert again.is_due()[1] == pytest.approx(worker_app.STORAGE_SECONDS, rel=0.1)


def test_the_worker_listens_to_what_is_rung(settings: Settings) -> None:
    assert worker_app.DOORBELL == RUNG
    app = celery_app(settings)
    assert pending_doorbells(app, "cpu") == 0
    ring(settings.broker_url, ["cpu", "cpu"])
    assert pending_doorbells(app, "cpu") == 2
    assert pending_doorbells(app, "gpu") == 0
    assert doorbell_queue("cpu") == "doorbell.cpu"
    app.close()


@pytest.mark.parametrize(("pending", "expected"), [(0, [["cpu"]]), (1, [[]])])
def test_a_sweep_rings_for_work_unless_a_bell_still_waits(
    sessions: sessionmaker[Session], pending: int, expected: list[list[str]]
) -> None:
    with sessions.begin() as session:
        a_job(session, a_pretrain_spec())
    rung: list[list[str]] = []
    duties = Maintenance(sessions, lambda q: rung.append(list(q)), lambda _: pending, pace=60)
    duties.sweep()
    duties.sweep()  # messages that piled up are worked off without another look
    assert rung == expected


def test_a_pace_says_yes_once_in_its_time() -> None:
    slow, quick = Pace(60), Pace(0)
    assert [slow.is_due() for _ in range(3)] == [True, False, False]
    assert [quick.is_due() for _ in range(3)] == [True, True, True]


def test_a_broker_with_tls_has_to_show_a_certificate_that_is_known(
    settings: Settings, tmp_path: Path
) -> None:
    """As in redis-py. Celery alone accepts any certificate by default."""
    with tls_in_front_of(settings.broker_url, tmp_path) as port:
        address = urlsplit(settings.broker_url)
        user = address.netloc.rpartition("@")[0]
        url = f"rediss://{user}@localhost:{port}{address.path}"
        known = f"{url}?ssl_ca_certs={tmp_path / 'certificate.pem'}"
        for given, reached in ((url, False), (known, True)):
            app = celery_app(settings.model_copy(update={"broker_url": given}))
            if reached:
                with redis.Redis.from_url(given) as client:  # as who rings, without the hurry
                    client.lpush(doorbell_queue("cpu"), *messages("cpu", 1))
                assert pending_doorbells(app, "cpu") == 1
            else:
                with pytest.raises(OperationalError, match="CERTIFICATE_VERIFY_FAILED"):
                    pending_doorbells(app, "cpu")
            app.close()


@contextmanager
def tls_in_front_of(url: str, folder: Path) -> Iterator[int]:
    """A port that speaks TLS, forwards to `url` and has its certificate."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    make_certificate(key, certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    behind = urlsplit(url)

    class Passing(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with (
                suppress(OSError),  # a client that does not trust us says so and goes
                context.wrap_socket(self.request, server_side=True) as front,
                socket.create_connection((behind.hostname or "", behind.port or 0)) as back,
            ):
                thread = threading.Thread(target=pump, args=(back, front))
                thread.start()
                pump(front, back)
                thread.join()

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Passing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while content := source.recv(2**16):
            sink.sendall(content)
        sink.shutdown(socket.SHUT_RDWR)


def make_certificate(key: Path, certificate: Path) -> None:
    """A certificate for localhost that nobody has signed but itself."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder(name, name, private.public_key(), 1, now - DAY, now + DAY)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(private, hashes.SHA256())
    )
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
