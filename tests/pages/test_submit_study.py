"""The form of a study over HTTP, as a browser without scripts uses it."""

import html
import json
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_study_document
from tests.pages import submitting as forms
from tests.pages.submitting import admin as admin
from tests.pages.submitting import browser as browser
from tests.pages.submitting import shared_admin as shared_admin
from tests.pages.visitors import HOSTILE

from adaptlab.studies.study import StudySpec
from adaptlab_db.tables import AuditEntry, Job, Study

Sessions = sessionmaker[Session]
NEW, PREVIEW = "/studies/new", "/studies/new/preview"
METHODS = ["lora", "full_finetuning", "prefix_tuning", "frozen"]
"""In the order in which the form has them."""


def counted(sessions: Sessions) -> tuple[int, int]:
    """How many studies and jobs there are."""
    with sessions.begin() as session:
        studies, jobs = (
            session.scalars(select(func.count()).select_from(table)).one() for table in (Study, Job)
        )
        return studies, jobs


def a_study(**members: Any) -> dict[str, Any]:
    return a_study_document(**{"methods": METHODS, **members})


def pasted(browser: TestClient, **members: Any) -> str:
    """The page of the form of a small study."""
    document = json.dumps(a_study(**members))
    answer = forms.sent(
        browser, PREVIEW, forms.opened(browser, NEW, {"pasted": document, "do": "paste"})
    )
    assert answer.status_code == 200
    return answer.text


def test_what_it_becomes_is_shown(admin: TestClient, sessions: Sessions) -> None:
    # Frozen and full fine-tuning once, LoRA and prefixes at both budgets; 2 seeds × 2 trials.
    before = counted(sessions)
    told = forms.answered(pasted(admin))
    plan = admin.post(
        "/v1/studies?validate_only=true", json=a_study_document(), headers=forms.HERE
    ).json()
    assert f"Jobs {len(plan['jobs'])} {plan['new_jobs']} new, 0 reused" in told
    assert f"Replicates {sum(job['replicates'] for job in plan['jobs'])}" in told
    assert f"trained in {plan['passes']} passes" in told
    assert "Equal effort" in told
    assert "LoRA 32 64" in told  # 32 a rank
    assert "No live worker serves the queue 'cpu'" in told
    assert counted(sessions) == before


def test_the_study_that_is_made_is_the_one_that_was_shown(
    admin: TestClient, sessions: Sessions
) -> None:
    page = pasted(admin)
    answer = forms.sent(admin, NEW, forms.fields_of(page))
    assert (answer.status_code, answer.headers["location"]) == (303, "/studies/small")
    made = admin.get("/v1/studies/small").json()
    shown = StudySpec.model_validate(forms.shown_json(page))
    assert made["spec"] == shown.model_dump(mode="json", exclude_unset=True)
    assert "copy to a new study" in admin.get("/studies/small").text
    again = forms.answered(pasted(admin, name="other"))
    jobs = {job["id"] for cell in made["cells"] for job in cell["jobs"]}
    assert f"0 new, {len(jobs)} reused" in again


def test_sent_twice_it_is_made_once(admin: TestClient, sessions: Sessions) -> None:
    fields = forms.fields_of(pasted(admin))
    first = forms.sent(admin, NEW, fields)
    after = counted(sessions)
    assert forms.sent(admin, NEW, fields).headers["location"] == first.headers["location"]
    assert counted(sessions) == after
    # The form's own mark keeps them one: opened anew, the name is taken.
    refused = forms.sent(admin, NEW, forms.changed(fields, {"once": "0" * 32}))
    assert refused.status_code == 409
    assert "small" in forms.fault_at(refused.text, "/name")
    assert counted(sessions) == after


@pytest.mark.long("many bad inputs", but=4)
@pytest.mark.parametrize(
    ("pointer", "text", "said"),
    [
        ("/name", "", "is missing"),
        ("/name", "No Name", "a name of at most 63 lower-case"),
        ("/base_models", [], "is missing"),
        ("/base_models", ["no-such-base"], "There is no base model"),
        ("/methods", [], "is missing"),
        ("/methods", ["no_such"], "There is no method"),
        ("/methods/-", '{"name": "lora", "rank": "x"}', "rank"),
        ("/methods/-", '{"name": "lora", "label": ""}', "text without characters that control"),
        ("/budgets", "", "is missing"),
        ("/budgets", "32, x", "budgets[1] must be a whole number"),
        ("/budgets", "0", "greater than or equal to 1"),
        ("/tasks/0/name", "sort_descendin", "There is no task"),
        ("/tasks/0/length", "0", "greater than or equal to 1"),
        ("/tasks/-", "no_such", "There is no task"),
        ("/seeds", "65", "less than or equal to 64"),
        ("/tuning/trials", "0", "greater than or equal to 1"),
        ("/checks", "no_such", "no_such"),
        ("/training/steps", "x", "must be a whole number"),
    ],
)
def test_a_fault_stands_beside_its_field(
    admin: TestClient, sessions: Sessions, pointer: str, text: str | list[str], said: str
) -> None:
    fields = forms.changed(forms.fields_of(pasted(admin)), {pointer: text})
    before = counted(sessions)
    page = forms.sent(admin, PREVIEW, fields).text
    assert said in forms.fault_at(page, pointer), forms.answered(page)
    assert forms.sent(admin, NEW, fields).status_code == 422
    assert counted(sessions) == before


def test_unequal_effort_is_said(shared_admin: TestClient) -> None:
    own = {"name": "ia3", "tuning": {"trials": 8}}
    told = forms.answered(pasted(shared_admin, methods=["lora", "prefix_tuning", own]))
    assert "Unequal effort" in told
    assert "tuned with unequal effort" in told
    assert "Equal effort" not in told


def test_what_does_not_fit_is_left_out_and_the_budget_that_it_needs_is_a_button(
    shared_admin: TestClient,
) -> None:
    page = pasted(shared_admin, budgets=[16, 64])
    told = forms.answered(page)
    assert "Left out LoRA at 16: Budget 16 is too small for lora on this model" in told
    use = next(one for one in forms.uses(page) if "/budgets/-" in one)
    assert json.loads(use) == ["/budgets/-", 32]
    page = forms.sent(
        shared_admin, PREVIEW, forms.changed(forms.fields_of(page), {"use": use})
    ).text
    assert forms.fields_of(page)["/budgets"] == ["16, 64, 32"]


@pytest.mark.long("many bad inputs", but=2)
@pytest.mark.parametrize(
    "members",
    [
        {},
        {"methods": "all"},
        {"methods": ["lora", {"name": "lora", "sites": ["mlp"], "label": "other <b>"}]},
        {"tasks": [{"name": "sort_descending", "length": 3, "alphabet": 4}, {"name": "copy"}]},
        {"budgets": [32, {"fraction_of_base": 0.5}]},
        {"checks": ["theorems"], "labels": {"team": "blue"}},
        {"tuning": {"learning_rates": [0.1, 0.01], "halving": {"rungs": 1}}},
        {"seeds": [5], "capture": {"attention": {"samples": 2}}, "resources": {"queue": "gpu"}},
        {"base_models": ["tiny-sort", {"kind": "pretrain", "name": "x", "family": "minigpt"}]},
        {"tasks": ["sort_descending"], "methods": 5, "unknown": [1]},
    ],
    ids=lambda members: next(iter(members), "plain"),
)
def test_a_pasted_study_comes_out_as_it_was(
    shared_admin: TestClient, members: dict[str, Any]
) -> None:
    document = a_study(**members)
    if document["tasks"] == ["sort_descending"]:
        document["tasks"] = [{"name": "sort_descending"}]
    page = pasted(shared_admin, **members)
    assert forms.shown_json(page) == document
    assert (
        forms.shown_json(forms.sent(shared_admin, PREVIEW, forms.fields_of(page)).text) == document
    )


def test_it_begins_with_a_study_or_a_recipe(shared_admin: TestClient) -> None:
    forms.sent(shared_admin, NEW, forms.fields_of(pasted(shared_admin)))
    like = forms.shown_json(shared_admin.get(f"{NEW}?from=small").text)
    assert like == a_study(name="small-2")
    recipe = shared_admin.get(f"{NEW}?recipe=petrov2024/table-1&preset=quick")
    assert forms.shown_json(recipe.text)["name"] == "petrov2024-table-1-quick"
    assert 'class="notice bad"' not in recipe.text
    asked = forms.sent(shared_admin, PREVIEW, forms.fields_of(recipe.text))
    assert forms.shown_json(asked.text) == forms.shown_json(recipe.text)
    for path in (f"{NEW}?from=nothing", f"{NEW}?recipe=no/such"):
        assert shared_admin.get(path).status_code == 404


@pytest.mark.parametrize(
    "name", ["jia2022/visual-prompts", "wang2023/isolation", "wen2023/hard-prompts"]
)
def test_a_recipe_of_another_paper_goes_through_the_form_unchanged(
    name: str, shared_admin: TestClient
) -> None:
    page = shared_admin.get(f"{NEW}?recipe={name}&preset=quick")
    spec = forms.shown_json(page.text)
    assert spec["name"] == name.replace("/", "-") + "-quick"
    asked = forms.sent(shared_admin, PREVIEW, forms.fields_of(page.text))
    assert forms.shown_json(asked.text) == spec


def test_a_fresh_form_asks_for_something_that_can_be_had(shared_admin: TestClient) -> None:
    page = shared_admin.get(NEW).text
    assert 'class="notice bad"' not in page
    assert forms.fields_of(page)["/base_models"] == ["tiny-sort"]


def test_a_study_called_new_can_be_reached(admin: TestClient) -> None:
    assert forms.sent(admin, NEW, forms.fields_of(pasted(admin, name="new"))).status_code == 303
    id_ = admin.get("/v1/studies/new").json()["id"]
    assert f'href="/studies/{id_}"' in admin.get(NEW).text
    assert "New study" not in admin.get(f"/studies/{id_}").text


def test_nothing_that_is_typed_comes_to_life(shared_admin: TestClient) -> None:
    fields = forms.opened(shared_admin, NEW)
    every = {name: HOSTILE for name in fields if name.startswith("/") or name == "rest"}
    for path in (PREVIEW, NEW):
        page = forms.sent(shared_admin, path, forms.changed(fields, every)).text
        assert "<script>document" not in page
        assert "<img" not in page
    page = pasted(shared_admin, methods=[{"name": "lora", "label": "<img src=x onerror=alert(1)>"}])
    assert "<img" not in page


def test_who_may_only_read_is_told_why(browser: TestClient, base: None, sessions: Sessions) -> None:
    forms.sign_in(browser, forms.somebody(sessions, {"default": "reader"}, ("read", "submit")))
    page = browser.get(NEW)
    assert page.status_code == 200
    assert "You cannot submit here" in page.text
    assert "role `submitter`" in html.unescape(page.text)
    before = counted(sessions)
    body = {"pasted": json.dumps(a_study_document()), "name": "x"}
    assert browser.post(NEW, data=body, headers=forms.HERE).status_code == 403
    assert counted(sessions) == before
    assert f'href="{NEW}' not in browser.get("/studies").text


def test_what_was_only_asked_is_not_in_the_audit_log(admin: TestClient, sessions: Sessions) -> None:
    forms.sent(admin, NEW, forms.fields_of(pasted(admin)))
    with sessions.begin() as session:
        actions = session.scalars(select(AuditEntry.action)).all()
    assert "preview_new_study" not in actions
    assert "submit_study" in actions
