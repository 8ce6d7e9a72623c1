"""Model cards of measured adapters, read by the hub's own library."""

import pytest
from fastapi.testclient import TestClient
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from sqlalchemy import select, update
from sqlalchemy.orm import Session, sessionmaker
from tests.comparing import a_measured_study, as_known, run_all
from tests.text_studies import BY_F1, BY_MACRO_F1, RECORDS, a_text_study, measure

from adaptlab_db.tables import CheckpointRow, Dataset, Job
from adaptlab_services.hub.model_cards import model_card

Sessions = sessionmaker[Session]
HUB = "https://hub.example"
ORIGIN = {
    "endpoint": HUB, "repository": "lab/reviews",
    "revision": "main", "commit": 40 * "c", "config": "default", "split": "train",
    "is_default_config": True, "is_default_split": True, "files": [], "fetched_by": "ada",
    "fetched_at": "2026-01-01T00:00:00+00:00",
}  # fmt: skip


@pytest.fixture
def measured(api: TestClient, sessions: Sessions, base: None) -> Sessions:
    """A study whose jobs have all ended."""
    made = api.post("/v1/studies", json=a_measured_study())
    assert made.status_code == 201, made.text
    run_all(sessions, as_known)
    return sessions


def the_card(session: Session, task: str, budget: int) -> ModelCard:
    """The card of the adapter of the first seed by LoRA."""
    named = Job.method == "lora", Job.task == task, Job.budget_requested == budget
    job = session.scalars(select(Job.id).where(*named)).one()
    row = CheckpointRow(job_id=job, attempt=1, replicate=0, seed=0, kind="adapter")
    return ModelCard(
        model_card(session, row, "lab/adapter", HUB, None), ignore_metadata_errors=False
    )


def the_results(card: ModelCard) -> list[EvalResult]:
    assert isinstance(card.data, ModelCardData)
    return card.data.eval_results or []


def the_table(card: ModelCard) -> dict[str, str]:
    """The scores of the card's table by method."""
    rows = [line.split(" | ") for line in card.text.splitlines() if line.startswith("| ")][2:]
    return {row[0].removeprefix("| "): row[2] for row in rows}


@pytest.mark.parametrize("budget", [32, 64])
def test_the_index_has_the_figure_of_the_table(measured: Sessions, budget: int) -> None:
    with measured() as session:
        card = the_card(session, "sort_descending", budget)
    (result,) = the_results(card)
    assert f"{result.metric_value:.1f}" == the_table(card)["LoRA"]
    assert (result.metric_type, result.metric_name) == ("accuracy", "right %, mean of 3 seeds")
    assert (result.task_type, result.dataset_name) == ("text-generation", "Sort descending")
    assert result.source_url == f"{HUB}/lab/adapter"
    assert ModelCard(str(card)).data.to_dict() == card.data.to_dict()


@pytest.mark.parametrize("is_private", [False, True])
def test_only_public_datasets_are_named(
    api: TestClient, sessions: Sessions, is_private: bool
) -> None:
    """Of two tasks of a study, the card has the score of its own."""
    api.post("/v1/datasets", json={"name": "reviews", "records": RECORDS})
    with sessions.begin() as session:
        session.execute(update(Dataset).values(origin=ORIGIN | {"private": is_private}))
    made = api.post("/v1/studies", json=a_text_study(BY_F1, BY_MACRO_F1))
    assert made.status_code == 201, made.text
    measure(sessions)
    with sessions() as session:
        cards = [the_card(session, f"text_{kind}", 64) for kind in ("completion", "classification")]
    found = [result for card in cards for result in the_results(card)]
    assert [one.task_type for one in found] == ["text-generation", "text-classification"]
    assert [f"{one.metric_value:.1f}" for one in found] == [the_table(one)["LoRA"] for one in cards]
    assert {one.metric_type for one in found} == {"token_f1", "macro_f1"}
    commits = {one.dataset_revision for one in found}
    assert commits == ({None} if is_private else {ORIGIN["commit"]})
    assert ("lab/reviews" in str(cards[0])) != is_private
