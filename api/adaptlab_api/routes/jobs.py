"""`/v1/jobs`: create, list, get, wait for, annotate, delete, cancel and more."""

import asyncio
from typing import Annotated, Literal
from uuid import UUID

from fastapi import Header, Query, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from adaptlab.specs.annotations import JobAnnotations
from adaptlab.specs.spec import JobSpec
from adaptlab_answers.jobs import JobSummary, JobView, Preview
from adaptlab_answers.paging import Page
from adaptlab_api.answers.answers import NO_STORE, json_answer, tagged_answer
from adaptlab_api.answers.feed import Watch
from adaptlab_api.limits.thread_turns import turn_of
from adaptlab_api.requests.bodies import Body, json_body
from adaptlab_api.requests.changes import ChangesDep
from adaptlab_api.requests.dependencies import (
    LooksDep,
    ResourcesDep,
    Units,
)
from adaptlab_api.requests.describing import WITH_BODY, created, failures, succeeds
from adaptlab_api.requests.identities import JobId
from adaptlab_api.requests.readings import with_files
from adaptlab_api.requests.routing import api_router
from adaptlab_api.requests.rules import needs
from adaptlab_services.errors import NotAuthorised
from adaptlab_services.jobs import annotations, control, job_deletion, jobs, lists
from adaptlab_services.jobs.jobs import Spec
from adaptlab_services.jobs.lists import NEWEST, JobQuery
from adaptlab_services.lifecycle import events
from adaptlab_services.lifecycle.events import Pulse
from adaptlab_services.lifecycle.transitions import JobState
from adaptlab_services.models.task_files import TaskFiles
from adaptlab_services.paging import DEFAULT_PAGE_SIZE
from adaptlab_services.people.idempotency import LONGEST_KEY
from adaptlab_services.querying.filtering import LONGEST_FILTER
from adaptlab_services.querying.list_conditions import Archived

LONGEST_WAIT = 60

PageSize = Annotated[int, Query(ge=1, le=10**6, description="At most 200 are returned.")]
PageToken = Annotated[
    str | None, Query(max_length=2000, description="The `next_page_token` of a page.")
]
Key = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=LONGEST_KEY,
        pattern=r"^[\x21-\x7e]+$",
        description="A text that you choose; the same request with it creates nothing twice.",
    ),
]
FilterText = Annotated[
    str,
    Query(
        alias="filter",
        max_length=LONGEST_FILTER,
        description='For example `state IN (queued, running) AND labels.paper = "table-1"`.',
    ),
]
OnlyValidate = Annotated[bool, Query(description="Validate and resolve the spec; store nothing.")]
View = Annotated[
    Literal["full", "basic"],
    Query(description="`basic` leaves out `spec`, `resolved_spec`, `budget` and `links`."),
]
Wait = Annotated[float, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait for a change.")]
UnlessState = Annotated[
    JobState | None, Query(description="Wait only while the job is in this state.")
]

OrderBy = Annotated[
    str,
    Query(
        max_length=200,
        description="A numeric or time field, such as `-created_at`; a leading `-` reverses the "
        "order. Rows without this field are left out.",
    ),
]
ArchivedToo = Annotated[
    Archived,
    Query(description="`exclude` leaves archived ones out, `only` lists nothing else."),
]

JobPage = Page[JobView] | Page[JobSummary]


router = api_router("/jobs", tag="jobs")


@router.post(
    "",
    status_code=201,
    response_model=JobView,
    responses={
        **created("job", tagged=True),
        200: {"model": Preview | JobView, "description": "A preview, or the earlier answer."},
        **failures(409, 429, *WITH_BODY),
    },
)
@needs("submitter")
async def create_job(
    body: Annotated[Body[Spec], json_body(JobSpec, name="JobSpec")],
    request: Request,
    changes: ChangesDep,
    validate_only: OnlyValidate = False,
    idempotency_key: Key = None,
) -> Response:
    """Create a job, or with `validate_only` return a preview and create nothing.

    A task can name a file below a dataset root, which becomes a dataset, or a dataset on the hub,
    which is fetched first. If that takes long, the answer is 503 with `Retry-After`: the same
    request sent again joins the fetch. A preview fetches no dataset.
    """

    def answer(spec: Spec, files: TaskFiles) -> Response:
        with changes() as change:
            session, who, entry = change.session, change.who, change.entry(201)
            if validate_only:
                with files.tried(session, who, spec, entry) as named:
                    preview = jobs.preview(session, named, roots=change.opened.model_roots)
                return change.answered(json_answer(preview))
            created = jobs.create(
                session,
                who,
                files.named(session, who, spec, entry),
                idempotency_key=idempotency_key,
                roots=change.opened.model_roots,
                most_queued=change.opened.settings.max_queued_jobs,
                entry=entry,
                asked=spec,
            )
            return change.made(created.job, created, location=created.job.links.self)

    key = None if validate_only else idempotency_key
    return await with_files(request, body.read, answer, key, is_preview=validate_only)


@router.get("", response_model=JobPage, responses=failures())
@needs("reader")
def list_jobs(
    opens: LooksDep,
    filter_text: FilterText = "",
    order_by: OrderBy = NEWEST,
    page_size: PageSize = DEFAULT_PAGE_SIZE,
    page_token: PageToken = None,
    view: View = "full",
    archived: ArchivedToo = "exclude",
) -> Response:
    """List jobs, by default newest first."""
    query = JobQuery(filter_text, None, order_by, page_size, page_token, archived)
    with opens() as session:
        page = listed(session, query, view)
    return json_answer(page)


def listed(session: Session, query: JobQuery, view: View) -> JobPage:
    """Return a page of jobs, or of their summaries."""
    if view == "basic":
        return lists.summaries(session, query)
    return lists.page(session, query)


@router.get(
    "/{job_id}",
    response_model=JobView,
    responses=succeeds(304, "The job has not changed.") | failures(404),
)
@needs("reader")
async def get_job(
    job_id: JobId,
    request: Request,
    opened: ResourcesDep,
    opens: LooksDep,
    wait: Wait = 0,
    if_state_not: UnlessState = None,
) -> Response:
    """Get one job; with `wait`, answer when the job changes or the wait is over."""
    turn = turn_of(request)  # not held during the wait
    pulse, job = await turn.call(_look, opens, job_id)
    if wait and not job.terminal and if_state_not in (None, job.state):
        with opened.feed.watch(job_id, request.state.admitted) as watch:
            await _news(watch, pulse, wait, if_state_not)
        if watch.is_over:
            raise NotAuthorised
        _, job = await turn.call(_look, opens, job_id)
    return tagged_answer(job, request.headers)


@router.patch("/{job_id}", response_model=JobView, responses=failures(404, *WITH_BODY))
@needs("submitter")
def annotate_job(
    job_id: JobId,
    body: Annotated[Body[JobAnnotations], json_body(JobAnnotations)],
    changes: ChangesDep,
) -> Response:
    """Change a job's name, labels and notes, or archive it."""
    written = body.read()
    with changes() as change:
        job = annotations.annotate(change.session, job_id, written)
        return change.answered(json_answer(job))


@router.delete("/{job_id}", status_code=204, responses=failures(404, 409))
@needs("operator")
def delete_job(job_id: JobId, changes: ChangesDep) -> Response:
    """Delete a job that has ended and that nothing needs, with its results.

    Only an admin of its project can do this. The entry in the audit log stays.
    """
    with changes() as change:
        job_deletion.delete_job(change.session, job_id)
        return change.answered(Response(status_code=204, headers=NO_STORE))


@router.post(
    "/{job_id}/cancel",
    response_model=JobView,
    responses={
        202: {"model": JobView, "description": "A worker has been asked to stop."},
        **failures(404),
    },
)
@needs("submitter")
def cancel_job(job_id: JobId, changes: ChangesDep) -> Response:
    """Cancel a job; a job that has already ended is not changed."""
    with changes() as change:
        done = jobs.cancel(change.session, change.who, job_id)
        return change.answered(json_answer(done.job, status=200 if done.decided else 202))


@router.post(
    "/{job_id}/pause",
    response_model=JobView,
    responses={
        202: {"model": JobView, "description": "A worker has been asked to save and stop."},
        **failures(404, 409),
    },
)
@needs("submitter")
def pause_job(job_id: JobId, changes: ChangesDep) -> Response:
    """Pause a queued or running job; a running one stops with its state saved."""
    with changes() as change:
        done = control.pause(change.session, change.who, job_id)
        return change.answered(json_answer(done.job, status=200 if done.decided else 202))


@router.post("/{job_id}/resume", response_model=JobView, responses=failures(404, 409, 429))
@needs("submitter")
def resume_job(job_id: JobId, changes: ChangesDep) -> Response:
    """Queue a paused job again; a job that was running resumes from its saved state."""
    with changes() as change:
        most = change.opened.settings.max_queued_jobs
        resumed = control.resume(
            change.session, change.who, job_id, most_queued=most, roots=change.opened.model_roots
        )
        return change.made(resumed.job, resumed)


@router.post(
    "/{job_id}/retry",
    status_code=201,
    response_model=JobView,
    responses={
        **created("job", tagged=True),
        200: {"model": JobView, "description": "The job that an earlier retry created."},
        **failures(404, 409, 429),
    },
)
@needs("submitter")
def retry_job(job_id: JobId, changes: ChangesDep) -> Response:
    """Retry a job that failed or was cancelled; active studies use the new job instead."""
    with changes() as change:
        most = change.opened.settings.max_queued_jobs
        retried = control.retry(
            change.session, change.who, job_id, most_queued=most, roots=change.opened.model_roots
        )
        return change.made(retried.job, retried, location=retried.job.links.self)


def _look(opens: Units, job_id: UUID) -> tuple[Pulse, JobView]:
    with opens() as session:
        return events.pulse_of(session, job_id), jobs.get(session, job_id)


async def _news(watch: Watch, last: Pulse, wait: float, state: JobState | None) -> None:
    clock = asyncio.get_running_loop()
    deadline = clock.time() + wait
    while await watch.changed(last, deadline - clock.time()):
        if watch.pulse is None or watch.closed or watch.pulse.state != state:
            return
        last = watch.pulse
