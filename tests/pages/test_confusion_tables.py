"""Right and given labels on the page of a job, with macro-F1."""

from html import unescape
from typing import Any
from uuid import UUID

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_claim, a_ledger, an_evaluation
from tests.pages.reading import text_of
from tests.texts import CLASSIFICATION, reviews, without

from adaptlab.runs import events
from adaptlab_answers.results import EvaluationLinks, EvaluationView
from adaptlab_api.app import create_app
from adaptlab_api.pages.jobs.scores import confusion_tables
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
HOSTILE = "<img src=x onerror=alert(1)>"


def confusion(*counts: tuple[int, ...], labels: tuple[str, ...] = ("neg", HOSTILE)) -> Any:
    return events.Confusion(labels=labels, counts=counts)


class Jobs:
    """Scored jobs on 16 test items with the labels `neg` and a hostile one."""

    def __init__(self, settings: Settings, sessions: Sessions, token: str) -> None:
        self._settings, self._sessions = settings, sessions
        self._signed = {"Authorization": f"Bearer {token}"}

    def scored(self, *confusions: Any, loss: float | None = None) -> UUID:
        """A job with one seed per confusion."""
        records = [
            {**record, "label": {"pos": HOSTILE}.get(record["label"], "neg")}
            for record in reviews(150)
        ]
        words = {"neg": "-", HOSTILE: "+"}
        spec = {
            "kind": "pretrain",
            "name": "reader",
            "family": {"name": "minigpt", "layers": 1, "heads": 2, "width": 8},
            "task": without(CLASSIFICATION, label={"field": "label", "words": words}),
            "seeds": len(confusions),
            "evaluation": {"samples": 16, "shown": 0},
        }
        with TestClient(create_app(self._settings), headers=self._signed) as api:
            for path, body in (
                ("/v1/datasets", {"name": "reviews", "records": records}),
                ("/v1/jobs", spec),
            ):
                assert (answer := api.post(path, json=body)).status_code == 201, answer.text
        claim = a_claim(ledger := a_ledger(self._sessions))
        task = claim.resolved_spec.evaluation_tasks[0]
        scores = [
            an_evaluation(n, task=task, confusion=one, loss=loss)
            for n, one in enumerate(confusions)
        ]
        ledger.record(claim, [events.Evaluated(evaluation=one) for one in scores])
        return claim.job_id


@pytest.fixture
def jobs(settings: Settings, sessions: Sessions, token: str) -> Jobs:
    return Jobs(settings, sessions, token)


def test_labels_are_counted_over_seeds(reader: TestClient, jobs: Jobs) -> None:
    job = jobs.scored(confusion((5, 3), (1, 7)), confusion((4, 4), (0, 8)))
    answer = reader.get(f"/jobs/{job}")
    assert HOSTILE not in answer.text
    page = " ".join(unescape(text_of(answer.text)).split())
    # F1 10/14 and 14/18, so 0.7460; 8/12 and 16/20, so 0.7333.
    assert "Accuracy 75.0 %, macro-F1 74.0 % (95 % interval over 2 seeds: " in page
    assert "mean over seeds: right label down, given label across" in page
    assert f"Right label neg {HOSTILE} neg 4.5 3.5 {HOSTILE} 0.5 7.5" in page


def test_one_seed_has_whole_counts_and_no_interval(reader: TestClient, jobs: Jobs) -> None:
    page = reader.get(f"/jobs/{jobs.scored(confusion((5, 3), (1, 7)))}").text
    shown = " ".join(unescape(text_of(page)).split())
    assert "macro-F1 74.6 %. Test items: right label down" in shown
    assert f"neg 5 3 {HOSTILE} 1 7" in shown


def test_a_job_without_labels_has_no_table(reader: TestClient, jobs: Jobs) -> None:
    page = reader.get(f"/jobs/{jobs.scored(None)}").text
    assert "macro-F1" not in page
    assert "Right and given labels" not in page


def test_losses_stand_beside_those_of_the_base_alone(reader: TestClient, jobs: Jobs) -> None:
    page = " ".join(text_of(reader.get(f"/jobs/{jobs.scored(None, loss=0.5)}").text).split())
    assert "Loss on test items" in page
    assert "0.5 –" in page


def test_the_base_alone_is_in_no_mean_and_the_own_task_comes_first() -> None:
    counts = confusion((4, 0), (1, 5), labels=("a", "b"))
    views = [
        EvaluationView(
            id=n, replicate=0, seed=0, task={"name": task}, split="test", attached=attached,
            correct=9, total=10, accuracy=0.9, confusion=one,
            links=EvaluationLinks(outcomes=""),
        )
        for n, (task, attached, one) in enumerate(
            [("a", True, counts), ("b", True, counts), ("b", False, counts), ("c", True, None)]
        )
    ]  # fmt: skip
    tables = confusion_tables(views, {"name": "b"})
    assert [table.task for table in tables] == ["b", "a"]
    assert tables[0].counts == ((4, 0), (1, 5))
    assert tables[0].macro_f1.seeds == 1
