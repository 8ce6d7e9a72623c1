"""Bundles over HTTP: content, validity, absence and permissions."""

import base64
import csv
import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import duckdb
import httpx2
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session, sessionmaker
from tests.api.measured import PLACE, a_study
from tests.comparing import ENOUGH_BASES, Run, a_measured_study, as_known
from tests.making import a_base_model

from adaptlab.bundle import contents
from adaptlab.bundle.checking import check_bundle
from adaptlab.errors import BrokenBundle
from adaptlab_api.answers.state import resources_of

Sessions = sessionmaker[Session]


def opened(content: bytes) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(content))


def with_member(archive: zipfile.ZipFile, name: str, content: bytes) -> bytes:
    """The bundle with one member replaced."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as changed:
        for one in archive.namelist():
            changed.writestr(one, content if one == name else archive.read(one))
    return written.getvalue()


def lines(archive: zipfile.ZipFile, table: str) -> list[dict[str, str]]:
    text = archive.read(f"tables/{table}.csv").decode()
    return [*csv.DictReader(io.StringIO(text, newline=""))]


@pytest.fixture(scope="module")
def answer(shared_api: TestClient, shared_sessions: Sessions) -> httpx2.Response:
    """The answer with the bundle of a study that has been measured."""
    a_study(shared_api, shared_sessions)
    answer = shared_api.get(PLACE)
    assert answer.status_code == 200, answer.text
    return answer


@pytest.fixture
def archive(answer: httpx2.Response) -> zipfile.ZipFile:
    return opened(answer.content)


@pytest.fixture
def manifest(archive: zipfile.ZipFile) -> dict[str, Any]:
    return json.loads(archive.read("manifest.json"))


def test_a_bundle_is_a_file_with_its_digest(answer: httpx2.Response) -> None:
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"] == 'attachment; filename="small.zip"'
    digest = base64.b64encode(hashlib.sha256(answer.content).digest()).decode()
    assert answer.headers["content-digest"] == f"sha-256=:{digest}:"


def test_the_manifest_has_every_member_with_its_digest(
    archive: zipfile.ZipFile, manifest: dict[str, Any]
) -> None:
    assert {one["name"] for one in manifest["members"]} | {"manifest.json"} == set(
        archive.namelist()
    )
    for one in manifest["members"]:
        content = archive.read(one["name"])
        assert (one["size"], one["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())


def test_a_bundle_names_its_software_and_no_date(
    archive: zipfile.ZipFile, manifest: dict[str, Any]
) -> None:
    assert "vl-convert-python" in manifest["software"]
    assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_a_bundle_has_the_study_as_it_was_asked_for_and_resolved(
    archive: zipfile.ZipFile, shared_api: TestClient
) -> None:
    study = json.loads(archive.read("specs/study.json"))
    assert study["spec"] == shared_api.get("/v1/studies/small").json()["spec"]
    assert "capture" not in study["spec"]
    assert study["resolved"]["capture"]["attention"] is None


def test_a_bundle_has_the_jobs_and_the_code_that_ran_them(
    archive: zipfile.ZipFile, manifest: dict[str, Any], shared_api: TestClient
) -> None:
    jobs = [json.loads(line) for line in archive.read("specs/jobs.jsonl").splitlines()]
    listed = shared_api.get("/v1/studies/small/jobs").json()["data"]
    assert {job["id"]: job["spec_digest"] for job in jobs} == {
        job["id"]: job["spec_digest"] for job in listed
    }
    assert len(manifest["sources"]["base_models"]) == 1
    assert manifest["sources"]["code_versions"] == [jobs[-1]["environment"]["code_version"]]


def test_a_bundle_has_the_comparison_and_its_numbers_as_tables(
    archive: zipfile.ZipFile, shared_api: TestClient
) -> None:
    comparison = shared_api.get("/v1/studies/small/comparison").json()
    assert json.loads(archive.read("claim.json"))["tables"] == comparison["tables"]
    scores = {(one["budget"], one["method"]): one for one in lines(archive, "scores")}
    assert (scores["32", "lora"]["score"], scores["32", "lora"]["could_be_best"]) == (
        "0.75",
        "true",
    )
    outcomes = lines(archive, "outcomes")
    lora = [one for one in outcomes if (one["method"], one["budget"]) == ("lora", "32")]
    assert [(one["seed"], one["correct"], one["items"]) for one in lora] == [
        (str(seed), "300", "400") for seed in range(3)
    ]
    assert {one["trial"] for one in lines(archive, "learning_rates")} == {"0", "1", "2"}
    assert len(lines(archive, "pairs")) == 2 * 6


def test_the_decision_has_its_sections_in_order_and_says_what_intervals_are_over(
    archive: zipfile.ZipFile,
) -> None:
    text = archive.read("decision.md").decode()
    places = [text.index(f"## {title}") for title in ("Read these", "Question", "Limits of the")]
    assert places == sorted(places)
    assert "LoRA (100.0 %) works" in text, text
    assert "Intervals over items only, because every seed has the same score: " in text


def test_a_bundle_has_plots_of_curves_differences_and_sweeps(archive: zipfile.ZipFile) -> None:
    plots = [name for name in archive.namelist() if name.startswith("plots/")]
    assert {"plots/0-curves.svg", "plots/0-1-differences.svg", "plots/0-0-sweeps.svg"} < set(plots)
    assert all(archive.read(name).startswith(b"<svg") for name in plots)


def test_a_bundle_holds(answer: httpx2.Response, archive: zipfile.ZipFile, tmp_path: Path) -> None:
    (tmp_path / "bundle.zip").write_bytes(answer.content)
    found = check_bundle(tmp_path / "bundle.zip")
    assert found.findings == ()
    assert found.numbers > 500
    assert found.decision == archive.read("decision.md").decode()


def test_a_best_method_is_frozen_with_its_score_corrected_for_the_choice(
    api: TestClient, sessions: Sessions, tmp_path: Path
) -> None:
    methods = ["frozen", "lora", "prefix_tuning"]
    a_study(api, sessions, methods=methods, budgets=[64], seeds=5)
    content = api.get(PLACE).content
    (tmp_path / "bundle.zip").write_bytes(content)
    found = check_bundle(tmp_path / "bundle.zip")
    assert found.findings == ()
    archive = opened(content)
    claim = json.loads(archive.read("claim.json"))
    (cell,) = claim["tables"][0]["comparison"]["cells"]
    assert "LoRA (100.0 %) is the best" in archive.read("decision.md").decode()

    cell["chosen"]["corrected"] = 0.5
    (tmp_path / "changed.zip").write_bytes(
        with_member(archive, contents.CLAIM, json.dumps(claim).encode())
    )
    findings = check_bundle(tmp_path / "changed.zip").findings
    assert any("chosen/corrected" in one.text for one in findings), findings


def test_a_bundle_of_an_older_format_names_the_version_that_checks_it(
    archive: zipfile.ZipFile, manifest: dict[str, Any], tmp_path: Path
) -> None:
    """Format 1 has no corrected scores, so it cannot be computed again."""
    assert manifest["format"] == contents.FORMAT
    older = json.dumps(manifest | {"format": 1}).encode()
    (tmp_path / "old.zip").write_bytes(with_member(archive, contents.MANIFEST, older))
    with pytest.raises(BrokenBundle, match=f"format 1, but this version reads {contents.FORMAT}"):
        check_bundle(tmp_path / "old.zip")


def test_tables_are_the_same_as_parquet(archive: zipfile.ZipFile, tmp_path: Path) -> None:
    for table in contents.TABLES:
        file = tmp_path / f"{table}.parquet"
        file.write_bytes(archive.read(f"tables/{table}.parquet"))
        read = duckdb.read_parquet(str(file))
        rows = [dict(zip(read.columns, row, strict=True)) for row in read.fetchall()]
        expected = lines(archive, table)
        shown = [{k: "" if v is None else str(v) for k, v in row.items()} for row in rows]
        assert shown == [{k: v.removeprefix("'") for k, v in row.items()} for row in expected]


@pytest.mark.long("long trainings")
def test_the_same_decision_has_the_same_bytes(api: TestClient, sessions: Sessions) -> None:
    a_study(api, sessions, budgets=[64])
    first = api.get(PLACE)
    again = api.get(PLACE)
    assert (first.content, first.headers["etag"]) == (again.content, again.headers["etag"])
    known = {"If-None-Match": first.headers["etag"]}
    assert api.get(PLACE, headers=known).status_code == 304
    strict = api.get(PLACE, params={"level": 0.99}, headers=known)
    assert strict.status_code == 200
    assert json.loads(opened(strict.content).read("claim.json"))["level"] == 0.99
    assert api.get(PLACE, params={"level": 2}).status_code == 422


def test_a_study_that_runs_has_no_bundle(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_base_model(session, contents=ENOUGH_BASES)
    api.post("/v1/studies", json=a_measured_study())
    answer = api.get(PLACE)
    assert (answer.status_code, answer.json()["state"]) == (409, "running")
    assert "Wait until" in answer.json()["detail"]
    api.post("/v1/studies/small/cancel")
    answer = api.get(PLACE)
    assert answer.status_code == 409
    assert "The study has no scores" in answer.json()["detail"]
    assert api.get("/v1/studies/nobody/bundle").status_code == 404


@pytest.mark.long("walks through commands and documents")
def test_a_decision_without_some_jobs_is_partial(
    api: TestClient, sessions: Sessions, tmp_path: Path
) -> None:
    def lora_fails(spec: Any) -> Run:
        name = (spec.method or {}).get("name")
        return Run(fails=True) if name == "lora" else as_known(spec)

    a_study(api, sessions, lora_fails)
    content = api.get(PLACE).content
    archive = opened(content)
    assert json.loads(archive.read("claim.json"))["partial"] is True
    for name, line in (("README.md", 2), ("decision.md", 4)):  # below the verdict
        assert "partial" in archive.read(name).decode().lower().splitlines()[line], name
    assert {one["method"] for one in lines(archive, "missing")} == {"lora"}
    (tmp_path / "bundle.zip").write_bytes(content)
    assert check_bundle(tmp_path / "bundle.zip").findings == ()


def test_text_of_others_is_no_markup(api: TestClient, sessions: Sessions) -> None:
    label = "=1|<b>`x`[a](b)"
    a_study(api, sessions, methods=["frozen", {"name": "lora", "label": label}], budgets=[64])
    archive = opened(api.get(PLACE).content)
    text = archive.read("decision.md").decode()
    assert "=1\\|\\<b\\>\\`x\\`\\[a\\](b)" in text
    assert label not in text
    assert lines(archive, "scores")[1]["method"] == f"'{label}"


@pytest.mark.long("long trainings")
def test_jobs_are_read_some_at_a_time(
    api: TestClient, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_study(api, sessions, budgets=[64])
    whole = api.get(PLACE).content
    monkeypatch.setattr("adaptlab_services.comparisons.bundles.JOBS_AT_ONCE", 1)
    monkeypatch.setattr("adaptlab_services.comparisons.bundles.PIECE", 100)
    assert api.get(PLACE).content == whole


def test_bundles_are_drawn_one_at_a_time(
    api: TestClient, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_study(api, sessions, budgets=[64])
    monkeypatch.setattr("adaptlab_api.routes.bundles.PATIENCE_SECONDS", 0.0)
    assert isinstance(api.app, FastAPI)
    drawings = resources_of(api.app).drawings
    portal = api.portal
    assert portal is not None
    portal.call(drawings.acquire)
    answer = api.get(PLACE)
    assert (answer.status_code, "writing other bundles" in answer.json()["detail"]) == (429, True)
    assert int(answer.headers["retry-after"]) >= 1
    portal.call(drawings.release)
    assert api.get(PLACE).status_code == 200


def test_who_draws_knows_nothing_of_the_server_and_may_die(
    api: TestClient, sessions: Sessions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    a_study(api, sessions, budgets=[64])
    dies = tmp_path / "python"
    dies.write_text(f"#!/bin/sh\nenv > '{tmp_path}/environment'\n")
    dies.chmod(0o755)
    monkeypatch.setenv("ADAPTLAB_DATABASE_URL", "postgresql://ada:secret@db/x")
    with monkeypatch.context() as patched:
        patched.setattr("adaptlab_services.comparisons.plot_drawing.sys.executable", str(dies))
        assert api.get(PLACE).status_code == 500
    environment = (tmp_path / "environment").read_text()
    assert "PATH=" in environment
    assert "ADAPTLAB_" not in environment
    assert api.get(PLACE).status_code == 200
