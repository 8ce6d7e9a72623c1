"""Jobs side by side on the compare page: settings, differences and items."""

import re
from collections.abc import Iterator, Mapping
from html import unescape
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import ITEMS, Run, run_all
from tests.making import a_base_model, a_job, a_token, an_adapt_spec

from adaptlab_api.app import create_app
from adaptlab_api.pages.attention.small_map import drawn_cells
from adaptlab_services.comparisons.side_by_side import side_by_side
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
RIGHT = {"lora": 300, "prefix_tuning": 100, "soft_prompt": 100}


@pytest.fixture(scope="module")
def jobs(shared_sessions: Sessions) -> Mapping[str, Any]:
    """Jobs by name, with the first items right; `fewer` has one seed of them."""
    with shared_sessions.begin() as session:
        a_base_model(session)
        made = {
            "lora": a_job(session, an_adapt_spec(method="lora", budget=64, seeds=3)),
            "prefix": a_job(session, an_adapt_spec(seeds=3)),
            "fewer": a_job(session, an_adapt_spec(method="soft_prompt", budget=8, seeds=[2])),
        }
    run_all(shared_sessions, lambda spec: Run(right=RIGHT[str((spec.method or {})["name"])]))
    return made


@pytest.fixture(scope="module")
def reader(shared_settings: Settings, shared_sessions: Sessions) -> Iterator[TestClient]:
    with shared_sessions.begin() as session:
        header = {"Authorization": f"Bearer {a_token(session)}"}
    with TestClient(create_app(shared_settings), headers=header) as client:
        yield client


def columns_of(reader: TestClient, *ids: Any, **more: Any) -> str:
    asked = {"jobs": ",".join(map(str, ids)), **more}
    page = unescape(reader.get("/compare", params=asked).text)
    return page.partition('id="columns"')[2].partition("</section>")[0]


def test_differences_are_from_the_baseline_over_shared_seeds(
    shared_sessions: Sessions, jobs: Mapping[str, Any]
) -> None:
    ids = tuple(jobs.values())
    with shared_sessions() as session:
        sides = side_by_side(session, ids, jobs["prefix"])
    assert sides is not None
    lora, prefix, fewer = (column.difference for column in sides.columns)
    assert prefix is None
    assert lora is not None
    assert fewer is not None
    assert lora.difference == pytest.approx((300 - 100) / ITEMS)
    assert lora.low <= lora.difference <= lora.high
    assert (lora.seeds, fewer.seeds, fewer.difference) == (3, 1, 0)


def test_items_on_which_they_disagree_are_counted(
    shared_sessions: Sessions, jobs: Mapping[str, Any]
) -> None:
    with shared_sessions() as session:
        sides = side_by_side(session, (jobs["lora"], jobs["prefix"], jobs["fewer"]), None)
    assert sides is not None
    assert sides.baseline == jobs["lora"]
    prefix, fewer = sides.pairs
    assert (prefix.disagreeing, prefix.items, prefix.seeds) == (200, ITEMS, 3)
    found = [(one.item, one.baseline, one.other) for one in prefix.largest]
    assert found == [(item, 3, 0) for item in range(100, 105)]
    assert [(one.baseline, one.other) for one in fewer.largest] == [(1, 0)] * 5


def test_the_page_shows_what_differs_and_folds_the_rest(
    reader: TestClient, jobs: Mapping[str, Any]
) -> None:
    columns = columns_of(reader, jobs["lora"], jobs["prefix"])
    table, _, fold = columns.partition("All settings")
    assert '<th scope="row">method name</th>' in table
    assert "training steps" not in table
    assert "training steps" in fold
    assert "−50.0" in table
    assert f"200 of {ITEMS} items differ" in fold


def test_a_job_is_removed_and_a_baseline_pinned_by_its_address(
    reader: TestClient, jobs: Mapping[str, Any]
) -> None:
    columns = columns_of(reader, *jobs.values())
    links = re.findall(r'href="(/compare\?[^"]*)" aria-label="(Pin|Remove)', columns)
    assert [word for _, word in links].count("Pin") == 2
    assert [word for _, word in links].count("Remove") == 3
    pin = next(address for address, word in links if word == "Pin")
    assert f"baseline={jobs['prefix']}" in pin
    pinned = unescape(reader.get(pin).text)
    assert "+50.0" in pinned
    removed = next(address for address, word in links if word == "Remove")
    assert str(jobs["lora"]) not in reader.get(removed).text.partition('id="columns"')[2]


def test_ids_may_be_short_and_wrong_ones_are_said(
    reader: TestClient, jobs: Mapping[str, Any]
) -> None:
    short = [str(jobs[name])[:8] for name in ("lora", "prefix")]
    assert columns_of(reader, *short, baseline=short[1])
    assert not columns_of(reader, short[0])
    asked = {"jobs": ",".join(short), "baseline": "0123abcd"}
    assert reader.get("/compare", params=asked).status_code == 404


def test_a_difference_of_maps_has_a_colour_for_less() -> None:
    drawing = drawn_cells(np.array([[0.5, 0.0], [-0.25, 1.0]]))
    assert drawing.count("<rect") == 1 + 3
    assert 'fill-opacity="0.25" fill="#b3261e"' in drawing
    assert 'fill-opacity="1.00"/>' in drawing
