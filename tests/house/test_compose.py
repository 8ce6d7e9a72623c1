"""The team's installation, checked without a Docker engine."""

import re
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, entry_points, requires
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from adaptlab_db.role_passwords import VARIABLES
from adaptlab_stack.valkey_users import USERS

OURS = ("api", "beat", "migrate", "worker", "worker-gpu")


@pytest.fixture(scope="module")
def compose(repository: Path) -> dict[str, Any]:
    return yaml.safe_load((repository / "docker-compose.yml").read_text())


def installed_by(extra: str) -> set[str]:
    """All distributions that `adaptlab[extra]` depends on.

    What is not installed here is named too, but what it would need in turn is not followed.
    """
    seen: set[tuple[str, str]] = set()
    waiting = [("adaptlab", extra), ("adaptlab", "")]
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) not in seen:
            seen.add((name, wanted))
            waiting += _needs(name, wanted)
    return {name for name, _ in seen}


def _needs(name: str, extra: str) -> Iterator[tuple[str, str]]:
    try:
        texts = requires(name) or []
    except PackageNotFoundError:
        return
    for requirement in map(Requirement, texts):
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            target = canonicalize_name(requirement.name)
            yield target, ""
            yield from ((target, inner) for inner in requirement.extras)


def extra_of(dockerfile: Path) -> str:
    (extra,) = re.findall(r"'\.\[(\w+)\]'", dockerfile.read_text())
    return extra


def test_the_api_image_installs_no_torch(repository: Path) -> None:
    brought = installed_by(extra_of(repository / "deploy" / "Dockerfile.api"))
    assert {"fastapi", "celery", "psycopg", "sqlalchemy", "uvicorn", "click"} <= brought
    assert not {name for name in brought if name.startswith(("torch", "nvidia", "triton"))}


def test_every_package_of_the_api_image_is_locked_by_its_digests(repository: Path) -> None:
    lock = (repository / "deploy" / "server.lock").read_text().replace("\\\n", " ")
    constraints = (repository / "constraints.txt").read_text()
    locked = {line.split()[0]: line for line in lock.splitlines()}
    assert set(locked) <= {line.split()[0] for line in constraints.splitlines()}, "make generate"
    assert all(" --hash=sha256:" in line for line in locked.values())
    assert installed_by("server") - {"adaptlab"} <= {pin.split("==")[0] for pin in locked}
    for name in ("Dockerfile.api", "Dockerfile.worker"):
        steps = (repository / "deploy" / name).read_text()
        assert "--require-hashes -r deploy/server.lock" in steps


def test_the_worker_image_installs_torch(repository: Path) -> None:
    assert "torch" in installed_by(extra_of(repository / "deploy" / "Dockerfile.worker"))


@pytest.mark.parametrize("name", ["Dockerfile.api", "Dockerfile.worker"])
def test_an_image_copies_every_package_and_runs_as_nobody_special(
    repository: Path, name: str
) -> None:
    lines = (repository / "deploy" / name).read_text().splitlines()
    copied = {word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]}
    allowed = set(re.findall(r"^!(\S+)$", (repository / ".dockerignore").read_text(), re.MULTILINE))
    assert {path for path in copied if not path.startswith(("--", "/"))} == allowed
    assert all((repository / path).exists() for path in allowed)
    assert [line for line in lines if line.startswith("USER ")] == ["USER adaptlab"]


def test_there_is_a_service_for_each_part(compose: dict[str, Any]) -> None:
    assert set(compose["services"]) == {"broker", "postgres", *OURS}
    assert compose["services"]["worker-gpu"]["profiles"] == ["gpu"]


def test_the_migration_is_the_step_that_adaptlab_up_takes(compose: dict[str, Any]) -> None:
    service = compose["services"]["migrate"]
    python, option, module = service["entrypoint"]
    assert (python, option, service["command"]) == ("python", "-m", [])
    assert "__main__" in Path(str(getattr(find_spec(module), "origin", ""))).read_text()
    # The token that it makes has to land where the API's container shows it to the operator.
    assert set(service["volumes"]) <= set(compose["services"]["api"]["volumes"])


def test_the_api_and_the_workers_see_the_same_models_and_cannot_change_them(
    compose: dict[str, Any],
) -> None:
    roots = compose["x-settings"]["ADAPTLAB_MODEL_ROOTS"]
    assert roots.endswith("models=/models}")
    for name in ("api", "worker", "worker-gpu"):
        assert "models:/models:ro" in compose["services"][name]["volumes"]


@pytest.mark.parametrize("service", [name for name in OURS if name != "migrate"])
def test_the_command_of_a_service_is_one_that_adaptlab_understands(
    compose: dict[str, Any], service: str
) -> None:
    name, *arguments = compose["services"][service]["command"]
    (point,) = entry_points(group="adaptlab.commands", name=name)
    loaded = point.load()
    if not isinstance(loaded, typer.Typer):
        application = typer.Typer()
        application.command(name)(loaded)
        loaded = application
    command = typer.main.get_command(loaded)
    assert command.make_context(name, list(arguments)) is not None


@pytest.mark.parametrize("service", OURS)
def test_the_settings_of_a_service_exist(compose: dict[str, Any], service: str) -> None:
    from adaptlab_services.settings import Settings

    known = {f"ADAPTLAB_{field}".upper() for field in Settings.model_fields}
    if service == "migrate":  # makes the roles of the others
        known |= set(VARIABLES.values())
    given = set(compose["services"][service]["environment"])
    assert {"ADAPTLAB_DATABASE_URL", "ADAPTLAB_BROKER_URL"} <= given <= known


@pytest.mark.parametrize("service", ["api", "beat", "worker", "worker-gpu"])
def test_a_service_waits_until_it_can_work(compose: dict[str, Any], service: str) -> None:
    waits = compose["services"][service]["depends_on"]
    assert {name: wait["condition"] for name, wait in waits.items()} == {
        "postgres": "service_healthy",
        "broker": "service_healthy",
        "migrate": "service_completed_successfully",
    }
    assert all("healthcheck" in compose["services"][name] for name in ("postgres", "broker"))


def test_the_gpu_worker_asks_for_the_device_and_serves_its_queue(compose: dict[str, Any]) -> None:
    worker = compose["services"]["worker-gpu"]
    (device,) = worker["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]
    assert worker["environment"]["ADAPTLAB_QUEUES"] == "gpu"


@pytest.mark.parametrize("service", ["worker", "worker-gpu"])
def test_a_worker_is_not_killed_while_its_runs_save_their_state(
    compose: dict[str, Any], service: str
) -> None:
    worker = compose["services"][service]
    command = worker["command"]
    saves = int(command[command.index("--save-within") + 1])
    assert saves + 10 < int(worker["stop_grace_period"].removesuffix("s"))


def test_no_password_is_committed(repository: Path, compose: dict[str, Any]) -> None:
    text = (repository / "docker-compose.yml").read_text()
    assert not re.search(r"\$\{POSTGRES_PASSWORD(?!:\?)", text)
    assert compose["services"]["postgres"]["environment"]["POSTGRES_PASSWORD"].startswith("${")
    example = (repository / ".env.example").read_text()
    for name in re.findall(r"^(\w+_PASSWORD)=", example, re.MULTILINE):
        assert f"{name}=\n" in example


def test_each_part_comes_to_the_database_as_its_own_role(compose: dict[str, Any]) -> None:
    """Only the migration connects as the owner and has all passwords."""
    comes_as = {"migrate": "adaptlab", "api": "adaptlab_api"}
    for name in OURS:
        given = compose["services"][name]["environment"]
        user = given["ADAPTLAB_DATABASE_URL"].partition("://")[2].partition(":")[0]
        assert user == comes_as.get(name, "adaptlab_worker")
        assert (set(VARIABLES.values()) <= set(given)) == (name == "migrate")


def test_each_part_comes_to_the_broker_as_its_own_user(compose: dict[str, Any]) -> None:
    for name in OURS:
        url = compose["services"][name]["environment"]["ADAPTLAB_BROKER_URL"]
        user, _, password = url.partition("://")[2].partition("@")[0].partition(":")
        part = "api" if name == "api" else "worker"
        assert user == USERS[part]
        given = compose["services"]["broker"]["environment"][f"VALKEY_{part.upper()}_PASSWORD"]
        assert password == given


def test_every_variable_that_compose_asks_for_is_in_the_example(repository: Path) -> None:
    asked = set(re.findall(r"\$\{(\w+)", (repository / "docker-compose.yml").read_text()))
    example = (repository / ".env.example").read_text()
    assert asked == set(re.findall(r"^(\w+)=", example, re.MULTILINE))


def test_every_volume_that_is_mounted_is_declared(
    compose: dict[str, Any], repository: Path
) -> None:
    mounted = {
        volume.partition(":")[0]
        for service in compose["services"].values()
        for volume in service.get("volumes", [])
    }
    of_the_repository = {name for name in mounted if name.startswith("./")}
    assert mounted - of_the_repository == set(compose["volumes"])
    assert all((repository / name).is_file() for name in of_the_repository)


def test_workers_can_give_trainers_users_of_their_own(compose: dict[str, Any]) -> None:
    """As the systemd unit of a worker, and nothing else can."""
    needed = {"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "KILL"}
    needed |= {"SETGID", "SETPCAP", "SETUID"}
    for name in OURS:
        service = compose["services"][name]
        is_worker = name.startswith("worker")
        assert service["cap_drop"] == ["ALL"]
        assert set(service.get("cap_add", ())) == (needed if is_worker else set()), name
        assert service.get("user") == ("0:0" if is_worker else None), name
