"""Recommendations, base models, methods and buttons, over HTTP."""

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_member, a_user
from tests.pages.made_up import ADAPTATION, PRETRAINING, MadeUpWorker, some_jobs
from tests.watching import of_jobs, statements

from adaptlab.plugins.method import METHODS
from adaptlab.plugins.task import TASKS
from adaptlab_api.app import create_app
from adaptlab_db.tables import Job
from adaptlab_services.people import tokens
from adaptlab_services.settings import Settings

HERE = {"Sec-Fetch-Site": "same-origin"}
ASKED = {"task": "sort_descending", "base_model": "sort-asc-1l", "parameters": "400"}

SENSELESS: tuple[tuple[dict[str, str], str], ...] = (
    ({"parameters": "many"}, "Maximum trainable parameters: “many” is not a whole number."),
    ({"parameters": "1.5"}, "Maximum trainable parameters: “1.5” is not a whole number."),
    ({"parameters": "9" * 100}, "Maximum trainable parameters: 9999"),
    ({"parameters": ""}, "Maximum trainable parameters: Enter either a number of trainable"),
    ({"share": "2"}, "Maximum trainable parameters: Enter either a number of trainable"),
    (
        {"parameters": "", "share": "200"},
        "% of the base model: 200 is out of range: enter a number",
    ),
    ({"base_model": "nowhere"}, "Base model: There is no base model named 'nowhere'"),
    ({"base_model": ""}, "Base model: Choose one, or enter its name."),
    ({"task": '{"name": '}, "Task: The task is not valid JSON"),
    ({"task": "nothing"}, "Task: There is no task named 'nothing'."),
    ({"task": '{"name": "sort_descending", "length": "x"}'}, "Task, length: "),
    (
        {"seconds": "-1"},
        "Maximum seconds per job: -1 is out of range: enter a number above 0 and at most 604,800.",
    ),
    ({"seconds": "nan"}, "Maximum seconds per job: “nan” is not a number."),
)
"""Changes that make no question of `ASKED`, and what is said of each."""


@pytest.fixture
def server(settings: Settings) -> Iterator[TestClient]:
    with TestClient(
        create_app(settings), headers={"Accept": "text/html"}, follow_redirects=False
    ) as made:
        yield made


@pytest.fixture
def visitor(server: TestClient, token: str) -> TestClient:
    """Somebody who is signed in."""
    assert server.post("/login", data={"token": token}, headers=HERE).status_code == 303
    return server


def words(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def jobs_there(sessions: sessionmaker[Session]) -> int:
    with sessions.begin() as session:
        return session.scalar(select(func.count()).select_from(Job)) or 0


def test_a_recommendation_says_that_nothing_works_and_what_is_thin(
    visitor: TestClient, worker: MadeUpWorker
) -> None:
    some_jobs(worker)
    page = visitor.get("/recommend", params=ASKED)
    assert page.status_code == 200
    said = words(page.text)
    assert "Nothing measured works for sort_descending on sort-asc-1l within 400" in said
    assert "the best, prefix-tuning at 400, scores 0.2 % (95 % interval 0.0 % to 14.9 %" in said
    assert "which scored" not in said
    assert page.text.index("Nothing measured works") < page.text.index('<form class="filters')
    assert "Weak evidence" in said
    assert re.search(r"\d jobs, validated but not submitted", said)  # one per method in reach


def test_the_recommended_score_is_the_one_corrected_for_the_choice(
    visitor: TestClient, worker: MadeUpWorker
) -> None:
    worker.complete(PRETRAINING, 0.99)
    several = {**ADAPTATION, "seeds": 3}
    worker.complete(several, 0.3, 0.8, method="soft_prompt")
    worker.complete(several, 0.3, 0.79, method="prefix_tuning")
    page = visitor.get("/recommend", params=ASKED).text
    card = words(page[page.index("best-answer") : page.index("Runner-up")])
    text = re.search(r"corrected for that, expect ([0-9.]+) %", words(page))
    assert text is not None
    assert f"{text[1]} %" in card
    assert "corrected for choosing the best of 2" in card
    assert "measured: " in card


def test_what_would_settle_it_is_submitted_by_a_button(
    visitor: TestClient, worker: MadeUpWorker, sessions: sessionmaker[Session]
) -> None:
    some_jobs(worker)
    before = jobs_there(sessions)
    page = visitor.get("/recommend", params=ASKED).text
    digest = re.findall(r'name="submit" value="([0-9a-f]{64})"', page)[0]
    made = visitor.post("/recommend", data={**ASKED, "submit": digest}, headers=HERE)
    assert made.status_code == 303
    assert made.headers["Location"].startswith("/jobs/")
    assert jobs_there(sessions) == before + 1
    everything = visitor.post("/recommend", data={**ASKED, "submit": "all"}, headers=HERE)
    assert everything.headers["Location"] == "/"
    assert jobs_there(sessions) > before + 1
    gone = visitor.post("/recommend", data={**ASKED, "submit": "0" * 64}, headers=HERE)
    assert gone.status_code == 409
    assert "no longer proposed" in gone.text
    elsewhere = {"Sec-Fetch-Site": "cross-site"}
    assert visitor.post("/recommend", data=ASKED, headers=elsewhere).status_code == 403


@pytest.mark.parametrize("wanted", ["all", "study"])
def test_a_button_that_is_pressed_twice_submits_once(
    visitor: TestClient, worker: MadeUpWorker, sessions: sessionmaker[Session], wanted: str
) -> None:
    if wanted == "all":
        some_jobs(worker)
    else:
        worker.complete(PRETRAINING, 0.99)
    page = visitor.get("/recommend", params=ASKED).text
    (once,) = set(re.findall(r'name="once" value="([0-9a-f]{32})"', page))
    form = {**ASKED, "submit": wanted, "once": once}
    assert visitor.post("/recommend", data=form, headers=HERE).status_code == 303
    made = jobs_there(sessions)
    again = visitor.post("/recommend", data=form, headers=HERE)
    assert again.status_code == (303 if wanted == "all" else 409)  # its name is taken by now
    assert jobs_there(sessions) == made
    later = visitor.post("/recommend", data={**form, "once": "0" * 32}, headers=HERE)
    assert later.status_code == 303
    assert jobs_there(sessions) >= made + (wanted == "all")


def test_without_results_a_first_study_is_proposed_and_made(
    visitor: TestClient, worker: MadeUpWorker
) -> None:
    worker.complete(PRETRAINING, 0.99)
    page = visitor.get("/recommend", params=ASKED).text
    assert "There are no comparable results for" in page
    made = visitor.post("/recommend", data={**ASKED, "submit": "study"}, headers=HERE)
    assert made.headers["Location"].startswith("/studies/")
    assert visitor.get(made.headers["Location"]).status_code == 200


def test_a_question_without_sense_is_told_beside_the_form(
    visitor: TestClient, worker: MadeUpWorker
) -> None:
    worker.complete(PRETRAINING, 0.99)
    for change, said in SENSELESS:
        page = visitor.get("/recommend", params=ASKED | change)
        assert page.status_code == 400, change
        told = words(page.text)
        assert "This question is not valid" in told
        assert said in told
        for member in ("max_seconds", "fraction_of_base", "trainable_parameters", "pattern"):
            assert member not in told
        assert 'aria-invalid="true" aria-describedby="faults"' in page.text


def test_an_address_may_call_the_number_a_budget(visitor: TestClient, worker: MadeUpWorker) -> None:
    some_jobs(worker)
    asked = {"budget" if name == "parameters" else name: text for name, text in ASKED.items()}
    page = visitor.get("/recommend", params=asked)
    assert page.status_code == 200
    assert "Prefix-tuning at 400" in words(page.text)
    assert 'name="parameters" value="400"' in page.text


def test_a_base_model_has_its_lineage(visitor: TestClient, worker: MadeUpWorker) -> None:
    made = some_jobs(worker)
    page = visitor.get("/base-models/sort-asc-1l")
    assert page.status_code == 200
    said = words(page.text)
    assert "trained on sort ascending 1,000 steps of 64, seeds 0, 1, 2" in said
    assert "adapted by 6 jobs 4 methods on 1 task" in said
    assert f'href="/jobs/{made["base"].id}"' in page.text
    assert re.search(r"Prefix-tuning 3 1 sort", said)
    assert 'href="/base-models/sort-asc-1l"' in visitor.get("/base-models").text
    assert 'href="/base-models/sort-asc-1l"' in visitor.get(f"/jobs/{made['prefix'].id}").text
    assert visitor.get("/base-models/none").status_code == 404


def test_the_page_of_a_base_model_takes_as_many_statements_for_many_jobs(
    visitor: TestClient, worker: MadeUpWorker
) -> None:
    worker.complete(PRETRAINING, 0.99)
    worker.submit(ADAPTATION)
    counts: list[int] = []
    page, made = "", list[str]()
    for budgets in (range(500, 530), ()):
        with statements() as sent:
            page = visitor.get("/base-models/sort-asc-1l").text
        counts.append(len(of_jobs(sent)))
        made += [str(worker.submit(ADAPTATION, budget=budget).id) for budget in budgets]
    assert counts[0] == counts[1]
    assert re.findall(r'<th scope="row"><a href="/jobs/([^"]+)', page) == made[:-11:-1]


def test_every_method_and_task_has_a_page_of_its_declaration(visitor: TestClient) -> None:
    for name in METHODS.names():
        page = visitor.get(f"/methods/{name}")
        assert page.status_code == 200, name
        found = METHODS.get(name)
        assert found.formula in unescape(page.text)
        verb = "can" if found.first_layer_attention == "can_change" else "cannot"
        assert f"It {verb} change the relative attention of the first layer" in words(page.text)
        assert found.reference in unescape(page.text)
    described = "alpha scales the update; divided by the rank number above 0 to 10,000 1.0"
    assert described in words(visitor.get("/methods/lora").text)
    listed = visitor.get("/tasks").text
    for name in TASKS.names():
        assert f'href="/tasks/{name}"' in listed
        assert TASKS.get(name).summary in unescape(visitor.get(f"/tasks/{name}").text)
    assert "minigpt" in visitor.get("/families").text
    for path in ("/methods/none", "/tasks/none"):
        assert visitor.get(path).status_code == 404


def test_who_may_not_change_a_job_sees_no_button(
    server: TestClient, worker: MadeUpWorker, sessions: sessionmaker[Session], token: str
) -> None:
    path = f"/jobs/{worker.submit(PRETRAINING).id}"
    with sessions.begin() as session:
        user = a_user(session, "reader")
        a_member(session, user, role="reader")
        reading = tokens.create_token(session, user, "for a test", ("read",))
    server.post("/login", data={"token": reading}, headers=HERE)
    page = server.get(path).text
    assert "Cancel job" not in page
    assert "Pause job" not in page
    submitting = ('href="/jobs/new', 'href="/studies/new', "/run/", 'action="/recommend"')
    asked = [f"/recommend?{urlencode(ASKED)}", "/recipes", "/recipes/petrov2024/table-1", path]
    for place in (*asked, "/", "/studies", "/base-models"):
        page = server.get(place).text.replace('method="get" action="/recommend"', "")
        assert [one for one in submitting if one in page] == [], place
    server.post("/login", data={"token": token}, headers=HERE)
    assert "Cancel job" in server.get(path).text


def test_a_job_that_runs_names_the_stream_that_its_page_follows(
    visitor: TestClient, worker: MadeUpWorker
) -> None:
    job = worker.submit(PRETRAINING)
    claim = worker.claim()
    page = visitor.get(f"/jobs/{job.id}").text
    address, _, after = page.partition('data-stream="')[2].partition('"')[0].partition("?after=")
    assert address == f"/v1/jobs/{job.id}/events"
    assert [event["sequence"] for event in visitor.get(address).json()["data"]][-1] == int(after)
    worker.fail(claim, "diverged")
    assert "data-stream" not in visitor.get(f"/jobs/{job.id}").text


def test_an_empty_server_has_every_page(visitor: TestClient) -> None:
    for path in ("/", "/studies", "/base-models", "/workers", "/compare", "/recommend", "/recipes"):
        assert visitor.get(path).status_code == 200, path
