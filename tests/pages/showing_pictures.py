"""A running job that shows images of a dataset."""

from collections.abc import Sequence
from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_claim, a_ledger
from tests.pictures import image_records

from adaptlab.runs import events
from adaptlab.runs.reported_answers import answer_excerpt, prompt_excerpt
from adaptlab_services.lifecycle.held_leases import Claim

SPEC: dict[str, Any] = {
    "kind": "adapt",
    "base_model": {"kind": "import", "name": "vit", "folder": "models/vit"},
    "method": {"name": "prefix_tuning", "length": 3},
    "evaluation": {"shown": 3},
    "seeds": 1,
}
OWN = {"name": "image_classification", "dataset": "trees"}
DIGITS = {"name": "digit_images", "digits": [5, 6, 7]}


# Any: options of a request.
def upload(api: TestClient, **options: Any) -> None:
    """Upload the dataset `trees`."""
    body = {"name": "trees", "records": image_records(40)}
    answer = api.post("/v1/datasets", json=body, **options)
    assert answer.status_code == 201, answer.text


def a_job_with_images(
    api: TestClient,
    sessions: sessionmaker[Session],
    task: dict[str, Any],
    lines: Sequence[int | None],
) -> Claim:
    """A running job whose first test items are the images at these lines."""
    answer = api.post("/v1/jobs", json={**SPEC, "task": task})
    assert answer.status_code == 201, answer.text
    return running_with_images(sessions, task, lines)


def running_with_images(
    sessions: sessionmaker[Session], task: dict[str, Any], lines: Sequence[int | None]
) -> Claim:
    """The next job, begun after the import before it, with these items."""
    ledger = a_ledger(sessions)
    ledger.finish(a_claim(ledger))
    claim = a_claim(ledger)
    scored = claim.resolved_spec.evaluation_tasks[0]
    label = "5" if task is DIGITS else "elm"
    items = tuple(
        events.ShownItem(
            item=item, line=line, prompt=prompt_excerpt("░▒▓"), expected=answer_excerpt(label)
        )
        for item, line in enumerate(lines)
    )
    given = (answer_excerpt(label),) * len(lines)
    shown = events.ItemsShown(task_place=0, task=scored, items=items)
    told = events.AnswersGiven(task_place=0, replicate=0, seed=0, answers=given)
    ledger.record(claim, [shown, told])
    return claim
