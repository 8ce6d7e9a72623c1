"""Fetches of models from a hub, and where their folders come from."""

from typing import Literal
from uuid import UUID

from adaptlab.values import Value
from adaptlab_answers.documents import JsonObject
from adaptlab_answers.moments import Moment

FetchState = Literal["pending", "running", "succeeded", "failed", "cancelled"]


class PlannedFile(Value):
    """A file that is fetched."""

    name: str
    size_bytes: int


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


class HubFetchLinks(Value):
    """Links of a fetch, and of the folder and the import that it leaves."""

    self: str
    folder: str | None
    job: str | None


class HubFetchView(Value):
    """A model that is fetched from a hub into the model folder `name`.

    `commit`, `plan` and `bytes_total` are known once the repository was read. A `pending` fetch
    that has failed before has the reason in `error`, by `code`, and goes on at `next_attempt_at`.
    `holder` is the process that works on it, and `seconds_left` an estimate. If `imports`, a
    job that imports the model as the base model `name` follows, whose id is `job_id`. With
    `plan_only`, it ends with the plan. With a `checkpoint_id`, it is a push: that adapter is
    written to the repository, in the commit `commit`.
    """

    id: UUID
    object: Literal["hub_fetch"] = "hub_fetch"
    project: str
    owner: str
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
    imports: bool
    plan_only: bool = False
    checkpoint_id: int | None = None
    job_id: UUID | None
    created_at: Moment
    ended_at: Moment | None
    links: HubFetchLinks


class HubTokenView(Value):
    """Whether a user has a token of the hub; the token itself is never shown."""

    object: Literal["hub_token"] = "hub_token"
    endpoint: str
    is_set: bool
    set_at: Moment | None
