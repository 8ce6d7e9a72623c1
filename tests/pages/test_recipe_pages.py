"""The pages of recipes, and of studies by a recipe.

Some are read over HTTP, some in a browser.
"""

import re
from collections.abc import Callable
from typing import get_args

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Dialog, expect
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_principal
from tests.pages.made_up_studies import a_base, a_study
from tests.pages.reading import HERE, PAGE, section
from tests.pages.visitors import Visitor, in_every_window
from tests.reproducing import Run, as_published, run_all

from adaptlab.reproductions.claim_findings import ClaimFinding
from adaptlab.reproductions.recipe_report import FINDING_WORDS, REPRODUCTION_WORDS
from adaptlab.reproductions.recipe_study import RecipeRequest
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.studies.study import StudyExtension
from adaptlab_api.app import create_app
from adaptlab_api.pages.recipes.page import MARKS
from adaptlab_services.recipes import recipe_studies
from adaptlab_services.settings import Settings
from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Rules

Sessions = sessionmaker[Session]
TABLE_1 = "petrov2024/table-1"
ADDRESS = f"/recipes/{TABLE_1}"
STUDY = "petrov2024-table-1-quick"
ONE_LINE = 48
"""Of the navigation, in pixels: two lines are 57 in a narrow window."""


def test_every_finding_has_a_mark_and_words() -> None:
    every = set(get_args(ClaimFinding))
    assert MARKS.keys() == REPRODUCTION_WORDS.keys() == FINDING_WORDS.keys() == every
    assert len(set(REPRODUCTION_WORDS.values())) == len(set(FINDING_WORDS.values())) == len(every)


def learning_prefix(spec: ResolvedSpec) -> Run:
    """As published, but for a prefix that learns at one rate."""
    run = as_published(spec)
    is_prefix = spec.method is not None and spec.method["name"] == "prefix_tuning"
    return Run(run.right, last=0.5, deviation=0.2) if is_prefix else run


def create(sessions: Sessions, **members: object) -> None:
    asked = {"recipe": TABLE_1, "preset": "quick", "seeds": 3, **members}
    with sessions.begin() as session:
        request = RecipeRequest.model_validate(asked)
        recipe_studies.create(session, a_principal(session), request, Rules())


def measured(sessions: Sessions, run_of: Callable[[ResolvedSpec], Run] = as_published) -> None:
    create(sessions)
    run_all(sessions, run_of)


def test_the_list_asks_each_question_and_starts_it(reader: TestClient) -> None:
    page = reader.get("/recipes").text
    assert "Can a prefix teach a model that sorts upwards to sort downwards?" in page
    assert f'action="{ADDRESS}/run/quick"' in page
    assert f'href="{ADDRESS}"' in page
    assert 'aria-current="page"' in page


def test_a_preset_shows_what_it_needs_with_the_commands(reader: TestClient) -> None:
    presets = section(reader.get("/recipes/wen2023/hard-prompts").text, "presets-title")
    assert "It needs smollm2, smollm2-reviews, short-polarity" in presets
    assert "adaptlab datasets upload short-polarity" in presets
    assert "It needs" not in section(reader.get(ADDRESS).text, "presets-title")


def test_a_recipe_shows_what_is_published_claimed_and_asked(reader: TestClient) -> None:
    page = reader.get(ADDRESS).text
    assert "pretrained on ascending 91 ± 5 0 ± 0" in section(page, "published-1")
    assert "prefix-tuning from 0.02 control, not in the paper" in section(page, "published-1")
    claims = section(page, "claims-title")
    assert "arXiv v1 Prefix-tuning cannot learn" in claims
    assert "premise The base model sorts upwards" in claims
    for preset in ("quick", "faithful", "fair"):
        assert f'action="{ADDRESS}/run/{preset}"' in page
    assert f"adaptlab recipes run {TABLE_1} --preset quick" in page
    assert "/v1/studies" in page


def test_a_recipe_that_is_not_there_is_a_page(reader: TestClient) -> None:
    answer = reader.get("/recipes/petrov2024/table-11")
    assert (answer.status_code, "There is no such recipe" in answer.text) == (404, True)
    answer = reader.post("/recipes/petrov2024/table-11/run/quick", headers=HERE)
    assert (answer.status_code, "cannot be run here" in answer.text) == (422, True)


def test_the_button_makes_the_study(reader: TestClient, sessions: Sessions) -> None:
    first = reader.post(f"{ADDRESS}/run/quick", headers=HERE)
    assert (first.status_code, first.headers["location"]) == (303, f"/studies/{STUDY}")
    again = reader.post(f"{ADDRESS}/run/quick", headers=HERE)
    assert again.headers["location"] == f"/studies/{STUDY}-2"
    # Another site's page cannot press it.
    foreign = reader.post(f"{ADDRESS}/run/quick", headers={"Sec-Fetch-Site": "cross-site"})
    assert foreign.status_code == 403
    with sessions.begin() as session:
        assert len(studies.page(session).data) == 2


@pytest.mark.parametrize(("limit", "status"), [("max_study_jobs", 422), ("max_queued_jobs", 429)])
def test_a_recipe_that_is_refused_leaves_nothing_behind(
    settings: Settings, sessions: Sessions, token: str, limit: str, status: int
) -> None:
    app = create_app(settings.model_copy(update={limit: 1}))
    with TestClient(app, follow_redirects=False, headers=PAGE) as client:
        client.post("/login", data={"token": token, "next": "/"}, headers=HERE)
        answer = client.post(f"{ADDRESS}/run/quick", headers=HERE)
    assert (answer.status_code, "cannot be run here" in answer.text) == (status, True)
    with sessions.begin() as session:
        assert studies.page(session).data == ()


def test_a_study_stands_beside_the_paper(reader: TestClient, sessions: Sessions) -> None:
    measured(sessions)
    page = reader.get(f"/studies/{STUDY}").text
    table = section(page, "report-1")
    # 2,912 of 3,200 items, and 2,720 of them, with every seed.
    assert re.search(r"pretrained on ascending 91 ± 5 91\.0 \S+ to \S+ 0 ± 0 0\.0", table)
    assert re.search(r"full fine-tuning 0 ± 0 0\.0 \S+ to \S+ 85 ± 5 85\.0", table)
    assert "Controls that only other presets run: " in table
    claims = section(page, "claims")
    assert "reproduced Prefix-tuning cannot learn" in claims
    assert "arXiv v1" in claims
    # The comparison of methods comes below.
    assert page.index('id="report"') < page.index('id="table-0"')
    assert f'href="{ADDRESS}"' in page
    assert "This study differs from its recipe" not in page


def test_what_is_found_has_its_word_and_mark(reader: TestClient, sessions: Sessions) -> None:
    measured(sessions, learning_prefix)
    page = reader.get(f"/studies/{STUDY}").text
    assert '<span class="state bad">' in page
    assert "not reproduced Prefix-tuning cannot learn" in section(page, "claims")


def test_a_study_not_yet_run_shows_the_paper(reader: TestClient, sessions: Sessions) -> None:
    create(sessions)
    page = reader.get(f"/studies/{STUDY}").text
    assert "full fine-tuning 0 ± 0 not yet 85 ± 5 not yet" in section(page, "report-1")
    assert "not measured" in section(page, "claims")


def test_a_study_that_was_changed_says_so(reader: TestClient, sessions: Sessions) -> None:
    create(sessions)
    more = StudyExtension.model_validate({"methods": ["lora"], "budgets": [384]})
    with sessions.begin() as session:
        studies.extend(session, a_principal(session), STUDY, more, Rules())
    page = reader.get(f"/studies/{STUDY}").text
    assert re.search(r"Differences: \w*, *methods|Differences: [\w, ]*methods", page)


def test_a_study_of_no_recipe_has_no_such_section(reader: TestClient, sessions: Sessions) -> None:
    a_base(sessions)
    with sessions.begin() as session:
        who = a_principal(session)
    study = a_study(sessions, who, methods=["lora"])
    assert 'id="report"' not in reader.get(f"/studies/{study.name}").text


@pytest.mark.long("browser walks")
@pytest.mark.browser
def test_nothing_overflows(visitor: Visitor, sessions: Sessions) -> None:
    measured(sessions)
    visitor.sign_in("/recipes")
    for path in ("/recipes", ADDRESS, "/recipes/petrov2024/table-3", f"/studies/{STUDY}"):
        visitor.page.goto(visitor.server + path)
        assert visitor.page.locator("script:not([src])").count() == 0
        for viewport in in_every_window(visitor.page):
            width = visitor.page.evaluate("document.documentElement.scrollWidth")
            assert width <= viewport["width"], path
            # Every word of the navigation is in one line.
            links = visitor.page.locator(".top nav a")
            heights = links.evaluate_all("links => links.map((a) => a.offsetHeight)")
            assert heights
            assert max(heights) < ONE_LINE, path


@pytest.mark.long("browser walks")
@pytest.mark.browser
def test_a_recipe_is_run_with_the_keyboard(visitor: Visitor) -> None:
    visitor.page.remove_listener("dialog", visitor.note_dialog)
    asked: list[str] = []

    def agree(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.accept()

    visitor.page.on("dialog", agree)
    visitor.sign_in(ADDRESS)
    visitor.page.get_by_role("button", name="Run quick").focus()
    visitor.page.keyboard.press("Enter")
    visitor.page.wait_for_url(f"**/studies/{STUDY}")
    assert "“quick”" in asked[0]
    expect(visitor.page.locator("#report")).to_contain_text("not yet")
