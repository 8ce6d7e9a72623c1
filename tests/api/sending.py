"""Content that a test sends as an upload."""

import base64
import hashlib

from fastapi.testclient import TestClient

from adaptlab_services.storage.uploads import CHUNK_BYTES


def sent(api: TestClient, content: bytes) -> str:
    """The id of a complete upload of that content."""
    body = {"size_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    links = api.post("/v1/uploads", json=body).json()["links"]
    for number, start in enumerate(range(0, len(content), CHUNK_BYTES)):
        chunk = content[start : start + CHUNK_BYTES]
        digest = base64.b64encode(hashlib.sha256(chunk).digest()).decode()
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Digest": f"sha-256=:{digest}:",
        }
        api.put(f"{links['chunks']}/{number}", content=chunk, headers=headers)
    assert api.post(links["complete"]).status_code == 200
    return str(links["self"].rpartition("/")[2])
