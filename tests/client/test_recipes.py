"""Recipes from Python and from the command line, against the real API."""

import csv
import io
import json
import re
from typing import Any

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.client.conftest import Invoke
from tests.reproducing import Run, as_published, run_all

from adaptlab.reproductions.recipe import PublishedScore
from adaptlab.reproductions.recipe_report import ReportCell
from adaptlab.specs.spec import ResolvedSpec, ResourcesSpec
from adaptlab.statistics.intervals import Interval
from adaptlab_client import Client
from adaptlab_client.reports.recipe_text import beside, percent

Sessions = sessionmaker[Session]
TABLE_1 = "petrov2024/table-1"
STUDY = "petrov2024-table-1-quick"
QUICK = ("recipes", "run", TABLE_1, "--seeds", "3")


def one_fails(spec: ResolvedSpec) -> Run:
    """As published, but for full fine-tuning, whose jobs fail."""
    is_full = spec.method is not None and spec.method["name"] == "full_finetuning"
    return Run(fails=True) if is_full else as_published(spec)


def words(text: str) -> str:
    """The text with all white space drawn together."""
    return re.sub(r"\s+", " ", text)


@pytest.fixture(scope="module")
def published(shared_client: Client, shared_sessions: Sessions) -> str:
    """The name of a study that measured about what the paper did."""
    study = shared_client.recipes.run(TABLE_1, seeds=3)
    run_all(shared_sessions, as_published)
    return study.name


def test_a_recipe_is_run_as_it_is_or_with_changes(client: Client) -> None:
    preview = client.recipes.preview(TABLE_1, seeds=3)
    study = client.recipes.run(TABLE_1, seeds=3)
    assert (study.name, preview.new_jobs) == (STUDY, len(study.cells))
    assert study.recipe is not None
    assert (study.recipe.name, study.recipe.preset) == (TABLE_1, "quick")
    assert client.studies.report(study.id).claims[0].finding == "not_measured"
    queue = ResourcesSpec(queue="gpu")
    mine = client.recipes.run(TABLE_1, seeds=[1, 2, 4], name="mine", resources=queue, labels={})
    assert (mine.name, mine.spec["seeds"], mine.spec["resources"]) == (
        *("mine", [1, 2, 4], {"queue": "gpu"}),
    )


def test_a_report_has_findings_and_scores(shared_client: Client, published: str) -> None:
    report = shared_client.studies.report(published)
    findings = {one.claim: one.finding for one in report.claims}
    # The paper has no run with pinned attention; here it learns nothing, on a cosine schedule.
    assert findings.pop("no-new-pattern-is-needed") == "undecided"
    # An order of methods takes five seeds, and these studies have three.
    assert findings.pop("prefix-fails") == "undecided"
    assert set(findings.values()) == {"holds"}
    cell = report.tables[0].rows[0].cells[0]
    assert cell.measured is not None
    # 2,912 of 3,200 items, with each of three seeds.
    assert (cell.measured.mean, len(cell.seeds)) == (pytest.approx(0.91), 3)


def test_a_key_makes_one_study_of_a_recipe(client: Client) -> None:
    first = client.recipes.run(TABLE_1, seeds=3, idempotency_key="slurm-1")
    assert client.recipes.run(TABLE_1, seeds=3, idempotency_key="slurm-1") == first
    assert client.recipes.run(TABLE_1, seeds=3).name == f"{STUDY}-2"


def test_recipes_are_listed_and_shown_by_commands(shared_invoke: Invoke) -> None:
    assert TABLE_1 in shared_invoke("recipes", "list", "-o", "id").stdout.split()
    shown = shared_invoke("recipes", "show", TABLE_1)
    assert "91 ± 5" in shown.stdout
    assert "prefix-fails (arXiv v1): Prefix-tuning cannot" in shown.stdout
    unpublished = shared_invoke("recipes", "show", "petrov2024/suffix").stdout
    assert "Sorting downwards by one learned position (not published)\n\nClaims" in unpublished


def test_a_recipe_is_run_and_reported_by_one_command(invoke: Invoke, sessions: Sessions) -> None:
    planned = invoke(*QUICK, "--validate-only")
    assert (planned.exit_code, "new jobs" in planned.stderr) == (0, True)
    detached = invoke(*QUICK, "--detach")
    assert (detached.exit_code, detached.stdout.strip()) == (0, STUDY)
    run_all(sessions, as_published)
    # All jobs are there, so that the second study has ended when it is made.
    done = invoke(*QUICK, "--name", "again", COLUMNS="120")
    assert done.exit_code == 0, done.output
    assert "again" in done.stderr
    text = words(done.stdout)
    assert "pretrained on ascending 115,872 1 91 ± 5 | 91 [9" in text
    assert "REPRODUCED: prefix-fails (arXiv v1) Prefix-tuning cannot learn" in text
    assert "HOLDS: base-sorts-up (premise)" in text
    assert "About this preset: The paper's model" in text
    assert "5 more controls are in other presets" in text


def test_a_narrow_terminal_gets_three_lines_a_row(shared_invoke: Invoke, published: str) -> None:
    report = shared_invoke("recipes", "report", published, COLUMNS="80")
    assert max(map(len, report.stdout.splitlines())) <= 80
    assert "pretrained on ascending paper 91 ± 5 0 ± 0 measured 91 0" in words(report.stdout)
    narrower = shared_invoke("recipes", "report", published, COLUMNS="64").stdout
    assert max(map(len, narrower.splitlines())) <= 64


def test_a_report_is_a_table_for_programs(shared_invoke: Invoke, published: str) -> None:
    told = shared_invoke("recipes", "report", published, "-o", "csv").stdout
    lines = [*csv.DictReader(io.StringIO(told))]
    first = lines[0]
    assert (first["row"], first["column"]) == ("pretrained on ascending", "ascending")
    assert (float(first["published_mean"]), float(first["measured_mean"])) == (0.91, 0.91)
    assert [line["state"] for line in lines if line["row"] == "LoRA"] == ["absent", "absent"]


def test_a_report_is_a_page(shared_invoke: Invoke, published: str) -> None:
    page = shared_invoke("recipes", "report", published, "-o", "markdown").stdout
    assert page.startswith("# Table 1")
    assert "- 3 seeds: 0, 1, 2." in page
    assert "| pretrained on ascending | 91 ± 5<br>**91** [9" in page
    assert f"`adaptlab recipes run {TABLE_1} --preset quick --seeds 3`" in page
    # The machine and the versions that the workers told, and the effort of all jobs.
    assert "Machine: cpu, float32" in page
    assert "Versions: adaptlab" in page
    assert f"Job by job: `adaptlab studies jobs {published}`." in page


def test_a_page_has_the_findings_and_each_control_once(
    shared_invoke: Invoke, published: str
) -> None:
    said = json.loads(shared_invoke("recipes", "report", published, "-o", "json").stdout)
    assert (said["recipe"], len(said["claims"])) == (TABLE_1, 7)
    page = shared_invoke("recipes", "report", published, "-o", "markdown").stdout
    assert "| **reproduced** |" in page
    assert re.search(r"4 claims of the paper: \d reproduced", page)
    assert "2 claims needed beforehand: 2 hold" in page
    assert_each_control_is_written_once(page, said["claims"])


def assert_each_control_is_written_once(page: str, claims: list[dict[str, Any]]) -> None:
    controls = {c["evidence"] for claim in claims for c in claim["controls"]}
    assert controls
    listed = page.split("\nControls:\n")[1].split("\n## ")[0]
    assert sorted(re.findall(r"^- C\d+, (?:not )?met: (.*)$", listed, re.MULTILINE)) == sorted(
        controls
    )
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    for claim in claims:
        row = next(line for line in rows if line.startswith(f"| {claim['text']} |"))
        assert all(control["evidence"] not in row for control in claim["controls"])


def test_exit_codes_say_how_a_recipe_went(invoke: Invoke, sessions: Sessions) -> None:
    late = invoke(*QUICK, "--timeout", "0")
    assert late.exit_code == 124
    run_all(sessions, one_fails)
    failed = invoke("studies", "wait", STUDY)
    assert failed.exit_code == 1
    # The report is there whatever became of the jobs, and a claim is no command's failure.
    report = invoke("recipes", "report", STUDY)
    assert (report.exit_code, "NOT MEASURED: full-fine-tuning" in report.stdout) == (0, True)
    assert invoke("recipes", "run", "petrov2024/tabel-1").exit_code == 2
    assert invoke(*QUICK, "--preset", "quik").exit_code == 2
    assert invoke("recipes", "show", "petrov2024/tabel-1").exit_code == 5
    assert invoke("recipes", "report", "nobody").exit_code == 5
    assert invoke(*QUICK, "--validate-only", "-o", "xml").exit_code == 2


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0"),
        (1.0, "100"),
        (0.913, "91.3"),
        (0.9996, "99.96"),
        (0.0003, "0.03"),
        (0.99999, "99.999"),
        (1e-9, "< 0.0001"),
        (1 - 1e-9, "> 99.9999"),
    ],
)
def test_only_what_is_all_or_nothing_is_written_so(share: float, text: str) -> None:
    assert percent(share) == text


def test_scores_stand_beside_each_other() -> None:
    published = PublishedScore(mean=0.91, spread=0.05)
    measured = Interval(mean=0.9996, low=0.999, high=0.99999, level=0.95, seeds=5)
    cell = ReportCell(column="c", state="measured", published=published, measured=measured)
    assert beside(cell) == "91 ± 5 | 99.96 [99.9, 100]"
    assert beside(ReportCell(column="c", state="absent")) == "– | not run"


def test_a_preset_on_texts_says_what_is_missing_and_takes_other_names(invoke: Invoke) -> None:
    done = invoke("recipes", "run", "wen2023/hard-prompts", "--preset", "text")
    assert done.exit_code == 2
    assert "needs a base model named 'smollm2', which is not here" in words(done.stderr)
    assert "adaptlab datasets upload short-polarity" in words(done.stderr)
    names = ("--base-model", "mine", "--dataset", "tweets")
    done = invoke("recipes", "run", "wen2023/hard-prompts", "--preset", "text", *names)
    assert "named 'mine'" in words(done.stderr)
    assert "named 'tweets'" in words(done.stderr)
    assert "'smollm2'" not in words(done.stderr)
    shown = invoke("recipes", "show", "wen2023/hard-prompts")
    assert "It needs the dataset 'short-polarity'" in words(shown.stdout)
