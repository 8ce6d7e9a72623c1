"""Models and datasets that a server fetches from a hub."""

import math
import secrets
import time
from collections.abc import Callable, Iterator, Mapping

from pydantic import JsonValue, TypeAdapter

from adaptlab.weights.hub_name import HubDatasetName
from adaptlab_answers.hub import HubFetchView, HubTokenView, RepositoryKind
from adaptlab_client.errors import FetchFailed, WaitTimedOut
from adaptlab_client.transport.connection import Connection, Identity, Request, path_of
from adaptlab_client.transport.paging import entries

POLL_SECONDS = 1.0
Report = Callable[[HubFetchView], object]


class Hub:
    """Fetches of models and datasets, and your token for private ones."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def fetch(
        self,
        name: str,
        source: str,
        members: Mapping[str, object] | None = None,
        *,
        imports: bool = True,
    ) -> HubFetchView:
        """Have a model fetched into the model folder `name`; safe to repeat.

        `source` is `hub:ORGANISATION/NAME@REVISION`. With `imports`, the server then submits the
        job that imports the model as the base model `name`; `members` are further members of its
        spec, such as `resources` and `labels`. Raises `Conflict` if the name is taken.
        """
        body: dict[str, object] = {
            "name": name,
            "source": source,
            "imports": imports,
            **(members or {}),
        }
        sent = TypeAdapter[JsonValue](JsonValue).validate_python(body)
        request = Request("POST", path_of("hub-fetches"), body=sent)
        return self._connection.ask(request, HubFetchView)

    def fetch_dataset(self, name: str, source: str) -> HubFetchView:
        """Have a split fetched into the dataset `name`; safe to repeat.

        `source` is `hub:ORGANISATION/NAME@REVISION`, and perhaps `#CONFIGURATION/SPLIT`. Raises
        `Conflict` if the name is taken.
        """
        body: dict[str, JsonValue] = {"kind": "dataset", "name": name, "source": source}
        request = Request("POST", path_of("hub-fetches"), body=body)
        return self._connection.ask(request, HubFetchView)

    def plan(
        self,
        source: str,
        *,
        kind: RepositoryKind = "model",
        timeout: float | None = None,
        on_progress: Report | None = None,
    ) -> HubFetchView:
        """Return the plan of a model, from its headers, or of a dataset.

        No weights are fetched, and only the first records. `Client.budgets.solve(budget, fetch=…)`
        takes the id of a model's. Raises what `wait` raises.
        """
        name = f"plan-{secrets.token_hex(8)}"
        body: dict[str, JsonValue] = {
            "kind": kind,
            "name": name,
            "source": source,
            "plan_only": True,
        }
        request = Request("POST", path_of("hub-fetches"), body=body)
        fetch = self._connection.ask(request, HubFetchView)
        return self.wait(fetch.id, timeout=timeout, on_progress=on_progress)

    def list(self) -> Iterator[HubFetchView]:
        """Iterate over the fetches of the last 90 days, newest first."""
        return entries(self._connection, path_of("hub-fetches"), HubFetchView)

    def get(self, fetch_id: Identity) -> HubFetchView:
        """Return a fetch; raises `NotFound`."""
        return self._connection.ask(Request("GET", path_of("hub-fetches", fetch_id)), HubFetchView)

    def cancel(self, fetch_id: Identity) -> HubFetchView:
        """Cancel a fetch; one that has ended does not change."""
        return self._act(fetch_id, "cancel")

    def retry(self, fetch_id: Identity) -> HubFetchView:
        """Try a failed or cancelled fetch again, or one that waits, at once."""
        return self._act(fetch_id, "retry")

    def wait(
        self,
        fetch_id: Identity,
        *,
        timeout: float | None = None,
        on_progress: Report | None = None,
    ) -> HubFetchView:
        """Wait until a fetch has succeeded, and return it.

        `on_progress` is called with the fetch about once a second. Raises `FetchFailed` if it fails
        or is cancelled, and `WaitTimedOut` after `timeout` seconds.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            fetch = self.get(fetch_id)
            if on_progress is not None:
                on_progress(fetch)
            if fetch.state == "succeeded":
                return fetch
            if fetch.ended_at is not None:
                verb = "fetched" if fetch.checkpoint_id is None else "pushed"
                raise FetchFailed(fetch.source, fetch.error or f"it was {fetch.state}", verb)
            if time.monotonic() >= deadline:
                raise WaitTimedOut([str(fetch.id)], timeout or 0.0)
            time.sleep(min(POLL_SECONDS, max(0.0, deadline - time.monotonic())))

    def set_token(self, token: str) -> HubTokenView:
        """Store your token of the hub, which is never shown again.

        It is used for your fetches of private and gated models.
        """
        request = Request("PUT", path_of("hub-token"), body={"token": token})
        return self._connection.ask(request, HubTokenView)

    def token(self) -> HubTokenView:
        """Return whether you have stored a token, and when."""
        return self._connection.ask(Request("GET", path_of("hub-token")), HubTokenView)

    def delete_token(self) -> None:
        """Delete your token of the hub."""
        self._connection.send(Request("DELETE", path_of("hub-token")))

    def _act(self, fetch_id: Identity, action: str) -> HubFetchView:
        request = Request("POST", path_of("hub-fetches", fetch_id, action))
        return self._connection.ask(request, HubFetchView)


def name_for(source: str) -> str:
    """Return the usual name for a dataset on the hub; raises `InvalidSpec`."""
    return HubDatasetName.read(source, "/dataset").usual_name
