"""The answers page: texts, marks, filters and reasons for an empty page."""

from html import unescape
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker
from tests.api.rooted import with_a_root
from tests.folders import a_vit_folder
from tests.making import (
    a_base_model,
    a_claim,
    a_job,
    a_ledger,
    a_resolved_spec,
    an_adapt_spec,
    an_evaluation,
    answers_given,
    items_shown,
)
from tests.pages.conftest import reading
from tests.pages.reading import text_of
from tests.pages.showing_pictures import OWN, a_job_with_images, upload
from tests.pictures import a_png
from tests.texts import CLASSIFICATION, reviews, without

from adaptlab.runs import events as results
from adaptlab.runs.reported_answers import answer_excerpt, prompt_excerpt
from adaptlab_api.app import create_app
from adaptlab_api.pages.attention.charts import HeadWeights
from adaptlab_api.pages.attention.patches import patch_maps
from adaptlab_api.pages.attention.view import MapPlace
from adaptlab_db.tables import Artifact
from adaptlab_services.jobs import jobs
from adaptlab_services.lifecycle.held_leases import Claim
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
HOSTILE = "<img src=x onerror=alert(1)> \x1b[31mred </td>"


def an_adaptation(sessions: Sessions, right: int = 12, **changes: Any) -> UUID:
    """A finished job of two seeds, whose bases have 4 right answers."""
    with sessions.begin() as session:
        job_id = a_job(session, an_adapt_spec(**changes))
    claim = a_claim(ledger := a_ledger(sessions))
    alone = {"correct": 4, "outcomes": "f000", "attached": False}
    bits = f"{(2**right - 1) << (16 - right):04x}"
    events: list[results.Event] = [items_shown()]
    for seed in (0, 1):
        own = an_evaluation(seed, correct=right, outcomes=bits)
        events += [results.Evaluated(evaluation=own), answers_given(seed, right)]
        base = an_evaluation(seed, **alone)
        events += [results.Evaluated(evaluation=base), answers_given(seed, 4, attached=False)]
    ledger.record(claim, events)
    ledger.finish(claim)
    return job_id


@pytest.fixture
def job(sessions: Sessions, reader: TestClient) -> UUID:
    with sessions.begin() as session:
        a_base_model(session)
    return an_adaptation(sessions)


def page(reader: TestClient, job_id: object, **choices: str) -> str:
    answer = reader.get(f"/jobs/{job_id}/answers", params=choices)
    assert answer.status_code == 200, answer.text
    return " ".join(unescape(text_of(answer.text)).split())


def test_items_have_both_answers_with_marks_in_words(reader: TestClient, job: UUID) -> None:
    shown = page(reader, job)
    assert "first 16 of 16, as the model reads them" in shown
    assert "Item 3 3 0 1 1 0 0 1 0 0 ✓ right 1 0 0 ✓ right" in shown
    assert "Item 11 3 0 1 1 0 0 3 3 3 ✗ wrong 1 0 0 ✓ right" in shown
    assert "Item 15 3 0 1 1 0 0 3 3 3 ✗ wrong 3 3 3 ✗ wrong" in shown
    linked = reader.get(f"/jobs/{job}").text
    assert linked.count(f'href="/jobs/{job}/answers"') == 2
    assert reader.get(f"/jobs/{str(job)[:8]}/answers").status_code == 200


def items_of(reader: TestClient, job_id: object, **choices: str) -> int:
    shown = reader.get(f"/jobs/{job_id}/answers", params=choices).text
    return shown.count('<th scope="row">')


def test_filters_are_a_plain_form(reader: TestClient, job: UUID) -> None:
    form = reader.get(f"/jobs/{job}/answers", params={"outcome": "wrong"}).text
    assert f'<form class="filters" method="get" action="/jobs/{job}/answers"' in form
    assert '<option value="wrong" selected>' in form
    counts = [
        items_of(reader, job, **choices)
        for choices in ({}, {"outcome": "wrong"}, {"differs": "true"}, {"seed": "all"})
    ]
    assert counts == [16, 4, 8, 32]
    none = page(reader, job, outcome="wrong", differs="true")
    assert "None of the 16 recorded items matches the filters. Show all items" in none


def test_two_jobs_on_one_task_are_side_by_side(
    reader: TestClient, sessions: Sessions, job: UUID
) -> None:
    other = an_adaptation(sessions, 10, method={"name": "lora", "rank": 1}, budget={})
    offered = reader.get(f"/jobs/{job}/answers").text
    assert f'<option value="{other}">LoRA on sort descending from tiny-sort, ' in offered
    chosen = {"with": str(other)}
    assert items_of(reader, job, **chosen) == 2
    assert "only those that LoRA on sort descending answers otherwise" in page(
        reader, job, **chosen
    )
    unknown = page(reader, job, **{"with": "no-such-job"})
    assert "There is no job 'no-such-job' to compare with." in unknown


def test_pages_are_linked(reader: TestClient, sessions: Sessions, job: UUID) -> None:
    with sessions.begin() as session:
        spec = an_adapt_spec(evaluation={"samples": 60, "shown": 60}, seeds=1)
        many = a_job(session, spec)
    claim = a_claim(ledger := a_ledger(sessions))
    answers = answers_given().answers[:1] * 60
    ledger.record(claim, [items_shown(60), answers_given(answers=answers)])
    first = reader.get(f"/jobs/{many}/answers").text
    following = unescape(first.split('rel="next"')[0].rsplit('href="', 1)[1].rstrip('" '))
    rest = reader.get(following).text
    assert (first.count('<th scope="row">'), rest.count('<th scope="row">')) == (50, 10)
    assert 'rel="first"' in rest


@pytest.fixture
def texts(settings: Settings, sessions: Sessions, token: str) -> Claim:
    """A running job that classifies texts, some of them hostile."""
    records = [*reviews(60), {"text": HOSTILE, "label": "neg", "thing": "x"}]
    spec = {
        "kind": "pretrain",
        "name": "reader",
        "family": {"name": "minigpt", "layers": 1, "heads": 2, "width": 8},
        "task": without(CLASSIFICATION, tokens={"longest": 64}),
        "seeds": 1,
        "evaluation": {"shown": 3},
    }
    signed = {"Authorization": f"Bearer {token}"}
    with TestClient(create_app(settings), headers=signed) as api:
        made = api.post("/v1/datasets", json={"name": "reviews", "records": records})
        assert made.status_code == 201, made.text
        assert api.post("/v1/jobs", json=spec).status_code == 201
    return a_claim(a_ledger(sessions))


def test_hostile_and_long_texts_are_shown_as_text(
    reader: TestClient, sessions: Sessions, texts: Claim
) -> None:
    shown = tuple(
        results.ShownItem(
            item=item,
            line=item + 1,
            prompt=prompt_excerpt(text),
            expected=answer_excerpt("-", "neg"),
        )
        for item, text in enumerate((HOSTILE, "long " * 500, ""))
    )
    task = texts.resolved_spec.evaluation_tasks[0]
    given = (answer_excerpt("-", "neg"), answer_excerpt("+", "pos"), answer_excerpt("-", "neg"))
    events = [
        results.ItemsShown(task_place=0, task=task, items=shown),
        results.AnswersGiven(task_place=0, replicate=0, seed=0, answers=given),
    ]
    a_ledger(sessions).record(texts, events)
    answer = reader.get(f"/jobs/{texts.job_id}/answers").text
    assert "<img" not in answer
    assert "&lt;img src=x onerror=alert(1)&gt; \u241b[31mred &lt;/td&gt;" in answer
    assert answer.count('<details class="folded">') == 1
    read = page(reader, texts.job_id)
    assert "Item 0 line 1" in read
    assert "shortened, 2,500 characters in all" in read
    assert "- label neg" in read
    assert "Item 2 line 3 empty" in read
    assert 'data-label="Base model"' not in answer


def test_an_empty_page_says_why(
    reader: TestClient, sessions: Sessions, texts: Claim, job: UUID
) -> None:
    with sessions.begin() as session:
        none = a_job(session, an_adapt_spec(evaluation={"shown": 0}))
        ended = a_job(session, state="failed")
        document = a_resolved_spec().model_dump(mode="json", exclude={"evaluation_shown"})
        older = a_job(session, resolved_spec=document)
    assert "The spec sets evaluation.shown to 0." in page(reader, none)
    assert "The job ended before its answers were recorded." in page(reader, ended)
    assert "created by an earlier version" in page(reader, older)
    assert "Answers are recorded after training" in page(reader, texts.job_id)
    assert reader.get(f"/jobs/{UUID(int=9)}/answers").status_code == 404


def a_head(patches: int) -> HeadWeights:
    """The class token attends to itself, a learned row and the third patch."""
    base, adapted = np.zeros((patches + 1,) * 2), np.zeros((patches + 1, patches + 2))
    base[0, 0] = base[0, 3] = 0.5
    adapted[0, [0, 1, 4]] = 0.25, 0.25, 0.5
    return HeadWeights(base, adapted, 1, ("class", *["▓"] * patches), 0)


@pytest.fixture
def with_vit(database_url: str, broker_url: str, tmp_path: Path) -> Settings:
    root = a_vit_folder(tmp_path / "root" / "vit").parent
    return with_a_root(database_url, broker_url, tmp_path, root)


@pytest.fixture
def with_images(with_vit: Settings, sessions: Sessions, token: str) -> UUID:
    """A job whose first three test items are shown."""
    signed = {"Authorization": f"Bearer {token}"}
    with TestClient(create_app(with_vit), headers=signed) as api:
        upload(api)
        return a_job_with_images(api, sessions, OWN, (40, 1, 17)).job_id


def test_attention_over_patches_is_on_the_picture_of_a_shown_item(
    with_images: UUID, sessions: Sessions
) -> None:
    with sessions() as session:
        spec = jobs.get(session, with_images).resolved_spec
        shown, not_shown = (
            patch_maps(session, with_images, spec, MapPlace(sample=sample), a_head(4))
            for sample in (2, 3)
        )
        assert patch_maps(session, with_images, spec, MapPlace(), a_head(9)) is None
    assert shown is not None
    assert not_shown is not None
    assert (shown.rows, shown.columns) == (2, 2)
    assert shown.picture == f"/v1/jobs/{with_images}/answers/0/2/picture"
    assert not_shown.picture is None
    base, adapted = shown.maps
    assert (base.itself, base.learned, adapted.learned) == (0.5, 0.0, 0.25)
    strongest = max(adapted.patches, key=lambda patch: patch.share)
    assert (strongest.row, strongest.column, strongest.opacity) == (1, 0, 0.75)


def test_images_are_shown_as_pictures_until_their_dataset_is_deleted(
    with_vit: Settings, with_images: UUID, sessions: Sessions, token: str
) -> None:
    with reading(with_vit, token) as reader:
        shown = reader.get(f"/jobs/{with_images}/answers").text
        source = f"/v1/jobs/{with_images}/answers/0/2/picture"
        assert f'src="{source}" width="96" height="96" loading="lazy"' in shown
        assert shown.count('<img class="picture enlarged"') == 3
        assert reader.get(source).content == a_png(16)
        with sessions.begin() as session:
            session.execute(update(Artifact).values(state="collected", reason="unused"))
        gone = reader.get(f"/jobs/{with_images}/answers").text
    assert "<img" not in gone
    assert "dataset 'trees' has been deleted, and with it the pictures" in unescape(gone)
    assert "░▒▓" in gone
