"""What a server offers: base models, methods, tasks, families, and what a budget buys."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import JsonValue, TypeAdapter

from adaptlab_answers.jobs import JobView
from adaptlab_answers.models import BaseModelView, BudgetAnswer, PlugIn
from adaptlab_answers.results import CheckpointView
from adaptlab_client.resources.jobs import Jobs
from adaptlab_client.transport import download
from adaptlab_client.transport.connection import Connection, Request, path_of
from adaptlab_client.transport.paging import entries

P = TypeVar("P", bound=PlugIn)
Choice = str | Mapping[str, object]


class Catalogue(Generic[P]):
    """The plug-ins of one kind."""

    def __init__(
        self,
        connection: Connection,
        kind: str,
        entry: type[P],
        listed: Callable[[Request], tuple[P, ...]],
    ) -> None:
        self._connection = connection
        self._listed = listed
        self._kind = kind
        self._entry = entry

    def list(self) -> tuple[P, ...]:
        """All of them, by name."""
        return self._listed(Request("GET", path_of(self._kind)))

    def get(self, name: str) -> P:
        """One of them; raises `NotFound`."""
        return self._connection.ask(Request("GET", path_of(self._kind, name)), self._entry)


class BaseModels:
    """The base models that can be adapted, or will be."""

    def __init__(self, connection: Connection, jobs: Jobs) -> None:
        self._connection = connection
        self._jobs = jobs

    def list(self) -> Iterator[BaseModelView]:
        """All of them, page by page."""
        return entries(self._connection, path_of("base-models"), BaseModelView)

    def get(self, name: str) -> BaseModelView:
        """One of them; raises `NotFound`."""
        return self._connection.ask(Request("GET", path_of("base-models", name)), BaseModelView)

    def import_folder(self, name: str, folder: str, **members: object) -> JobView:
        """Start the job that makes the model in a folder of the server a base model called `name`.

        `folder` is `ALIAS/SUB/PATH` below one of the server's model roots; `members` are further
        members of the spec, such as `resources` and `labels`. Raises `InvalidRequest` that says
        what is wrong with the folder.
        """
        return self._jobs.submit({"kind": "import", "name": name, "folder": folder, **members})


class Budgets:
    """From a number of trainable parameters to configurations."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def solve(
        self,
        budget: int | Mapping[str, float],
        *,
        base_model: str | None = None,
        family: Choice | None = None,
        task: Choice | None = None,
        methods: Sequence[Choice] = (),
    ) -> BudgetAnswer:
        """What each method becomes within `budget`, on a base model or on a family and a task.

        `budget` is a number of trainable parameters or `{"fraction_of_base": 0.001}`; without
        `methods` all are solved.
        """
        given: dict[str, object] = {
            "base_model": base_model,
            "family": family,
            "task": task,
            "budget": budget,
            "methods": [*methods] or None,
        }
        body = {name: value for name, value in given.items() if value is not None}
        sent = TypeAdapter[JsonValue](JsonValue).validate_python(body)
        return self._connection.ask(
            Request("POST", path_of("budgets", "solve"), body=sent), BudgetAnswer
        )


class Checkpoints:
    """Trained tensors."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self, checkpoint_id: int | str) -> CheckpointView:
        """One of them without its bytes; raises `NotFound`."""
        path = path_of("checkpoints", checkpoint_id)
        return self._connection.ask(Request("GET", path), CheckpointView)

    def download(
        self,
        checkpoint: CheckpointView | int | str,
        target: str | Path,
        *,
        report: download.Report | None = None,
    ) -> Path:
        """Fetch the safetensors file into `target`, or into that folder under a name of its own.

        The digest is verified; a download that broke off goes on where it stopped. `report` gets
        the bytes that are there and the size. Raises `DigestMismatch`.
        """
        known = checkpoint if isinstance(checkpoint, CheckpointView) else None
        identity = known.id if known else checkpoint
        assert not isinstance(identity, CheckpointView)
        path = path_of("checkpoints", identity, "content")
        digest = known.sha256 if known else download.announced_digest(self._connection, path)
        target = Path(target)
        if target.is_dir():
            target /= f"checkpoint-{digest[:12]}.safetensors"
        return download.save(self._connection, path, target, digest, report)
