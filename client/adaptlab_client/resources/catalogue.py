"""Base models, methods, tasks, families, budgets and checkpoints."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Generic, Literal, TypeVar

from pydantic import JsonValue, TypeAdapter

from adaptlab.runs.merge_request import MergeReport, MergeRequest
from adaptlab_answers.hub import HubFetchView
from adaptlab_answers.jobs import JobView
from adaptlab_answers.models import BaseModelFolder, BaseModelView, BudgetAnswer, PlugIn
from adaptlab_answers.results import CheckpointView
from adaptlab_client.errors import CannotConvert, UnexpectedAnswer
from adaptlab_client.resources.hub import Hub
from adaptlab_client.resources.jobs import Jobs
from adaptlab_client.resources.merging_process import converted
from adaptlab_client.resources.peft_folders import save_folder
from adaptlab_client.transport import download
from adaptlab_client.transport.connection import Connection, Request, path_of
from adaptlab_client.transport.paging import entries

P = TypeVar("P", bound=PlugIn)
Report = download.Report
Choice = str | Mapping[str, object]


class Catalogue(Generic[P]):
    """The plug-ins of one kind: methods, tasks or families."""

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
        """Return all of them, by name."""
        return self._listed(Request("GET", path_of(self._kind)))

    def get(self, name: str) -> P:
        """Return one by name; raises `NotFound`."""
        return self._connection.ask(Request("GET", path_of(self._kind, name)), self._entry)


class BaseModels:
    """The base models of one server, including those still being created."""

    def __init__(self, connection: Connection, jobs: Jobs, hub: Hub) -> None:
        self._connection = connection
        self._jobs = jobs
        self._hub = hub

    def list(self) -> Iterator[BaseModelView]:
        """Iterate over all base models, page by page."""
        return entries(self._connection, path_of("base-models"), BaseModelView)

    def get(self, name: str) -> BaseModelView:
        """Return a base model by name; raises `NotFound`."""
        return self._connection.ask(Request("GET", path_of("base-models", name)), BaseModelView)

    def tokenizer(self, name: str) -> bytes:
        """Return the `tokenizer.json` of an imported model.

        Raises `NotFound` for a model without one, or if only workers have its folder.
        """
        return self._connection.send(
            Request("GET", path_of("base-models", name, "tokenizer"))
        ).content

    def export(
        self,
        name: str,
        folder: str | Path,
        *,
        replicate: int = 0,
        report: download.Report | None = None,
    ) -> Path:
        """Write a base model to a folder that `transformers` loads.

        `AutoModelForCausalLM.from_pretrained` loads the folder, which is created. `replicate` is
        that of a model trained here. Files that the folder has already are not fetched again.
        Raises `InvalidRequest` if the model has no form in `transformers`.
        """
        path, target = path_of("base-models", name, "folder"), Path(folder)
        query = {"replicate": replicate}
        listed = self._connection.ask(Request("GET", path, query=query), BaseModelFolder)
        target.mkdir(parents=True, exist_ok=True)
        for file in listed.data:
            if Path(file.name).name != file.name:
                raise UnexpectedAnswer(f"{path} names {file.name!r}, which is not a file name.")
            source = path_of("base-models", name, "folder", file.name) + f"?replicate={replicate}"
            digest = download.announced_digest(self._connection, source)
            if not download.is_present(target / file.name, digest):
                download.save(self._connection, source, target / file.name, digest, report)
        return target

    def share(self, name: str, project: str) -> BaseModelView:
        """Share a base model with another project of yours; safe to repeat.

        Its owner, or an admin of its project, can do this. The other project can adapt it, and
        read its job and weights. Raises `Conflict` if it is not ready, or if the other project has
        a base model of that name.
        """
        request = Request("POST", path_of("base-models", name, "shares"), body={"project": project})
        return self._connection.ask(request, BaseModelView)

    def take_back(self, name: str, project: str) -> None:
        """Stop sharing a base model with a project.

        Raises `Conflict` if a study that was not cancelled or an unfinished job of that project
        needs it.
        """
        path = path_of("base-models", name, "shares", project)
        self._connection.send(Request("DELETE", path))

    def import_folder(self, name: str, folder: str, **members: object) -> JobView:
        """Submit a job that imports a model folder of the server as a base model.

        `folder` is `ALIAS/SUB/PATH`, a path below one of the server's model roots, or
        `uploaded/NAME`, a folder that `Client.model_folders` has uploaded. `members` are
        further members of the spec, such as `resources` and `labels`. Raises `InvalidRequest` if
        the folder cannot be imported.

        With `hub:ORGANISATION/NAME@REVISION`, the server fetches the model first, and this waits
        for it; see `Client.hub`. Raises `FetchFailed`.
        """
        if not folder.startswith("hub:"):
            return self._jobs.submit({"kind": "import", "name": name, "folder": folder, **members})
        fetch = self._hub.wait(self._hub.fetch(name, folder, members).id)
        assert fetch.job_id is not None  # of a fetch that imports and has succeeded
        return self._jobs.get(fetch.job_id)


class Budgets:
    """Configurations of methods for a parameter budget."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def solve(
        self,
        budget: int | Mapping[str, float],
        *,
        base_model: str | None = None,
        family: Choice | None = None,
        task: Choice | None = None,
        fetch: str | None = None,
        methods: Sequence[Choice] = (),
    ) -> BudgetAnswer:
        """Return each method's configuration for a budget.

        Give a base model, or a family and a task, or the id of a fetch from the hub. `budget` is a
        number of trainable parameters or `{"fraction_of_base": 0.001}`; the default for `methods`
        is all of them.
        """
        members: dict[str, object] = {
            "base_model": base_model,
            "family": family,
            "task": task,
            "fetch": fetch,
            "budget": budget,
            "methods": [*methods] or None,
        }
        body = {name: value for name, value in members.items() if value is not None}
        sent = TypeAdapter[JsonValue](JsonValue).validate_python(body)
        return self._connection.ask(
            Request("POST", path_of("budgets", "solve"), body=sent), BudgetAnswer
        )


class Checkpoints:
    """Checkpoints by id, and adapters from elsewhere."""

    def __init__(self, connection: Connection, jobs: Jobs, base_models: BaseModels) -> None:
        self._connection = connection
        self._jobs = jobs
        self._base_models = base_models

    def get(self, checkpoint_id: int | str) -> CheckpointView:
        """Return the description of a checkpoint; raises `NotFound`."""
        path = path_of("checkpoints", checkpoint_id)
        return self._connection.ask(Request("GET", path), CheckpointView)

    def download(
        self,
        checkpoint: CheckpointView | int | str,
        target: str | Path,
        *,
        report: download.Report | None = None,
    ) -> Path:
        """Download the safetensors file to `target`, a file or a folder.

        In a folder, its name contains the digest. The digest is verified, and an interrupted
        download is resumed. `report` is called with the number of bytes received and the size.
        Raises `DigestMismatch`.
        """
        view = checkpoint if isinstance(checkpoint, CheckpointView) else None
        identity = view.id if view else checkpoint
        assert not isinstance(identity, CheckpointView)
        path = path_of("checkpoints", identity, "content")
        digest = view.sha256 if view else download.announced_digest(self._connection, path)
        target = Path(target)
        if target.is_dir():
            target /= f"checkpoint-{digest[:12]}.safetensors"
        return download.save(self._connection, path, target, digest, report)

    def export(
        self,
        checkpoint: CheckpointView | int | str,
        folder: str | Path,
        *,
        format: Literal["peft"] = "peft",  # noqa: A002 - the word of the command line
    ) -> Path:
        """Write an adapter to a folder that PEFT loads.

        `peft.PeftModel.from_pretrained` loads the folder. The folder is created, and existing files
        of the same names are replaced. Raises `InvalidRequest` if the method or the base model has
        no PEFT form.
        """
        identity = checkpoint.id if isinstance(checkpoint, CheckpointView) else checkpoint
        return save_folder(self._connection, path_of("checkpoints", identity, format), Path(folder))

    def push(
        self,
        checkpoint: CheckpointView | int | str,
        repository: str,
        *,
        public: bool = False,
    ) -> HubFetchView:
        """Have the server push an adapter to its hub; safe to repeat.

        The repository `ORGANISATION/NAME` gets the PEFT folder with a model card, and is created as
        a private one unless `public`. `Client.hub.wait` waits for it. Raises `InvalidRequest` if
        you have stored no token of the hub, or the base's licence is unknown and `public` is true.
        """
        identity = checkpoint.id if isinstance(checkpoint, CheckpointView) else checkpoint
        request = Request(
            "POST",
            path_of("checkpoints", identity, "pushes"),
            body={"repository": repository, "is_public": public},
        )
        return self._connection.ask(request, HubFetchView)

    def merge(
        self,
        checkpoint: CheckpointView | int | str,
        folder: str | Path,
        *,
        form: Literal["merged", "lora", "own"] = "merged",
        rank: int = 8,
        gguf: bool = False,
        report: Report | None = None,
    ) -> MergeReport:
        """Write an adapted model, or its adapter in another form, to a folder.

        `merged` is the whole model as `transformers` loads it, in the dtype of its base. `lora` is
        the nearest LoRA of a rank, and `own` the method's own form in PEFT; `gguf` writes an
        adapter for llama.cpp instead of a folder for PEFT. The base model is downloaded, and this
        machine computes with torch. Raises `CannotConvert`, and `InvalidRequest` if the base model
        has no form in `transformers`.
        """
        view = checkpoint if isinstance(checkpoint, CheckpointView) else self.get(checkpoint)
        spec = self._jobs.get(view.job_id).resolved_spec
        if spec.base_model is None:
            raise CannotConvert(
                f"Checkpoint {view.id} is a base model. Write it with `adaptlab base-models "
                "export`; checkpoints of adaptations are merged."
            )
        base = self._base_models.get(spec.base_model)
        replicate = spec.base_replicates[spec.seeds.index(view.seed)]
        with TemporaryDirectory() as scratch:
            request = MergeRequest(
                spec=spec,
                checkpoint=self.download(view, Path(scratch) / "checkpoint.safetensors"),
                base=self._base_models.export(
                    base.name, Path(scratch) / "base", replicate=replicate, report=report
                ),
                folder=Path(folder),
                form=form,
                rank=rank,
                is_gguf=gguf,
                base_name=base.origin.repository if base.origin else base.name,
            )
            return converted(request)

    def import_folder(
        self, base_model: str, folder: str, task: Choice, **members: object
    ) -> JobView:
        """Submit a job that imports and evaluates an adapter.

        `folder` is `ALIAS/SUB/PATH`, a path below one of the server's model roots, or
        `uploaded/NAME`, a folder that `Client.model_folders` has uploaded. `members` are
        further members of the spec, such as `evaluation` and `capture`. Raises `InvalidRequest` if
        the adapter cannot be imported.
        """
        spec: dict[str, object] = {"kind": "adapt", "base_model": base_model, "adapter": folder}
        return self._jobs.submit({**spec, "task": task, **members})
