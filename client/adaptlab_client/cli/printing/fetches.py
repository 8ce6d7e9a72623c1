"""Fetches from a hub, as tables and as progress."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from adaptlab.figures import counted
from adaptlab_client.cli.printing.terminal import say

if TYPE_CHECKING:
    from adaptlab_answers.hub import FetchProgress, HubDatasetPlan, HubFetchView

COLUMNS = ("id", "name", "source", "commit", "state", "bytes", "of", "error")
DIGITS = 12


def row_of(fetch: "HubFetchView") -> list[object]:
    """Return the row of a fetch in a table."""
    commit = None if fetch.commit is None else fetch.commit[:DIGITS]
    sizes = (fetch.bytes_done, fetch.bytes_total)
    return [fetch.id, fetch.name, fetch.source, commit, fetch.state, *sizes, fetch.error]


def fetch_stage(fetch: "FetchProgress") -> str:
    """Return what a waiting job's fetch does, without its bytes."""
    text = f"waits for {fetch.source}: {fetch.state}"
    return text if fetch.error is None else f"{text}, {fetch.error}"


def fetch_text(fetch: "FetchProgress") -> str:
    """Return the fetch that a job waits for, with its bytes."""
    text = f"{fetch_stage(fetch)} {fetch.bytes_done:,} of {fetch.bytes_total or 0:,} bytes"
    left = fetch.seconds_left
    return text if left is None else f"{text}, {left:.0f} s left"


def plan_of_dataset(fetch: "HubFetchView", plan: "HubDatasetPlan") -> Iterator[str]:
    """Yield what a fetch of a dataset brings, line by line."""
    commit = (fetch.commit or "")[:DIGITS]
    yield f"{fetch.repository} at {commit}: configuration {plan.config}, split {plan.split}."
    size = sum(file.size_bytes for file in plan.files)
    yield f"{counted(len(plan.files), 'file')} of {plan.form} with {size:,} bytes."
    others = {"Configurations": plan.configs, "Splits": plan.splits}
    yield from (f"{title}: {', '.join(names)}." for title, names in others.items())
    yield f"Licence: {plan.licence_name or plan.licence or 'not stated'}."
    if plan.gated:
        yield "Gated: for those who have accepted its terms on the hub."
    if plan.is_partial:
        yield "Partial: the hub's conversion to Parquet has only its first part."
    if plan.inspection is None:
        yield "Its first file is too large to inspect in part."
    elif plan.inspected_bytes != size:
        yield f"Inspected: {plan.inspected_bytes or 0:,} bytes of the first file."


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
