"""The score of a group of standard tasks, for people and programs."""

import pytest
from fastapi.testclient import TestClient
from tests.pages import submitting as forms
from tests.pages.made_up import MadeUpWorker
from tests.standard_groups import EQUALLY, scored, staged
from tests.text_studies import RECORDS, a_text_study
from tests.texts import COMPLETION

from adaptlab.runs.events import Evaluated
from adaptlab_answers.results import Evaluations
from adaptlab_client.cli.printing.job_tables import print_groups

RIGHT = {"arc_easy": (1, 1, 0), "sciq": (1, 0, 0, 0, 0, 0, 0, 0)}


@pytest.fixture
def job(reader: TestClient, worker: MadeUpWorker) -> str:
    """The id of a job that watches a group whose tasks are equal."""
    for name, records in {"reviews": RECORDS, **staged(metric=EQUALLY)}.items():
        body = {"name": name, "records": records}
        made = reader.post("/v1/datasets", json=body, headers=forms.HERE)
        assert made.status_code == 201, made.text
    watched = {"name": "benchmark", "tasks": ["science"], "tokens": {"longest": 40}}
    base = {**a_text_study(dict(COMPLETION))["base_models"][0], "seeds": 1}
    made = worker.submit({**base, "evaluation": {"tasks": [COMPLETION, watched]}})
    claim = worker.claim()
    _, *tasks = claim.resolved_spec.evaluation_tasks
    told = [scored(task, RIGHT[name]) for task, name in zip(tasks, RIGHT, strict=True)]
    worker.report(claim, [Evaluated(evaluation=one) for one in told])
    worker.finish(claim)
    return str(made.id)


def test_it_is_answered_shown_and_printed(
    reader: TestClient, job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (group,) = reader.get(f"/v1/jobs/{job}").json()["resolved_spec"]["evaluation_groups"]
    assert group["tasks"] == [1, 2]
    answer = reader.get(f"/v1/jobs/{job}/evaluations")
    (score,) = Evaluations.model_validate_json(answer.content).groups
    assert score.accuracy.mean == pytest.approx((2 / 3 + 1 / 8) / 2)
    page = reader.get(f"/jobs/{job}").text.partition("Groups of standard tasks")[2]
    assert "science (0 shots)" in page
    assert "39.6" in page.partition("</table>")[0]
    print_groups([score])
    printed = capsys.readouterr().out.splitlines()[-1]
    assert printed.split()[:9] == ["science", "(0", "shots)", "acc", "2", "11", "1", "39.6", "%"]
