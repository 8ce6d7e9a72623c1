"""The form of a job over HTTP, as a browser without scripts uses it."""

import ast
import html
import json
import re
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.making import (
    BASE,
    a_base_model,
    a_job,
    a_pretrain_document,
    a_project,
    an_adapt_document,
    an_adapt_spec,
)
from tests.pages import submitting as forms
from tests.pages.submitting import admin as admin
from tests.pages.submitting import browser as browser
from tests.pages.submitting import shared_admin as shared_admin
from tests.pages.visitors import HOSTILE

from adaptlab.plugins.family import FAMILIES
from adaptlab.plugins.method import METHODS
from adaptlab.plugins.task import TASKS
from adaptlab_db.tables import AuditEntry, Job

Sessions = sessionmaker[Session]
NEW, PREVIEW = "/jobs/new", "/jobs/new/preview"
BUDGET = "/budget/trainable_parameters"
SMALL = {"/training/steps": "4", "/training/batch_size": "4", "/evaluation/samples": "16"}


def count_jobs(sessions: Sessions) -> int:
    with sessions.begin() as session:
        return session.scalars(select(func.count()).select_from(Job)).one()


def previewed(browser: TestClient, changes: dict[str, Any], path: str = NEW) -> str:
    answer = forms.sent(browser, PREVIEW, forms.opened(browser, path, changes))
    assert answer.status_code == 200
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    return answer.text


def test_the_solvers_answer_is_shown(admin: TestClient, sessions: Sessions) -> None:
    # LoRA on q and v of one layer of width 8: rank · (8 + 8) · 2 = 32 a rank.
    before = count_jobs(sessions)
    told = forms.answered(previewed(admin, {BUDGET: "100", "/tuning/trials": "2"}))
    assert "Rank 3" in told
    assert "Trainable parameters 96 of 100, 4 unused" in told
    assert "Next larger rank 4 128 parameters" in told
    assert "Stored bytes 384 B" in told
    assert "Replicates 10 5 seeds × 2 trials" in told
    assert "Estimated time" in told
    assert "No live worker serves the queue 'cpu'" in told
    assert count_jobs(sessions) == before


def test_an_adapter_takes_the_place_of_all_settings_of_training(shared_admin: TestClient) -> None:
    page = previewed(shared_admin, {"/adapter": "models/lora", BUDGET: "100"})
    assert forms.shown_json(page) == {
        "kind": "adapt",
        "base_model": BASE,
        "task": {"name": "sort_descending", "length": 3, "alphabet": 4},
        "adapter": "models/lora",
    }
    assert "There is no model root named" in page


def test_the_job_that_is_made_is_the_one_that_was_shown(
    admin: TestClient, sessions: Sessions
) -> None:
    fields = forms.opened(
        admin, NEW, SMALL | {BUDGET: "100", "/labels": "team = blue\npaper = a=b"}
    )
    shown = forms.shown_json(forms.sent(admin, PREVIEW, fields).text)
    answer = forms.sent(admin, NEW, fields)
    assert answer.status_code == 303
    job = admin.get("/v1" + answer.headers["location"]).json()
    assert job["spec"] == {name: value for name, value in shown.items() if name != "kind"} | {
        "kind": "adapt"
    }
    assert job["labels"] == {"team": "blue", "paper": "a=b"}
    assert job["budget"]["trainable_parameters"] == 96
    asked = admin.post("/v1/jobs?validate_only=true", json=shown, headers=forms.HERE).json()
    assert asked["spec_digest"] == job["spec_digest"]
    page = admin.get(answer.headers["location"])
    assert page.status_code == 200
    assert f'href="/jobs/new?from={job["id"]}"' in page.text


def test_sent_twice_it_is_made_once_and_changed_it_is_another(
    admin: TestClient, sessions: Sessions
) -> None:
    before = count_jobs(sessions)
    fields = forms.opened(admin, NEW, SMALL)
    first, again = forms.sent(admin, NEW, fields), forms.sent(admin, NEW, fields)
    assert first.headers["location"] == again.headers["location"]
    assert count_jobs(sessions) == before + 1
    other = forms.sent(
        admin, NEW, forms.changed(fields, {BUDGET: "64"})
    )  # back in the browser, and changed
    assert other.headers["location"] != first.headers["location"]
    # What keeps them one is the form's own mark: another opening of it makes another job.
    anew = forms.sent(admin, NEW, forms.opened(admin, NEW, SMALL))
    assert anew.headers["location"] != first.headers["location"]
    assert count_jobs(sessions) == before + 3


FAULTS: list[Any] = [
    ("/training/steps", "abc", "must be a whole number"),
    ("/training/steps", "0", "greater than or equal to 1"),
    ("/training/steps", "9" * 5000, "must be a whole number"),
    ("/training/batch_size", "1.5", "must be a whole number"),
    ("/training/learning_rate", "-1", "greater than 0"),
    ("/training/learning_rate", "nan", "must be a number"),
    ("/tuning/trials", "65", "less than or equal to 64"),
    ("/tuning/learning_rates", "0.1, x", "must be a number"),
    ("/seeds", "0", "greater than or equal to 1"),
    ("/seeds", "1, -1", "greater than or equal to 0"),
    ("/method/name", "no_such", "There is no method"),
    ("/method/rank", "9999", "rank"),
    ("/method/sites", "nowhere", "nowhere"),
    ("/method/dora", "perhaps", "must be true or false"),
    ("/task/name", "sort_descendin", "There is no task"),
    ("/task/length", "0", "greater than or equal to 1"),
    ("/task/length", "1", "Use a length of 2 or more"),
    (BUDGET, "3", "smallest configuration has 32 parameters"),
    (BUDGET, "0", "greater than or equal to 1"),
    ("/base_model", "no-such-base", "There is no base model named"),
    ("/resources/queue", "Not A Queue", "a name of at most 31 lower-case"),
    ("/resources/priority", "10", "less than or equal to 9"),
    ("/labels", "not a name = 1", "a name of at most 63 letters"),
    ("/evaluation/tasks", "sort_ascending\nno_such", "There is no task"),
    ("/training/early_stopping", '{"patience": 0}', "greater than or equal to 1"),
    ("/training/early_stopping", '{"patience"', "a mapping of names to values"),
    ("/task/name", "a\0b", "U+0000"),
]


def test_a_fault_stands_beside_its_field_and_what_was_typed_stays(
    admin: TestClient, sessions: Sessions
) -> None:
    for pointer, text, said in FAULTS:
        before = count_jobs(sessions)
        fields = forms.opened(admin, NEW, {pointer: text})
        page = forms.sent(admin, PREVIEW, fields).text
        assert said in forms.fault_at(page, pointer)
        if len(text) < 99 and "\0" not in text:
            assert forms.fields_of(page)[pointer] == [text]
        refused = forms.sent(admin, NEW, fields)
        assert refused.status_code == 422
        assert said in forms.fault_at(refused.text, pointer)
        assert count_jobs(sessions) == before


def test_the_nearest_value_is_a_button_away(shared_admin: TestClient) -> None:
    fields = forms.opened(shared_admin, NEW, {BUDGET: "3"})
    (use,) = [
        one for one in forms.uses(forms.sent(shared_admin, PREVIEW, fields).text) if "32" in one
    ][:1]
    assert json.loads(use) == [BUDGET, 32]
    page = forms.sent(shared_admin, PREVIEW, forms.changed(fields, {"use": use})).text
    assert forms.fields_of(page)[BUDGET] == ["32"]
    assert "Rank 1" in forms.answered(page)
    # A name is taken over as well, and a share gives way to the number.
    fields = forms.opened(shared_admin, NEW, {"/task/name": "sort_descendin"})
    use = next(
        one
        for one in forms.uses(forms.sent(shared_admin, PREVIEW, fields).text)
        if "sort_descending" in one
    )
    page = forms.sent(shared_admin, PREVIEW, forms.changed(fields, {"use": use})).text
    assert forms.fields_of(page)["/task/name"] == ["sort_descending"]
    both = forms.opened(shared_admin, NEW, {BUDGET: "", "/budget/fraction_of_base": "0.001"})
    use = next(
        one for one in forms.uses(forms.sent(shared_admin, PREVIEW, both).text) if BUDGET in one
    )
    page = forms.sent(shared_admin, PREVIEW, forms.changed(both, {"use": use})).text
    assert forms.fields_of(page)["/budget/fraction_of_base"] == [""]
    assert "Trainable parameters 32 of 32" in forms.answered(page)


BUTTONS: list[Any] = [
    "",
    "x",
    "[]",
    '["/training/steps"]',
    "[1, 2]",
    '["", 1]',
    '["/a/99999999/b", 1]',
    "[[[[",
]


def test_a_button_of_ones_own_making_does_nothing_bad(shared_admin: TestClient) -> None:
    for use in BUTTONS:
        page = previewed(shared_admin, {"use": use})
        assert forms.shown_json(page)["kind"] == "adapt"


def test_two_ways_to_say_the_budget_are_one_too_many(shared_admin: TestClient) -> None:
    page = previewed(shared_admin, {"/budget/fraction_of_base": "0.1"})
    assert "only one of" in forms.fault_at(page, BUDGET)


@pytest.mark.long("every combination", but=4)
@pytest.mark.parametrize("method", METHODS.names())
def test_every_method_has_its_knobs(shared_admin: TestClient, method: str) -> None:
    page = previewed(shared_admin, {"/method/name": method})
    knobs = METHODS.get(method).model_fields.keys() - {"name"}
    fields = forms.fields_of(page)
    assert {name for name in fields if name.startswith("/method/")} == {
        "/method/name",
        *(f"/method/{knob}" for knob in knobs),
    }
    assert f'data-knobs="{method}"' in page


@pytest.mark.parametrize(
    ("path", "what", "names"),
    [(NEW, "task", TASKS.names()), (f"{NEW}?kind=pretrain", "family", FAMILIES.names())],
)
def test_every_task_and_family_has_its_knobs(
    shared_admin: TestClient, path: str, what: str, names: tuple[str, ...]
) -> None:
    registry: Any = TASKS if what == "task" else FAMILIES
    fields = forms.opened(shared_admin, path)
    for name in names:
        page = forms.sent(
            shared_admin, PREVIEW, forms.changed(fields, {f"/{what}/name": name})
        ).text
        knobs = registry.get(name).model_fields.keys() - {"name"}
        assert {f"/{what}/{knob}" for knob in knobs} <= forms.fields_of(page).keys(), name


DOCUMENTS: dict[str, dict[str, Any]] = {
    "plain": an_adapt_document(),
    "short": an_adapt_document(method="ia3", budget=500, task="sort_descending"),
    "odd": an_adapt_document(
        base_model=a_pretrain_document(name="another", labels={"a": "b c", "x": "<i>"}),
        method={"name": "lora", "sites": ["q", "blocks.0.mlp.up"], "dora": True, "alpha": 0.5},
        training={
            "steps": 4,
            "batch_size": 4,
            "learning_rate": 1e-05,
            "early_stopping": {"patience": 2, "min_delta": 0.5},
        },
        tuning={"learning_rates": [0.1, 1e-3], "weight_decays": [0.0], "selection": "pooled"},
        seeds=[7],
        base_replicates=[1],
        evaluation={"tasks": ["sort_ascending", {"name": "add", "k": 2}], "samples": 16},
        capture={"attention": {"samples": 1, "inputs": [[0, 1, 2]]}},
        resources={"queue": "gpu", "priority": 9, "self_fence": "strict"},
        labels={"team": "blue"},
    ),
    "pretrain": a_pretrain_document(),
    "import": {"kind": "import", "name": "mine", "folder": "models/mine"},
    "theory": {"kind": "theory", "checks": ["theorems", {"name": "identities"}], "seed": 3},
    "wrong": {"kind": "adapt", "base_model": [1], "task": 5, "steps": {"a": None}, "seeds": "x y"},
}


def test_a_pasted_spec_fills_the_form_and_comes_out_as_it_was(shared_admin: TestClient) -> None:
    for name in DOCUMENTS:
        document = DOCUMENTS[name]
        page = previewed(shared_admin, {"pasted": json.dumps(document), "do": "paste"})
        shown = forms.shown_json(page)
        written_out = {**document}
        for member in ("task", "method"):
            if isinstance(document.get(member), str):
                written_out[member] = {"name": document[member]}
        if document.get("budget") == 500:
            written_out["budget"] = {"trainable_parameters": 500}
        assert shown == written_out
        assert (
            forms.shown_json(forms.sent(shared_admin, PREVIEW, forms.fields_of(page)).text)
            == written_out
        )  # typed or pasted


NO_SPECS: list[Any] = [
    ("", "JSON"),
    ("{", "JSON"),
    ("[1]", "not a JSON object"),
    ('{"a": 1, "a": 2}', "a"),
    ('{"seeds": NaN}', "NaN"),
    ('{"labels": {"a": "\\ud800"}}', "surrogate"),
    ("[" * 5000, "deep"),
]


def test_what_is_pasted_and_no_spec_is_refused_where_it_stands(shared_admin: TestClient) -> None:
    for text, said in NO_SPECS:
        page = previewed(shared_admin, {"pasted": text, "do": "paste", "/training/steps": "77"})
        assert said in forms.fault_at(page, "/pasted") or "JSON" in forms.fault_at(page, "/pasted")
        assert forms.fault_at(page, "/pasted")
        assert forms.fields_of(page)["/training/steps"] == ["77"]
        page = previewed(shared_admin, {"rest": text or "{"})
        assert forms.fault_at(page, "/rest")


def test_the_same_request_in_curl_and_python(shared_admin: TestClient) -> None:
    page = previewed(shared_admin, {"/labels": "quote = it's"})
    shown = forms.shown_json(page)
    curl, python = (
        html.unescape(re.findall(rf'id="text-{name}"[^>]*>(.*?)</code>', page, re.DOTALL)[0])
        for name in ("curl", "python")
    )
    body = curl.partition("-d ")[2].replace("'\"'\"'", "'")
    assert json.loads(body.strip("'")) == shown
    calls = [one for one in ast.walk(ast.parse(python)) if isinstance(one, ast.Dict)]
    assert ast.literal_eval(calls[0]) == shown


def test_nothing_that_is_typed_comes_to_life(shared_admin: TestClient) -> None:
    fields = forms.opened(shared_admin, NEW)
    every = {name: HOSTILE for name in fields if name.startswith("/") or name in ("rest", "once")}
    for changes in (every, {"pasted": HOSTILE, "do": "paste"}, {"project": HOSTILE}):
        for path in (PREVIEW, NEW):
            page = forms.sent(shared_admin, path, forms.changed(fields, changes)).text
            assert "<script>document" not in page
            assert "<img" not in page
    stored = an_adapt_document(labels={"a": HOSTILE}, base_model='x"><script>alert(1)</script>')
    page = previewed(shared_admin, {"pasted": json.dumps(stored), "do": "paste"})
    assert "<script>alert" not in page
    assert "<script>document" not in page


def test_who_may_only_read_is_told_why(browser: TestClient, base: None, sessions: Sessions) -> None:
    forms.sign_in(browser, forms.somebody(sessions, {"default": "reader"}, ("read", "submit")))
    page = browser.get(NEW)
    assert page.status_code == 200
    assert "You cannot submit here" in page.text
    assert "role `submitter`" in html.unescape(page.text)
    assert "data-preview" not in page.text
    before = count_jobs(sessions)
    assert browser.post(NEW, data={"kind": "adapt"}, headers=forms.HERE).status_code == 403
    assert count_jobs(sessions) == before
    assert 'href="/jobs/new' not in browser.get("/").text


def test_a_token_that_only_reads_is_told_so(browser: TestClient, sessions: Sessions) -> None:
    forms.sign_in(browser, forms.somebody(sessions, {"default": "submitter"}, ("read",)))
    assert "scope `submit`" in html.unescape(browser.get(NEW).text)


def test_it_goes_into_the_project_that_was_chosen(browser: TestClient, sessions: Sessions) -> None:
    roles = {"default": "submitter", "vision": "submitter", "speech": "reader"}
    forms.sign_in(browser, forms.somebody(sessions, roles, ("read", "submit")))
    with sessions.begin() as session:
        a_base_model(session, "seen-there", project="vision")
    fields = forms.opened(browser, NEW)
    assert fields["project"] == ["default"]
    page = browser.get(NEW).text
    assert "speech" not in page
    assert "seen-there" not in page
    there = forms.changed(fields, {"project": "vision", "kind": "adapt"})
    page = forms.sent(browser, PREVIEW, there).text
    assert "seen-there" in page
    ask = forms.changed(
        forms.fields_of(page), {"/base_model": "seen-there", "/method/name": "ia3"} | SMALL
    )
    ask = forms.changed(
        ask, {"/task/name": "sort_descending", "/task/length": "3", "/task/alphabet": "4"}
    )
    answer = forms.sent(browser, NEW, ask)
    assert answer.status_code == 303, answer.text
    assert browser.get("/v1" + answer.headers["location"]).json()["project"] == "vision"
    for name, status in (("speech", 403), ("elsewhere", 404)):
        refused = forms.sent(browser, NEW, forms.changed(ask, {"project": name}))
        assert refused.status_code == status, name


def test_a_form_begins_with_a_job_that_is_there(
    admin: TestClient, browser: TestClient, sessions: Sessions
) -> None:
    spec = an_adapt_spec(labels={"team": "blue"}, seeds=(3, 5))
    with sessions.begin() as session:
        ours = a_job(session, spec, state="succeeded")
        a_project(session, "theirs")
        a_base_model(session, "of-theirs", owner="bert", project="theirs")
        hidden = a_job(
            session, an_adapt_spec(base_model="of-theirs"), owner="bert", project="theirs"
        )
    page = admin.get(f"{NEW}?from={ours}").text
    assert forms.shown_json(page) == spec.model_dump(mode="json", exclude_unset=True)
    assert forms.fields_of(page)["/seeds"] == ["3, 5"]
    assert admin.get(f"{NEW}?from=nothing").status_code == 404
    forms.sign_in(browser, forms.somebody(sessions, {"default": "submitter"}, ("read", "submit")))
    assert browser.get(f"{NEW}?from={hidden}").status_code == 404
    assert browser.get(f"{NEW}?from={ours}").status_code == 200


def test_an_empty_server_is_offered_a_first_job(browser: TestClient, token: str) -> None:
    forms.sign_in(browser, token)
    assert 'href="/jobs/new?kind=pretrain"' in browser.get("/").text
    page = browser.get(NEW).text
    assert forms.shown_json(page)["kind"] == "pretrain"
    assert "Trainable parameters 115,776" in forms.answered(page)
    assert not re.findall(r'class="notice bad"', page)


def test_a_base_model_of_a_recipe_is_made_first(browser: TestClient, token: str) -> None:
    forms.sign_in(browser, token)
    fields = forms.opened(browser, f"{NEW}?kind=adapt")
    page = forms.sent(browser, PREVIEW, fields).text
    recipe = next(
        value
        for value in re.findall(r'<option value="(recipe:[^"]+)"', page)
        if not value.startswith("recipe:biderman2024")  # its base reads cues
    )
    page = forms.sent(
        browser, PREVIEW, forms.changed(fields, {"/base_model": html.unescape(recipe)})
    ).text
    assert forms.shown_json(page)["base_model"]["family"]
    assert "Estimated time for the base model, trained first" in forms.answered(page)
    answer = forms.sent(browser, NEW, forms.changed(fields, {"/base_model": html.unescape(recipe)}))
    assert answer.status_code == 303
    assert browser.get("/v1" + answer.headers["location"]).json()["state"] == "waiting"


def test_a_taken_name_is_said_beside_the_name(shared_admin: TestClient) -> None:
    fields = forms.opened(shared_admin, f"{NEW}?kind=pretrain", {"/name": BASE})
    refused = forms.sent(shared_admin, NEW, fields)
    assert refused.status_code == 409
    assert "already exists" in forms.fault_at(refused.text, "/name")


def test_a_body_that_is_no_such_form_is_refused(shared_admin: TestClient) -> None:
    for path in (NEW, PREVIEW):
        assert shared_admin.post(path, json={}, headers=forms.HERE).status_code == 415
        many = {f"f{number}": "1" for number in range(401)}
        assert shared_admin.post(path, data=many, headers=forms.HERE).status_code == 400
        assert forms.sent(shared_admin, path, {"kind": ["adapt"]}).status_code == (
            422 if path == NEW else 200
        )


def test_what_was_only_asked_is_not_in_the_audit_log(admin: TestClient, sessions: Sessions) -> None:
    fields = forms.opened(admin, NEW, SMALL)
    forms.sent(admin, PREVIEW, fields)
    forms.sent(admin, NEW, fields)
    with sessions.begin() as session:
        actions = session.scalars(select(AuditEntry.action)).all()
    assert "preview_new_job" not in actions
    assert "submit_job" in actions


@pytest.mark.parametrize("path", [NEW, "/studies/new"])
def test_every_choice_is_offered_once(admin: TestClient, path: str) -> None:
    """A script compares what is chosen with what the page came with."""
    lists = re.findall(r"<select[^>]*>(.*?)</select>", admin.get(path).text, re.DOTALL)
    assert lists
    for one in lists:
        values = re.findall(r'<option value="([^"]*)"', one)
        assert len(values) == len({*values})
