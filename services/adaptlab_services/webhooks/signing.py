"""Secrets of webhooks and the signatures of messages.

The scheme is that of Standard Webhooks (https://www.standardwebhooks.com), which has verifiers in
many languages.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

PREFIX = "whsec_"
SECRET_BYTES = 32


def new_secret() -> str:
    """Return a random secret, as text for users."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def signed_headers(secret: str, message_id: UUID, sent_at: datetime, body: bytes) -> dict[str, str]:
    """Return the headers that identify a message and prove its origin.

    The signature is the HMAC-SHA256 of id, time in seconds and body, joined by dots.
    """
    seconds = str(int(sent_at.timestamp()))
    key = base64.b64decode(secret.removeprefix(PREFIX))
    content = b".".join((str(message_id).encode(), seconds.encode(), body))
    signature = base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
    headers: Mapping[str, str] = {
        "webhook-id": str(message_id),
        "webhook-timestamp": seconds,
        "webhook-signature": f"v1,{signature}",
    }
    return dict(headers)
