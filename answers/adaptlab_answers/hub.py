"""Fetches of models and datasets from a hub, and the tokens for it."""

from typing import Literal
from uuid import UUID

from adaptlab.records.file_forms import FileForm
from adaptlab.values import Value
from adaptlab_answers.documents import JsonObject
from adaptlab_answers.links import Link
from adaptlab_answers.moments import Moment

RepositoryKind = Literal["model", "dataset"]
FetchState = Literal["pending", "running", "succeeded", "failed", "cancelled"]


class HubAccount(Value):
    """The account that a token is of, and the token's own name and role there."""

    user: str
    token_name: str | None = None
    role: str | None = None


class PlannedFile(Value):
    """A file that is fetched; `sha256` is known for those of a model."""

    name: str
    size_bytes: int
    sha256: str | None = None


class HubPlan(Value):
    """What a fetch brings, known before any weight is fetched.

    `family` is the model with its dimensions, for `/v1/budgets/solve`.
    """

    architecture: str
    family: JsonObject
    parameters: int
    dtype: str
    files: tuple[PlannedFile, ...]
    licence: str | None = None
    licence_name: str | None = None
    licence_link: str | None = None
    gated: str | None = None
    private: bool = False


class HubDatasetPlan(Value):
    """What the fetch of a dataset brings, known before its first byte.

    `files` are joined in this order. `configs` are the configurations of the dataset, and `splits`
    those of this one. `class_names` are those that the dataset's card has, by number, by field. If
    it `is_partial`, the hub's conversion to Parquet has only its first part. With `plan_only`,
    `inspection` is what `adaptlab datasets inspect` shows, for the first `inspected_bytes` of the
    first file; it is null where that would take too many.
    """

    config: str
    split: str
    configs: tuple[str, ...]
    splits: tuple[str, ...]
    form: FileForm
    files: tuple[PlannedFile, ...]
    class_names: dict[str, tuple[str, ...]]
    is_partial: bool = False
    licence: str | None = None
    licence_name: str | None = None
    licence_link: str | None = None
    gated: str | None = None
    private: bool = False
    inspected_bytes: int | None = None
    inspection: JsonObject | None = None


class FetchProgress(Value):
    """The fetch that a job waits for; the members are those of the fetch."""

    id: UUID
    source: str
    commit: str | None
    state: FetchState
    bytes_done: int
    bytes_total: int | None
    seconds_left: float | None
    next_attempt_at: Moment | None
    error: str | None
    link: Link


class HubFetchLinks(Value):
    """Links of a fetch, and of what it leaves."""

    self: Link
    folder: Link | None
    job: Link | None
    dataset: Link | None = None


class HubFetchView(Value):
    """A model that is fetched from a hub, or a dataset.

    A model becomes the model folder `name`, and a dataset the dataset `name`.

    `commit`, `plan` and `bytes_total` are known once the repository was read; a dataset has a
    `dataset_plan` instead. A `pending` fetch
    that has failed before has the reason in `error`, by `code`, and goes on at `next_attempt_at`.
    `holder` is the process that works on it, and `seconds_left` an estimate. If `imports`, a
    job that imports the model as the base model `name` follows, whose id is `job_id`; before, that
    is the waiting job for which the fetch was begun. With
    `plan_only`, it ends with the plan. With a `checkpoint_id`, it is a push: that adapter is
    written to the repository, in the commit `commit`.
    """

    id: UUID
    object: Literal["hub_fetch"] = "hub_fetch"
    project: str
    owner: str
    kind: RepositoryKind = "model"
    name: str
    source: str
    endpoint: str
    repository: str
    revision: str
    commit: str | None
    state: FetchState
    bytes_done: int
    bytes_total: int | None
    seconds_left: float | None
    attempts: int
    holder: str | None
    next_attempt_at: Moment | None
    code: str | None
    error: str | None
    plan: HubPlan | None
    dataset_plan: HubDatasetPlan | None = None
    imports: bool
    plan_only: bool = False
    checkpoint_id: int | None = None
    job_id: UUID | None
    created_at: Moment
    ended_at: Moment | None
    links: HubFetchLinks


class HubTokenView(Value):
    """Whether a user has a token of the hub; the token itself is never shown.

    `account` is the one that the hub gave for it, null if the hub could not be asked.
    """

    object: Literal["hub_token"] = "hub_token"
    endpoint: str
    is_set: bool
    set_at: Moment | None
    account: HubAccount | None = None
