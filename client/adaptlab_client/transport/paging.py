"""Iteration over the pages of a list."""

from collections.abc import Iterator
from typing import TypeVar

from pydantic import BaseModel

from adaptlab_answers.paging import Page
from adaptlab_client.transport.connection import Connection, Query, Request

E = TypeVar("E", bound=BaseModel)


def entries(
    connection: Connection, path: str, entry: type[E], query: Query | None = None
) -> Iterator[E]:
    """Yield the entries of the list at `path`; pages are requested as needed.

    The list ends if a page repeats the token that it was requested with: a faulty server must not
    cause an endless loop.
    """
    token: str | None = None
    while True:
        request = Request("GET", path, query={**(query or {}), "page_token": token})
        page = connection.ask(request, Page[entry])
        yield from page.data
        if not page.next_page_token or page.next_page_token == token:
            return
        token = page.next_page_token
