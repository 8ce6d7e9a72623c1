"""Studies from Python and from the command line, against the real API."""

import json
from pathlib import Path

import pytest
import yaml
from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import Invoke
from tests.making import (
    a_base_model,
    a_made_up_ledger,
    a_pretrain_document,
    a_study_document,
    a_study_spec,
    an_environment,
)

from adaptlab.runs.events import Started
from adaptlab_client import Client, Conflict, WaitTimedOut

Sessions = sessionmaker[Session]
SPEC = yaml.safe_dump(a_study_document())


@pytest.fixture
def base(sessions: Sessions) -> None:
    """A base model that can be adapted."""
    with sessions.begin() as session:
        a_base_model(session)


def finish(sessions: Sessions, *, well: bool = True) -> None:
    """End every job that can be claimed."""
    ledger = a_made_up_ledger(sessions)
    worker = ledger.register_worker("laptop", 4711, ["cpu"])
    while (claim := ledger.claim(worker, ["cpu"])) is not None:
        if well:
            ledger.record(claim, [Started(environment=an_environment(), replicates=1)])
            ledger.finish(claim)
        else:
            ledger.fail(claim, "diverged", "not finite", retry=False)


def test_a_study_from_python(client: Client, sessions: Sessions, base: None) -> None:
    preview = client.studies.preview(a_study_spec())
    assert (preview.new_jobs, preview.passes, len(preview.cells)) == (6, 6, 8)
    assert preview.jobs[0].estimate is not None
    study = client.studies.create(a_study_spec())
    assert client.studies.get("small") == study == client.studies.get(study.id)
    with pytest.raises(Conflict):
        client.studies.create(a_study_document())
    with pytest.raises(WaitTimedOut):
        client.studies.wait("small", timeout=0.1)
    finish(sessions)
    seen: list[str] = []
    ended = client.studies.wait("small", on_progress=lambda found: seen.append(found.state))
    assert (ended.succeeded, seen) == (True, ["succeeded"])


def test_a_key_makes_one_study(client: Client, base: None) -> None:
    first = client.studies.create(a_study_document(), idempotency_key="slurm-1")
    assert client.studies.create(a_study_document(), idempotency_key="slurm-1") == first


def test_a_study_is_planned_from_the_command_line(
    invoke: Invoke, base: None, tmp_path: Path
) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(SPEC)
    planned = invoke("studies", "create", str(file), "--validate-only", "--set", "budgets=[16,64]")
    assert planned.exit_code == 0, planned.output
    assert "Full fine-tuning" in planned.stdout
    assert "over budget" in planned.stdout
    assert "5 new jobs and 0 existing ones" in planned.stderr
    assert "LoRA is left out on tiny-sort at 16" in planned.stderr
    plan = ("studies", "create", str(file), "--validate-only")
    assert "full_finetuning" in invoke(*plan, "-o", "csv").stdout


def test_a_study_is_created_and_shown_from_the_command_line(invoke: Invoke, base: None) -> None:
    made = invoke("studies", "create", "-", "-o", "id", given=SPEC)
    assert made.exit_code == 0, made.output
    assert made.stdout == invoke("studies", "list", "-o", "id").stdout
    assert "6 queued, 1 succeeded" in invoke("studies", "list").stdout
    assert "Prefix-tuning" in invoke("studies", "show", "small").stdout
    assert "prefix_tuning" in invoke("studies", "show", "small", "-o", "csv").stdout
    assert len(invoke("studies", "jobs", "small", "-o", "id").stdout.split()) == 7
    assert len(invoke("jobs", "list", "--filter", "study = small", "-o", "id").stdout.split()) == 7


def test_a_study_is_waited_for_extended_cloned_and_cancelled_from_the_command_line(
    invoke: Invoke, sessions: Sessions, base: None
) -> None:
    invoke("studies", "create", "-", given=SPEC)
    assert invoke("studies", "wait", "small", "--timeout", "0").exit_code == 124
    finish(sessions)
    waited = invoke("studies", "wait", "small")
    assert waited.exit_code == 0
    assert waited.stdout.rstrip().endswith("on tiny-sort: No scores.")
    more = invoke(
        *("studies", "extend", "small", "--seeds", "3", "--method", "ia3", "--budget", "128"),
        *("-o", "json"),
    )
    # The third seed of six jobs; prefix and LoRA at 128 and IA3 with all three.
    assert json.loads(more.stdout)["jobs"] == {"queued": 6 + 2 + 1, "succeeded": 7}
    cloned = invoke("studies", "clone", "small", "other", "--set", "methods=[lora]", "-o", "json")
    assert json.loads(cloned.stdout)["name"] == "other"
    assert invoke("studies", "cancel", "small", "-o", "jsonl").exit_code == 0


def test_a_clone_changes_one_value_and_keeps_the_others_beside_it(
    invoke: Invoke, base: None
) -> None:
    training = {"steps": 4, "batch_size": 4, "schedule": "constant"}
    created = invoke(
        "studies", "create", "-", given=yaml.safe_dump(a_study_document(training=training))
    )
    assert created.exit_code == 0, created.stderr
    settings = ("--set", "training.steps=8", "--set", "tuning.trials=3")
    cloned = invoke("studies", "clone", "small", "longer", *settings, "-o", "json")
    assert cloned.exit_code == 0, cloned.stderr
    spec = json.loads(cloned.stdout)["spec"]
    assert spec["training"] == training | {"steps": 8}
    assert (spec["tuning"], spec["seeds"]) == ({"trials": 3}, 2)
    kept = invoke("studies", "show", "small", "-o", "json")
    assert json.loads(kept.stdout)["spec"]["training"] == training
    wrong = invoke("studies", "clone", "small", "wrong", "--set", "seeds.more=1")
    assert (wrong.exit_code, "is a value" in wrong.stderr) == (2, True)


def test_exit_codes_say_how_it_went(invoke: Invoke, sessions: Sessions) -> None:
    spec = yaml.safe_dump(a_study_document(base_models=[a_pretrain_document()]))
    assert invoke("studies", "create", "-", given=spec).exit_code == 0
    finish(sessions, well=False)
    ended = invoke("studies", "wait", "small")
    assert (ended.exit_code, "base_model_failed" in ended.stdout) == (1, True)
    assert "studies extend small" in ended.stderr
    again = invoke("studies", "extend", "small", "-o", "json")
    assert json.loads(again.stdout)["jobs"] == {"queued": 1, "waiting": 6}
    assert invoke("studies", "show", "nobody").exit_code == 5
    taken = invoke("studies", "create", "-", given=spec)
    assert taken.exit_code == 2
    none = yaml.safe_dump(a_study_document(name="b", methods=["lora"], budgets=[5]))
    assert invoke("studies", "create", "-", given=none).exit_code == 3
    some = yaml.safe_dump(a_study_document(name="c"))
    no_id = invoke("studies", "create", "-", "--validate-only", "-o", "id", given=some)
    assert (no_id.exit_code, "no study" in no_id.stderr) == (2, True)


def test_theory_checks_of_a_study_are_shown(
    client: Client, invoke: Invoke, sessions: Sessions, base: None
) -> None:
    checks = [{"name": "relative_attention", "of": "lora"}, "theorems"]
    spec = a_study_document(methods=["lora"], budgets=[64], checks=checks)
    assert [check.label for check in client.studies.preview(spec).checks] == [
        "relative_attention", "theorems",
    ]  # fmt: skip
    planned = invoke("studies", "create", "-", "--validate-only", given=yaml.safe_dump(spec))
    assert "relative_attention" in planned.stdout
    study = client.studies.create(spec)
    assert [check.job.state for check in study.checks] == ["waiting", "queued"]
    assert study.recipe is None
    shown = invoke("studies", "show", "small").stdout
    assert "relative_attention" in shown
    assert "LoRA" in shown
    assert "waiting" in shown
