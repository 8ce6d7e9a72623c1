"""Scores on other base models, on pages and the command line."""

from html import unescape

import pytest
from fastapi.testclient import TestClient
from tests.pages.made_up import ADAPTATION, PRETRAINING, MadeUpWorker, evaluation

from adaptlab.runs.events import Confusion, Evaluated, NotCarried
from adaptlab_answers.results import Evaluations
from adaptlab_client.cli.printing.job_tables import score_rows


def carried_job(worker: MadeUpWorker, confusion: Confusion | None = None) -> str:
    """Return the address of a job whose prompt carries one seed of two."""
    worker.complete(PRETRAINING, 0.99)
    worker.complete({**PRETRAINING, "name": "other", "seeds": 4}, 0.99)
    method = {"name": "random_prompt", "length": 2}
    elsewhere = {"samples": 1000, "base_models": ["other"]}
    job = worker.submit(ADAPTATION, method=method, budget={}, evaluation=elsewhere)
    claim = worker.claim()
    worker.score(claim, *[0.5] * (1 + len(claim.resolved_spec.base_tasks)))
    task = dict(claim.resolved_spec.evaluation_tasks[0])
    told = [
        evaluation(0, 0, task, share, attached) for share, attached in ((0.4, True), (0.1, False))
    ]
    elsewhere_too = {"base_model": "other", "confusion": confusion}
    named = [one.model_copy(update=elsewhere_too) for one in told]
    missing = NotCarried(base_model="other", replicate=1, seed=1, reason="'<b>' has no text")
    worker.report(claim, [*(Evaluated(evaluation=one) for one in named), missing])
    worker.finish(claim)
    return str(job.id)


@pytest.fixture
def evaluated(worker: MadeUpWorker) -> str:
    return carried_job(worker)


def test_the_page_shows_them_apart_with_the_base_alone_and_guessing(
    reader: TestClient, evaluated: str
) -> None:
    page = reader.get(f"/jobs/{evaluated}").text
    shown = unescape(page.partition('id="carried"')[2].partition("</section>")[0])
    assert 'scope="row"><bdi>other</bdi>' in shown
    for figure in ("40.0", "10.0", "+30.0"):
        assert figure in shown
    assert 'data-label="Guessing" class="number">–' not in shown
    assert "The prompt of seed 1 has no score on <bdi>other</bdi>" in shown
    assert "&lt;b&gt;" in page
    assert "40.0" not in page.partition('id="scores"')[2].partition("</section>")[0]
    assert "Also evaluated on the base models" in page


def test_guessing_is_at_least_the_most_common_label_of_the_items(
    reader: TestClient, worker: MadeUpWorker
) -> None:
    counts = ((400, 300), (0, 300))
    job = carried_job(worker, Confusion(labels=("a", "b"), counts=counts))
    shown = reader.get(f"/jobs/{job}").text.partition('id="carried"')[2].partition("</section>")[0]
    assert 'data-label="Guessing" class="number">70.0' in shown


def test_the_api_and_the_command_line_name_the_other_base(
    reader: TestClient, evaluated: str
) -> None:
    answer = reader.get(f"/v1/jobs/{evaluated}/evaluations")
    scores = Evaluations.model_validate_json(answer.content)
    assert [one.accuracy for one in scores.data if one.base_model == "other"] == [0.4, 0.1]
    assert [one.reason for one in scores.not_carried] == ["'<b>' has no text"]
    rows = score_rows(scores.data)
    own, *_, carried = rows
    assert str(carried[0]).endswith(" on other")
    assert (carried[3], carried[5]) == ("40.0 %", "10.0 %")
    assert own[3] != "40.0 %"


def test_a_job_on_its_own_base_has_no_such_section(
    reader: TestClient, worker: MadeUpWorker
) -> None:
    worker.complete(PRETRAINING, 0.99)
    job = worker.submit(ADAPTATION)
    assert 'id="carried"' not in reader.get(f"/jobs/{job.id}").text
