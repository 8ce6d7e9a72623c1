"""The pages of datasets, and forms that start from one."""

import html
import re
from html import unescape
from pathlib import Path

import httpx2
import pytest
from fastapi.testclient import TestClient
from tests.pages import submitting as forms
from tests.pages.reading import text_of
from tests.pages.submitting import admin as admin
from tests.pages.submitting import browser as browser
from tests.pages.visitors import HOSTILE
from tests.pictures import image_records
from tests.texts import CLASSIFICATION, reviews, without

from adaptlab_api.app import create_app
from adaptlab_services.settings import Settings

TASK = {
    "name": "text_classification",
    "dataset": "reviews",
    "prompt": "{text}\nAnswer:",
    "label": {"field": "label", "words": {"neg": " neg", "pos": " pos"}},
    "splits": {"validation": 0.1, "test": 0.2, "by": "text"},
}
DRAFT = TASK | {"metric": "macro_f1"}  # two of three reviews are positive
READER = {
    "kind": "pretrain",
    "name": "reader",
    "family": {"name": "minigpt", "layers": 1, "heads": 2, "width": 32},
    "task": without(CLASSIFICATION, tokens={"longest": 64}),
}


@pytest.fixture
def visitor(admin: TestClient) -> TestClient:
    """The admin, with a dataset of reviews beside the base model that sorts."""
    upload(admin, "reviews", reviews(200))
    return admin


def upload(client: TestClient, name: str, records: list[dict[str, str]]) -> None:
    body = {"name": name, "records": records}
    made = client.post("/v1/datasets", json=body, headers=forms.HERE)
    assert made.status_code == 201, made.text


def test_datasets_are_listed_and_shown(visitor: TestClient):
    listed = visitor.get("/datasets").text
    assert 'href="/datasets/reviews"' in listed
    assert 'href="/datasets/generated"' in listed
    assert 'href="/studies/new?dataset=reviews"' in listed
    page = visitor.get("/datasets/reviews").text
    assert 'href="/studies/new?dataset=reviews"' in page
    shown = html.unescape(text_of(page))
    assert "200" in shown
    assert '"name": "text_classification"' in shown
    assert "many" in shown
    assert visitor.get("/datasets/none").status_code == 404


def test_images_have_their_size_and_their_task(visitor: TestClient):
    upload(visitor, "trees", [*image_records(20), {"image": "none", "label": "elm"}])
    shown = html.unescape(text_of(visitor.get("/datasets/trees").text))
    assert "images of 1 × 8 × 8, and 1 other value, the first in record 21" in shown
    upload(visitor, "woods", image_records(20))
    task = forms.shown_json(visitor.get("/studies/new?dataset=woods").text)["tasks"][0]
    assert (task["name"], task["label"]) == ("image_classification", {"field": "label"})


def test_a_study_starts_from_a_dataset(visitor: TestClient):
    assert visitor.post("/v1/jobs", json=READER, headers=forms.HERE).status_code == 201
    page = visitor.get("/studies/new?dataset=reviews").text
    study = forms.shown_json(page)
    assert study["tasks"] == [DRAFT | {"tokens": {"longest": 36, "answer": 4}}]
    assert study["base_models"] == ["reader"]
    changes = {"/name": "mine", "/budgets": "2000"}
    sent = forms.sent(visitor, "/studies/new", forms.changed(forms.fields_of(page), changes))
    assert (sent.status_code, sent.headers.get("location")) == (303, "/studies/mine")
    made = visitor.get("/v1/studies/mine").json()
    assert made["spec"]["tasks"] == study["tasks"]


def test_a_job_starts_from_a_dataset(visitor: TestClient):
    assert forms.shown_json(visitor.get("/jobs/new?dataset=reviews").text)["task"] == DRAFT
    first = forms.shown_json(visitor.get("/jobs/new?kind=pretrain&dataset=reviews").text)
    assert (first["name"], first["task"]) == ("reviews-base", DRAFT)


def test_words_and_records_without_labels_have_a_form_too(visitor: TestClient):
    upload(visitor, "lines", [{"text": "one"}, {"text": "two"}])
    words = forms.shown_json(visitor.get("/studies/new?dataset=generated").text)
    assert words["tasks"] == [{"name": "word_translation", "dataset": "generated"}]
    assert "None: no field is a label" in html.unescape(visitor.get("/datasets/lines").text)
    page = visitor.get("/studies/new?dataset=lines").text
    assert forms.shown_json(page)["tasks"] == [{"name": "text_classification", "dataset": "lines"}]
    assert "is missing" in forms.fault_at(page, "/tasks/0/prompt")
    for path in ("/studies/new?dataset=none", "/jobs/new?dataset=none"):
        assert visitor.get(path).status_code == 404


def test_readers_get_no_button_and_strangers_nothing(
    browser: TestClient, visitor: TestClient, sessions: forms.Sessions
):
    reader = forms.somebody(sessions, {"default": "reader"}, ("read",))
    forms.sign_in(browser, reader)
    page = browser.get("/datasets/reviews")
    assert page.status_code == 200
    assert "/studies/new" not in page.text
    forms.sign_in(browser, forms.somebody(sessions, {"other": "submitter"}, ("read", "submit")))
    assert browser.get("/datasets/reviews").status_code == 404
    assert "reviews" not in browser.get("/datasets").text
    assert browser.get("/studies/new?dataset=reviews").status_code == 404


def test_nothing_in_a_dataset_comes_to_life(visitor: TestClient):
    records = [{HOSTILE[:40]: f"{HOSTILE} {n}", "label": f"<img {n % 2}>"} for n in range(40)]
    upload(visitor, "hostile", records)
    for path in ("/datasets", "/datasets/hostile", "/studies/new?dataset=hostile"):
        page = visitor.get(path).text
        assert "<script>document" not in page
        assert "<img" not in page


def test_a_dataset_is_deleted_by_its_button_unless_something_needs_it(visitor: TestClient):
    assert 'data-confirm="Delete the dataset “reviews”?' in visitor.get("/datasets/reviews").text
    assert "Delete dataset" not in visitor.get("/datasets/generated").text
    assert visitor.post("/v1/jobs", json=READER, headers=forms.HERE).status_code == 201
    delete = "/datasets/reviews/delete"
    refused = visitor.post(delete, headers=forms.HERE, follow_redirects=False)
    assert refused.status_code == 409
    assert "needed by the base model reader" in html.unescape(text_of(refused.text))
    upload(visitor, "lines", [{"text": "one"}, {"text": "two"}])
    done = visitor.post("/datasets/lines/delete", headers=forms.HERE, follow_redirects=False)
    assert (done.status_code, done.headers["location"]) == (303, "/datasets")
    assert visitor.get("/datasets/lines").status_code == 404


def test_a_dataset_is_shared_and_taken_back_on_its_page(visitor: TestClient):
    visitor.post("/v1/projects", json={"name": "other"}, headers=forms.HERE)
    shared = visitor.post("/datasets/reviews/share", data={"project": "other"}, headers=forms.HERE)
    assert shared.headers["location"] == "/datasets/reviews#sharing"
    assert "Take back" in visitor.get("/datasets/reviews").text
    assert "from <bdi>default</bdi>" in visitor.get("/datasets").text
    there = visitor.get("/datasets/reviews?project=other").text
    assert "shared by <bdi>default</bdi>" in there

    form = {"project": "other"}
    visitor.post("/datasets/reviews/take-back", data=form, headers=forms.HERE)
    assert "Take back" not in visitor.get("/datasets/reviews").text
    refused = visitor.post("/datasets/reviews/take-back", data=form, headers=forms.HERE)
    assert (refused.status_code, "not changed" in refused.text) == (404, True)


def test_forms_of_sharing_are_audited_like_the_api(visitor: TestClient):
    visitor.post("/v1/projects", json={"name": "third"}, headers=forms.HERE)
    form = {"project": "third"}
    for change in ("share", "take-back"):
        visitor.post(f"/datasets/reviews/{change}", data=form, headers=forms.HERE)
    noted = [entry["action"] for entry in visitor.get("/v1/audit").json()["data"]]
    assert {"share_dataset", "take_dataset_back"} <= set(noted)


def test_strangers_datasets_have_no_button(
    browser: TestClient, visitor: TestClient, sessions: forms.Sessions
):
    forms.sign_in(browser, forms.somebody(sessions, {"default": "submitter"}, ("read", "submit")))
    assert "Delete dataset" not in browser.get("/datasets/reviews").text
    answer = browser.post("/datasets/reviews/delete", headers=forms.HERE, follow_redirects=False)
    assert answer.status_code == 403


def test_files_of_the_server_are_added_by_a_form(
    settings: Settings, token: str, base: None, tmp_path: Path
):
    (tmp_path / "reviews.csv").write_text("text,label\ngood,1\nbad,0\n")
    rooted = settings.model_copy(update={"dataset_roots": {"lab": tmp_path}})
    with TestClient(create_app(rooted), follow_redirects=False) as browser:
        visitor = forms.sign_in(browser, token)
        wrong = {"name": "mine", "file": f"lab/{HOSTILE}", "format": "csv"}
        refused = visitor.post("/datasets", data=wrong, headers=forms.HERE)
        assert refused.status_code == 422
        assert HOSTILE not in refused.text
        assert str(tmp_path) not in refused.text
        assert "File:" in text_of(refused.text)
        assert 'value="mine"' in refused.text
        assert "<option selected>csv" in refused.text
        unnamed = visitor.post("/datasets", data={"file": "lab/reviews.csv"}, headers=forms.HERE)
        assert (unnamed.status_code, "Name:" in text_of(unnamed.text)) == (422, True)
        right = {"name": "mine", "file": "lab/reviews.csv", "format": ""}
        made = visitor.post("/datasets", data=right, headers=forms.HERE)
        assert (made.status_code, made.headers["location"]) == (303, "/datasets/mine")


def test_without_dataset_roots_there_is_no_form(visitor: TestClient):
    assert "Add a file of the server" not in visitor.get("/datasets").text


# A file of one's own, without a shell

TICKETS = "text;label\n" + "".join(
    f"Où est le n° {number} ?;{('oui', 'Oui ', 'non', '', 'non')[number % 5]}\n"
    for number in range(60)
)


def send(browser: TestClient, name: str, content: bytes) -> httpx2.Response:
    return browser.post("/datasets/uploads", files={"file": (name, content)})


def test_a_file_becomes_a_study_in_the_browser_alone(settings: Settings, token: str) -> None:
    signed = {"Authorization": f"Bearer {token}"}
    with TestClient(create_app(settings), headers=signed) as browser:
        shown = send(browser, "Tickets März.csv", TICKETS.encode("cp1252"))
        assert shown.status_code == 200, shown.text
        said = " ".join(unescape(text_of(shown.text)).split())
        assert "60 records, read as CSV with semicolons, Windows-1252" in said
        assert "12 records of 60 have no label (empty 12), and stop a study." in said
        upload = str(shown.url.path)
        form = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', shown.text))
        form |= {"name": "tickets", "drop_empty": "on", "merge_labels": "on"}
        created = browser.post(upload, data=form, follow_redirects=False)
        assert created.headers["location"] == "/studies/new?dataset=tickets"
        kept = browser.get("/v1/datasets/tickets").json()
        assert (kept["records"], kept["reading"]["encoding"]) == (48, "cp1252")
        assert kept["reading"]["cleaning"] == {
            "label": "label", "dropped": 12, "missing": [""], "merged": {"Oui ": "oui"}
        }  # fmt: skip
        assert "12 without label left out" in text_of(browser.get("/datasets/tickets").text)
        assert browser.get(f"{upload}?file=x.csv").status_code == 404, "the upload is not kept"


BAD: dict[str, tuple[str, bytes, str, int]] = {
    "an encoding": ("x.csv", ("text\n" + "Отлично\n" * 9).encode("cp1251"), "not sure", 422),
    "no form": ("x.txt", b"a\tb\n1\t2\n", "not known by its name", 422),
    "no file": ("", b"", "None was chosen", 422),
    "an empty file": ("x.csv", b"", "The file is empty", 422),
    "a large file": ("x.csv", b"a,b\n" * 2000, "larger than", 413),
}


@pytest.mark.parametrize("what", BAD)
def test_a_file_that_cannot_be_read_says_what_to_do(
    what: str, settings: Settings, token: str
) -> None:
    name, content, said, status = BAD[what]
    small = settings.model_copy(update={"max_dataset_bytes": 2000})
    with TestClient(create_app(small), headers={"Authorization": f"Bearer {token}"}) as browser:
        answer = send(browser, name, content)
        assert (answer.status_code, said in unescape(answer.text)) == (status, True), answer.text


def test_files_that_are_kept_can_be_deleted(settings: Settings, token: str) -> None:
    one = settings.model_copy(update={"max_uploads": 1})
    with TestClient(create_app(one), headers={"Authorization": f"Bearer {token}"}) as browser:
        first = str(send(browser, "a.csv", b"text,label\na,b\n").url.path)
        refused = send(browser, "b.csv", b"text,label\nc,d\n")
        assert "You have 1 uploads" in refused.text
        assert f'action="{first}/forget"' in refused.text
        assert browser.post(f"{first}/forget").status_code == 200
        assert send(browser, "b.csv", b"text,label\nc,d\n").status_code == 200
