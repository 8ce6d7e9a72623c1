"""Webhooks, their deliveries, and the messages that receivers get."""

from typing import Literal
from uuid import UUID

from adaptlab.values import Value
from adaptlab_answers.moments import Moment

WebhookFormat = Literal["json", "slack"]
WebhookEventName = Literal["job.ended", "study.ended", "worker.lost"]
MessageType = Literal["job.ended", "study.ended", "worker.lost", "webhook.test"]
DeliveryState = Literal["pending", "delivered", "failed"]


class DeliveryView(Value):
    """One message to a webhook, and the outcome of sending it.

    `id` is the `webhook-id` of the message, the same in every attempt. `attempts` counts the
    requests. `status` and `error` are those of the last one: the HTTP status, and the reason why
    it failed. A pending message is sent at `next_attempt_at`.
    """

    id: UUID
    event: str
    state: DeliveryState
    attempts: int
    created_at: Moment
    next_attempt_at: Moment | None
    ended_at: Moment | None
    status: int | None
    error: str | None
    job: UUID | None
    study: UUID | None
    worker: UUID | None


class WebhookView(Value):
    """An address to which events of a project are sent, without its secret.

    `last_delivery` is the newest message, if there is one.
    """

    id: int
    project: str
    owner: str
    url: str
    format: WebhookFormat
    events: tuple[str, ...]
    enabled: bool
    created_at: Moment
    last_delivery: DeliveryView | None


class CreatedWebhook(WebhookView):
    """A new webhook with its `secret`, which is not returned again."""

    secret: str


class EndedJob(Value):
    """The data of `job.ended`.

    `accuracy` is the mean over seeds on the test items of the job's own task. `url` is the job's
    page, if the server knows its own address.
    """

    project: str
    id: UUID
    name: str | None
    kind: str
    state: str
    reason: str | None
    error: str | None
    base_model: str | None
    task: str | None
    method: str | None
    budget_requested: int | None
    trainable_parameters: int
    accuracy: float | None
    labels: dict[str, str]
    created_at: Moment
    finished_at: Moment | None
    url: str | None


class TableFinding(Value):
    """The verdict on one table of a study, one sentence or more."""

    base_model: str
    task: str
    verdict: str


class EndedStudy(Value):
    """The data of `study.ended`; `jobs` counts its jobs by state."""

    project: str
    id: UUID
    name: str
    state: str
    jobs: dict[str, int]
    verdicts: tuple[TableFinding, ...]
    url: str | None


class LostWorker(Value):
    """The data of `worker.lost`: a worker that sends no more heartbeats.

    `jobs` are those of the project that it held and that were taken back from it.
    """

    project: str
    id: UUID
    host: str
    process_id: int
    queues: tuple[str, ...]
    started_at: Moment
    heartbeat_at: Moment
    jobs: tuple[UUID, ...]


class WebhookTest(Value):
    """The data of `webhook.test`, which a user asked for."""

    project: str
    webhook: int


class WebhookMessage(Value):
    """The body of a request to a receiver, in the format `json`."""

    type: MessageType
    timestamp: Moment
    data: EndedJob | EndedStudy | LostWorker | WebhookTest


class SlackMessage(Value):
    """The body of a request to a receiver, in the format `slack`."""

    text: str
