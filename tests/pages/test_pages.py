"""The pages over HTTP: who may see them, and what they promise a browser."""

import subprocess
import sys
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.pages import made_up
from tests.pages.made_up import ADAPTATION, PRETRAINING, MadeUpWorker

from adaptlab_api.app import create_app
from adaptlab_api.pages.jobs.routes import NOT_DONE
from adaptlab_api.pages.signing_in.routes import local_path
from adaptlab_db.tables import Job
from adaptlab_services.settings import Settings

PAGE = {"Accept": "text/html"}
HERE = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    with TestClient(create_app(settings), follow_redirects=False, headers=PAGE) as made:
        yield made


@pytest.fixture
def signed_in(client: TestClient, token: str) -> TestClient:
    answer = client.post("/login", data={"token": token, "next": "/"}, headers=HERE)
    assert answer.status_code == 303
    return client


@pytest.mark.parametrize(
    "form", [{"token": "al_wrong"}, {"token": ""}, {"token": "x" * 2_000}, {"other": "1"}]
)
def test_a_wrong_token_is_told_and_opens_nothing(client: TestClient, form: dict[str, str]):
    answer = client.post("/login", data=form, headers=HERE)
    assert answer.status_code == 401
    assert "not valid" in answer.text
    assert "Set-Cookie" not in answer.headers


def test_a_job_has_the_buttons_that_its_state_allows(signed_in: TestClient, worker: MadeUpWorker):
    path = f"/jobs/{worker.submit(PRETRAINING).id}"
    for verb, then in (("pause", "Resume job"), ("resume", "Pause job"), ("cancel", "Retry job")):
        assert f"{path}/{verb}" in signed_in.get(path).text
        assert signed_in.post(f"{path}/{verb}", headers=HERE).headers["Location"] == path
        assert then in signed_in.get(path).text
    anew = signed_in.post(f"{path}/retry", headers=HERE).headers["Location"]
    assert anew != path
    assert f'retry of <a href="{path}">' in signed_in.get(anew).text


def test_a_button_that_the_limit_refuses_says_so_on_a_page_and_leaves_nothing_behind(
    settings: Settings, sessions: sessionmaker[Session], token: str, worker: MadeUpWorker
):
    ended = worker.submit(PRETRAINING)
    worker.fail(worker.claim(), "diverged")
    worker.submit(PRETRAINING, name="another")
    app = create_app(settings.model_copy(update={"max_queued_jobs": 1}))
    with TestClient(app, follow_redirects=False, headers=PAGE) as client:
        client.post("/login", data={"token": token, "next": "/"}, headers=HERE)
        answer = client.post(f"/jobs/{ended.id}/retry", headers=HERE)
    assert (answer.status_code, NOT_DONE in answer.text) == (429, True)
    assert "1 at a time" in answer.text
    with sessions.begin() as session:
        assert session.scalar(select(func.count()).select_from(Job)) == 2


def test_a_job_whose_base_model_failed_says_why_it_cannot_be_made_anew(
    signed_in: TestClient, worker: MadeUpWorker
):
    base, lost = worker.submit(PRETRAINING), worker.submit(ADAPTATION)
    signed_in.post(f"/jobs/{base.id}/cancel", headers=HERE)
    answer = signed_in.post(f"/jobs/{lost.id}/retry", headers=HERE)
    assert (answer.status_code, NOT_DONE in answer.text) == (422, True)
    assert f"its job {base.id} has the state cancelled" in answer.text


def test_a_job_that_was_preempted_is_not_said_to_run(signed_in: TestClient, worker: MadeUpWorker):
    job = worker.submit(PRETRAINING)
    page = f"/jobs/{job.id}"
    worker.come()
    claim = worker.claim()
    assert "running for" in signed_in.get(page).text
    worker.release(claim)
    assert "running for" not in signed_in.get(page).text


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("/jobs/1?x=2#y", "/jobs/1?x=2#y"),
        ("https://evil.example/", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("\\/evil.example", "/"),
        ("/\t/evil.example", "/"),
        ("/ok\r\nSet-Cookie: a=b", "/"),
        ("javascript:alert(1)", "/"),
        ("jobs", "/"),
        ("", "/"),
    ],
)
def test_after_signing_in_the_browser_stays_on_this_server(address: str, expected: str):
    assert local_path(address) == expected


def test_signing_out_ends_the_session_on_the_server(signed_in: TestClient):
    cookie = signed_in.cookies["adaptlab_session"]
    assert signed_in.get("/").status_code == 200
    assert signed_in.post("/logout", headers=HERE).headers["Location"] == "/login"
    signed_in.cookies.set("adaptlab_session", cookie)
    assert signed_in.get("/").status_code == 303


def test_every_page_forbids_inline_and_foreign_scripts(signed_in: TestClient, worker: MadeUpWorker):
    job = worker.complete(PRETRAINING, 0.9)
    for path in ("/login", "/", f"/jobs/{job.id}", "/base-models", "/methods", "/jobs/no"):
        answer = signed_in.get(path)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'; style-src 'self';" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "style=" not in answer.text
        assert "onclick" not in answer.text


def test_a_job_shows_what_each_attempt_took(signed_in: TestClient, worker: MadeUpWorker):
    job = worker.complete(PRETRAINING, 0.9)
    page = signed_in.get(f"/jobs/{job.id}").text
    attempts = page.partition('id="attempts"')[2].partition("</section>")[0]
    assert "Peak memory" in attempts
    for figure in ("1 min 23 s", "4.2 s", "1.2 GiB"):
        assert figure in attempts
    assert "passes" not in attempts


def test_a_job_shows_how_its_steps_were_divided(
    signed_in: TestClient, worker: MadeUpWorker, monkeypatch: pytest.MonkeyPatch
):
    divided = {"passes": 3, "batch_parts": 8, "gradient_checkpointing": True}
    monkeypatch.setattr(made_up, "USAGE", made_up.USAGE.model_copy(update=divided))
    job = worker.complete(PRETRAINING, 0.9)
    page = signed_in.get(f"/jobs/{job.id}").text
    assert "3 passes, batch in 8 parts, gradient checkpointing" in page


def test_the_first_figure_of_a_job_is_that_of_its_own_task(
    signed_in: TestClient, worker: MadeUpWorker
):
    worker.complete(PRETRAINING, 0.9)
    job = worker.complete(ADAPTATION, 0.1, 0.9)
    page = signed_in.get(f"/jobs/{job.id}").text
    assert -1 < page.find("<dt>sort descending</dt>") < page.find("<dt>sort ascending</dt>")


def test_a_job_that_does_not_exist_is_a_page_too(signed_in: TestClient):
    for name in ("no", "00000000-0000-0000-0000-000000000000", quote("<script>")):
        answer = signed_in.get(f"/jobs/{name}")
        assert answer.status_code == 404
        assert "There is no such job" in answer.text


def test_a_filter_that_makes_no_sense_is_a_page_too(signed_in: TestClient):
    assert signed_in.get("/?state=asleep").status_code == 400
    assert signed_in.get("/?page_token=zzz").status_code == 400
    assert signed_in.get('/?method="x').status_code == 200


def test_the_list_is_walked_forth_and_back(signed_in: TestClient, worker: MadeUpWorker):
    for number in range(103):
        worker.submit(PRETRAINING, name=f"model-{number}")
    pages = [signed_in.get("/").text]
    while (following := link(pages[-1], "next")) is not None:
        pages.append(signed_in.get(following).text)
    assert [page.count("<tr>") - 1 for page in pages] == [50, 50, 3]
    assert "model-102<" in pages[0]
    assert "model-0<" in pages[2]
    back = link(pages[2], "prev")
    assert back is not None
    assert "model-52<" in signed_in.get(back).text
    first = link(signed_in.get(back).text, "prev")
    assert first == "/"


def link(page: str, rel: str) -> str | None:
    """The address of the link with this `rel`."""
    before, found, _ = page.partition(f'" rel="{rel}"')
    return before.rpartition('href="')[2].replace("&amp;", "&") if found else None


def test_curves_and_patterns_are_nothing_before_they_are_there(
    signed_in: TestClient, worker: MadeUpWorker
):
    job = worker.submit(PRETRAINING)
    assert signed_in.get(f"/jobs/{job.id}/charts/learning-curves").status_code == 204
    assert signed_in.get(f"/jobs/{job.id}/charts/attention").status_code == 204


def test_a_pattern_is_the_one_that_was_asked_for(signed_in: TestClient, worker: MadeUpWorker):
    worker.complete(PRETRAINING, 0.9)
    job = worker.complete(ADAPTATION, 0.6, 0.0, learned=2)
    path = f"/jobs/{job.id}/charts/attention"
    one = signed_in.get(path, params={"replicate": 1, "sample": 1, "layer": 0, "head": 1}).json()
    before, after, among = (chart["layer"][0]["data"]["values"] for chart in one["concat"])
    learned = [cell["weight"] for cell in after if cell["key"] in ("p1", "p2")]
    assert learned == pytest.approx([0.305] * len(learned), abs=2e-3)
    # In the first layer the made-up prefix takes 61 % from every row alike, and changes no more.
    assert [cell["weight"] for cell in among] == pytest.approx(
        [cell["weight"] for cell in before], abs=2e-3
    )
    other = signed_in.get(path, params={"replicate": 1, "sample": 0, "layer": 0, "head": 1}).json()
    assert other["concat"][0] != one["concat"][0]
    assert signed_in.get(path, params={"layer": 9}).status_code == 204
    assert signed_in.get(path, params={"layer": -1}).status_code == 422


def test_static_files_are_public_kept_and_nothing_else(client: TestClient):
    page = client.get("/login").text
    style = page.partition('href="/static/adaptlab.css')[2].partition('"')[0]
    answer = client.get(f"/static/adaptlab.css{style}")
    assert answer.status_code == 200
    assert "immutable" in answer.headers["Cache-Control"]
    assert client.get("/static/%2e%2e/routes.py").status_code in (303, 404)
    assert client.get("/static/none.js").status_code == 404


def test_the_pages_never_load_the_javascript_engine():
    code = (
        "import sys, adaptlab_api.app, adaptlab_api.pages.jobs.curves;"
        "sys.exit('vl_convert' in sys.modules or 'torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
