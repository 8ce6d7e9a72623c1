"""Jobs whose base model is on a hub, and that wait for its one fetch."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete
from tests.folders import WEIGHTS, a_model_folder
from tests.hub_holding import holding_at
from tests.hub_lab import REPO, Lab
from tests.hub_server import COMMIT, OTHER, Hub, a_hub
from tests.making import an_adapt_document
from tests.watching import until

from adaptlab.errors import InvalidSpec
from adaptlab_answers.jobs import JobView
from adaptlab_db.tables import HubFetch, UploadedFolder
from adaptlab_services.hub import fetches
from adaptlab_services.jobs import control, jobs
from adaptlab_services.lifecycle.transitions import fail_unfetched
from adaptlab_services.people.tokens import Principal
from adaptlab_services.storage.uploads import CHUNK_BYTES

TASK = {"name": "sort_descending", "length": 4, "alphabet": 5}
TWIN = "lab/twin"
FROZEN = {"name": "frozen"}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with a_hub() as hub:
        hub.add(REPO, a_model_folder(tmp_path / "tiny"))
        hub.add(TWIN, a_model_folder(tmp_path / "twin", seed=2))
        yield hub


@pytest.fixture
def lab(sessions: Any, settings: Any, hub: Hub, ada: Principal) -> Lab:
    return Lab(sessions, hub.settings(settings), ada)


def an_import(name: str = "tiny", repo: str = REPO, revision: str = "main") -> dict[str, Any]:
    return {"kind": "import", "name": name, "folder": f"hub:{repo}@{revision}"}


def an_adaptation(base: object, **changes: Any) -> dict[str, Any]:
    return an_adapt_document(base_model=base, task=TASK, evaluation={}, **changes)


def again(lab: Lab, document: dict[str, Any]) -> JobView:
    """The job that the same request creates now."""
    return lab.submit(document)


def cancel(lab: Lab, job: JobView) -> None:
    with lab.sessions.begin() as session:
        jobs.cancel(session, lab.who, job.id)


def sweep(lab: Lab) -> int:
    with lab.sessions.begin() as session:
        return fetches.cancel_unwanted(session)


def test_jobs_on_one_model_share_a_download(lab: Lab, hub: Hub) -> None:
    first = lab.submit(an_adaptation(an_import()))
    same = lab.submit(an_adaptation(an_import(), seeds=3))
    other = lab.submit(an_import("mine"))
    assert {one.state for one in (first, same, other)} == {"waiting"}
    (fetch,) = lab.fetches()
    assert {one.fetch and one.fetch.id for one in (first, same, other)} == {fetch.id}
    assert (first.fetch and first.fetch.commit, fetch.name) == (COMMIT, "tiny")
    lab.attempt().run()
    assert [one.start for one in hub.asked if one.host == "cdn"] == [0, 0, 0]  # two headers
    assert [lab.job(one).state for one in (first, other)] == ["waiting", "queued"]
    assert (lab.base_job(first).state, lab.job(first).fetch) == ("queued", None)
    assert len(lab.fetches()) == 1


def test_a_job_is_what_it_were_if_the_model_had_been_here(lab: Lab) -> None:
    """With its digests, and those of what is measured and evaluated."""
    lab.submit(an_import("twin", TWIN))
    lab.submit(an_import())
    adapted = an_adaptation("tiny", method=FROZEN) | {"evaluation": {"base_models": ["twin"]}}
    job = lab.submit(adapted)
    check = {"kind": "theory", "adaptation": str(job.id), "replicates": 1}
    measured = lab.submit(check)
    before = job.spec_digest
    for _ in range(2):
        lab.attempt().run()
    for document, waiting in ((adapted, job), (check, measured)):
        now, later = lab.job(waiting), again(lab, document)
        assert (now.spec_digest, now.resolved_spec) == (later.spec_digest, later.resolved_spec)
    assert lab.job(job).spec_digest != before
    (other,) = lab.job(job).resolved_spec.evaluation_bases
    assert other.folder is not None
    assert not other.folder.is_coming


def test_a_killed_fetch_goes_on_while_a_job_waits(lab: Lab, hub: Hub, tmp_path: Path) -> None:
    large = a_model_folder(tmp_path / "large", vocabulary=300_000)
    hub.add(REPO, large)
    job = lab.submit(an_adaptation(an_import()))
    reached, over = threading.Event(), threading.Event()
    place = CHUNK_BYTES + 1000
    hub.changes["cdn"] = holding_at(place, reached, over)
    lab.make_due()
    process = subprocess.Popen([sys.executable, "-m", "tests.fetching"], env=lab.environment())
    assert reached.wait(60)
    until(lambda: lab.fetches()[0].bytes_done >= CHUNK_BYTES, "rows")
    process.kill()
    process.wait()
    over.set()
    waits = lab.job(job)
    assert waits.fetch is not None
    assert (waits.state, waits.fetch.bytes_done >= CHUNK_BYTES) == ("waiting", True)
    assert waits.fetch.bytes_total == sum(
        (large / name).stat().st_size for name in (WEIGHTS, "config.json")
    )
    hub.changes.clear()
    asked = len(hub.asked)
    lab.attempt().run()
    assert lab.base_job(job).state == "queued"
    assert [one.start for one in hub.asked[asked:] if one.host == "cdn"] == [0, CHUNK_BYTES]


def test_a_fetch_that_ended_without_a_word_fails_its_jobs(lab: Lab) -> None:
    job = lab.submit(an_adaptation(an_import()))
    with lab.sessions.begin() as session:
        fail_unfetched(session)
    assert lab.base_job(job).state == "waiting"
    with lab.sessions.begin() as session:
        session.execute(delete(HubFetch))
        fail_unfetched(session)
    assert lab.base_job(job).reason == "fetch_failed"


def test_a_failed_fetch_fails_its_jobs_until_a_retry(lab: Lab) -> None:
    document = an_adaptation(an_import())
    job, named = lab.submit(document), lab.submit(an_adaptation("tiny", seeds=3))
    enough = lab.settings
    lab.settings = enough.model_copy(update={"max_hub_bytes": 1000})
    lab.attempt().run()
    failed, base = lab.job(job), lab.base_job(job)
    assert (failed.state, failed.reason) == ("failed", "base_model_failed")
    assert (base.state, base.reason) == ("failed", "fetch_failed")
    assert "ADAPTLAB_MAX_HUB_BYTES" in (failed.error or "")
    assert failed.error == base.error == lab.job(named).error == lab.fetches()[0].error
    lab.settings = enough
    with lab.sessions.begin() as session:
        retried = control.retry(session, lab.who, job.id).job
    assert (retried.state, retried.fetch is None) == ("waiting", False)
    lab.attempt().run()
    assert lab.base_job(retried).state == "queued"
    assert lab.job(retried).spec_digest == again(lab, document).spec_digest


def test_a_cancelled_fetch_fails_its_jobs(lab: Lab) -> None:
    job = lab.submit(an_adaptation(an_import()))
    with lab.sessions.begin() as session:
        fetches.cancel(session, lab.fetches()[0].id)
    failed = lab.job(job)
    assert failed.state == "failed"
    assert failed.error is not None
    assert failed.error.startswith(f"The fetch of hub:{REPO}@main was cancelled")
    assert lab.submit(an_adaptation(an_import())).state == "waiting"


def test_the_last_cancelled_job_ends_its_fetch(lab: Lab) -> None:
    first, second = lab.submit(an_import()), lab.submit(an_import("mine"))
    cancel(lab, first)
    assert sweep(lab) == 0
    cancel(lab, second)
    assert (sweep(lab), lab.fetches()[0].state) == (1, "cancelled")
    assert lab.submit(an_import()).state == "waiting"


def test_a_fetch_that_somebody_asked_for_outlives_its_jobs(lab: Lab) -> None:
    job = lab.submit(an_import())
    fetch = lab.create(imports=False)
    assert fetch.id == lab.fetches()[0].id
    cancel(lab, job)
    assert (sweep(lab), lab.look(fetch).state) == (0, "pending")
    lab.attempt().run()
    assert (lab.look(fetch).state, lab.count(UploadedFolder)) == ("succeeded", 1)


def test_an_import_joins_a_fetch_that_would_import(lab: Lab) -> None:
    fetch = lab.create()
    job = lab.submit(an_import())
    lab.attempt().run()
    done = lab.look(fetch)
    assert (done.state, done.job_id, lab.job(job).state) == ("succeeded", job.id, "queued")


def test_each_job_keeps_its_commit_when_a_branch_moves(lab: Lab, hub: Hub, tmp_path: Path) -> None:
    first = lab.submit(an_import())
    hub.trees[REPO, COMMIT] = dict(hub.files[REPO])
    hub.add(REPO, a_model_folder(tmp_path / "later", seed=3))
    hub.branches |= {"main": OTHER, OTHER: OTHER}
    lab.attempt().run()
    assert lab.run(name="later", imports=False).commit == OTHER
    second = lab.submit(an_import("second"))
    commits = [
        folder.origin and folder.origin.commit
        for one in (first, second)
        if (folder := lab.job(one).resolved_spec.model_folder) is not None
    ]
    assert commits == [COMMIT, OTHER]
    assert second.state == "queued"
    assert lab.submit(an_adaptation(an_import())).base_model == "second"
    assert lab.submit(an_adaptation(an_import(revision=COMMIT))).base_model == "tiny"


def test_nothing_is_fetched_for_a_job_that_is_refused(lab: Lab) -> None:
    with pytest.raises(InvalidSpec):
        lab.submit(an_adaptation(an_import()) | {"task": TASK | {"length": 40}})
    with lab.sessions() as session:
        assert [one.plan_only for one in fetches.page(session).data] == [True]


def test_a_cancelled_job_is_retried_on_the_model_that_is_here(lab: Lab) -> None:
    """Its digests were those of the plan."""
    document = an_adaptation(an_import())
    job = lab.submit(document)
    cancel(lab, job)
    lab.attempt().run()
    with lab.sessions.begin() as session:
        retried = control.retry(session, lab.who, job.id).job
    later = again(lab, document)
    assert (retried.spec_digest, retried.state) == (later.spec_digest, "waiting")
    assert lab.job(job).spec_digest == job.spec_digest != retried.spec_digest
