"""The list of jobs: sorted, filtered by chips, and changed by selection."""

import re
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_job, a_study_document, a_user
from tests.pages.made_up import PRETRAINING, MadeUpWorker
from tests.pages.submitting import HERE, somebody
from tests.pages.submitting import admin as admin
from tests.pages.submitting import browser as browser

from adaptlab_db.tables import AuditEntry, Job, JobMetric

Sessions = sessionmaker[Session]


@pytest.fixture
def jobs(admin: TestClient, sessions: Sessions) -> list[str]:
    """Three succeeded adaptations with an accuracy, and a fourth that waits."""
    with sessions.begin() as session:
        ids = [a_job(session, state="succeeded") for _ in range(3)]
        for job, mean in zip(ids, (0.2, 0.9, 0.5), strict=True):
            session.add(
                JobMetric(
                    job_id=job, project_id=1, name="accuracy", n=1, mean=mean, min=mean, max=mean,
                    seeds=[0], values=[mean], items=[10],
                )
            )  # fmt: skip
        return [str(job) for job in (*ids, a_job(session))]


def listed(page: str) -> list[str]:
    return re.findall(r'name="job" value="([^"]+)"', page)


def send(
    admin: TestClient, act: str, jobs: list[str], back: str = "", **fields: str
) -> tuple[int, str]:
    form = {"job": jobs, **fields}
    answer = admin.post(f"/jobs/selected/{act}?back={quote(back)}", data=form, headers=HERE)
    return answer.status_code, answer.headers.get("Location", answer.text)


def labels(sessions: Sessions, jobs: list[str]) -> list[dict[str, str]]:
    with sessions() as session:
        return list(session.scalars(select(Job.labels).where(Job.id.in_(jobs))))


def test_a_list_that_is_unchanged_is_not_sent_again(admin: TestClient, jobs: list[str]) -> None:
    first = admin.get("/")
    known = {"If-None-Match": first.headers["ETag"]}
    again = admin.get("/", headers=known)
    assert (again.status_code, again.content) == (304, b"")
    assert "Content-Length" not in again.headers
    assert send(admin, "cancel", jobs[3:])[0] == 303
    changed = admin.get("/", headers=known)
    assert (changed.status_code, changed.headers["ETag"] == known["If-None-Match"]) == (200, False)
    assert admin.get("/jobs/no", headers={"If-None-Match": "*"}).status_code == 404


def test_a_click_on_a_column_sorts_and_a_second_one_turns_round(
    admin: TestClient, jobs: list[str]
) -> None:
    head = admin.get("/").text
    assert 'aria-sort="descending"><a class="sorts" href="/?order_by=created_at"' in head

    best = admin.get("/?order_by=-metrics.accuracy.mean").text
    assert listed(best) == [jobs[1], jobs[2], jobs[0]], "jobs without it are left out"
    assert 'href="/?order_by=metrics.accuracy.mean"' in best
    worst = admin.get("/?order_by=metrics.accuracy.mean").text
    assert listed(worst) == [jobs[0], jobs[2], jobs[1]]
    assert "Jobs without this value are left out" in worst


def test_what_cannot_be_sorted_by_is_said(admin: TestClient) -> None:
    answer = admin.get("/?order_by=state")
    assert answer.status_code == 400
    assert "Sort by a number or a time" in answer.text


def test_each_chip_removes_one_filter(admin: TestClient, jobs: list[str]) -> None:
    page = admin.get("/?state=succeeded&method=lora&order_by=budget.trainable").text
    for without in (
        "/?method=lora&amp;order_by=budget.trainable",
        "/?state=succeeded&amp;order_by=budget.trainable",
        "/?state=succeeded&amp;method=lora",
    ):
        assert f'<a href="{without}" aria-label="Remove:' in page
    assert 'class="chips"' not in admin.get("/").text


def test_pages_of_a_sorted_list_follow_one_another(
    admin: TestClient, sessions: Sessions, base: None
) -> None:
    with sessions.begin() as session:
        made = {str(a_job(session)) for _ in range(60)}
    first = admin.get("/?order_by=budget.trainable&method=prefix_tuning").text
    following = re.search(r'href="([^"]+)" rel="next"', first)
    assert following, first
    second = admin.get(following[1].replace("&amp;", "&")).text
    assert made <= {*listed(first), *listed(second)}
    assert not {*listed(first)} & {*listed(second)}


def test_selected_jobs_are_labelled_and_found_by_the_label(
    admin: TestClient, jobs: list[str], sessions: Sessions
) -> None:
    back = "/?state=succeeded"
    sent = send(admin, "label", jobs[:2], label="paper = table 1", back=back)
    assert sent == (303, back)
    assert labels(sessions, jobs[:2]) == [{"paper": "table 1"}] * 2

    page = admin.get("/").text
    address = re.search(r'class="label" href="([^"]+)"', page)
    assert address
    assert {*listed(admin.get(address[1].replace("&amp;", "&")).text)} == {*jobs[:2]}
    assert send(admin, "label", jobs[:1], label="-paper")[0] == 303
    assert labels(sessions, jobs[:1]) == [{}]


@pytest.mark.usefixtures("jobs")
def test_a_list_of_archived_jobs_alone_does_not_say_that_there_are_none(
    admin: TestClient,
) -> None:
    assert send(admin, "archive", listed(admin.get("/").text))[0] == 303
    page = admin.get("/").text
    assert "No jobs yet" not in page
    assert 'href="/?archived=only">Show the archived jobs' in page
    assert "No matching jobs" in admin.get("/?state=failed").text


def test_selected_jobs_are_archived_and_listed_again(admin: TestClient, jobs: list[str]) -> None:
    assert send(admin, "archive", jobs[:2]) == (303, "/")
    assert not {*jobs[:2]} & {*listed(admin.get("/").text)}
    archived = admin.get("/?archived=only").text
    assert {*listed(archived)} == {*jobs[:2]}
    assert "List again" in archived
    assert send(admin, "unarchive", jobs[:2])[0] == 303
    assert {*jobs} <= {*listed(admin.get("/").text)}


def test_jobs_that_cannot_be_changed_are_named_and_the_others_are(
    admin: TestClient, jobs: list[str], sessions: Sessions
) -> None:
    status, page = send(admin, "cancel", jobs)
    assert status == 200
    assert "1 of 4 selected jobs cancelled" in page
    assert page.count("It is succeeded") == 3
    with sessions() as session:
        state = select(Job.state).where(Job.id == jobs[3])
        assert session.scalars(state).one() == "cancelled"
        entry = session.scalars(select(AuditEntry).order_by(AuditEntry.id.desc()).limit(1)).one()
    assert entry.details == {"jobs": [jobs[3]]}


def test_selected_jobs_that_failed_are_retried(admin: TestClient, worker: MadeUpWorker) -> None:
    ended = worker.submit(PRETRAINING)
    worker.fail(worker.claim(), "diverged")
    assert send(admin, "retry", [str(ended.id)]) == (303, "/")
    (anew,) = listed(admin.get("/?state=queued").text)
    assert f'retry of <a href="/jobs/{ended.id}">' in admin.get(f"/jobs/{anew}").text


def test_selected_jobs_are_deleted_by_admins(
    admin: TestClient, jobs: list[str], sessions: Sessions
) -> None:
    """A base model goes after the selected adaptations that need it."""
    with sessions.begin() as session:
        base = str(a_base_model(session, "gone"))
        adapted = str(a_job(session, state="succeeded", base_model="gone"))
    assert "/jobs/selected/delete" in admin.get("/").text
    assert send(admin, "delete", [base, adapted, jobs[0]]) == (303, "/")
    assert not {base, adapted, jobs[0]} & {*listed(admin.get("/").text)}
    with sessions() as session:
        entry = session.scalars(select(AuditEntry).order_by(AuditEntry.id.desc()).limit(1)).one()
    assert entry.details is not None
    assert {*entry.details["jobs"]} == {base, adapted, jobs[0]}


def test_jobs_that_are_needed_or_running_are_kept_with_the_reason(
    admin: TestClient, jobs: list[str], sessions: Sessions
) -> None:
    with sessions.begin() as session:
        base = str(a_base_model(session, "used"))
        a_job(session, state="succeeded", base_model="used")
    status, page = send(admin, "delete", [base, jobs[0], jobs[3]])
    assert status == 200
    assert "1 of 3 selected jobs deleted" in page
    assert "uses the base model" in page
    assert "is queued. Cancel it first." in page
    assert {base, jobs[3]} < {*listed(admin.get("/").text)}


def test_only_admins_are_offered_the_deletion(
    browser: TestClient, base: None, sessions: Sessions
) -> None:
    with sessions.begin() as session:
        a_user(session, "owner")
        theirs = str(a_job(session, owner="owner", state="succeeded"))
    operator = somebody(sessions, {"default": "operator"}, ("read", "submit", "admin"))
    header = {"Authorization": f"Bearer {operator}"}
    assert "/jobs/selected/delete" not in browser.get("/", headers=header).text
    form = {"job": [theirs]}
    answer = browser.post("/jobs/selected/delete", data=form, headers={**HERE, **header})
    assert "0 of 1 selected jobs deleted" in answer.text
    assert "requires the role" in answer.text
    assert theirs in listed(browser.get("/", headers=header).text)


SAYING_NOTHING: list[Any] = [
    ("archive", {}, "No job is selected"),
    ("archive", {"job": "nonsense"}, "A selected id is not one"),
    ("label", {"job": "JOB"}, "There is no label"),
    ("label", {"job": "JOB", "label": "paper"}, "has no value"),
    ("label", {"job": "JOB", "label": "a b = 1"}, "label"),
    ("label", {"job": "JOB", "label": "= nothing"}, "label"),
]


def test_a_selection_that_says_nothing_is_refused(
    admin: TestClient, jobs: list[str], sessions: Sessions
) -> None:
    for act, fields, said in SAYING_NOTHING:
        given = {name: text.replace("JOB", jobs[0]) for name, text in fields.items()}
        answer = admin.post(f"/jobs/selected/{act}", data=given or {"x": "y"}, headers=HERE)
        assert answer.status_code == 422
        assert said in answer.text
        assert labels(sessions, jobs) == [{}] * 4


def test_a_form_leads_back_to_this_site_only(admin: TestClient, jobs: list[str]) -> None:
    for back in ("https://elsewhere.example/", "//elsewhere.example", "/\\elsewhere"):
        _, location = send(admin, "archive", jobs[:1], back=back)
        assert location == "/"


def test_others_jobs_are_not_changed(browser: TestClient, base: None, sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_user(session, "owner")
        theirs = str(a_job(session, owner="owner"))
    header = {
        "Authorization": f"Bearer {somebody(sessions, {'default': 'submitter'}, ('submit',))}"
    }
    answer = browser.post(
        "/jobs/selected/archive", data={"job": [theirs]}, headers={**HERE, **header}
    )
    assert "0 of 1 selected jobs archived" in answer.text
    assert "belongs to another user" in answer.text
    with sessions() as session:
        assert session.scalars(select(Job.archived_at).where(Job.id == theirs)).one() is None


def test_labels_and_notes_are_edited_on_the_page_of_a_job(
    admin: TestClient, jobs: list[str], sessions: Sessions
) -> None:
    path = f"/jobs/{jobs[0]}"
    with sessions.begin() as session:
        session.execute(
            update(Job).where(Job.id == jobs[0]).values(labels={"old": "1", "kept": "2"})
        )
    form = {"labels": "kept = 3\r\nnew = a = b", "notes": "First line.\r\n<b>Second</b>"}
    answer = admin.post(f"{path}/annotations", data=form, headers=HERE)
    assert answer.headers["Location"] == path
    assert labels(sessions, jobs[:1]) == [{"kept": "3", "new": "a = b"}]
    page = admin.get(path).text
    assert "First line.\n&lt;b&gt;Second&lt;/b&gt;" in page

    refused = admin.post(f"{path}/annotations", data={"labels": "a b = 1"}, headers=HERE)
    assert refused.status_code == 422
    assert admin.post(f"{path}/annotations", data={"archived": "yes"}, headers=HERE).is_redirect
    assert "List job again" in admin.get(path).text


def test_names_are_edited_on_the_pages_of_jobs_and_studies(
    admin: TestClient, jobs: list[str]
) -> None:
    path = f"/jobs/{jobs[0]}"
    admin.post(f"{path}/annotations", data={"name": "Best <rate>"}, headers=HERE)
    assert "<h1><bdi>Best &lt;rate&gt;</bdi></h1>" in admin.get(path).text
    assert "Best &lt;rate&gt;" in admin.get("/").text
    admin.post(f"{path}/annotations", data={"name": " "}, headers=HERE)
    assert "Best &lt;rate&gt;" not in admin.get(path).text

    document = a_study_document(name="small", methods=["frozen"])
    study = admin.post("/v1/studies", json=document, headers=HERE).json()
    place = f"/studies/{study['id']}/annotations"
    renamed = admin.post(place, data={"name": "large"}, headers=HERE)
    assert renamed.headers["Location"] == "/studies/large"
    taken = document | {"name": "small"}
    admin.post("/v1/studies", json=taken, headers=HERE)
    refused = admin.post(place, data={"name": "small"}, headers=HERE)
    assert refused.status_code == 409
    assert "already exists" in refused.text


def test_jobs_and_studies_are_deleted_on_their_pages(
    admin: TestClient, jobs: list[str], sessions: Sessions
) -> None:
    document = a_study_document(name="small", methods=["frozen"])
    study = admin.post("/v1/studies", json=document, headers=HERE).json()
    assert "Delete study" not in admin.get("/studies/small").text, "it is running"
    admin.post("/v1/studies/small/cancel", headers=HERE)
    member = study["cells"][0]["jobs"][0]["id"]
    assert "Delete job" in admin.get(f"/jobs/{member}").text
    refused = admin.post(f"/jobs/{member}/delete", headers=HERE)
    assert refused.status_code == 409
    assert "The study &#39;small&#39;" in refused.text

    gone = admin.post("/studies/small/delete", data={"with_jobs": "yes"}, headers=HERE)
    assert gone.headers["Location"] == "/studies"
    assert admin.get(f"/jobs/{member}").status_code == 404


def test_only_admins_see_the_button_that_deletes(
    admin: TestClient, browser: TestClient, jobs: list[str], sessions: Sessions
) -> None:
    with sessions.begin() as session:
        job = a_job(session, state="failed")
    assert "Delete job" in admin.get(f"/jobs/{job}").text
    token = somebody(sessions, {"default": "operator"}, ("submit",))
    header = {"Authorization": f"Bearer {token}"}
    assert "Delete job" not in browser.get(f"/jobs/{job}", headers=header).text
    refused = browser.post(f"/jobs/{job}/delete", headers={**HERE, **header})
    assert refused.status_code == 403
    assert "requires the role" in refused.text


def test_archived_studies_have_a_list_of_their_own(admin: TestClient, sessions: Sessions) -> None:
    document = a_study_document(name="small", methods=["frozen"])
    study = admin.post("/v1/studies", json=document, headers=HERE).json()
    assert "No archived studies" in admin.get("/studies?archived=only").text
    form = {"labels": "paper = table-1"}
    admin.post(f"/studies/{study['id']}/annotations", data=form, headers=HERE)
    assert "paper=table-1" in admin.get("/studies").text

    admin.post(f"/studies/{study['id']}/annotations", data={"archived": "yes"}, headers=HERE)
    empty = admin.get("/studies").text
    assert "No studies yet" not in empty
    assert 'href="/studies?archived=only">Show the archived studies' in empty
    assert 'href="/studies/small"' in admin.get("/studies?archived=only").text
