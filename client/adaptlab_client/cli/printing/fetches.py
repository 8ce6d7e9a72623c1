"""Fetches from a hub, as tables and as progress."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from adaptlab_client.cli.printing.terminal import say

if TYPE_CHECKING:
    from adaptlab_answers.hub import HubFetchView

COLUMNS = ("id", "name", "source", "commit", "state", "bytes", "of", "error")
DIGITS = 12


def row_of(fetch: "HubFetchView") -> list[object]:
    """Return the row of a fetch in a table."""
    commit = None if fetch.commit is None else fetch.commit[:DIGITS]
    sizes = (fetch.bytes_done, fetch.bytes_total)
    return [fetch.id, fetch.name, fetch.source, commit, fetch.state, *sizes, fetch.error]


@contextmanager
def fetch_progress(name: str) -> "Generator[Callable[[HubFetchView], None]]":
    """Yield a function that shows the progress of fetches, and why they wait."""
    from adaptlab_client.cli.printing.progress import byte_bar  # loads rich, only needed here

    said: list[str] = []
    with byte_bar(name) as bar:

        def show(fetch: "HubFetchView") -> None:
            bar(fetch.bytes_done, fetch.bytes_total)
            text = f"{fetch.source} {fetch.state}"
            if fetch.error and fetch.ended_at is None:
                text += f": {fetch.error}"
            if text not in said:
                said.append(text)
                say(text)

        yield show
