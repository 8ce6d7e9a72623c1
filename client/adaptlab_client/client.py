"""The Python client of one server."""

import os
from typing import Self

import httpx

from adaptlab_answers.models import Families, FamilyEntry, MethodEntry, Methods, PlugIn, Tasks
from adaptlab_answers.people import Me
from adaptlab_answers.server import Capabilities
from adaptlab_client.resources.audit_log import AuditLog
from adaptlab_client.resources.catalogue import BaseModels, Budgets, Catalogue, Checkpoints
from adaptlab_client.resources.comparisons import Comparisons
from adaptlab_client.resources.datasets import Datasets
from adaptlab_client.resources.jobs import Jobs
from adaptlab_client.resources.model_folders import ModelFolders
from adaptlab_client.resources.people import ProjectList, Tokens, Users
from adaptlab_client.resources.recipes import Recipes
from adaptlab_client.resources.recommendations import Recommendations
from adaptlab_client.resources.results import ResultQueries
from adaptlab_client.resources.server import ServerStatus
from adaptlab_client.resources.studies import Studies
from adaptlab_client.resources.uploads import Uploads
from adaptlab_client.resources.webhooks import Webhooks
from adaptlab_client.transport.connection import Connection, Request, Retries, path_of
from adaptlab_client.transport.discovery import discover


class Client:
    """A client of one server, for its jobs and results.

        with Client() as client:
            job = client.jobs.submit({"kind": "adapt", ...})
            job = client.jobs.wait(job.id)

    The default server is that of ADAPTLAB_URL, else the one that `adaptlab up` started here (see
    `adaptlab_client.transport.discovery.discover`). `timeout` is in seconds per request. With
    `project`, or ADAPTLAB_PROJECT, only that project is visible, and new things belong to it.

    Every call raises a subclass of `ApiError` if the server refuses the request, and
    `ServerUnreachable` if it does not answer.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        project: str | None = None,
        timeout: float = 30.0,
        retries: Retries | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._timeout, self._retries, self._transport = timeout, retries, transport
        self._connection = Connection(
            discover(url, token),
            retries=retries or Retries(),
            seconds=timeout,
            transport=transport,
            project=project or os.environ.get("ADAPTLAB_PROJECT") or None,
        )
        self.jobs = Jobs(self._connection)
        self.base_models = BaseModels(self._connection, self.jobs)
        ask = self._connection.ask
        self.methods = Catalogue(
            self._connection, "methods", MethodEntry, lambda request: ask(request, Methods).data
        )
        self.tasks = Catalogue(
            self._connection, "tasks", PlugIn, lambda request: ask(request, Tasks).data
        )
        self.families = Catalogue(
            self._connection, "families", FamilyEntry, lambda request: ask(request, Families).data
        )
        self.budgets = Budgets(self._connection)
        self.checkpoints = Checkpoints(self._connection, self.jobs)
        self.uploads = Uploads(self._connection)
        self.datasets = Datasets(self._connection, self.uploads)
        self.model_folders = ModelFolders(self._connection, self.uploads)
        self.studies = Studies(self._connection)
        self.recipes = Recipes(self._connection, self.studies)
        self.comparisons = Comparisons(self._connection)
        self.recommendations = Recommendations(self._connection)
        self.tokens = Tokens(self._connection)
        self.users = Users(self._connection)
        self.projects = ProjectList(self._connection)
        self.webhooks = Webhooks(self._connection)
        self.audit = AuditLog(self._connection)
        self.results = ResultQueries(self._connection)
        self.server = ServerStatus(self._connection)

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._connection.server.url

    def me(self) -> Me:
        """Return your user, token, projects and usage."""
        return self._connection.ask(Request("GET", path_of("me")), Me)

    def as_holder_of(self, token: str) -> "Client":
        """Return a client for the same server with another token."""
        return Client(
            self.url, token, timeout=self._timeout, retries=self._retries, transport=self._transport
        )

    def capabilities(self) -> Capabilities:
        """Return the server's version, limits and names."""
        return self.server.capabilities()

    def health(self) -> bool:
        """Return True if the server is ready; raises `ServerUnavailable` if not."""
        return self.server.ready().status == "ready"

    def close(self) -> None:
        """Close all connections."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
