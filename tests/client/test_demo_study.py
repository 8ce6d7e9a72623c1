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
from adaptlab_stack.data_directory import DataDirectory, Endpoints, StackState
from adaptlab_stack.demo import MOST_STARTS, SECONDS_BETWEEN_LINES, DemoProgress, Lines
from adaptlab_stack.signs_of_life import SILENCE_SECONDS
from adaptlab_stack.stack import Stack

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


def test_a_demo_gives_up_on_a_silent_worker_with_the_end_of_its_log(tmp_path: Path) -> None:
    now = 0.0
    shown: list[StudyView] = []
    show = DemoProgress(shown.append, a_stack(tmp_path, worker=0), lambda: now)
    queued = a_study_answer(name="demo", jobs={"queued": 6, "running": 0})
    show(queued)
    now = SILENCE_SECONDS
    (tmp_path / "logs" / "worker.log").write_text("\n".join(f"line {n}" for n in range(9)))
    show(queued)
    now = 2 * SILENCE_SECONDS + 1
    with pytest.raises(demo_study.StudyFailed, match=r"silent for 301 s\. The.*log:\nline 4\n"):
        show(queued)
    assert len(shown) == 3


def test_a_demo_gives_up_on_a_worker_that_keeps_ending(tmp_path: Path) -> None:
    show = DemoProgress(lambda _: None, a_stack(tmp_path, worker=0))
    queued = a_study_answer(name="demo", jobs={"queued": 6})
    for start in range(MOST_STARTS):
        a_stack(tmp_path, worker=start)
        show(queued)
    a_stack(tmp_path, worker=MOST_STARTS)
    with pytest.raises(demo_study.StudyFailed, match="ended 3 times"):
        show(queued)


def test_a_demo_waits_for_a_job_that_has_begun(tmp_path: Path) -> None:
    now = 0.0
    show = DemoProgress(lambda _: None, a_stack(tmp_path, worker=0), lambda: now)
    show(a_study_answer(name="demo", jobs={"queued": 5, "running": 1}))
    now = SILENCE_SECONDS + 1
    show(a_study_answer(name="demo", jobs={"queued": 6}))


def a_stack(folder: Path, worker: int) -> Stack:
    """A stack that names this process as its worker."""
    directory = DataDirectory.open(folder)
    directory.write_state(StackState(Endpoints("", "", ""), {"worker": worker}))
    return Stack.attach(directory, 0)


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
