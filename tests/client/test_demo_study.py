"""The demo's study: it passes its checks, resumes and shows progress."""

from pathlib import Path

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.answering import a_study_answer
from tests.comparing import Run, run_all, write_run
from tests.making import a_checkpoint, a_claim, a_made_up_ledger

from adaptlab.runs import events
from adaptlab.specs.spec import ResolvedSpec
from adaptlab_client import Client, StudyView
from adaptlab_stack import demo_study
from adaptlab_stack.demo import PATIENCE, SECONDS_BETWEEN_LINES, DemoProgress, Lines

Sessions = sessionmaker[Session]
MOST_LINES, WIDTH = 19, 80
"""Of the report; six more lines of places and what to do next make 25."""


def as_measured(spec: ResolvedSpec) -> Run:
    """Results of the demo: only full fine-tuning and LoRA learn the order."""
    name = str((spec.method or {}).get("name"))
    runs = {
        "full_finetuning": Run(right=400, loss=0.01, own_task=(396, 0)),
        "lora": Run(right=380, shift=2, loss=0.05, own_task=(396, 0)),
    }
    return runs.get(name, Run(loss=4.0, deviation=0.0, own_task=(396, 0)))


def test_the_demo_is_a_study_that_passes_its_own_checks(client: Client) -> None:
    preview = client.studies.preview(demo_study.SPEC)
    adaptations = [job for job in preview.jobs if job.resolved_spec.kind == "adapt"]
    adaptations, controls = adaptations[:5], adaptations[5:]
    methods = [(job.resolved_spec.method or {})["name"] for job in adaptations]
    assert methods == [
        "full_finetuning", "lora", "prefix_tuning", "soft_prompt", "attention_bias",
    ]  # fmt: skip
    trainings = [job.resolved_spec.training for job in adaptations]
    assert [training.steps for training in trainings] == [demo_study.STEPS] * 5
    assert {len(training.trials) for training in trainings} == {3}
    assert {len(job.resolved_spec.seeds) for job in adaptations} == {5}
    sized = [job.budget.trainable_parameters for job in adaptations[1:4]]
    assert sized == [demo_study.BUDGET] * 3
    assert preview.skipped == ()
    rates = [[one.learning_rate for one in job.resolved_spec.training.trials] for job in controls]
    assert [len(one) for one in rates] == [7, 7, 7, 3]
    assert all(one[-1] == pytest.approx(1000 * one[0]) for one in rates[:3])


def test_its_comparison_is_not_void_and_has_verdicts(
    client: Client, sessions: Sessions, tmp_path: Path
) -> None:
    run = demo_study.begin(client)
    the_pretraining_ends(sessions, tmp_path)
    run_all(sessions, as_measured)
    ended = demo_study.finish(client, run, lambda _: None)
    assert ended.succeeded
    found = run.comparison()
    assert found.warnings == ()
    lines = [*demo_study.conclusions(found)]
    assert "LoRA (" in lines[0]
    assert len(lines) <= MOST_LINES
    assert all(len(line) <= WIDTH for line in lines)
    assert len(found.tables[0].controls) == len(demo_study.CONTROLS)
    assert not [one for one in found.tables[0].diagnoses if one.diagnosis.next_run]
    assert [*demo_study.jobs_by_method(client, ended)] == ["pretraining", *demo_study.METHODS]


def test_a_new_start_finds_what_an_earlier_one_has_made(
    client: Client, sessions: Sessions, tmp_path: Path
) -> None:
    first = demo_study.begin(client)
    the_pretraining_ends(sessions, tmp_path)
    jobs = {job.id for job in client.studies.jobs(first.id)}
    again = demo_study.begin(client)
    assert again.id == first.id
    assert {job.id for job in client.studies.jobs(again.id)} == jobs
    assert again.study.jobs["succeeded"] == 1


def test_a_taken_name_is_told_with_what_to_do(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo_study.begin(client)
    monkeypatch.setattr(demo_study, "SPEC", {**demo_study.SPEC, "seeds": 3})
    with pytest.raises(demo_study.StudyFailed, match="Choose another --data-dir"):
        demo_study.begin(client)


def test_without_a_terminal_progress_is_lines() -> None:
    now = 0.0
    lines: list[str] = []
    tell = Lines(lines.append, lambda: now)

    def hear(queued: int, succeeded: int) -> None:
        counts = {"queued": queued, "succeeded": succeeded}
        tell(a_study_answer(name="demo", jobs=counts))

    hear(6, 0)
    now = 1.0
    hear(6, 0)
    hear(5, 1)
    now = 1.0 + SECONDS_BETWEEN_LINES
    hear(5, 1)
    assert [line.split("jobs: ")[1] for line in lines] == [
        "6 queued, 0 succeeded", "5 queued, 1 succeeded", "5 queued, 1 succeeded",
    ]  # fmt: skip


def test_a_demo_without_a_worker_ends_with_the_end_of_its_log() -> None:
    now = 0.0
    shown: list[StudyView] = []
    log = "\n".join(f"line {number}" for number in range(9))
    tell = DemoProgress(shown.append, {"worker": log}.__getitem__, lambda: now)
    tell(a_study_answer(name="demo", jobs={"queued": 6, "running": 0}))
    now = PATIENCE + 1
    with pytest.raises(demo_study.StudyFailed, match=r"in 120 s\. The end of its log:\nline 4\n"):
        tell(a_study_answer(name="demo", jobs={"queued": 6, "running": 0}))
    assert len(shown) == 2


def test_a_demo_waits_for_a_job_that_has_begun() -> None:
    now = 0.0
    tell = DemoProgress(lambda _: None, {}.__getitem__, lambda: now)
    tell(a_study_answer(name="demo", jobs={"queued": 5, "running": 1}))
    now = PATIENCE + 1
    tell(a_study_answer(name="demo", jobs={"queued": 6}))


def the_pretraining_ends(sessions: Sessions, folder: Path) -> None:
    """Give the base model the weights that its job would have trained."""
    ledger = a_made_up_ledger(sessions)
    claim = a_claim(ledger)
    write_run(ledger, claim, Run(right=396))
    for replicate in range(demo_study.SEEDS):
        path = folder / f"{replicate}.safetensors"
        stored = {path: ledger.put_artifact(claim, [b"weights of seed %d" % replicate]).sha256}
        checkpoint = a_checkpoint(replicate, kind="base_model")
        written = events.CheckpointWritten(checkpoint=checkpoint, path=path)
        ledger.record(claim, [written], stored)
    ledger.finish(claim)
