"""The log of a server process, without its secrets."""

from collections.abc import Callable
from urllib.parse import quote

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from adaptlab_services import log_formats
from adaptlab_services.people.tokens import without_tokens
from adaptlab_services.settings import Settings

SHORTEST_SECRET = 4
"""Shorter passwords would be replaced inside ordinary words."""
HIDDEN = "…"


def set_up(settings: Settings) -> None:
    """Set up the log of this process as the settings say."""
    log_formats.set_up(settings.log_format, settings.log_level, redaction(settings))


def redaction(settings: Settings) -> Callable[[str], str]:
    """Return the function that removes tokens and secrets from a text."""
    secrets = sorted(_secrets(settings), key=len, reverse=True)

    def redact(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, HIDDEN)
        return without_tokens(text)

    return redact


def _secrets(settings: Settings) -> set[str]:
    values = {settings.s3_access_key_id, settings.s3_secret_access_key}
    values |= {_password(settings.database_url), _password(settings.broker_url)}
    given = {value for value in values if value and len(value) >= SHORTEST_SECRET}
    return given | {quote(value, safe="") for value in given}


def _password(url: str) -> str | None:
    try:
        password = make_url(url).password
    except ArgumentError:
        return None
    return None if password is None else str(password)
