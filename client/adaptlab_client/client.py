"""The Python client: one object for one server."""

from types import TracebackType
from typing import Self

import httpx

from adaptlab_client.answers import Answer, MethodEntry, PlugIn
from adaptlab_client.catalogue import BaseModels, Budgets, Catalogue, Checkpoints
from adaptlab_client.comparisons import Comparisons
from adaptlab_client.connection import Connection, Request, Retries, path_of
from adaptlab_client.datasets import Datasets
from adaptlab_client.discovery import discover
from adaptlab_client.jobs import Jobs
from adaptlab_client.recipes import Recipes
from adaptlab_client.studies import Studies


class Client:
    """A server's jobs and results from Python.

        with Client() as client:
            job = client.jobs.submit({"kind": "adapt", ...})
            job = client.jobs.wait(job.id)

    Without arguments the server of ADAPTLAB_URL is used, or the one that `adaptlab up` started
    here (see `adaptlab_client.discovery.discover`). `timeout` is in seconds a request.

    Every call raises a subclass of `ApiError` for what the server refuses, and
    `ServerUnreachable` when it does not answer.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        retries: Retries | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._connection = Connection(
            discover(url, token),
            retries=retries or Retries(),
            seconds=timeout,
            transport=transport,
        )
        self.jobs = Jobs(self._connection)
        self.base_models = BaseModels(self._connection, self.jobs)
        self.methods = Catalogue(self._connection, "methods", MethodEntry)
        self.tasks = Catalogue(self._connection, "tasks", PlugIn)
        self.families = Catalogue(self._connection, "families", PlugIn)
        self.budgets = Budgets(self._connection)
        self.checkpoints = Checkpoints(self._connection)
        self.datasets = Datasets(self._connection)
        self.studies = Studies(self._connection)
        self.recipes = Recipes(self._connection, self.studies)
        self.comparisons = Comparisons(self._connection)

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._connection.server.url

    def capabilities(self) -> Answer:
        """Versions, limits and names of the server; members are read from the answer."""
        return self._connection.ask(Request("GET", path_of("capabilities")), Answer)

    def health(self) -> bool:
        """Whether the server is ready; raises `ServerUnavailable` when it is up but not ready."""
        return self._connection.send(Request("GET", "/readyz")).is_success

    def close(self) -> None:
        """Close all connections."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
