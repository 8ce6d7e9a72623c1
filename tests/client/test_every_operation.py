"""Every operation of the API has a command, with examples that run.

The examples are run in their order against a real server, and what they ask it is noted.
"""

import csv
import io
import json
import re
import shlex
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
from sqlalchemy import insert
from sqlalchemy.orm import Session, sessionmaker
from tests.adapters import an_adapter
from tests.benchmarks import write_documents
from tests.client.conftest import Address, Invoke
from tests.client.dictionary_texts import GERMAN, SPANISH
from tests.client.finished import a_finished_job
from tests.client.tokenizers_of_words import a_tokenizer_file
from tests.comparing import Run, run_all
from tests.folders import a_model_folder
from tests.hub_server import Hub, a_hub
from tests.making import (
    a_base_model,
    a_job,
    a_project,
    a_study_document,
    a_user,
    an_adapt_document,
)
from tests.peft_folders import a_peft_folder
from typer.testing import Result

import adaptlab_client.cli
from adaptlab_api.app import create_app
from adaptlab_client import Client
from adaptlab_client.cli.contents import PLACES
from adaptlab_client.cli.examples import EXAMPLES
from adaptlab_client.cli.main import application
from adaptlab_client.transport.connection import Connection, Request
from adaptlab_db.tables import Membership
from adaptlab_services.settings import Settings

Sessions = sessionmaker[Session]
Call = tuple[str, str]

NO_COMMAND = {
    "head_dataset_content": "the list of datasets has the digest already",
    "head_map_content": "the list of maps has the digest already",
    "get_base_model_tokenizer": "asked by `studies new` for an imported model, see test_imports.py",
    "get_picture": "terminals show no pictures; pages do, and `client.jobs.picture` returns one",
} | dict.fromkeys(
    (
        *("register_worker", "stand_back", "report_load", "say_goodbye", "claim_job", "heartbeat"),
        *("record_results", "end_lease", "put_lease_artifact", "get_lease_artifact"),
    ),
    "asked by `adaptlab worker --server`, see tests/worker/test_by_the_api.py",
)
LOOKS = {
    *("list", "show", "wait", "events", "metrics", "evaluations", "outcomes", "replicates"),
    *("attempts", "fields", "heads", "groups", "solve", "health", "capabilities", "storage"),
    *(
        "whoami",
        "verify",
        "compare",
        "recommend",
        "answers",
        "attention",
        "methods",
        "tasks",
        "families",
    ),
    *("answers", "workers", "inspect", "deliveries", "links"),
}
"""Words at the end of commands that only look, so that they can be run once for each format."""


class Line(NamedTuple):
    """An example as it is run: its words, its input and its output file."""

    words: tuple[str, ...]
    source: str | None
    target: str | None


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """A hub with one model."""
    with a_hub() as hub:
        hub.add("lab/tiny", a_model_folder(tmp_path / "tiny", seed=3))
        yield hub


@pytest.fixture
def settings(database_url: str, broker_url: str, tmp_path: Path, hub: Hub) -> Settings:
    """Settings with a model root and a dataset root, and files in them."""
    a_model_folder(tmp_path / "root" / "llama")
    a_peft_folder(tmp_path / "root" / "lora")
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "plays.csv").write_text("text,label\nnever,no\nalways,yes\n")
    own = Settings(
        database_url=database_url,
        broker_url=broker_url,
        data_dir=tmp_path / "data",
        model_roots={"models": tmp_path / "root"},
        dataset_roots={"library": tmp_path / "library"},
    )
    return hub.settings(own)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: Address) -> Path:
    """A folder with a space in its name, with the examples' files and home."""
    place = tmp_path / "my experiments"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "lab")
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    (place / "job.yaml").write_text(json.dumps(an_adapt_document()))
    (place / "study.yaml").write_text(json.dumps(a_study_document()))
    (place / "words.tsv").write_text("dog\tHund\tperro\nbark\tRinde\tcorteza\n")
    texts = "".join(f"fine {n},pos\ndull {n},neg\n" for n in range(50))
    (place / "reviews.csv").write_text(f"text,label\n{texts}")
    write_documents(place)
    a_tokenizer_file(place / "tokenizer.json", "fine", "dull")
    (place / "de-en.txt").write_text(GERMAN)
    (place / "en-es.txt").write_text(SPANISH)
    a_model_folder(place / "llama", seed=2)
    (place / "token").write_text(address.token)
    return place


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """What the client asks servers and is answered without an error."""
    noted: list[Call] = []
    plain: Callable[..., Any] = Connection.open

    @contextmanager
    def noting(connection: Connection, request: Request) -> Generator[Any]:
        with plain(connection, request) as response:
            noted.append((request.method, request.path))
            yield response

    monkeypatch.setattr(Connection, "open", noting)
    return noted


@pytest.fixture
def variables(
    client: Client, sessions: Sessions, folder: Path, tmp_path: Path
) -> dict[str, dict[str, str]]:
    """What `$NAME` stands for, for all commands and for some of them."""
    with sessions.begin() as session:
        a_base_model(session)
    finished, _ = a_finished_job(client, sessions, tmp_path)
    other, _ = a_finished_job(client, sessions, tmp_path)
    client.datasets.upload_file("words", str(folder / "words.tsv"))
    client.projects.create("robotics")
    with sessions.begin() as session:
        invitation = {"project_id": a_project(session, "robotics"), "role": "submitter"}
        row = invitation | {"user_id": a_user(session), "accepted_at": None}
        session.execute(insert(Membership).values(row))
    client.model_folders.upload("my-llama", folder / "llama")
    client.studies.create(a_study_document(name="ended", seeds=1))
    run_all(sessions, lambda _: Run(right=300))
    with sessions.begin() as session:
        queued, pausable, failed, ended, over = (
            str(a_job(session, state=state))
            for state in ("queued", "queued", "failed", "failed", "cancelled")
        )
        adapter, *_ = an_adapter(session, {"name": "lora", "rank": 1})
    client.hub.set_token("hf_canary-1234")
    everywhere = {
        "JOB": finished,
        "OTHER": other,
        "STUDY": str(client.studies.create(a_study_document(name="going-on", seeds=2)).id),
        "EVALUATION": str(client.jobs.evaluations(finished)[0].id),
        "CHECKPOINT": str(client.jobs.checkpoints(finished)[0].id),
        "UPLOAD": str(client.uploads.send_bytes(b"words").id),
        "TOKEN": str(client.tokens.create("old").id),
        "FETCH": str(client.hub.fetch("there", "hub:lab/there").id),
        "WEBHOOK": str(client.webhooks.create("https://hooks.example.org/").id),
        "TRACKER": str(client.trackers.add("mlflow", "https://mlflow.example.org").id),
        "SLURM_CLUSTER_NAME": "lab",
        "SLURM_JOB_ID": "4711",
    }
    everywhere["LINK"] = str(client.studies.link(everywhere["STUDY"], "reviewers").id)
    idle = client.studies.create(a_study_document(name="idle", seeds=2, methods=["frozen"])).id
    client.studies.cancel(idle)
    theory = str(client.jobs.submit({"kind": "theory", "base_model": "tiny-sort"}).id)
    return {
        "": everywhere,
        "checkpoints export": {"CHECKPOINT": str(adapter)},
        "checkpoints merge": {"CHECKPOINT": str(adapter)},
        "checkpoints push": {"CHECKPOINT": str(adapter)},
        "jobs cancel": {"JOB": queued},
        "jobs pause": {"JOB": pausable},
        "jobs resume": {"JOB": pausable},
        "jobs retry": {"JOB": failed},
        "jobs delete": {"JOB": ended, "OTHER": over},
        "studies delete": {"STUDY": str(idle)},
        "studies wait": {"STUDY": "ended"},
        "studies bundle": {"STUDY": "ended"},
        "theory show": {"JOB": theory},
        "sbatch-script": {"JOB": pausable},
    }


def commands(app: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every command of ours, and what it is called behind `adaptlab`."""
    for name, found in app.commands.items():
        here = f"{path} {name}".strip()
        if hasattr(found, "commands"):
            yield from commands(found, here)
        else:
            yield here, found


def known() -> dict[str, Any]:
    root: Any = typer.main.get_command(application())
    for name in PLACES:
        root.get_command(None, name)  # is loaded when it is named
    return dict(commands(root))


def read(example: str, variables: dict[str, str]) -> Line:
    """An example without the shell around it."""
    inner = re.fullmatch(r"""(?:[A-Z]+=|eval ")\$\((.*)\)"?""", example)
    text = re.sub(r"\$([A-Z_]+)", lambda found: variables[found[1]], inner[1] if inner else example)
    words = shlex.split(text)
    assert words[0] == "adaptlab"
    target = source = None
    if ">" in words:
        words, target = words[: words.index(">")], words[words.index(">") + 1]
    if "<" in words:
        words, source = words[: words.index("<")], words[words.index("<") + 1]
    return Line(tuple(words[1:]), source, target)


def run(invoke: Invoke, line: Line, *more: str) -> Result:
    given = Path(line.source).read_text() if line.source else ""
    done = invoke(*line.words, *more, given=given)
    if line.target:
        Path(line.target).write_text(done.stdout)
    return done


def operation(call: Call, paths: dict[str, dict[str, Any]]) -> str:
    """The operation of a request; paths without parameters come first."""
    method, path = call
    for segment in ("[^/]+", ".+"):  # a recipe's name has a slash
        for template in sorted(paths, key=lambda one: (one.count("{"), one)):
            pattern = re.sub(r"\{\w+\}", segment, template)
            if method.lower() in paths[template] and re.fullmatch(pattern, path):
                return paths[template][method.lower()]["operationId"]
    raise AssertionError(f"{call} is no operation")


def test_every_command_has_examples_and_every_example_is_of_a_command() -> None:
    assert set(EXAMPLES) == set(known())
    for path, examples in EXAMPLES.items():
        assert examples, path
        for example in examples:
            assert f"adaptlab {path}" in example


def test_the_examples_are_true_and_reach_every_operation(
    invoke: Invoke,
    settings: Settings,
    variables: dict[str, dict[str, str]],
    calls: list[Call],
) -> None:
    calls.clear()
    untrue: list[str] = []
    for path, examples in EXAMPLES.items():
        for example in examples:
            line = read(example, variables[""] | variables.get(path, {}))
            done = run(invoke, line)
            if done.exit_code or "adaptlab: " in done.stderr:
                untrue.append(f"{example}\n{done.output}")
    assert not untrue, "\n".join(untrue)
    paths: dict[str, dict[str, Any]] = create_app(settings).openapi()["paths"]
    there = {one["operationId"] for methods in paths.values() for one in methods.values()}
    reached = {operation(call, paths) for call in calls}
    assert there - reached == set(NO_COMMAND), "an operation that no command asks for"


@pytest.mark.long("walks through commands and documents")
def test_every_look_can_be_had_in_every_format(
    invoke: Invoke, variables: dict[str, dict[str, str]]
) -> None:
    wrong: list[str] = []
    tried = 0
    for path, command in known().items():
        if path.split()[-1] not in LOOKS:
            continue
        assert {"json", "jsonl", "csv"} <= formats(command), path
        line = read(EXAMPLES[path][0], variables[""] | variables.get(path, {}))
        line = line._replace(words=without_output(line.words))
        for output in ("json", "jsonl", "csv"):
            done = run(invoke, line, "--output", output)
            if done.exit_code or not is_in(output, done.stdout):
                wrong.append(f"{path} {output}\n{done.output}")
            tried += 1
    assert not wrong, "\n".join(wrong)
    assert tried > 90


def test_whatever_is_printed_can_be_chosen() -> None:
    printing = {path for path, command in known().items() if formats(command)}
    files = {"results export", "results curves", "checkpoints download", "datasets download"}
    files |= {
        "studies bundle",
        "studies new",
        "studies track",
        "checkpoints export",
        "base-models export",
    }
    words_only = {
        "sbatch-script",
        "login",
        "logout",
        "completion",
        "projects remove",
        "jobs delete",
        "studies delete",
        "uploads delete",
        "datasets delete",
        "datasets take-back",
        "studies take-back",
        "studies unlink",
        "base-models take-back",
        "model-folders delete",
        "webhooks delete",
        "trackers remove",
        "hub remove-token",
    }
    assert set(known()) - printing == files | words_only


def test_commands_go_through_the_client_alone() -> None:
    """So that what a command can ask for, Python can."""
    for file in Path(adaptlab_client.cli.__file__).parent.rglob("*.py"):
        assert not re.search(r"_connection\b|\bhttpx\.|import httpx|path_of", file.read_text()), (
            file
        )


def formats(command: Any) -> set[str]:
    """The words that `--output` takes."""
    found = [one for one in command.params if "--output" in one.opts]
    return {str(word) for one in found for word in one.type_descriptor.annotation}


def without_output(words: tuple[str, ...]) -> tuple[str, ...]:
    for option in ("--output", "-o"):
        if option in words:
            place = words.index(option)
            return words[:place] + words[place + 2 :]
    return words


def is_in(output: str, text: str) -> bool:
    """Whether the text is JSON, lines of it, or rows as long as the first one."""
    try:
        documents = [text] if output == "json" else text.splitlines()
        if output != "csv":
            return all(json.loads(one) is not None for one in documents)
    except ValueError:
        return False
    header, *rows = csv.reader(io.StringIO(text))
    return all(len(row) == len(header) for row in rows) and not any(" " in one for one in header)
