"""Lists of the server, which come in pages."""

from collections.abc import Iterator
from typing import TypeVar

from pydantic import BaseModel

from adaptlab_answers.paging import Page
from adaptlab_client.transport.connection import Connection, Query, Request

E = TypeVar("E", bound=BaseModel)


def entries(
    connection: Connection, path: str, entry: type[E], query: Query | None = None
) -> Iterator[E]:
    """Every entry of the list at `path`; a page is asked for when the one before it is used up.

    A server that gives the same page again and again ends the list, not the patience of a caller.
    """
    token: str | None = None
    while True:
        request = Request("GET", path, query={**(query or {}), "page_token": token})
        page = connection.ask(request, Page[entry])
        yield from page.data
        if not page.next_page_token or page.next_page_token == token:
            return
        token = page.next_page_token
