"""A worker in a cluster, which reaches nothing but the API."""

import base64
import hashlib
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

from fastapi.testclient import TestClient
from tests.making import (
    checkpoints_of,
)

from adaptlab.runs.events import Event, Progress
from adaptlab_services.leases.lease_views import LeaseView

Json = dict[str, Any]
LOST = "urn:adaptlab:problem:lease-lost"


class Cluster:
    """A worker of some token, as it asks."""

    def __init__(self, client: TestClient, token: str) -> None:
        self._client = client
        self._headers = {"Authorization": f"Bearer {token}"}
        new = {"host": "node-1", "process_id": 7, "queues": ["cpu"]}
        self.id = self.post("/v1/workers", new).json()["id"]

    def post(self, path: str, body: Json | None = None, attempt: int | None = None) -> Any:
        query = {} if attempt is None else {"attempt": attempt}
        return self._client.post(path, json=body, params=query, headers=self._headers)

    def get(self, path: str, **query: int) -> Any:
        return self._client.get(path, params=query, headers=self._headers)

    def claim(self, lease_id: UUID | None = None, worker: str | None = None) -> Any:
        asked = {"id": str(lease_id or uuid4()), "worker": worker or self.id, "queues": ["cpu"]}
        return self.post("/v1/leases", asked)

    def claimed(self) -> LeaseView:
        answer = self.claim()
        assert answer.status_code == 201, answer.text
        return LeaseView.model_validate_json(answer.content)

    def under(self, lease: LeaseView, what: str, body: Json | None) -> Any:
        return self.post(f"/v1/leases/{lease.id}/{what}", body, lease.attempt)

    def record(self, lease: LeaseView, *events: Event, **artifacts: str) -> Any:
        documents = [event.model_dump(mode="json") for event in events]
        return self.under(lease, "records", {"events": documents, "artifacts": artifacts})

    def keep_checkpoints(self, lease: LeaseView) -> None:
        """Report what a base model needs to succeed."""
        for written, content in checkpoints_of(lease.resolved_spec):
            sha256 = self.store(lease, content).json()["sha256"]
            assert self.record(lease, written, **{str(written.path): sha256}).status_code == 204

    def store(self, lease: LeaseView, content: bytes, digest: bytes | None = None) -> Any:
        announced = base64.b64encode(digest or hashlib.sha256(content).digest()).decode()
        return self._client.post(
            f"/v1/leases/{lease.id}/artifacts",
            content=content,
            params={"attempt": lease.attempt},
            headers=self._headers
            | {
                "Content-Type": "application/octet-stream",
                "Content-Digest": f"sha-256=:{announced}:",
            },
        )


WRITES: dict[str, Callable[[Cluster, LeaseView], Any]] = {
    "heartbeat": lambda worker, lease: worker.under(lease, "heartbeat", {"step": 9}),
    "records": lambda worker, lease: worker.record(
        lease, Progress(phase="training", step=9, total=9)
    ),
    "end": lambda worker, lease: worker.under(lease, "end", {"outcome": "succeeded"}),
    "failure": lambda worker, lease: worker.under(lease, "end", {"outcome": "failed"}),
    "release": lambda worker, lease: worker.under(lease, "end", {"outcome": "released"}),
    "artifact": lambda worker, lease: worker.store(lease, b"stray"),
    "content": lambda worker, lease: worker.get(
        f"/v1/leases/{lease.id}/artifacts/{'0' * 64}", attempt=lease.attempt
    ),
}
