"""The attention page over HTTP: its text and the data of its charts."""

import re
from collections.abc import Iterator
from html import unescape
from types import SimpleNamespace

import numpy as np
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker
from tests.pages.made_up import ADAPTATION, PRETRAINING, MadeUpWorker
from tests.watching import of_jobs, statements

from adaptlab.charts.head_grids import coarse
from adaptlab.runs.events import TheoryChecked
from adaptlab.runs.theory_report import Check
from adaptlab.specs.resolved import UnreadSpec, read_resolved
from adaptlab.specs.spec import ResolvedSpec
from adaptlab.tasks.digit_images import DigitImages
from adaptlab_answers.drawable_maps import is_drawable, without_padding
from adaptlab_api.app import create_app
from adaptlab_api.pages.attention import patches, view
from adaptlab_api.pages.attention.flow import layer_flow
from adaptlab_api.pages.attention.routes import CHARTS
from adaptlab_db.tables import AttentionMapRow
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
HERE = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def visitor(settings: Settings, token: str) -> Iterator[TestClient]:
    """Somebody who is signed in."""
    with TestClient(create_app(settings), headers={"Accept": "text/html"}) as made:
        assert made.post("/login", data={"token": token}, headers=HERE).is_success
        yield made


def recorded(worker: MadeUpWorker) -> str:
    """A prefix of two positions: 61 % of attention, no change in layer 1."""
    worker.complete(PRETRAINING, 0.99)
    return f"/jobs/{worker.complete(ADAPTATION, 0.6, 0.01, learned=2).id}"


@pytest.fixture
def job(worker: MadeUpWorker) -> str:
    return recorded(worker)


@pytest.fixture(scope="module")
def shared_job(shared_worker: MadeUpWorker) -> str:
    """The same for tests that only read."""
    return recorded(shared_worker)


def words(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_the_guide_is_told_in_the_numbers_of_the_job(
    shared_reader: TestClient, shared_job: str
) -> None:
    page = words(shared_reader.get(f"{shared_job}/attention").text)
    assert "puts 2 learned positions before the content" in page
    assert "take 61.0 % to 61.0 % of a head" in page
    assert "What Prefix-tuning cannot do" in page
    assert "relative deviation measured in layer 0 is 3.1×10⁻⁸ , which rounding explains" in page
    assert "in layer 1: 0.310" in page


def test_a_method_that_can_change_attention_is_told_so(
    visitor: TestClient, worker: MadeUpWorker
) -> None:
    base = worker.complete(PRETRAINING, 0.99)
    lora = worker.complete(ADAPTATION, 0.6, 0.9, method={"name": "lora", "rank": 1}, budget={})
    explained = re.compile(r"<span popover.*?</span>")  # terms of the glossary
    page = words(explained.sub("", visitor.get(f"/jobs/{lora.id}/attention").text))
    assert "What LoRA can do" in page
    assert "which rounding explains: the pattern did not change" in page
    assert "learned position" not in page.replace("the attention on learned positions. Div", "")
    alone = words(visitor.get(f"/jobs/{base.id}/attention").text)
    assert "This job adapts nothing" in alone
    assert "difference" not in visitor.get(f"/jobs/{base.id}/attention").text


def test_the_step_says_what_is_answered_there(shared_reader: TestClient, shared_job: str) -> None:
    # The question is 2 6 0 1 4 6 3 0 1 2, the answer its digits in order: 0 0 1 1 2 2 3 4 6 6.
    first = words(shared_reader.get(f"{shared_job}/attention?step=0").text)
    assert "Step 1 of 10, at position 9 (token 2 )" in first
    assert "the adapted model 0 ✓" in first
    assert "The right answer is 0" in first
    assert "take 61.0 % of this row" in first
    last = words(shared_reader.get(f"{shared_job}/attention?step=999").text)
    assert "Step 10 of 10, at position 18" in last
    assert "the right answer to it is not stored" in last


def test_a_text_is_shown_in_words(visitor: TestClient, job: str, sessions: Sessions) -> None:
    text = {
        "words": ["a ", "fine ", "<b>", *map(str, range(15)), " film"],
        "target_start": 18,
        "expected": [" good"],
        "predicted": [" bad"],
    }
    samples = {"tokens": [[7] * 19] * 2, "predictions": [[1], [1]], "texts": [text] * 2}
    with sessions.begin() as session:
        session.execute(update(AttentionMapRow).values(samples=samples))
    page = visitor.get(f"{job}/attention").text
    assert "0: a fine &lt;b&gt;01234567891011121314 film</option>" in page
    shown = words(page)
    assert "Step 1 of 1, at position 18 (token film )" in shown
    assert "the adapted model bad ✗" in shown
    assert "The right answer is good" in shown
    chart = visitor.get(f"{job}/charts/attention").json()
    labels = [entry["token"] for entry in chart["concat"][0]["layer"][1]["data"]["values"]]
    assert labels[:3] == ["a ", "fine ", "<b>"]
    assert labels[-1] == " film"
    pieces = {**text, "words": ["[CLS]", "un", "##like", "film"]}
    with sessions.begin() as session:
        samples = {**samples, "texts": [pieces] * 2}
        session.execute(update(AttentionMapRow).values(samples=samples))
    assert "0: [CLS] unlike film</option>" in visitor.get(f"{job}/attention").text
    assert visitor.get(f"{job}/charts/attention").status_code == 204


def test_an_image_is_answered_at_its_class_token(
    visitor: TestClient, job: str, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_images(spec: ResolvedSpec) -> object:
        read = read_resolved(spec)
        assert not isinstance(read, UnreadSpec)
        family = SimpleNamespace(
            patches=lambda: (2, 9),
            attends_to_all=lambda: False,
            predicts_in_place=lambda: False,
        )
        return SimpleNamespace(task=DigitImages(), family=family)

    monkeypatch.setattr(view, "read_resolved", of_images)
    monkeypatch.setattr(patches, "read_resolved", of_images)
    shades = [f"▓ {place}" for place in range(1, 19)]
    image = {
        "words": ["class", *shades],
        "target_start": 0,
        "expected": ["7"],
        "predicted": ["9"],
    }
    samples = {"tokens": [[0] * 19] * 2, "predictions": [[9], [9]], "texts": [image] * 2}
    with sessions.begin() as session:
        session.execute(update(AttentionMapRow).values(samples=samples))
    page = visitor.get(f"{job}/attention").text
    assert "0: image of 7</option>" in page
    shown = words(page)
    assert "read from the first row, that of the class token" in shown
    assert "after adaptation: 39.0 % on itself, 61.0 % on learned positions" in shown
    assert "The picture is not among the items that this job shows." in shown
    assert page.count('<rect x="8" y="1"') == 2
    assert "Step 1 of 1, at position 0 (token class )" in shown
    assert "The right answer is 7" in shown


def test_rows_behind_a_shorter_text_are_not_drawn() -> None:
    weights = np.zeros((2, 3, 4, 6))  # two learned keys, and a text of three tokens of four
    weights[..., :3, :5] = 0.2
    assert without_padding(weights).shape == (2, 3, 3, 5)
    assert without_padding(weights[0, 0]).shape == (3, 5)
    assert without_padding(weights[..., :3, :5]).shape == (2, 3, 3, 5)
    assert without_padding(0 * weights).shape == weights.shape


def test_heads_are_sorted_by_the_server(shared_reader: TestClient, shared_job: str) -> None:
    def heads(query: str) -> list[str]:
        page = shared_reader.get(f"{shared_job}/attention?{query}").text
        return re.findall(r"layer (\d, head \d)</a></th>", page)

    assert heads("") == ["0, head 0", "0, head 1", "1, head 0", "1, head 1"]
    # 1.412 - 0.2 layer + 0.05 head + 0.1 in layer 1.
    assert heads("sort=entropy&order=desc") == ["0, head 1", "0, head 0", "1, head 1", "1, head 0"]
    assert heads("sort=relative_deviation&order=desc")[0] == "1, head 0"
    assert heads("order=desc")[0] == "1, head 1"
    page = shared_reader.get(f"{shared_job}/attention?sort=entropy&order=desc").text
    assert page.count('aria-sort="descending"') == 1
    assert shared_reader.get(f"{shared_job}/attention?sort=colour").status_code == 422


def test_the_table_of_heads_is_paged(
    shared_reader: TestClient, shared_job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adaptlab_api.pages.attention.page.HEADS_PAGE", 3)
    page = shared_reader.get(f"{shared_job}/attention").text
    assert "1 to 3 of 4" in page
    following = unescape(page.partition('" rel="next"')[0].rpartition('href="')[2])
    second = shared_reader.get(f"{shared_job}/attention{following.partition('#')[0]}").text
    assert "4 to 4 of 4" in second
    assert 'rel="prev"' in second


def test_a_place_that_is_not_there_is_the_nearest_one(
    shared_reader: TestClient, shared_job: str
) -> None:
    page = shared_reader.get(f"{shared_job}/attention?layer=99&head=99&sample=99&replicate=99")
    assert page.status_code == 200
    assert "layer 1, head 1, seed 0" in page.text
    for name in ("attention-heads", "attention-difference", "attention-step"):
        assert shared_reader.get(f"{shared_job}/charts/{name}?layer=99").status_code == 204


def weights(layer: dict[str, object]) -> list[float]:
    return [cell["weight"] for cell in layer["data"]["values"]]  # type: ignore[index]


def test_the_difference_is_nothing_in_the_first_layer_and_something_later(
    shared_reader: TestClient, shared_job: str
) -> None:
    def largest(layer: int) -> float:
        chart = shared_reader.get(f"{shared_job}/charts/attention-difference?layer={layer}").json()
        return max(map(abs, weights(chart["concat"][0]["layer"][0])))

    assert largest(0) < 2e-3  # half precision
    assert largest(1) > 0.1


def test_the_grid_holds_every_head_and_marks_what_is_learned(
    shared_reader: TestClient, shared_job: str
) -> None:
    chart = shared_reader.get(
        f"{shared_job}/charts/attention-heads?shown=adapted&layer=1&head=0"
    ).json()
    frames, cells, bars, *others = chart["layer"]
    assert len(frames["data"]["values"]) == 4
    assert {(c["layer"], c["head"]) for c in cells["data"]["values"]} == {
        (layer, head) for layer in (0, 1) for head in (0, 1)
    }
    assert len(bars["data"]["values"]) == 4
    selected = others[-1]["data"]["values"]
    assert [(one["layer"], one["head"]) for one in selected] == [(1, 0)]
    change = shared_reader.get(f"{shared_job}/charts/attention-heads?shown=difference").json()
    moved = {cell["layer"] for cell in change["layer"][1]["data"]["values"]}
    assert 1 in moved
    assert change["layer"][1]["encoding"]["color"]["scale"]["domain"][0] == -1


def test_the_bars_of_a_step_are_its_row(shared_reader: TestClient, shared_job: str) -> None:
    chart = shared_reader.get(f"{shared_job}/charts/attention-step?step=3").json()
    (bars,) = (layer for layer in chart["layer"] if layer["mark"]["type"] == "bar")
    rows: dict[str, list[dict[str, object]]] = {}
    for one in bars["data"]["values"]:
        rows.setdefault(one["pattern"], []).append(one)
    assert list(rows) == ["before", "after", "after, content only"]
    for row in rows.values():
        assert sum(float(str(one["weight"])) for one in row) == pytest.approx(1, abs=5e-3)
    assert [one["key"] for one in rows["after"][:2]] == ["p1", "p2"]


def test_large_patterns_are_drawn_in_blocks_with_their_farthest_value() -> None:
    large = np.zeros((64, 70))
    large[10, 11], large[40, 41], large[41, 40] = 0.5, -0.7, 0.2
    blocks = coarse(large, 7)
    assert blocks.shape == (7, 7)
    assert (blocks.max(), blocks.min()) == (0.5, -0.7)
    assert np.count_nonzero(blocks) == 2  # the 0.2 lies in the block of the -0.7


def test_the_page_takes_few_statements_however_many_seeds_there_are(
    visitor: TestClient, worker: MadeUpWorker
) -> None:
    few = worker.complete(PRETRAINING, 0.99)
    many = worker.complete(PRETRAINING, 0.99, name="many", seeds=9)
    counts: list[int] = []
    for job in (few, many):
        with statements() as sent:
            assert visitor.get(f"/jobs/{job.id}/attention").status_code == 200
        counts.append(len(of_jobs(sent)))
    assert counts[0] == counts[1]


def test_a_job_without_attention_says_how_to_ask_for_it(
    visitor: TestClient, worker: MadeUpWorker
) -> None:
    job = worker.submit(PRETRAINING, capture={})
    assert "does not record attention" in visitor.get(f"/jobs/{job.id}/attention").text
    assert visitor.get("/jobs/nope/attention").status_code == 404


UNSOUND: dict[str, dict[str, object]] = {
    "a page of heads": {"shape": [1, 1, 4_000_000, 19, 19]},
    "heads of nothing": {"shape": [2, 2, 2_000_000, 1, 1]},
    "another length": {"shape": [2, 2]},
    "no length": {"shape": []},
    "a negative axis": {"shape": [2, -2, 2, 19, 19]},
    "a negative start": {"target_start": -5},
    "a far start": {"target_start": 10**6},
    "strange samples": {"samples": {"tokens": [[1]], "predictions": []}},
    "no samples": {"samples": {}},
    "many learned positions": {"learned_positions": 10**6},
}
"""Columns of maps that an earlier version believed and kept."""


@pytest.mark.long("many bad inputs", but=2)
@pytest.mark.parametrize("columns", UNSOUND.values(), ids=UNSOUND)
def test_a_map_that_was_believed_before_is_not_drawn(
    visitor: TestClient, job: str, sessions: Sessions, columns: dict[str, object]
) -> None:
    with sessions.begin() as session:
        session.execute(update(AttentionMapRow).values(columns))
    for path in ("", "/attention", *(f"/charts/{name.replace('_', '-')}" for name in CHARTS)):
        answer = visitor.get(job + path)
        assert answer.status_code in (200, 204), (path, answer.status_code)
        assert len(answer.content) < 2**19
    assert visitor.get(f"/v1{job}/attention").status_code == 200


FORM, SIZE = (2, 2, 2, 19, 19), 2 * 8 * 19 * 19 + 128
"""A map of 16-bit numbers, and the size of its file with the head."""


@pytest.mark.parametrize(
    ("shape", "size", "learned", "start"),
    [
        ((2, 2), SIZE, 0, 0),
        ((), SIZE, 0, 0),
        ((2, -2, 2, 19, 19), SIZE, 0, 0),
        ((2, 2, 2, 19, 20), SIZE, 0, 0),
        ((2, 2, 2, 19, 10**6), 10**12, 0, 0),
        *((FORM, SIZE, learned, 0) for learned in (-1, 19)),
        *((FORM, SIZE, 0, start) for start in (-1, 19)),
    ],
)
def test_a_map_that_does_not_fit_its_file_is_not_drawn(
    shape: tuple[int, ...], size: int, learned: int, start: int
) -> None:
    assert is_drawable(FORM, SIZE, 18, 18)
    assert not is_drawable(shape, size, learned, start)


def test_the_flow_into_label_words_is_the_mean_of_the_maps(
    visitor: TestClient, worker: MadeUpWorker, job: str
) -> None:
    assert "Flow into label words" not in visitor.get(f"{job}/attention").text
    task = {"name": "episodes", "kinds": 4, "words": 16, "shots": 1}
    spec = {**PRETRAINING, "name": "episodes-base", "task": task}
    base = worker.complete(spec, 0.99)
    page = words(visitor.get(f"/jobs/{base.id}/attention").text)
    assert "Flow into label words" in page
    assert "seed 0, sample 0: the labels are" in page.lower()
    assert len(re.findall(r"\d+ \d+\.\d % \d+\.\d % \d+\.\d % ", page)) >= 1
    assert "Saliency is not shown here" in page
    other = {**task, "kinds": 3}
    for asked, share in ((task, 0.2), (other, 0.9)):
        check = {"name": "saliency", "task": asked}
        spec = {"kind": "theory", "checks": [check], "base_model": "episodes-base"}
        worker.submit(spec)
        claim = worker.claim()
        details = {"samples": 500} | {
            f"{name}_by_layer": (share, share / 2)
            for name in ("into_labels", "from_labels", "others")
        }
        report = Check(
            name="saliency.first-layer", claim="-", measured=0.1, tolerance=0.0, bound="at least",
            verdict="holds", details=details,
        )  # fmt: skip
        worker.report(claim, [TheoryChecked(check=report, place=0)])
        worker.finish(claim)
    page = words(visitor.get(f"/jobs/{base.id}/attention").text)
    assert "Saliency into labels Saliency from labels Saliency of others" in page
    assert re.search(r"0 (\d+\.\d % ){3}20\.0 % 20\.0 % 20\.0 % 1 (\d+\.\d % ){3}10\.0 %", page)
    assert "a mean over 500 items" in page


def test_flow_is_counted_by_hand() -> None:
    # Three tokens before the label at 3, which is read by the answer at 5.
    pattern = np.zeros((6, 6))
    pattern[3, :4] = [0.1, 0.2, 0.3, 0.4]
    pattern[5] = [0.05, 0.05, 0.1, 0.5, 0.2, 0.1]
    flow = layer_flow(1, pattern, (3,), 5)
    assert (flow.layer, round(flow.gathered, 9)) == (1, 0.6)
    assert (round(flow.read, 9), round(flow.other, 9)) == (0.5, 0.5)
    pattern[4, :5] = [0.2, 0.1, 0.1, 0.4, 0.2]  # a second label, of which 40 % is the first
    two = layer_flow(0, pattern, (3, 4), 5)
    assert round(two.gathered, 9) == 0.5
    assert (round(two.read, 9), round(two.other, 9)) == (0.7, 0.3)
