"""Ten people's mistakes: what is printed is enough to put each right."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import Address, Invoke, command_line
from tests.making import BASE, a_base_model, a_job, a_principal, an_adapt_document

from adaptlab.plugins.dataset import Triple
from adaptlab_client.cli.exits import ExitCode
from adaptlab_services.models import datasets
from adaptlab_services.models.datasets import NewDataset

TWINS = [UUID(f"0197c0de-0000-7000-8000-00000000000{number}") for number in (1, 2)]
NOBODY = "http://127.0.0.1:1"
HTTP = ("/v1", "http_", "GET ", "POST ", "Bearer", "Traceback", "<unicode string>")
"""What a person who types commands cannot use."""


def job(**changes: object) -> str:
    return json.dumps(an_adapt_document(**changes))


@dataclass(frozen=True)
class Mistake:
    """A command, and what its errors must tell."""

    command: str
    told: tuple[str, ...]
    code: ExitCode = ExitCode.USAGE
    given: str = ""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


SUBMIT = "jobs submit -"
MISTAKES = {
    "wrong token": Mistake(
        "jobs list",
        ("The token is missing or invalid", "of ADAPTLAB_TOKEN", "`adaptlab login`"),
        ExitCode.AUTHENTICATION,
        environment={"ADAPTLAB_TOKEN": "wrong"},
    ),
    "typo in a command": Mistake("jbos list", ("no command 'jbos'", "`adaptlab jobs`")),
    "typo in a field": Mistake(
        SUBMIT, ("/trainning", "nearest: training"), given=job(trainning={"steps": 3})
    ),
    "missing base": Mistake(
        SUBMIT,
        ("no base model named 'tiny-srot'", "Pretrain or import one", BASE),
        given=job(base_model="tiny-srot"),
    ),
    "tiny budget": Mistake(
        SUBMIT,
        ("Budget 2 is too small for prefix_tuning", "Use 8 or more"),
        ExitCode.INFEASIBLE,
        given=job(budget=2),
    ),
    "no file": Mistake("jobs submit jbo.yaml", ("jbo.yaml", "there is no such file in /")),
    "server down": Mistake(
        "jobs list",
        (NOBODY, "did not answer", "Check the address", "`adaptlab up`"),
        ExitCode.UNREACHABLE,
        environment={"ADAPTLAB_URL": NOBODY},
    ),
    "bad YAML": Mistake(
        SUBMIT,
        ("stdin is not valid YAML", "at line 3, column 6", " task: sort", "begin in one column"),
        given="kind: adapt\nbase_model: tiny-sort\n task: sort_descending\n",
    ),
    "unknown field": Mistake(
        "results list --filter methd=lora", ("no field 'methd'", "nearest: method")
    ),
    "ambiguous id": Mistake(
        "jobs show 0197c0de", ("begin or end with '0197c0de'", *map(str, TWINS), "Give more")
    ),
    "wrong project": Mistake(
        "jobs list --project rbotics", ("not a member of a project 'rbotics'", "projects: default")
    ),
}


@pytest.fixture(scope="module")
def told_by(shared_address: Address, shared_sessions: sessionmaker[Session]) -> Address:
    """A server with a base model, and two jobs whose ids begin alike."""
    with shared_sessions.begin() as session:
        a_base_model(session)
        for twin in TWINS:
            a_job(session, id=twin)
    return shared_address


@pytest.mark.parametrize("name", MISTAKES)
def test_the_message_alone_is_enough(
    name: str, told_by: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake = MISTAKES[name]
    invoke: Invoke = command_line(told_by, monkeypatch)
    done = invoke(*mistake.command.split(), given=mistake.given, **mistake.environment)
    assert [part for part in mistake.told if part not in done.stderr] == [], done.stderr
    assert [part for part in HTTP if part in done.stderr] == []
    assert done.exit_code == mistake.code
    assert len(done.stderr) < 700


WORDS = (Triple("ant", "Ameise", "hormiga"), Triple("cat", "Katze", "gato"))


@pytest.mark.parametrize(
    ("command", "nearest"),
    [
        ("base-models show tiny-srot", BASE),
        ("methods lorra", "lora"),
        ("recipes show petrov2024/tabel-1", "petrov2024/table-1"),
        ("datasets show animls", "animals"),
    ],
)
def test_a_mistyped_name_is_told_the_nearest(
    command: str,
    nearest: str,
    told_by: Address,
    shared_sessions: sessionmaker[Session],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "datasets" in command:
        with shared_sessions.begin() as session:
            datasets.upload(
                session, a_principal(session), NewDataset(name="animals", triples=WORDS)
            )
    done = command_line(told_by, monkeypatch)(*command.split())
    assert f"Did you mean '{nearest}'" in done.stderr


def test_a_folder_of_this_machine_is_uploaded_first(
    told_by: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = command_line(told_by, monkeypatch)("base-models", "import", "own", "./models/own")
    assert "`adaptlab model-folders upload own ./models/own`" in done.stderr
