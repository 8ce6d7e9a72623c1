"""Theory checks from the command line and from Python, against the real API."""

import json

from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import Invoke
from tests.making import a_claim, a_ledger

from adaptlab.results import TheoryChecked
from adaptlab.theory_report import Check
from adaptlab_client import Client


def test_checks_are_run_and_their_table_shown(
    invoke: Invoke, client: Client, sessions: sessionmaker[Session]
) -> None:
    done = invoke("theory", "run", "theorems", "rotation", "--seed", "3", "-o", "json")
    assert done.exit_code == 0, done.output
    job = json.loads(done.stdout)
    checks = [{"name": "theorems"}, {"name": "rotation"}]
    assert job["spec"] == {"kind": "theory", "checks": checks, "seed": 3}
    ledger = a_ledger(sessions)
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
