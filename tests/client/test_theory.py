"""Theory checks from the command line and Python, by the real API."""

import json
from uuid import uuid4

from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import Invoke
from tests.making import BASE, a_base_model, a_claim, a_job, a_made_up_ledger

from adaptlab.runs.events import TheoryChecked
from adaptlab.runs.theory_report import Check
from adaptlab_client import Client


def test_checks_are_run_and_their_table_shown(
    invoke: Invoke, client: Client, sessions: sessionmaker[Session]
) -> None:
    done = invoke("theory", "run", "theorems", "rotation", "--seed", "3", "-o", "json")
    assert done.exit_code == 0, done.output
    job = json.loads(done.stdout)
    checks = [{"name": "theorems"}, {"name": "rotation"}]
    assert job["spec"] == {"kind": "theory", "checks": checks, "seed": 3}
    ledger = a_made_up_ledger(sessions)
    claim = a_claim(ledger)
    good = Check.at_most("equation-6", "Equation 6.", 2e-16, 1e-12)
    ledger.record(claim, [TheoryChecked(place=0, check=good)], {})
    shown = invoke("theory", "show", job["id"])
    assert shown.exit_code == 0, shown.output
    assert all(word in shown.stdout for word in ("equation-6", "2e-16", "at most 1e-12", "holds"))
    bad = Check.at_least("capacity", "Section 3.", 1, 2)
    ledger.record(claim, [TheoryChecked(place=1, check=bad)], {})
    assert invoke("theory", "show", job["id"]).exit_code == 1, "a claim fails"
    assert [(c.name, c.holds) for c in client.jobs.theory(job["id"])] == [
        ("equation-6", True),
        ("capacity", False),
    ]


def test_a_check_without_its_base_model_is_a_fault_of_usage(invoke: Invoke) -> None:
    refused = invoke("theory", "run", "identities")
    assert refused.exit_code == 2
    assert "base_model" in refused.output
    assert invoke("theory", "run").exit_code == 0


def test_adaptations_are_measured(
    invoke: Invoke, client: Client, sessions: sessionmaker[Session]
) -> None:
    with sessions.begin() as session:
        a_base_model(session)
        one, other = (str(a_job(session, state="succeeded")) for _ in range(2))
    options = ["--adaptation", one, "--adaptation", other, "--replicates", "1", "-o", "json"]
    done = invoke("theory", "run", "relative_attention", *options)
    assert done.exit_code == 0, done.output
    job = json.loads(done.stdout)
    assert (job["spec"]["adaptation"], job["spec"]["replicates"]) == ([one, other], 1)
    assert job["base_model"] == BASE
    alone = invoke("theory", "run", "--adaptation", one, "-o", "json")
    assert json.loads(alone.stdout)["spec"]["adaptation"] == one
    unknown = invoke("theory", "run", "span", "--adaptation", str(uuid4()))
    assert unknown.exit_code == 2
    assert "adaptation" in unknown.output
