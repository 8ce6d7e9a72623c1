"""Command line and page name the model root that no worker can read."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import Address, Invoke
from tests.folders import a_model_folder
from tests.making import a_ledger

from adaptlab_api.app import create_app
from adaptlab_client import Client
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
SAID = "no worker that is alive can read the model root `lab`"


@pytest.fixture
def settings(database_url: str, broker_url: str, tmp_path: Path) -> Settings:
    """Settings of a server that can read the root."""
    a_model_folder(tmp_path / "lab" / "llama")
    return Settings(
        database_url=database_url,
        broker_url=broker_url,
        data_dir=tmp_path / "data",
        model_roots={"lab": tmp_path / "lab"},
    )


def test_a_job_that_waits_for_a_root_says_so(
    client: Client, invoke: Invoke, sessions: Sessions, settings: Settings, address: Address
) -> None:
    job = client.jobs.submit({"kind": "import", "name": "llama", "folder": "lab/llama"})
    worker = a_ledger(sessions).register_worker("node", 1, ["cpu"], ["models"])
    assert client.jobs.get(job.id).queue.unread_roots == ("lab",)
    shown = invoke("jobs", "show", str(job.id))
    assert (shown.exit_code, SAID in shown.stderr) == (0, True)
    waited = invoke("jobs", "wait", str(job.id), "--timeout", "1")
    assert (waited.exit_code, waited.stderr.count(SAID)) == (124, 1)
    header = {"Authorization": f"Bearer {address.token}"}
    with TestClient(create_app(settings)) as browser:
        page = browser.get(f"/jobs/{job.id}", headers=header).text
    assert "No worker that is alive can read the model root “lab”" in page
    a_ledger(sessions).say_goodbye(worker)
    assert SAID not in invoke("jobs", "show", str(job.id)).stderr
