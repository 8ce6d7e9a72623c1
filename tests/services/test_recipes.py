"""Studies of recipes: their names, their jobs and their reports."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy.orm import Session, sessionmaker
from tests.making import a_principal
from tests.reproducing import Run, as_published, create, findings, report, request, run_all
from tests.watching import statements

from adaptlab.reproductions.recipe_report import ReportCell
from adaptlab.runs.theory_report import Check
from adaptlab.specs.spec import PretrainSpec, ResolvedSpec
from adaptlab.studies.study import StudyExtension
from adaptlab_answers.recipes import StudyReport
from adaptlab_services.errors import StateConflict
from adaptlab_services.recipes import recipes
from adaptlab_services.studies import studies
from adaptlab_services.studies.studies import Rules

Sessions = sessionmaker[Session]
TABLE_1 = "petrov2024/table-1"


def cells(said: StudyReport) -> dict[tuple[str, str], ReportCell]:
    return {
        (row.label, cell.column): cell
        for table in said.tables
        for row in table.rows
        for cell in row.cells
    }


def test_a_study_of_a_recipe_is_numbered_where_its_name_is_taken(sessions: Sessions) -> None:
    assert create(sessions) == "petrov2024-table-1-quick"
    assert create(sessions) == "petrov2024-table-1-quick-2"
    assert create(sessions) == "petrov2024-table-1-quick-3"
    assert create(sessions, name="mine") == "mine"
    with pytest.raises(StateConflict, match="mine"):
        create(sessions, name="mine")


def test_studies_that_are_asked_for_at_once_have_names_of_their_own(sessions: Sessions) -> None:
    with sessions.begin() as session:
        a_principal(session)  # the threads would otherwise all make the user
    with ThreadPoolExecutor(4) as pool:
        names = set(pool.map(lambda _: create(sessions), range(4)))
    first = "petrov2024-table-1-quick"
    assert names == {first, f"{first}-2", f"{first}-3", f"{first}-4"}


def test_equal_base_models_are_shared_and_others_are_numbered(sessions: Sessions) -> None:
    create(sessions)
    with sessions.begin() as session:
        same = recipes.requested(session, request()).spec
        more = recipes.requested(session, request(seeds=4)).spec
    (known,), (another,) = same.base_models, more.base_models
    assert isinstance(known, PretrainSpec)
    assert isinstance(another, PretrainSpec)
    assert (known.name, another.name) == (
        "petrov2024-ascending-quick",
        "petrov2024-ascending-quick-2",
    )
    create(sessions, seeds=4)


@pytest.fixture(scope="module")
def like_the_published(shared_sessions: Sessions) -> StudyReport:
    """The report of a study that measured about what the paper did."""
    study = create(shared_sessions)
    run_all(shared_sessions, as_published)
    return report(shared_sessions, study)


def test_a_study_like_the_published_one_reproduces_its_claims(
    like_the_published: StudyReport,
) -> None:
    found = findings(like_the_published)
    # The paper has no run with pinned attention; here it learns nothing, on a cosine schedule.
    assert found.pop("no-new-pattern-is-needed iclr") == "undecided"
    # An order of methods takes five seeds, and this study has three.
    assert found.pop("prefix-fails iclr") == "undecided"
    assert set(found.values()) == {"holds"}


def test_a_report_has_what_was_measured_and_how(like_the_published: StudyReport) -> None:
    table = cells(like_the_published)
    base = table["pretrained on ascending", "ascending"]
    assert base.measured is not None
    assert base.measured.mean == pytest.approx(0.91)
    assert base.published_inside is True
    assert [one.seed for one in base.seeds] == [0, 1, 2]
    assert table["LoRA", "descending"].state == "absent"
    rows = {row.label: row for row in like_the_published.tables[0].rows}
    assert (rows["prefix-tuning"].parameters, rows["prefix-tuning"].trials) == (96, 8)


def test_a_report_is_of_an_unchanged_study_and_leads_to_its_comparison(
    like_the_published: StudyReport,
) -> None:
    study = like_the_published.study
    assert (study.name, study.state) == ("petrov2024-table-1-quick", "succeeded")
    assert like_the_published.departures == ()
    assert like_the_published.links.comparison.endswith("/comparison")


def test_a_prefix_that_learns_at_one_rate_is_reported_as_measured(sessions: Sessions) -> None:
    def run_of(spec: ResolvedSpec) -> Run:
        run = as_published(spec)
        is_prefix = spec.method is not None and spec.method["name"] == "prefix_tuning"
        return Run(run.right, last=0.5, deviation=0.2) if is_prefix else run

    study = create(sessions)
    run_all(sessions, run_of)
    found = findings(report(sessions, study))
    assert found["prefix-fails arxiv_v1"] == "fails"
    assert found["prefix-fails iclr"] == "undecided"
    assert found["relative-attention-stays iclr"] == "fails"


def test_seeds_that_were_added_after_a_look_are_told(sessions: Sessions) -> None:
    study = create(sessions)
    run_all(sessions, as_published)
    assert "were added" not in str(report(sessions, study).claims)
    more = StudyExtension.model_validate({"seeds": 5})
    with sessions.begin() as session:
        studies.extend(session, a_principal(session), study, more, Rules())
    run_all(sessions, as_published)
    said = report(sessions, study)
    learns = next(one for one in said.claims if one.claim == "full-fine-tuning-learns")
    assert "97.5 % interval (seeds were added 1 time)" in learns.evidence
    base = next(one for one in said.claims if one.claim == "base-sorts-up")
    assert "95 % interval" in base.evidence


def test_a_study_half_done_has_a_report(sessions: Sessions) -> None:
    study = create(sessions)
    assert set(findings(report(sessions, study)).values()) == {"not_measured"}
    run_all(sessions, as_published, most=1)
    said = report(sessions, study)
    assert findings(said)["base-sorts-up iclr"] == "holds"
    assert findings(said)["prefix-fails iclr"] == "not_measured"
    cell = cells(said)["prefix-tuning", "descending"]
    assert cell.state == "not_measured"
    assert cell.reason is not None
    assert "is queued" in cell.reason
    assert said.study.state == "running"


def test_a_job_that_failed_leaves_its_claims_unmeasured(sessions: Sessions) -> None:
    def run_of(spec: ResolvedSpec) -> Run:
        is_full = spec.method is not None and spec.method["name"] == "full_finetuning"
        return Run(fails=True) if is_full else as_published(spec)

    study = create(sessions)
    run_all(sessions, run_of)
    said = report(sessions, study)
    assert findings(said)["full-fine-tuning-learns iclr"] == "not_measured"
    evidence = next(one.evidence for one in said.claims if one.claim == "full-fine-tuning-learns")
    assert "failed (diverged): The loss is not finite" in evidence


def test_checks_alone_are_a_recipe_too(sessions: Sessions) -> None:
    names = ("theorem-1-unconditional", "theorem-2-conditional", "longer-questions")
    good = tuple(Check.at_most(name, "Exact.", 0, 0) for name in names)
    bad = Check.at_most("longer-answers", "Exact.", 3, 0)
    study = create(sessions, recipe="petrov2024/theorems", seeds=None)
    run_all(sessions, lambda _: Run(checks=(*good, bad)))
    said = report(sessions, study)
    assert findings(said) == {
        "any-sequence iclr": "holds",
        "any-map iclr": "holds",
        "any-longer-answer iclr": "fails",
        "any-longer-question iclr": "holds",
        "soft-beats-hard iclr": "not_measured",
    }


@pytest.mark.parametrize(("seeds", "decided"), [(2, False), (3, True)])
def test_a_check_of_every_replicate_has_the_seeds_of_its_base(
    sessions: Sessions, seeds: int, decided: bool
) -> None:
    """The orders are the other way round, which two seeds do not show."""
    low, high = -0.5, -0.3
    reports = tuple(
        Check.at_least(f"saliency.{name}", "Larger.", low, 1e-6, low=low, high=high, opposite=0.0)
        for name in ("first-layer", "last-layer")
    )
    study = create(sessions, recipe="wang2023/saliency", seeds=seeds)
    scores = {"episodes": 0}
    run_all(sessions, lambda spec: Run(scores, checks=reports if spec.kind == "theory" else ()))
    evidence = {one.claim: one.evidence for one in report(sessions, study).claims}
    assert f"on {seeds} replicates" in evidence["text-to-labels-first"]
    assert ("2 seeds are too few" in evidence["text-to-labels-first"]) is not decided


@pytest.mark.long("recipes")
def test_a_report_takes_no_more_queries_for_more_jobs(sessions: Sessions) -> None:
    small, large = create(sessions), create(sessions, preset="fair")
    run_all(sessions, as_published)
    with statements(sessions) as first:
        report(sessions, small)
    with statements(sessions) as second:
        report(sessions, large)
    assert len(first) == len(second)
    assert len(second) < 20
