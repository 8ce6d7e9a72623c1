"""Studies and jobs are found by name or by the first digits of their ids."""

from collections.abc import Mapping
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_base_model, a_job, a_principal, a_study_spec, an_adapt_spec

from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Rules


@pytest.fixture
def there(sessions: sessionmaker[Session]) -> Mapping[str, Any]:
    """A study and a job, by what finds them."""
    with sessions.begin() as session:
        a_base_model(session)
        job = a_job(session, an_adapt_spec(), state="succeeded")
        spec = a_study_spec(name="lora-or-prefix")
        study = studies.create(session, a_principal(session), spec, Rules()).study.id
    return {"job": str(job), "study": str(study)}


def found(reader: TestClient, text: str) -> str:
    answer = reader.get("/search", params={"q": text}, follow_redirects=False)
    assert answer.status_code == 303
    return answer.headers["location"]


def test_a_name_or_the_first_digits_of_an_id_find_it(
    reader: TestClient, there: Mapping[str, Any]
) -> None:
    for text in ("lora-or-prefix", f" {there['study'][:8]} ", there["study"]):
        assert found(reader, text) == "/studies/lora-or-prefix"
    for text in (there["job"][:8], there["job"][-8:], there["job"]):
        assert found(reader, text) == f"/jobs/{there['job']}"
    assert found(reader, " ") == "/"


@pytest.mark.parametrize("text", ["no such name", 'a "quote" \\', "<b>", "ä"])
def test_other_text_filters_the_jobs_by_name(reader: TestClient, text: str) -> None:
    answer = reader.get(found(reader, text))
    assert answer.status_code == 200


def test_pages_show_eight_digits_and_charts_take_them(
    reader: TestClient, there: Mapping[str, Any]
) -> None:
    short = there["job"][:8]
    page = reader.get(f"/jobs/{short}").text
    assert f">{short}</span>" in page
    for chart in ("learning-curves", "attention", f"attention-small.svg?changed_by={there['job']}"):
        assert reader.get(f"/jobs/{short}/charts/{chart}").status_code in (200, 204), chart
        assert reader.get(f"/jobs/0123abcd/charts/{chart}").status_code == 404, chart
