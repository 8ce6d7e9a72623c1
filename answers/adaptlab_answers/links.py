"""Addresses on the server in answers."""

from contextvars import ContextVar
from typing import Annotated

from pydantic import PlainSerializer

path_prefix: ContextVar[str] = ContextVar("path_prefix", default="")
"""The path of the host that the server is below, as `/adaptlab`, while a request is answered."""


def _below_prefix(link: str) -> str:
    return path_prefix.get() + link


Link = Annotated[str, PlainSerializer(_below_prefix, return_type=str)]
"""An address from `/` on; as JSON it begins with the path that the server is below."""
