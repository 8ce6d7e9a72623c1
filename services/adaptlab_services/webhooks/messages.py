"""The messages of webhooks, read from the database when they are sent."""

from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from adaptlab.figures import counted as number_of
from adaptlab.figures import percent
from adaptlab.printable import one_line
from adaptlab_answers.comparisons import StudyName
from adaptlab_answers.studies import StudyView
from adaptlab_answers.webhooks import (
    EndedJob,
    EndedStudy,
    LostWorker,
    MessageType,
    SlackMessage,
    TableFinding,
    WebhookMessage,
    WebhookTest,
)
from adaptlab_db.tables import AttemptRow, Job, JobMetric, Project, Study, Worker
from adaptlab_services.comparisons.comparison_inputs import AS_USUAL
from adaptlab_services.comparisons.comparison_runs import ComparisonRuns
from adaptlab_services.comparisons.comparisons import ReadTables, tables_of_study
from adaptlab_services.studies.study_views import Belonging, study_view
from adaptlab_services.webhooks.due_deliveries import ClaimedDelivery

Sessions = sessionmaker[Session]
Data = EndedJob | EndedStudy | LostWorker | WebhookTest

LONGEST_ERROR = 300
LONGEST_TEXT = 3000
"""Characters of a message to Slack, which cuts longer ones."""


class Messages:
    """Writes the bodies of messages.

    Args:
        sessions: the database.
        public_url: address of the server, for links to pages.
    """

    def __init__(self, sessions: Sessions, public_url: str | None) -> None:
        self._sessions = sessions
        self._public_url = None if public_url is None else public_url.rstrip("/")
        self._comparisons = ComparisonRuns(sessions)

    def body(self, delivery: ClaimedDelivery) -> bytes:
        """Return the body of a message in the format of its webhook."""
        data = self._data(delivery)
        if delivery.format == "slack":
            text = SlackMessage(text=slack_text(data)[:LONGEST_TEXT])
            return text.model_dump_json().encode()
        type_: MessageType = delivery.event
        message = WebhookMessage(type=type_, timestamp=delivery.created_at, data=data)
        return message.model_dump_json().encode()

    def _data(self, delivery: ClaimedDelivery) -> Data:
        if delivery.study_id is not None:
            return self._study(delivery.study_id)
        with self._sessions() as session:
            project = _project(session, delivery.project_id)
            if delivery.job_id is not None:
                return self._job(session, delivery.job_id, project)
            if delivery.worker_id is not None:
                return _worker(session, delivery.worker_id, delivery.project_id, project)
        return WebhookTest(project=project, webhook=delivery.webhook_id)

    def _job(self, session: Session, job_id: UUID, project: str) -> EndedJob:
        accuracy = (JobMetric.job_id == Job.id) & (JobMetric.name == "accuracy")
        query = select(Job, JobMetric.mean).outerjoin(JobMetric, accuracy).where(Job.id == job_id)
        job, mean = session.execute(query).one()
        return EndedJob(
            project=project,
            id=job.id,
            name=job.spec.get("name"),
            kind=job.kind,
            state=job.state,
            reason=job.reason,
            error=None if job.error is None else job.error[-LONGEST_ERROR:],
            base_model=job.base_model,
            task=job.task,
            method=job.method,
            budget_requested=job.budget_requested,
            trainable_parameters=job.trainable_parameters,
            accuracy=mean,
            labels=job.labels,
            created_at=job.created_at,
            finished_at=job.finished_at,
            url=self._page("jobs", job.id),
        )

    def _study(self, study_id: UUID) -> EndedStudy:
        with self._sessions() as session:
            row = session.get_one(Study, study_id)
            project = _project(session, row.project_id)
            # Workers have no right to read users, and the message does not name the owner.
            view = study_view(session, row, Belonging("", project))
            read = _read(session, view)
        findings = tuple(self._findings(read))  # outside the unit of work, as it can take long
        return EndedStudy(
            project=project,
            id=view.id,
            name=view.name,
            state=view.state,
            jobs=view.jobs,
            verdicts=findings,
            url=self._page("studies", view.id),
        )

    def _findings(self, read: ReadTables) -> Iterator[TableFinding]:
        for table in self._comparisons.tables(read):
            found = " ".join(report.headline for report in table.reports) or "No scores."
            yield TableFinding(base_model=table.base_model, task=table.task, verdict=found)

    def _page(self, kind: str, identity: UUID) -> str | None:
        return None if self._public_url is None else f"{self._public_url}/{kind}/{identity}"


def slack_text(data: Data) -> str:
    """Return a message as text in Slack's format."""
    match data:
        case EndedJob():
            return _of_job(data)
        case EndedStudy():
            jobs = ", ".join(f"{number} {state}" for state, number in data.jobs.items())
            head = f"Study {_link(data.name, data.url)} in {_safe(data.project)}: {data.state}"
            found = [
                f"{_safe(one.task)} on {_safe(one.base_model)}: {_safe(one.verdict)}"
                for one in data.verdicts
            ]
            return "\n".join([f"{head} ({jobs}).", *found])
        case LostWorker():
            held = f" It held {number_of(len(data.jobs), 'job')} of {_safe(data.project)}."
            return (
                f"Worker on {_safe(data.host)} (process {data.process_id}) sends no more "
                f"heartbeats since {_utc(data.heartbeat_at)}.{held if data.jobs else ''}"
            )
        case WebhookTest():
            return f"Test of a webhook of the project {_safe(data.project)}."


def _of_job(job: EndedJob) -> str:
    words = " · ".join(filter(None, (job.method, job.task, job.base_model))) or job.kind
    score = "" if job.accuracy is None else f", accuracy {percent(job.accuracy)}"
    error = "" if job.state == "succeeded" or job.error is None else f"\n{_safe(job.error)}"
    title = _link(job.name or f"Job {str(job.id)[:8]}", job.url)
    return f"{title} in {_safe(job.project)}: {job.state} ({_safe(words)}){score}.{error}"


def _worker(session: Session, worker_id: UUID, project_id: int, project: str) -> LostWorker:
    worker = session.get_one(Worker, worker_id)
    lost = (AttemptRow.worker_id == worker_id, AttemptRow.outcome == "lost")
    jobs = session.scalars(
        select(Job.id)
        .join(AttemptRow, AttemptRow.job_id == Job.id)
        .where(Job.project_id == project_id, *lost)
        .distinct()
        .order_by(Job.id)
    )
    return LostWorker(
        project=project,
        id=worker.id,
        host=worker.host,
        process_id=worker.process_id,
        queues=tuple(worker.queues),
        started_at=worker.started_at,
        heartbeat_at=worker.heartbeat_at,
        jobs=tuple(jobs),
    )


def _read(session: Session, view: StudyView) -> ReadTables:
    name = StudyName(id=view.id, name=view.name, state=view.state, terminal=view.terminal)
    return ReadTables(name, tables_of_study(session, view), AS_USUAL)


def _project(session: Session, project_id: int) -> str:
    return session.scalars(select(Project.name).where(Project.id == project_id)).one()


def _link(title: str, url: str | None) -> str:
    return _safe(title) if url is None else f"<{url}|{_safe(title).replace('|', '/')}>"


def _safe(text: str) -> str:
    """Return text in which Slack finds no link and mentions nobody.

    Nor can it begin lines of its own, or be shown in another order than it has.
    """
    return one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _utc(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
