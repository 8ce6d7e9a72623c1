"""The command line against the real API: its output and exit codes."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from safetensors.numpy import load_file
from sqlalchemy.orm import Session, sessionmaker
from tests.adapters import an_adapter
from tests.client.conftest import Address, Invoke
from tests.client.finished import a_finished_job
from tests.making import a_base_model, a_job, an_adapt_document
from typer.testing import CliRunner

from adaptlab_client import Client
from adaptlab_client.cli import questions
from adaptlab_client.cli.main import application

SPEC = yaml.safe_dump(an_adapt_document())
MISSING = "00000000-0000-7000-8000-000000000000"
HOSTILE = "\x1b]0;owned\x07[red]b\u202eold[/red]\x9b31m"


def ended(sessions: sessionmaker[Session], state: str) -> str:
    with sessions.begin() as session:
        return str(a_job(session, state=state))


def test_a_job_goes_in_from_a_file_from_stdin_and_from_settings(
    invoke: Invoke, base: None, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(SPEC)
    sets = [
        argument
        for name, value in an_adapt_document().items()
        for argument in ("--set", f"{name}={json.dumps(value)}")
    ]
    for arguments, given in (([str(file)], ""), (["-"], SPEC), (sets, "")):
        done = invoke("jobs", "submit", *arguments, "-o", "json", given=given)
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["state"] == "queued"
        assert done.stderr == ""


def test_only_identities_are_on_stdout_when_asked(invoke: Invoke, base: None) -> None:
    done = invoke("jobs", "submit", "-", "-o", "id", given=SPEC)
    listed = invoke("jobs", "list", "--state", "queued", "-o", "id")
    assert done.stdout == listed.stdout
    assert len(done.stdout.split()) == 1


def test_settings_are_laid_over_the_file(invoke: Invoke, base: None) -> None:
    done = invoke(
        *("jobs", "submit", "-", "--set", "training.learning_rate=1e-3", "--set", "seeds=1"),
        *("--set", "labels.when=2026-11-21", "--set", "labels.answer='no'", "-o", "json"),
        given=SPEC,
    )
    assert done.exit_code == 0, done.output
    job = json.loads(done.stdout)
    assert [t["learning_rate"] for t in job["resolved_spec"]["training"]["trials"]] == [0.001]
    assert job["labels"] == {"when": "2026-11-21", "answer": "no"}


def test_the_same_key_makes_one_job(invoke: Invoke, base: None) -> None:
    arguments = ("jobs", "submit", "-", "--idempotency-key", "slurm-1", "-o", "id")
    assert invoke(*arguments, given=SPEC).stdout == invoke(*arguments, given=SPEC).stdout


def test_validation_shows_what_would_run_and_keeps_nothing(invoke: Invoke, base: None) -> None:
    done = invoke("jobs", "submit", "-", "--validate-only", given=SPEC)
    assert done.exit_code == 0
    assert "prefix_tuning" in done.stdout
    assert "run time" in done.stdout
    assert "MiB" in done.stdout
    assert "Guessed: no run" in done.stdout
    assert invoke("jobs", "list", "--state", "queued", "-o", "id").stdout == ""


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ({"method": {"name": "prefix_tunning"}}, 2, "nearest: prefix_tuning"),
        ({"seeds": "many"}, 2, "/seeds"),
        ({"budget": {"trainable_parameters": 5}}, 3, "nearest: 8"),
        ({"training": {"learning_rate": float("nan")}}, 2, "/training/learning_rate"),
        ({"base_model": "nobody"}, 2, "nobody"),
    ],
)
def test_faults_of_a_spec_are_told_in_short(
    invoke: Invoke, base: None, changes: dict[str, object], code: int, text: str
) -> None:
    done = invoke("jobs", "submit", "-", given=yaml.safe_dump(an_adapt_document(**changes)))
    assert done.exit_code == code, done.output
    assert text in done.stderr
    assert "Traceback" not in done.output
    assert done.stdout == ""


@pytest.mark.parametrize(
    "given",
    [b"", b"[1, 2]", b"a: [", b"\xff\xfe\x00", b"{a: b: c}", b"!!python/object:os.system x"],
)
def test_what_is_no_spec_is_a_usage_fault(invoke: Invoke, given: bytes) -> None:
    done = invoke("jobs", "submit", "-", given=given)
    assert done.exit_code == 2
    assert done.stderr.startswith("adaptlab: ")


@pytest.mark.long("every combination", but=5)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("jobs", "lst"), 2),
        (("jobs", "list", "--limit", "many"), 2),
        (("jobs", "list", "--filter", "nonsense ~ 3"), 2),
        (("jobs", "submit", "/no/such/file.yaml"), 2),
        (("jobs", "submit", "--set", "nothing"), 2),
        (("jobs", "show", MISSING), 5),
        (("jobs", "cancel", MISSING), 5),
        (("jobs", "wait", MISSING), 5),
        (("methods", "magic"), 5),
        (("attention", MISSING), 5),
        (("checkpoints", "download", "999"), 5),
        (("checkpoints", "export", "999"), 5),
        (("checkpoints", "download"), 2),
        (("budgets", "solve", "--base-model", "tiny-sort"), 2),
    ],
)
def test_each_kind_of_error_has_its_exit_code(
    invoke: Invoke, base: None, arguments: tuple[str, ...], code: int
) -> None:
    done = invoke(*arguments)
    assert done.exit_code == code, done.output
    assert done.stderr
    assert done.stdout == ""


def test_a_wrong_token_and_no_server_have_codes_of_their_own(invoke: Invoke) -> None:
    assert invoke("methods", ADAPTLAB_TOKEN="al_wrong").exit_code == 4
    assert invoke("methods", ADAPTLAB_URL="http://127.0.0.1:9").exit_code == 69


@pytest.mark.parametrize("before", [True, False])
def test_server_and_project_are_named_before_or_after_the_command(
    invoke: Invoke, address: Address, base: None, *, before: bool
) -> None:
    named, words = ("--url", address.url, "--project", "default"), ("jobs", "list", "-o", "id")
    line = (*named, *words) if before else (*words, *named)
    elsewhere = {"ADAPTLAB_URL": "http://127.0.0.1:9", "ADAPTLAB_PROJECT": "nobodys"}
    done = invoke(*line, **elsewhere)
    assert done.exit_code == 0, done.output
    assert done.stdout


def test_the_next_step_is_said_where_the_server_does_not_answer_or_refuses_the_token(
    invoke: Invoke,
) -> None:
    refused = invoke("methods", ADAPTLAB_TOKEN="al_wrong")
    assert "that of ADAPTLAB_TOKEN. Set another, or unset it" in refused.stderr
    silent = invoke("methods", "--url", "http://127.0.0.1:9")
    assert silent.exit_code == 69
    assert "`adaptlab up` starts one" in silent.stderr


def test_waiting_ends_as_the_jobs_did(invoke: Invoke, sessions: sessionmaker[Session]) -> None:
    good, bad = ended(sessions, "succeeded"), ended(sessions, "failed")
    still = ended(sessions, "queued")
    assert invoke("jobs", "wait", good).exit_code == 0
    both = invoke("jobs", "wait", good, bad, "-o", "id")
    assert (both.exit_code, both.stdout.split()) == (1, [good, bad])
    assert invoke("jobs", "wait", "--any", still, good).exit_code == 0
    late = invoke("jobs", "wait", good, still, "--timeout", "0.3")
    assert late.exit_code == 124
    assert still in late.stderr


def test_submitting_can_wait(invoke: Invoke, base: None) -> None:
    done = invoke("jobs", "submit", "-", "--wait", "--timeout", "0.2", "-o", "id", given=SPEC)
    assert done.exit_code == 124
    assert len(done.stdout.split()) == 1


def test_cancelling_is_said_again_without_harm(invoke: Invoke, base: None) -> None:
    job = invoke("jobs", "submit", "-", "-o", "id", given=SPEC).stdout.strip()
    for _ in range(2):
        done = invoke("jobs", "cancel", job, "-o", "jsonl")
        assert json.loads(done.stdout)["state"] == "cancelled"


def test_jobs_are_paused_resumed_and_made_anew(invoke: Invoke, base: None) -> None:
    job = invoke("jobs", "submit", "-", "-o", "id", given=SPEC).stdout.strip()
    for verb, state in (("pause", "paused"), ("resume", "queued"), ("cancel", "cancelled")):
        done = invoke("jobs", verb, job, "-o", "jsonl")
        assert json.loads(done.stdout)["state"] == state
    anew = json.loads(invoke("jobs", "retry", job, "-o", "jsonl").stdout)
    assert (anew["state"], anew["retry_of"]) == ("queued", job)


def test_one_job_is_named_at_a_time(invoke: Invoke, base: None) -> None:
    jobs = [invoke("jobs", "submit", "-", "-o", "id", given=SPEC).stdout.strip() for _ in range(2)]
    named = invoke("jobs", "annotate", jobs[0], "--name", "Best rate", "-o", "jsonl")
    assert '"name": "Best rate"' in named.stdout
    assert "Best rate" in invoke("jobs", "show", jobs[0]).stdout
    assert "Best rate" not in invoke("jobs", "annotate", jobs[0], "--name", "").stdout
    refused = invoke("jobs", "annotate", *jobs, "--name", "Best rate")
    assert refused.exit_code == 2
    assert "Rename one at a time" in refused.stderr


def test_deleting_asks_first(
    invoke: Invoke, base: None, sessions: sessionmaker[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = ended(sessions, "failed"), ended(sessions, "failed")
    unsure = invoke("jobs", "delete", first)
    assert unsure.exit_code == 2
    assert "Give --yes to delete the job" in unsure.stderr
    assert "deleted job" in invoke("jobs", "delete", first, "--yes").stderr
    assert invoke("jobs", "show", first).exit_code == 5

    monkeypatch.setattr(questions, "is_terminal", lambda _: True)
    refused = invoke("jobs", "delete", second, given="n\n")
    assert "This cannot be undone. [y/N]" in refused.stderr
    assert invoke("jobs", "show", second).exit_code == 0
    invoke("jobs", "delete", second, given="y\n")
    assert invoke("jobs", "show", second).exit_code == 5


def test_tables_name_what_there_is(invoke: Invoke, base: None) -> None:
    for command, expected in (
        ("methods", "full_finetuning"),
        ("tasks", "sort_ascending"),
        ("families", "minigpt"),
        ("base-models list", "tiny-sort"),
    ):
        assert expected in invoke(*command.split()).stdout
        assert expected in invoke(*command.split(), "-o", "id").stdout.split()
    assert json.loads(invoke("base-models", "show", "tiny-sort").stdout)["ready"]
    assert json.loads(invoke("methods", "lora").stdout)["size_knob"] == "rank"


def test_a_budget_is_solved(invoke: Invoke, base: None) -> None:
    done = invoke("budgets", "solve", "--base-model", "tiny-sort", "--budget", "16")
    assert done.exit_code == 0
    assert "prefix_tuning" in done.stdout
    family = "{name: minigpt, width: 96, layers: 1, heads: 1}"
    none = invoke(
        *("budgets", "solve", "--family", family, "--task", "sort_ascending"),
        *("--method", "prefix_tuning", "--budget", "50"),
    )
    assert none.exit_code == 3
    assert "96" in none.stdout


@pytest.fixture(scope="module")
def finished_job(
    shared_client: Client,
    shared_sessions: sessionmaker[Session],
    tmp_path_factory: pytest.TempPathFactory,
) -> str:
    """The id of a job with results, on the module's server."""
    with shared_sessions.begin() as session:
        a_base_model(session)
    job, _ = a_finished_job(shared_client, shared_sessions, tmp_path_factory.mktemp("results"))
    return job


def test_a_job_is_shown_with_its_scores_and_what_they_are_without_the_adaptation(
    shared_invoke: Invoke, finished_job: str
) -> None:
    shown = shared_invoke("jobs", "show", finished_job).stdout.splitlines()[-1].split()
    # 12 and 8 of 16 items with the adaptation; 0 and 4 of 16, in the same seeds, without it.
    assert shown[:5] == ["sort_descending", "test", "2", "62.5", "%"]
    assert " ".join(shown[-6:]) == "12.5 % +50.0 (+25.0 to +75.0)"


def test_evaluations_are_listed_all_or_only_the_detached(
    shared_invoke: Invoke, finished_job: str
) -> None:
    listed = shared_invoke("jobs", "evaluations", finished_job).stdout.splitlines()[1:]
    assert [line.split()[1:] for line in listed] == [
        [str(seed), "sort_descending", "test", adaptation, str(correct), "16", share, "%"]
        for seed, adaptation, correct, share in (
            (0, "attached", 12, "75.0"),
            (1, "attached", 8, "50.0"),
            (0, "detached", 0, "0.0"),
            (1, "detached", 4, "25.0"),
        )
    ]
    detached = shared_invoke("jobs", "evaluations", finished_job, "--detached", "-o", "json")
    assert [score["correct"] for score in json.loads(detached.stdout)] == [0, 4]


def test_answers_are_listed_and_filtered(shared_invoke: Invoke, finished_job: str) -> None:
    listed = shared_invoke("answers", finished_job, "--seed", "1", "--outcome", "right")
    rows = [line.split("  ") for line in listed.stdout.splitlines()]
    assert [title.strip() for title in rows[0] if title][:3] == ["task", "item", "line"]
    assert len(rows) == 1 + 8
    differing = shared_invoke("answers", finished_job, "--seed", "1", "--differs", "-o", "csv")
    read = list(csv.DictReader(io.StringIO(differing.stdout)))
    assert [(row["item"], row["detached"], row["attached"]) for row in read] == [
        (str(item), f"3 3 {item % 4}", "1 0 0") for item in range(4, 8)
    ]
    assert {(row["detached_right"], row["attached_right"]) for row in read} == {("false", "true")}
    whole = shared_invoke("answers", finished_job, "--limit", "0", "-o", "json")
    assert len(json.loads(whole.stdout)) == 2 * 16
    first = shared_invoke("answers", finished_job, "--limit", "3", "-o", "jsonl")
    assert (len(first.stdout.splitlines()), "--limit 0" in first.stderr) == (3, True)


def test_answers_of_another_job_are_beside_them(shared_invoke: Invoke, finished_job: str) -> None:
    alike = shared_invoke("answers", finished_job, "--with", finished_job, "-o", "csv")
    assert alike.stdout.splitlines()[0].endswith("attached_right,other,other_right")
    assert len(alike.stdout.splitlines()) == 1, "a job answers as itself"
    unknown = shared_invoke("answers", finished_job, "--with", MISSING)
    assert unknown.exit_code == 5


def test_attention_is_described_and_drawn(
    shared_invoke: Invoke, finished_job: str, tmp_path: Path
) -> None:
    assert "relative deviation" in shared_invoke("attention", finished_job).stdout
    picture = tmp_path / "attention.png"
    assert shared_invoke("attention", finished_job, "--png", str(picture)).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    wrong = shared_invoke("attention", finished_job, "--png", str(picture), "--layer", "7")
    assert (wrong.exit_code, "--layer 7" in wrong.stderr) == (2, True)


def test_a_checkpoint_is_listed_and_downloaded_in_full(
    shared_invoke: Invoke, finished_job: str, tmp_path: Path
) -> None:
    listed = shared_invoke("checkpoints", "list", finished_job, "-o", "id").stdout.split()
    path = tmp_path / "a.safetensors"
    downloaded = shared_invoke("checkpoints", "download", *listed, "--to", str(path))
    assert downloaded.stdout.strip() == str(path)
    assert path.stat().st_size == 3_200_000


def test_an_adapter_becomes_a_folder_for_peft(
    invoke: Invoke, sessions: sessionmaker[Session], tmp_path: Path
) -> None:
    with sessions.begin() as session:
        checkpoint, _, given, _ = an_adapter(session, {"name": "soft_prompt", "length": 2})
    folder = tmp_path / "new" / "adapter"
    done = invoke("checkpoints", "export", str(checkpoint), "--format", "peft", "--to", str(folder))
    assert done.stdout.strip() == str(folder), done.output
    config = json.loads((folder / "adapter_config.json").read_text())
    assert config["peft_type"] == "PROMPT_TUNING"
    written = load_file(folder / "adapter_model.safetensors")
    assert np.array_equal(written["prompt_embeddings"], given["embed.prompt"])


def test_an_adapter_without_a_peft_form(
    invoke: Invoke, sessions: sessionmaker[Session], tmp_path: Path
) -> None:
    with sessions.begin() as session:
        checkpoint, *_ = an_adapter(session, {"name": "adapter", "bottleneck": 1})
    done = invoke("checkpoints", "export", str(checkpoint), "--to", str(tmp_path / "none"))
    assert done.exit_code == 2
    assert "adapter has no PEFT form. The nearest method that has one is lora." in done.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("output", ["table", "json", "jsonl"])
def test_hostile_text_does_nothing_to_a_terminal(
    invoke: Invoke, sessions: sessionmaker[Session], output: str
) -> None:
    with sessions.begin() as session:
        job = str(a_job(session, state="failed", error=HOSTILE, reason="user_error"))
    for arguments in (("show", job), ("list",), ("wait", job)):
        done = invoke("jobs", *arguments, "-o", output)
        assert not set(done.output) & set("\x1b\x07\x9b\u202e"), arguments
    assert "[red]" in invoke("jobs", "show", job).stdout
    shown = json.loads(invoke("jobs", "show", job, "-o", "json").stdout)
    assert shown["error"] == HOSTILE


def adaptlab(
    *arguments: str, address: Address | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ADAPTLAB_")}
    environment |= address.environment if address else {"HOME": "/nowhere"}
    return subprocess.run(
        [sys.executable, "-c", "from adaptlab_client.cli.main import run; run()", *arguments],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.long("walks through commands and documents")
def test_a_process_leaves_with_the_documented_codes(
    address: Address, sessions: sessionmaker[Session], tmp_path: Path
) -> None:
    bad = ended(sessions, "failed")
    assert adaptlab("methods", "-o", "id", address=address).returncode == 0
    failed = adaptlab("jobs", "wait", bad, "-o", "id", address=address)
    assert (failed.returncode, failed.stdout.strip()) == (1, bad)
    assert adaptlab("jobs", "show", MISSING, address=address).returncode == 5
    nowhere = adaptlab("methods", cwd=tmp_path)
    assert nowhere.returncode == 69
    assert "adaptlab up" in nowhere.stderr
    assert adaptlab("--version").stdout.strip()
    assert "124 timed out" in adaptlab("--help").stdout


PROBE = """
import sys
from adaptlab_client.cli.main import application
try:
    application()({arguments!r})
except SystemExit:
    pass
print([name for name in {names!r} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], ["httpx", "pydantic", "numpy", "yaml", "rich", "adaptlab_stack.cli", "torch"]),
        (["jobs", "list"], ["numpy", "vl_convert", "adaptlab_worker", "torch"]),
    ],
)
def test_a_command_loads_only_what_it_needs(
    address: Address, arguments: list[str], absent: list[str]
) -> None:
    code = PROBE.format(arguments=arguments, names=absent)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=dict(os.environ) | address.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stderr.strip().splitlines()[-1] == "[]", done.stderr


def test_a_fault_of_our_own_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Client:
        raise RuntimeError("nobody thought of this")

    done = CliRunner().invoke(application(), ["methods"], obj=broken)
    assert done.exit_code == 70
    assert "RuntimeError: nobody thought of this" in done.stderr
    assert "Traceback" not in done.output


def test_ctrl_c_leaves_with_130() -> None:
    def interrupted() -> Client:
        raise KeyboardInterrupt

    assert CliRunner().invoke(application(), ["methods"], obj=interrupted).exit_code == 130


def test_a_refusal_says_each_thing_once_and_in_words(invoke: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    gone = invoke("jobs", "submit", str(file))
    assert gone.exit_code == 2
    assert "there is no such file" in gone.stderr
    assert "Errno" not in gone.stderr
    file.write_text(yaml.safe_dump(an_adapt_document() | {"trainin": {"steps": 1}}))
    done = invoke("jobs", "submit", str(file))
    assert done.exit_code == 2
    assert done.stderr.count("There is no 'trainin' here.") == 1
    assert "/trainin" in done.stderr
    assert "nearest: training" in done.stderr
