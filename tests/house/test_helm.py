"""The chart, as Helm's own library renders it; no cluster is asked."""

import json
import os
import re
import subprocess
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from adaptlab_db.role_passwords import VARIABLES
from adaptlab_services.settings import Settings
from adaptlab_stack.valkey_users import USERS

HERE = Path(__file__).parent
BUNDLED: dict[str, Any] = {}
EVERYTHING: dict[str, Any] = {
    "postgres": {"bundled": False},
    "valkey": {"bundled": False},
    "gpuWorker": {"replicas": 1, "nodeSelector": {"gpu": "yes"}, "runtimeClassName": "nvidia"},
    "ingress": {"enabled": True, "className": "nginx", "annotations": {"a": "b"}},
    "models": {"existingClaim": "models"},
    "datasets": {"existingClaim": "records"},
    "images": {"server": {"repository": "server", "tag": "1"}, "pullSecrets": [{"name": "mine"}]},
    "secretSettings": {"ADAPTLAB_S3_SECRET_ACCESS_KEY": "s3-secret"},
}
RESTRICTED: dict[str, Any] = {"trainers": {"separateUsers": False}, "gpuWorker": {"replicas": 1}}
BASELINE = {
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"),
    *("NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
}
"""Capabilities that a pod may add under the Pod Security Standard `baseline`."""
MISTAKEN: dict[str, Any] = {"worker": {"replica": 2}}
Objects = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def chart(repository: Path) -> Path:
    return repository / "deploy" / "helm" / "adaptlab"


@pytest.fixture(scope="module")
def answers(chart: Path, repository: Path) -> list[dict[str, Any]]:
    """Complaints and objects for each of four sets of values."""
    python = repository / ".venv" / "helm" / "bin" / "python"
    if not python.exists():
        missing = "Helm's library is not installed; run `make helm`."
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    done = subprocess.run(
        [python, HERE / "render_chart.py", chart],
        input=json.dumps([BUNDLED, EVERYTHING, RESTRICTED, MISTAKEN]),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def objects_of(answer: dict[str, Any]) -> Objects:
    return {(one["kind"], one["metadata"]["name"]): one for one in answer["objects"]}


@pytest.fixture(scope="module")
def bundled(answers: list[dict[str, Any]]) -> Objects:
    return objects_of(answers[0])


@pytest.fixture(scope="module")
def everything(answers: list[dict[str, Any]]) -> Objects:
    return objects_of(answers[1])


@pytest.fixture(scope="module")
def restricted(answers: list[dict[str, Any]]) -> Objects:
    return objects_of(answers[2])


def pod_of(one: dict[str, Any]) -> dict[str, Any]:
    return one["spec"]["template"]["spec"]


def container_of(one: dict[str, Any]) -> dict[str, Any]:
    (container,) = pod_of(one)["containers"]
    return container


def environment_of(one: dict[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry for entry in container_of(one)["env"]}


def secret_keys(objects: Objects) -> set[str]:
    return set(re.findall(r"'secretKeyRef': \{'name': 'adaptlab', 'key': '([\w-]+)'", str(objects)))


def workloads(objects: Objects) -> list[dict[str, Any]]:
    return [one for one in objects.values() if "template" in one.get("spec", {})]


def test_the_chart_is_linted_and_every_object_fits_the_schemas(
    answers: list[dict[str, Any]],
) -> None:
    for answer in answers[:3]:
        assert (answer["lint"], answer["invalid"]) == ([], [])
    assert "replica" in answers[3]["refused"]


def test_there_is_an_object_for_each_part(bundled: Objects, everything: Objects) -> None:
    ours = {"lab-api", "lab-beat", "lab-worker"}
    assert {name for kind, name in bundled if kind == "Deployment"} == {*ours, "lab-valkey"}
    assert ("StatefulSet", "lab-postgres") in bundled
    assert {name for kind, name in everything if kind == "Deployment"} == {*ours, "lab-worker-gpu"}
    assert ("Ingress", "lab") in everything
    assert not any("postgres" in name or "valkey" in name for _, name in everything)


def test_tables_are_migrated_before_an_upgrade(bundled: Objects, everything: Objects) -> None:
    """A bundled database does not exist before the installation."""
    hooks = [
        objects["Job", "lab-migrate"]["metadata"]["annotations"]["helm.sh/hook"]
        for objects in (bundled, everything)
    ]
    assert hooks == ["post-install,pre-upgrade", "pre-install,pre-upgrade"]


def test_commands_are_those_that_adaptlab_understands(
    everything: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADAPTLAB_DATABASE_URL", "postgresql://nowhere")  # as in the pods
    seen: set[str] = set()
    for one in workloads(everything):
        name, *arguments = container_of(one)["args"]
        seen.add(name)
        (point,) = entry_points(group="adaptlab.commands", name=name)
        application = typer.Typer()
        application.command(name)(point.load())
        command = typer.main.get_command(application)
        assert command.make_context(name, list(arguments)) is not None
    assert seen == {"api", "beat", "migrate", "worker"}


def test_settings_exist_and_servers_are_reached_with_a_role_of_each_part(
    bundled: Objects, everything: Objects
) -> None:
    known = {f"ADAPTLAB_{field}".upper() for field in Settings.model_fields}
    known |= {*VARIABLES.values(), "DATABASE_PASSWORD", "BROKER_PASSWORD"}
    for one in [*workloads(bundled), *workloads(everything)]:
        if one["metadata"]["labels"]["app.kubernetes.io/component"] not in {"postgres", "valkey"}:
            assert set(environment_of(one)) <= known
    users = {
        name: environment_of(bundled["Deployment", f"lab-{name}"])["ADAPTLAB_BROKER_URL"]["value"]
        for name in ("api", "beat", "worker")
    }
    assert users["api"].startswith(f"redis://{USERS['api']}:$(BROKER_PASSWORD)@lab-valkey:")
    assert users["beat"] == users["worker"]
    assert users["worker"].startswith(f"redis://{USERS['worker']}:")


def test_passwords_are_keys_of_the_secret_and_the_page_names_each(
    bundled: Objects, everything: Objects, repository: Path
) -> None:
    page = (repository / "docs" / "how-to" / "deploy-with-helm.md").read_text()
    keys = secret_keys(bundled) | secret_keys(everything) - {"s3-secret"}
    assert len(keys) == 10
    assert [key for key in keys if key not in page] == []
    assert all(one["kind"] != "Secret" for one in [*bundled.values(), *everything.values()])


def is_worker(one: dict[str, Any]) -> bool:
    return "worker" in one["metadata"]["name"]


def test_pods_have_no_privilege(bundled: Objects, everything: Objects, restricted: Objects) -> None:
    """As the Pod Security Standard `restricted` asks for."""
    others = [one for one in [*workloads(bundled), *workloads(everything)] if not is_worker(one)]
    for one in [*others, *workloads(restricted)]:
        pod, container = pod_of(one), container_of(one)
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }


def test_workers_can_give_trainers_users_of_their_own_under_baseline(
    bundled: Objects, everything: Objects
) -> None:
    workers = [one for one in [*workloads(bundled), *workloads(everything)] if is_worker(one)]
    assert len(workers) == 3
    for one in workers:
        pod, container = pod_of(one)["securityContext"], container_of(one)["securityContext"]
        assert (pod["runAsUser"], pod["runAsNonRoot"], pod["fsGroup"]) == (0, False, 10001)
        assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
        capabilities = container["capabilities"]
        assert capabilities["drop"] == ["ALL"]
        assert {"CHOWN", "SETGID", "SETPCAP", "SETUID"} <= set(capabilities["add"]) <= BASELINE
        assert container["allowPrivilegeEscalation"] is False
        assert container["readOnlyRootFilesystem"] is True


def test_the_api_is_probed_and_a_worker_has_time_to_save(everything: Objects) -> None:
    api = container_of(everything["Deployment", "lab-api"])
    probes = {name: api[f"{name}Probe"]["httpGet"]["path"] for name in ("readiness", "liveness")}
    assert probes == {"readiness": "/readyz", "liveness": "/healthz"}
    gpu = everything["Deployment", "lab-worker-gpu"]
    arguments = container_of(gpu)["args"]
    saves = int(arguments[arguments.index("--save-within") + 1])
    assert pod_of(gpu)["terminationGracePeriodSeconds"] > saves
    assert container_of(gpu)["resources"]["limits"]["nvidia.com/gpu"] == 1
    assert environment_of(gpu)["ADAPTLAB_QUEUES"]["value"] == "gpu"


@pytest.mark.parametrize("name", ["deploy/broker.sh", "stack/adaptlab_stack/valkey_users.acl"])
def test_the_chart_has_the_same_files_as_compose(repository: Path, chart: Path, name: str) -> None:
    """Helm reads no file outside of the chart."""
    copied = chart / "files" / Path(name).name
    assert copied.read_text() == (repository / name).read_text(), f"cp {name} {copied}"


def test_images_and_version_are_those_of_compose(repository: Path, chart: Path) -> None:
    values = yaml.safe_load((chart / "values.yaml").read_text())
    compose = (repository / "docker-compose.yml").read_text()
    for image in (values["postgres"]["image"], values["valkey"]["image"]):
        assert f":-{image}}}" in compose
    version = yaml.safe_load((chart / "Chart.yaml").read_text())["appVersion"]
    for image in ("server", "worker", "gpuWorker"):
        assert f"image: {values['images'][image]['repository']}:{version}" in compose


def test_database_and_broker_are_reached_by_the_release_alone(
    answers: list[dict[str, Any]],
) -> None:
    bundled, everything = (objects_of(answer) for answer in answers[:2])
    policies = {name: one["spec"] for (kind, name), one in bundled.items()
                if kind == "NetworkPolicy"}  # fmt: skip
    closed = next(spec for spec in policies.values() if "ingress" not in spec)
    release = {"app.kubernetes.io/name": "adaptlab", "app.kubernetes.io/instance": "lab"}
    assert closed["podSelector"]["matchLabels"] == release, "all pods, unless another one opens"
    ports = {}
    for spec in policies.values():
        for rule in spec.get("ingress", ()):
            component = spec["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
            ports[component] = rule["ports"][0]["port"]
            senders = [one["podSelector"]["matchLabels"] for one in rule.get("from", ())]
            assert senders == ([] if component == "api" else [release])
    assert ports == {"api": 8000, "postgres": 5432, "valkey": 6379}
    own = [name for kind, name in everything if kind == "NetworkPolicy"]
    assert len(own) == 2, "those of bundled servers are left out"
