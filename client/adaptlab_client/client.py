"""The Python client of one server.

Each resource is imported when it is first used: a command uses one of them.
"""

import os
from functools import cached_property
from typing import TYPE_CHECKING, Self

import httpx

from adaptlab_client.transport.connection import Connection, Request, Retries, path_of
from adaptlab_client.transport.discovery import discover

if TYPE_CHECKING:
    from adaptlab_answers.models import FamilyEntry, MethodEntry, PlugIn
    from adaptlab_answers.people import Me
    from adaptlab_answers.server import Capabilities
    from adaptlab_client.resources.audit_log import AuditLog
    from adaptlab_client.resources.catalogue import BaseModels, Budgets, Catalogue, Checkpoints
    from adaptlab_client.resources.comparisons import Comparisons
    from adaptlab_client.resources.datasets import Datasets
    from adaptlab_client.resources.hub import Hub
    from adaptlab_client.resources.jobs import Jobs
    from adaptlab_client.resources.model_folders import ModelFolders
    from adaptlab_client.resources.people import ProjectList, Tokens, Users
    from adaptlab_client.resources.recipes import Recipes
    from adaptlab_client.resources.recommendations import Recommendations
    from adaptlab_client.resources.results import ResultQueries
    from adaptlab_client.resources.server import ServerStatus
    from adaptlab_client.resources.studies import Studies
    from adaptlab_client.resources.trackers import Trackers
    from adaptlab_client.resources.uploads import Uploads
    from adaptlab_client.resources.webhooks import Webhooks


class Client:
    """A client of one server, for its jobs and results.

        with Client() as client:
            job = client.jobs.submit({"kind": "adapt", ...})
            job = client.jobs.wait(job.id)

    The default server is that of ADAPTLAB_URL, else the one that `adaptlab up` started (see
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

    @cached_property
    def jobs(self) -> "Jobs":
        """Jobs and their results."""
        from adaptlab_client.resources.jobs import Jobs

        return Jobs(self._connection)

    @cached_property
    def base_models(self) -> "BaseModels":
        """Base models."""
        from adaptlab_client.resources.catalogue import BaseModels

        return BaseModels(self._connection, self.jobs, self.hub)

    @cached_property
    def hub(self) -> "Hub":
        """Models that the server fetches from a hub."""
        from adaptlab_client.resources.hub import Hub

        return Hub(self._connection)

    @cached_property
    def methods(self) -> "Catalogue[MethodEntry]":
        """Methods and their knobs."""
        from adaptlab_answers.models import MethodEntry, Methods
        from adaptlab_client.resources.catalogue import Catalogue

        connection = self._connection
        return Catalogue(
            connection,
            "methods",
            MethodEntry,
            lambda request: connection.ask(request, Methods).data,
        )

    @cached_property
    def tasks(self) -> "Catalogue[PlugIn]":
        """Tasks and their knobs."""
        from adaptlab_answers.models import PlugIn, Tasks
        from adaptlab_client.resources.catalogue import Catalogue

        connection = self._connection
        return Catalogue(
            connection, "tasks", PlugIn, lambda request: connection.ask(request, Tasks).data
        )

    @cached_property
    def families(self) -> "Catalogue[FamilyEntry]":
        """Families of models."""
        from adaptlab_answers.models import Families, FamilyEntry
        from adaptlab_client.resources.catalogue import Catalogue

        connection = self._connection
        return Catalogue(
            connection,
            "families",
            FamilyEntry,
            lambda request: connection.ask(request, Families).data,
        )

    @cached_property
    def budgets(self) -> "Budgets":
        """Budget solver."""
        from adaptlab_client.resources.catalogue import Budgets

        return Budgets(self._connection)

    @cached_property
    def checkpoints(self) -> "Checkpoints":
        """Checkpoints."""
        from adaptlab_client.resources.catalogue import Checkpoints

        return Checkpoints(self._connection, self.jobs, self.base_models)

    @cached_property
    def uploads(self) -> "Uploads":
        """Uploaded files."""
        from adaptlab_client.resources.uploads import Uploads

        return Uploads(self._connection)

    @cached_property
    def datasets(self) -> "Datasets":
        """Datasets."""
        from adaptlab_client.resources.datasets import Datasets

        return Datasets(self._connection, self.uploads)

    @cached_property
    def model_folders(self) -> "ModelFolders":
        """Uploaded model folders."""
        from adaptlab_client.resources.model_folders import ModelFolders

        return ModelFolders(self._connection, self.uploads)

    @cached_property
    def studies(self) -> "Studies":
        """Studies."""
        from adaptlab_client.resources.studies import Studies

        return Studies(self._connection)

    @cached_property
    def recipes(self) -> "Recipes":
        """Recipes."""
        from adaptlab_client.resources.recipes import Recipes

        return Recipes(self._connection, self.studies)

    @cached_property
    def comparisons(self) -> "Comparisons":
        """Comparisons."""
        from adaptlab_client.resources.comparisons import Comparisons

        return Comparisons(self._connection)

    @cached_property
    def recommendations(self) -> "Recommendations":
        """Recommendations."""
        from adaptlab_client.resources.recommendations import Recommendations

        return Recommendations(self._connection)

    @cached_property
    def tokens(self) -> "Tokens":
        """Tokens."""
        from adaptlab_client.resources.people import Tokens

        return Tokens(self._connection)

    @cached_property
    def users(self) -> "Users":
        """Users."""
        from adaptlab_client.resources.people import Users

        return Users(self._connection)

    @cached_property
    def projects(self) -> "ProjectList":
        """Projects and their members."""
        from adaptlab_client.resources.people import ProjectList

        return ProjectList(self._connection)

    @cached_property
    def webhooks(self) -> "Webhooks":
        """Webhooks."""
        from adaptlab_client.resources.webhooks import Webhooks

        return Webhooks(self._connection)

    @cached_property
    def trackers(self) -> "Trackers":
        """Boards to which the server sends studies."""
        from adaptlab_client.resources.trackers import Trackers

        return Trackers(self._connection)

    @cached_property
    def audit(self) -> "AuditLog":
        """The audit log."""
        from adaptlab_client.resources.audit_log import AuditLog

        return AuditLog(self._connection)

    @cached_property
    def results(self) -> "ResultQueries":
        """Queries over all results."""
        from adaptlab_client.resources.results import ResultQueries

        return ResultQueries(self._connection)

    @cached_property
    def server(self) -> "ServerStatus":
        """The server and its workers."""
        from adaptlab_client.resources.server import ServerStatus

        return ServerStatus(self._connection)

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._connection.server.url

    def me(self) -> "Me":
        """Return your user, token, projects and usage."""
        from adaptlab_answers.people import Me

        return self._connection.ask(Request("GET", path_of("me")), Me)

    def as_holder_of(self, token: str) -> "Client":
        """Return a client for the same server with another token."""
        return Client(
            self.url, token, timeout=self._timeout, retries=self._retries, transport=self._transport
        )

    def capabilities(self) -> "Capabilities":
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
