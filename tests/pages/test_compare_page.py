"""Comparisons of any jobs, chosen by ids or by a filter, with limits."""

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import quote
from uuid import UUID, uuid4

import numpy as np
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import run_all
from tests.pages.made_up import ADAPTATION, PRETRAINING, USAGE, MadeUpWorker
from tests.pages.made_up_studies import a_base, a_study, ordinary

from adaptlab_answers.studies import StudyView
from adaptlab_api.app import create_app
from adaptlab_api.pages.attention.small_map import drawn_cells
from adaptlab_api.pages.rendering.formats import duration, percent
from adaptlab_db.tables import Job
from adaptlab_services.comparisons import comparisons
from adaptlab_services.people import tokens
from adaptlab_services.querying.list_conditions import matching
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
HERE = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def visitor(settings: Settings, token: str) -> Iterator[TestClient]:
    """Somebody who is signed in."""
    with TestClient(create_app(settings), headers={"Accept": "text/html"}) as made:
        assert made.post("/login", data={"token": token}, headers=HERE).is_success
        yield made


@pytest.fixture(scope="module")
def study(shared_sessions: Sessions, shared_token: str) -> StudyView:
    """Six methods at two budgets, all measured; tests only read it."""
    a_base(shared_sessions)
    with shared_sessions.begin() as session:
        admin = tokens.authenticate(session, shared_token)
    made = a_study(shared_sessions, admin, name="done")
    run_all(shared_sessions, ordinary)
    return made


def jobs_of(study: StudyView, *methods: str) -> list[UUID]:
    found = [job.id for cell in study.cells if cell.method in methods for job in cell.jobs]
    return list(dict.fromkeys(found))


def rows_of(page: str, identity: str = "table-0-0") -> int:
    table = page.partition(f'id="{identity}"')[2].partition("</table>")[0]
    return table.count('<th scope="row">')


def test_jobs_are_named_with_commas_or_one_by_one(
    shared_reader: TestClient, study: StudyView
) -> None:
    ids = [str(one) for one in jobs_of(study, "lora", "adapter")]
    commas = shared_reader.get(f"/compare?jobs={','.join(ids)}")
    assert commas.status_code == 200
    assert rows_of(commas.text) == 2
    singly = shared_reader.get("/compare?" + "&".join(f"job={one}" for one in ids))
    assert rows_of(singly.text) == 2
    charts = f"/compare/charts?jobs={','.join(ids)}"
    assert quote(",".join(ids), safe="") in commas.text
    drawn = shared_reader.get(charts).json()
    assert {"curves", "0-ranks", "0-differences", "0-sweeps"} <= set(drawn)


def test_seeds_are_dots_and_methods_share_one_chart_of_learning(
    shared_reader: TestClient, study: StudyView
) -> None:
    ids = ",".join(str(one) for one in jobs_of(study, "lora", "adapter"))
    page = shared_reader.get(f"/compare?jobs={ids}").text
    seeds = len(study.cells[0].jobs[0].seeds)
    table = page.partition('id="table-0-0"')[2].partition("</table>")[0]
    assert table.count('class="seed"') == 2 * seeds
    assert page.index('id="table-0-0-learning"') < page.index('id="table-0-0-order"')
    drawn = shared_reader.get(f"/compare/curves?jobs={ids}&cell=1").json()
    assert drawn["encoding"]["color"]["legend"]["values"] == ["Bottleneck adapter", "LoRA"]
    lines = {(row["label"], row["replicate"]) for row in drawn["data"]["values"]}
    assert len(lines) == 2 * seeds  # the chosen trial of each seed
    assert shared_reader.get(f"/compare/curves?jobs={ids}&cell=2").status_code == 204


def test_attention_is_beside_the_table_where_it_was_recorded(
    visitor: TestClient, worker: MadeUpWorker
) -> None:
    worker.complete(PRETRAINING, 0.99)
    prefix = worker.complete(ADAPTATION, 0.6, 0.01, learned=2).id
    page = visitor.get(f"/compare?jobs={prefix}").text
    chart = f"/jobs/{prefix}/charts/attention-strongest"
    assert f'<option value="{chart}">' in page
    drawn = visitor.get(chart).json()
    assert drawn["title"]["text"].startswith("Layer 1, head ")  # layer 0 cannot change
    assert [one["title"]["text"] for one in drawn["concat"]] == [
        "before (base model)",
        "after adaptation",
    ]


def test_small_maps_show_the_head_that_the_best_changed_most_at_one_scale(
    visitor: TestClient, worker: MadeUpWorker
) -> None:
    worker.complete(PRETRAINING, 0.99)
    prefix = worker.complete(ADAPTATION, 0.6, 0.01, learned=2).id
    page = unescape(visitor.get(f"/compare?jobs={prefix}").text)
    small = f"/jobs/{prefix}/charts/attention-small.svg?changed_by={prefix}"
    assert re.findall(r'<figure><img src="([^"]+)"', page) == [f"{small}&source=base", small]
    for address in (f"{small}&source=base", small):
        drawn = visitor.get(address)
        assert drawn.headers["content-type"] == "image/svg+xml"
        assert 'viewBox="0 0 19 19"' in drawn.text, "without the learned positions"
    assert visitor.get(small.replace(str(prefix), str(uuid4()))).status_code == 404


def test_the_time_of_a_methods_jobs_is_in_its_row(
    visitor: TestClient, worker: MadeUpWorker
) -> None:
    worker.complete(PRETRAINING, 0.99)
    prefix = worker.complete(ADAPTATION, 0.6, 0.01, learned=2).id
    page = visitor.get(f"/compare?jobs={prefix}").text
    report = page.partition('<table class="report">')[2].partition("</table>")[0]
    taken = USAGE.training_seconds + USAGE.evaluation_seconds
    assert report.count(f'nowrap">{duration(taken)}</td>') == 1


@pytest.mark.parametrize(("length", "cells"), [(48, 48), (50, 25), (101, 34)])
def test_large_maps_are_drawn_by_the_means_of_blocks(length: int, cells: int) -> None:
    drawn = drawn_cells(np.tril(np.full((length, length), 0.5)))
    assert f'viewBox="0 0 {cells} {cells}"' in drawn
    inside = re.search(r'x="0" y="10" width="1" height="1" fill-opacity="([0-9.]+)"', drawn)
    assert inside is not None
    assert float(inside[1]) == 0.5
    assert drawn.count("<rect") == 1 + cells * (cells + 1) // 2


def test_the_example_of_a_filter_is_one(visitor: TestClient, sessions: Sessions) -> None:
    found = re.search(r'placeholder="([^"]+)"', visitor.get("/compare").text)
    assert found is not None
    example = unescape(found[1])
    assert 'task = "sort_descending"' in example
    with sessions() as session:
        assert matching(session, select(Job.id), example) is not None


def test_the_best_is_shown_with_its_score_corrected_for_the_choice(
    visitor: TestClient, sessions: Sessions, token: str
) -> None:
    a_base(sessions)
    with sessions.begin() as session:
        admin = tokens.authenticate(session, token)
    methods = ["lora", "frozen"]
    study = a_study(sessions, admin, name="five", methods=methods, seeds=5)
    run_all(sessions, ordinary)
    jobs = jobs_of(study, *methods)
    with sessions.begin() as session:
        comparison = comparisons.of_jobs(session, jobs).tables[0].comparison
    assert comparison is not None
    cell, *_ = comparison.cells
    assert cell.leader == cell.best[0]
    assert cell.chosen is not None
    score = cell.chosen.score
    page = unescape(visitor.get(f"/compare?jobs={','.join(map(str, jobs))}").text)
    assert "is the best; " in page
    figures = f"{percent(cell.chosen.corrected)}, {percent(score.low)} to {percent(score.high)}"
    assert f"corrected, best of 2: {figures}" in page


def test_budgets_in_context_tokens_are_called_so(
    visitor: TestClient, sessions: Sessions, token: str
) -> None:
    a_base(sessions)
    with sessions.begin() as session:
        admin = tokens.authenticate(session, token)
    budgets = [{"context_tokens": 2}, {"context_tokens": 4}]
    methods = ["prefix_tuning", "random_prompt", {"name": "lora", "rank": 1}]
    study = a_study(sessions, admin, name="in-tokens", methods=methods, budgets=budgets)
    run_all(sessions, ordinary)
    page = unescape(visitor.get("/studies/in-tokens").text)
    assert "Budget 2 context tokens" in page
    assert "2, 4 context tokens" in page  # among the facts of the study
    assert "at each budget of context tokens" in page
    row = page[page.index(f"/jobs/{jobs_of(study, 'prefix_tuning')[0]}") - 900 :]
    assert "0 unused" in row
    assert '<small class="under">2 context tokens</small>' in page
    assert '<small class="under">no context tokens</small>' in page  # LoRA
    assert '<small class="under">0 forward and 0 backward passes</small>' in page  # random tokens
    job = unescape(visitor.get(f"/jobs/{jobs_of(study, 'prefix_tuning')[0]}").text)
    assert "budget 2 context tokens, 0 unused" in job


def test_a_filter_chooses_what_has_succeeded(shared_reader: TestClient, study: StudyView) -> None:
    filter_text = quote('method IN ("lora", "adapter", "prefix_tuning") AND budget.requested = 64')
    page = shared_reader.get(f"/compare?filter={filter_text}")
    assert page.status_code == 200
    assert rows_of(page.text) == 3
    assert "3 jobs</p>" in page.text
    none = shared_reader.get(f"/compare?filter={quote('method = ia3')}")
    assert none.status_code == 200
    assert "No matching adaptations" in none.text


def test_a_filter_with_a_fault_says_where(visitor: TestClient) -> None:
    page = visitor.get(f"/compare?filter={quote('metod = lora')}")
    assert page.status_code == 400
    assert "<mark>metod</mark>" in page.text
    assert "<code>method</code>" in page.text


def test_the_list_leads_to_a_comparison_of_all_that_match(
    shared_reader: TestClient, study: StudyView
) -> None:
    listed = shared_reader.get("/?method=lora").text
    address = unescape(listed.partition('class="button" href="/compare?')[2].partition('"')[0])
    assert rows_of(shared_reader.get(f"/compare?{address}").text) == 1
    assert "Compare all matches" not in shared_reader.get("/").text


def test_more_pairs_than_are_tested_are_refused_with_their_number(
    shared_reader: TestClient, study: StudyView, monkeypatch: pytest.MonkeyPatch
) -> None:
    # At each of two budgets 4 methods, and beside them 2 references that meet all and each other:
    # 2 · 6 + 2 · 8 + 1.
    monkeypatch.setattr("adaptlab_services.comparisons.comparison_groups.MOST_PAIRS", 28)
    everything = f"/compare?filter={quote('task = sort_descending')}"
    answer = shared_reader.get(everything)
    assert answer.status_code == 400
    assert "29 pairs to test" in answer.text
    asked = {"job": [str(cell.jobs[0].id) for cell in study.cells]}
    of_api = shared_reader.get("/v1/comparison", params=asked, headers={"Accept": "*/*"})
    assert of_api.status_code == 422
    assert of_api.json()["errors"][0]["code"] == "too_many_pairs"
    monkeypatch.setattr("adaptlab_services.comparisons.comparison_groups.MOST_PAIRS", 29)
    assert shared_reader.get(everything).status_code == 200


def test_a_filter_that_matches_too_many_jobs_is_refused(
    shared_reader: TestClient, study: StudyView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adaptlab_services.comparisons.chosen_jobs.MOST_JOBS", 9)
    answer = shared_reader.get(f"/compare?filter={quote('task = sort_descending')}")
    assert answer.status_code == 400
    assert "More than 9 adaptations match" in answer.text
